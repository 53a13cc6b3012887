"""The rounds of bench/gpu.c in PyTorch, FedAvg, in two ways: eager, one client after the other as most simulators do, on fewer steps,
and all clients side by side by torch.func (vmap over the models, one step at a time). Arguments: the models, none: all. Prints,
as bench_gpu does,

    torch-eager MODEL PRECISION CLIENTS fedavg MICROSECONDS SECONDS      per client-step; of the first steps
    torch-vmap MODEL PRECISION CLIENTS fedavg MICROSECONDS SECONDS       per client-step; of the first round
"""
import sys
import time

import torch
from torch import nn
from torch.func import functional_call, grad, stack_module_state, vmap

BATCH, EACH, CLASSES, LR, PATIENCE, EAGER_STEPS = 50, 1000, 10, 0.01, 0.4, 100
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
MODELS = {"60-32-10": (60,), "784-200-10": (784,), "784-200-200-10": (784,), "cnn": (3, 24, 24)}


def network(name):
    if name == "cnn":
        layers = [nn.Conv2d(3, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(64, 64, 5, padding=2), nn.ReLU(),
                  nn.MaxPool2d(2), nn.Flatten(), nn.Linear(2304, 384), nn.ReLU(), nn.Linear(384, 192), nn.ReLU(),
                  nn.Linear(192, CLASSES)]
        return nn.Sequential(*layers).to(DEVICE)
    widths, layers = [int(w) for w in name.split("-")], []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1]).to(DEVICE)


def finish():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def clock(work, least):
    """Seconds of one call: of the first, and of those after it, the fastest of three blocks of at least `least`."""
    begin = time.perf_counter()
    work()
    finish()
    first, begin = time.perf_counter() - begin, time.perf_counter()
    work()
    finish()
    calls = min(50, max(least, int(PATIENCE / (time.perf_counter() - begin))))
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        for _ in range(calls):
            work()
        finish()
        best = min(best, (time.perf_counter() - begin) / calls)
    return best, first


def eager(name, x, y):
    """A client's steps; a round is as many of them as it has clients."""
    model, loss = network(name), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)

    def steps():
        order = torch.randperm(EACH, device=DEVICE).reshape(-1, BATCH)
        for k in range(EAGER_STEPS):
            rows = order[k % len(order)]
            optimizer.zero_grad()
            loss(model(x[0][rows].float() / 255), y[0][rows]).backward()
            optimizer.step()

    seconds, first = clock(steps, 1)
    return seconds / EAGER_STEPS, first


def side_by_side(name, x, y):
    """A round of all clients, a step at a time."""
    clients, base = len(x), network(name)
    parameters, _ = stack_module_state([base] * clients)
    start = {k: v.detach().clone() for k, v in parameters.items()}

    def loss(p, rows, label):
        return nn.functional.cross_entropy(functional_call(base, p, (rows.float() / 255,)), label)

    gradient = vmap(grad(loss))
    each = torch.arange(clients, device=DEVICE)[:, None]

    def whole():
        p = {k: v.clone() for k, v in start.items()}
        order = torch.rand(clients, EACH, device=DEVICE).argsort(dim=1).reshape(clients, -1, BATCH)
        for k in range(EACH // BATCH):
            rows = order[:, k]
            g = gradient(p, x[each, rows], y[each, rows])
            for key, v in p.items():
                v.sub_(g[key], alpha=LR)
        for key, v in p.items():
            start[key] = v.mean(dim=0, keepdim=True).expand_as(v).contiguous()

    with torch.no_grad():
        seconds, first = clock(whole, 1)
    return seconds / (clients * EACH // BATCH), first


def one_row(tool, way, name, precision, clients):
    torch.manual_seed(1)
    x = torch.randint(0, 256, (clients, EACH, *MODELS[name]), dtype=torch.uint8, device=DEVICE)
    y = torch.randint(0, CLASSES, (clients, EACH), device=DEVICE)
    try:
        seconds, first = way(name, x, y)
        print(tool, name, precision, clients, "fedavg", f"{seconds * 1e6:.4f} {first:.3f}", flush=True)
    except RuntimeError as error:  # out of memory, mostly
        print(f"gpu_torch: {tool}, {name}: {str(error).splitlines()[0]}", file=sys.stderr)


def main():
    for precision in ("f32", "tf32"):
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
        for name in sys.argv[1:] or MODELS:
            if name not in MODELS:
                continue
            one_row("torch-eager", eager, name, precision, 10)
            for clients in (100, 10):
                one_row("torch-vmap", side_by_side, name, precision, clients)


main()
