"""The work of bench/table.sh in plain PyTorch: FedAvg, one client after the other, the usual loop.

Samples are float tensors from the start, a mini-batch is an index into them. Every network is trained in two ways, with
torch.optim.SGD and with torch.autograd.grad and in-place updates; the faster one counts. Prints for every case given as
NAME:WIDTHS:BATCH:PASSES (WIDTHS such as 784-200-10, or cnn) and every number of threads: NAME THREADS MICROSECONDS-PER-STEP, from the
fastest round, as fedloom's.
"""
import sys
import time

import torch
from torch import nn

CLIENTS, SAMPLES, CLASSES, LR, PATIENCE = 4, 600, 10, 0.01, 2.0  # clients: of a round; PATIENCE: seconds


def network(widths):
    """The network and the shape of a sample."""
    if widths == "cnn":
        return nn.Sequential(
            nn.Conv2d(3, 64, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(64, 64, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(1600, 384), nn.ReLU(), nn.Linear(384, 192), nn.ReLU(), nn.Linear(192, 10)), (3, 32, 32)
    widths = [int(w) for w in widths.split("-")]
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1]), (widths[0],)


def by_optimizer(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)

    def step(loss):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def by_hand(model):
    parameters = list(model.parameters())

    def step(loss):
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for p, g in zip(parameters, gradients):
                p.sub_(g, alpha=LR)

    return step


def one_round(model, step, batch, passes, x, y):
    """Seconds per local step. The model is the average afterwards."""
    begin, steps, parameters = time.perf_counter(), 0, list(model.parameters())
    start = [p.detach().clone() for p in parameters]
    total = [torch.zeros_like(p) for p in start]
    for client in range(CLIENTS):
        with torch.no_grad():
            for p, s in zip(parameters, start):
                p.copy_(s)
        for _ in range(passes):
            order = torch.randperm(SAMPLES)
            for at in range(0, SAMPLES, batch):
                b = order[at:at + batch]
                step(nn.functional.cross_entropy(model(x[client][b]), y[client][b]))
                steps += 1
        with torch.no_grad():
            for t, p in zip(total, parameters):
                t.add_(p, alpha=1 / CLIENTS)
    with torch.no_grad():
        for p, t in zip(parameters, total):
            p.copy_(t)
    return (time.perf_counter() - begin) / steps


def fastest(widths, batch, passes, way):
    model, shape = network(widths)
    model.train()
    x = [torch.rand(SAMPLES, *shape) for _ in range(CLIENTS)]
    y = [torch.randint(0, CLASSES, (SAMPLES,)) for _ in range(CLIENTS)]
    step, best, end, rounds = way(model), float("inf"), time.perf_counter() + PATIENCE, 0
    while rounds < 3 or time.perf_counter() < end:
        best, rounds = min(best, one_round(model, step, batch, passes, x, y)), rounds + 1
    return best


for case in sys.argv[1:]:
    name, widths, batch, passes = case.split(":")
    for threads in (1, 2):
        torch.set_num_threads(threads)
        best = min(fastest(widths, int(batch), int(passes), way) for way in (by_optimizer, by_hand))
        print(name, threads, f"{best * 1e6:.3f}", flush=True)
