"""The work of bench/table.sh in JAX: FedAvg with a whole round compiled as one program, steps in a scan.

Samples are float arrays from the start, a mini-batch is an index into them, orders are drawn within the program. A round is
compiled in two ways, clients side by side (vmap) and one after the other (lax.map); the faster one counts. The CNN has a program
per step: XLA's convolutions for a CPU are ten times as slow within a compiled loop. Compiling is not timed. Prints for every case
given as NAME:WIDTHS:BATCH:PASSES (WIDTHS such as 784-200-10, or cnn) and every number of threads:
NAME THREADS MICROSECONDS-PER-STEP, from the fastest round, as fedloom's.
"""
import os
import sys
import time

CLIENTS, SAMPLES, CLASSES, LR, PATIENCE = 4, 600, 10, 0.01, 2.0  # clients: of a round; PATIENCE: seconds


def dense_layers(widths):
    """Their parameters, and the layers as a function of them and a batch."""
    import jax
    import jax.numpy as jnp
    shapes = list(zip(widths, widths[1:]))
    keys = jax.random.split(jax.random.key(1), len(shapes))
    parameters = [(jax.random.normal(k, s) / s[0]**0.5, jnp.zeros(s[1])) for k, s in zip(keys, shapes)]

    def forward(parameters, h):
        for w, b in parameters[:-1]:
            h = jax.nn.relu(h @ w + b)
        w, b = parameters[-1]
        return h @ w + b

    return parameters, forward


def network(widths):
    """Parameters, the network as a function of them and a batch, and the shape of a sample."""
    import jax
    import jax.numpy as jnp
    if widths != "cnn":
        widths = [int(w) for w in widths.split("-")]
        return *dense_layers(widths), (widths[0],)
    head, dense = dense_layers([1600, 384, 192, 10])
    keys = jax.random.split(jax.random.key(2), 2)
    filters = [(jax.random.normal(k, (5, 5, channels, 64)) / (25 * channels)**0.5, jnp.zeros(64))
               for k, channels in zip(keys, (3, 64))]

    def forward(parameters, h):
        for w, b in parameters[0]:
            h = jax.lax.conv_general_dilated(h, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            h = jax.lax.reduce_window(jax.nn.relu(h + b), -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return dense(parameters[1], h.reshape(h.shape[0], -1))

    return (filters, head), forward, (32, 32, 3)


def step_of(forward):
    """One step of SGD on the given rows of a client's samples."""
    import jax
    import jax.numpy as jnp

    def loss(parameters, x, y):
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(forward(parameters, x)), y[:, None], axis=1))

    def step(parameters, x, y, rows):
        gradient = jax.grad(loss)(parameters, x[rows], y[rows])
        return jax.tree.map(lambda p, g: p - LR * g, parameters, gradient)

    return step


def mini_batches(key, batch, passes):
    """The rows of every step: steps x batch."""
    import jax
    orders = jax.vmap(lambda k: jax.random.permutation(k, SAMPLES))(jax.random.split(key, passes))
    return orders.reshape(-1, batch)


def compiled_round(forward, batch, passes, side_by_side):
    """A function of the global model, everyone's samples and a random key that returns the next model."""
    import jax
    step = step_of(forward)

    def local(parameters, x, y, key):
        return jax.lax.scan(lambda p, rows: (step(p, x, y, rows), None), parameters, mini_batches(key, batch, passes))[0]

    def whole(parameters, x, y, key):
        keys = jax.random.split(key, CLIENTS)
        if side_by_side:
            models = jax.vmap(local, in_axes=(None, 0, 0, 0))(parameters, x, y, keys)
        else:
            models = jax.lax.map(lambda each: local(parameters, *each), (x, y, keys))
        return jax.tree.map(lambda m: m.mean(axis=0), models)

    return jax.jit(whole)


def round_of_steps(forward, batch, passes):
    """The same with a program per step."""
    import jax
    step = jax.jit(step_of(forward))

    def whole(parameters, x, y, key):
        models = []
        for i, k in enumerate(jax.random.split(key, CLIENTS)):
            model = parameters
            for rows in mini_batches(k, batch, passes):
                model = step(model, x[i], y[i], rows)
            models.append(model)
        return jax.tree.map(lambda *m: sum(m) / CLIENTS, *models)

    return whole


def fastest(widths, batch, passes, way):
    """Seconds per local step."""
    import jax
    model, forward, shape = network(widths)
    x = jax.random.uniform(jax.random.key(3), (CLIENTS, SAMPLES, *shape))
    y = jax.random.randint(jax.random.key(4), (CLIENTS, SAMPLES), 0, CLASSES)
    advance = way(forward, batch, passes)
    model = jax.block_until_ready(advance(model, x, y, jax.random.key(5)))  # compiles
    best, end, rounds = float("inf"), time.perf_counter() + PATIENCE, 0
    while rounds < 3 or time.perf_counter() < end:
        key, begin = jax.random.key(rounds), time.perf_counter()
        model = jax.block_until_ready(advance(model, x, y, key))
        best, rounds = min(best, time.perf_counter() - begin), rounds + 1
    return best / (CLIENTS * passes * (SAMPLES // batch))


def measure(threads, cases):
    """XLA makes as many threads as it may use processors."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    os.environ["JAX_PLATFORMS"] = "cpu"
    in_a_loop = (lambda *a: compiled_round(*a, side_by_side=True), lambda *a: compiled_round(*a, side_by_side=False))
    for name, widths, batch, passes in cases:
        ways = (round_of_steps,) if widths == "cnn" else in_a_loop
        best = min(fastest(widths, int(batch), int(passes), way) for way in ways)
        print(name, threads, f"{best * 1e6:.3f}", flush=True)


failed = 0
for count in (1, 2):
    child = os.fork()  # before JAX is there: a process chooses its threads once
    if not child:
        measure(count, [case.split(":") for case in sys.argv[1:]])
        sys.exit(0)
    failed |= os.waitpid(child, 0)[1]
sys.exit(failed != 0)
