"""The rounds of bench/gpu.c in JAX: FedAvg with a whole round as one compiled program.

Clients are side by side (vmap), steps in a scan, samples are bytes on the device and gathered there, every client's order is
drawn within the program, and the mean of the models ends the round. The CNN is compiled in three ways: with XLA's convolutions for
all clients at once, with its products alone (patches of the images, one product per client), and with one client after the
other; the fastest counts. Arguments: the models, none: all. Prints, as bench_gpu does,

    jax MODEL PRECISION CLIENTS fedavg MICROSECONDS SECONDS      per client-step; of compiling and the first round
    total jax pfl PRECISION SECONDS SECONDS                      all rounds with evaluation; of compiling
"""
import sys
import time

import jax
import jax.numpy as jnp

BATCH, EACH, CLASSES, LR, PATIENCE = 50, 1000, 10, 0.01, 0.4  # PATIENCE: seconds of a block of rounds
MODELS = {
    "60-32-10": ((60,), ["fc 32"]),
    "784-200-10": ((784,), ["fc 200"]),
    "784-200-200-10": ((784,), ["fc 200", "fc 200"]),
    "cnn": ((24, 24, 3), ["conv 64 5 SAME", "pool", "conv 64 5 SAME", "pool", "fc 384", "fc 192"]),
    "pfl": ((32, 32, 3), ["conv 32 3 VALID", "conv 64 3 VALID", "pool", "fc 128"]),
}
PRECISIONS = {"f32": "highest", "tf32": "tensorfloat32"}


def patches(h, size, padding):
    """Rows of what a filter sees: ... x (size * size * channels)."""
    if padding == "SAME":
        h = jnp.pad(h, ((0, 0), (size // 2, size // 2), (size // 2, size // 2), (0, 0)))
    rows, columns = h.shape[1] - size + 1, h.shape[2] - size + 1
    return jnp.concatenate([h[:, i:i + rows, j:j + columns] for i in range(size) for j in range(size)], axis=-1)


def convolution(h, w, padding, products):
    size = w.shape[0]
    if products:
        return patches(h, size, padding) @ w.reshape(-1, w.shape[-1])
    return jax.lax.conv_general_dilated(h, w, (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def pool(h):
    n, rows, columns, channels = h.shape
    return h.reshape(n, rows // 2, 2, columns // 2, 2, channels).max(axis=(2, 4))


def network(shape, layers, products):
    """Parameters, and the logits as a function of them and a batch."""
    parameters, keys = [], iter(jax.random.split(jax.random.key(1), len(layers) + 1))

    def add(fan_in, *dims):
        parameters.append((jax.random.normal(next(keys), dims) / fan_in**0.5, jnp.zeros(dims[-1])))

    size = shape
    for layer in layers:
        kind, *words = layer.split()
        if kind == "conv":
            filters, kernel = int(words[0]), int(words[1])
            add(kernel * kernel * size[2], kernel, kernel, size[2], filters)
            less = 0 if words[2] == "SAME" else kernel - 1
            size = (size[0] - less, size[1] - less, filters)
        elif kind == "pool":
            size = (size[0] // 2, size[1] // 2, size[2])
        else:
            inputs = size[0] if len(size) == 1 else size[0] * size[1] * size[2]
            add(inputs, inputs, int(words[0]))
            size = (int(words[0]),)
    add(size[0], size[0], CLASSES)

    def forward(p, h):
        weights = iter(p)
        for layer in layers:
            kind, *words = layer.split()
            if kind == "pool":
                h = pool(h)
                continue
            w, b = next(weights)
            h = convolution(h, w, words[2], products) if kind == "conv" else h.reshape(h.shape[0], -1) @ w
            h = jax.nn.relu(h + b)
        w, b = next(weights)
        return h @ w + b

    return parameters, forward


def local_turn(forward, batch):
    """A client's turn: a function of the model, its samples, their labels and a key."""

    def loss(p, x, y):
        logits = forward(p, x.astype(jnp.float32) / 255)
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1))

    def turn(p, x, y, key):
        def step(p, rows):
            gradient = jax.grad(loss)(p, x[rows], y[rows])
            return jax.tree.map(lambda a, g: a - LR * g, p, gradient), None

        rows = jax.random.permutation(key, x.shape[0]).reshape(-1, batch)
        return jax.lax.scan(step, p, rows)[0]

    return turn


def round_of(forward, batch, one_by_one):
    turn = local_turn(forward, batch)

    def whole(p, x, y, key):
        keys = jax.random.split(key, x.shape[0])
        if one_by_one:
            models = jax.lax.map(lambda each: turn(p, *each), (x, y, keys))
        else:
            models = jax.vmap(turn, in_axes=(None, 0, 0, 0))(p, x, y, keys)
        return jax.tree.map(lambda m: m.mean(axis=0), models)

    return jax.jit(whole)


def images(shape, *dims, seed=3):
    x = jax.random.bits(jax.random.key(seed), (*dims, *shape), jnp.uint8)
    return x, jax.random.randint(jax.random.key(seed + 1), dims, 0, CLASSES)


def blocks(advance, model):
    """Seconds of a round: the fastest of three blocks of rounds."""
    keys = list(jax.random.split(jax.random.key(5), 400))

    def block(model, rounds):
        begin = time.perf_counter()
        for k in range(rounds):
            model = advance(model, keys[k])
        jax.block_until_ready(model)
        return model, (time.perf_counter() - begin) / rounds

    model, once = block(model, 2)
    rounds, best = min(200, int(PATIENCE / once) + 1), float("inf")
    for _ in range(3):
        model, each = block(model, rounds)
        best = min(best, each)
    return best


def timed(name, clients, way):
    """Microseconds per client-step, and seconds until the first round was done. way: 'vmap', 'products' or 'map'."""
    shape, layers = MODELS[name]
    model, forward = network(shape, layers, way == "products")
    x, y = jax.block_until_ready(images(shape, clients, EACH))
    advance, begin = round_of(forward, BATCH, way == "map"), time.perf_counter()
    model = jax.block_until_ready(advance(model, x, y, jax.random.key(0)))
    first = time.perf_counter() - begin
    return blocks(lambda m, key: advance(m, x, y, key), model) / (clients * EACH // BATCH) * 1e6, first


def one_row(name, precision, clients):
    found = []
    for way in ("vmap", "products", "map") if name == "cnn" else ("vmap",):
        try:
            found.append((*timed(name, clients, way), way))
        except Exception as error:  # out of memory, mostly: another way may do
            print(f"gpu_jax: {name}, {precision}, {way}: {str(error).splitlines()[0]}", file=sys.stderr)
    if found:
        us, first, way = min(found)
        print("jax", name, precision, clients, "fedavg", f"{us:.4f} {first:.3f}", flush=True)
        if len(found) > 1:
            each = ", ".join(f"{w} {u:.1f} us" for u, _, w in found)
            print(f"gpu_jax: {name}, {precision}, {clients} clients: {each}", file=sys.stderr)


def pfl_round(forward):
    """A round of 50 of the users, as a function of the model, all samples, labels and a key."""
    advance = round_of(forward, 10, False)

    def whole(model, x, y, key):
        who = jax.random.choice(key, len(x), (50,), replace=False)
        return advance(model, x[who], y[who], key)

    return jax.jit(whole)


def pfl_hits(forward):
    """How many of 10 parts of test images are recognised."""

    def part(model, x, y):
        return (forward(model, x.astype(jnp.float32) / 255).argmax(axis=1) == y).sum()

    return jax.jit(lambda model, x, y: sum(part(model, x[k], y[k]) for k in range(10)))


def pfl_total(precision):
    """1000 users x 50 images, 50 a round, batch 10, one epoch; 1500 rounds, every 10 of them evaluated on 10,000 images."""
    shape, layers = MODELS["pfl"]
    x, y = images(shape, 1000, 50)
    test, label = images(shape, 10, 1000, seed=7)
    ways = []
    for products in (False, True):
        model, forward = network(shape, layers, products)
        advance, hits, begin = pfl_round(forward), pfl_hits(forward), time.perf_counter()
        jax.block_until_ready((advance(model, x, y, jax.random.key(0)), hits(model, test, label)))
        compiled, begin = time.perf_counter() - begin, time.perf_counter()
        for k in range(10):
            jax.block_until_ready(advance(model, x, y, jax.random.key(k)))
        ways.append((time.perf_counter() - begin, compiled, advance, hits))
    _, compiled, advance, hits = min(ways, key=lambda way: way[0])
    begin = time.perf_counter()
    for k in range(1500):
        model = advance(model, x, y, jax.random.key(k))
        if k % 10 == 9:
            hits(model, test, label).block_until_ready()
    jax.block_until_ready(model)
    print("total jax pfl", precision, f"{time.perf_counter() - begin:.2f} {compiled:.3f}", flush=True)


def main():
    asked = sys.argv[1:] or list(MODELS)
    for precision, words in PRECISIONS.items():
        with jax.default_matmul_precision(words):
            for name in asked:
                if name == "pfl":
                    pfl_total(precision)
                    continue
                for clients in (100, 10):
                    one_row(name, precision, clients)


main()
