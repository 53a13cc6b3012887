"""Seconds per round and memory of one PyTorch federation: by hand, by fedloom.torch, by Flower.

    python bench/torch_round.py [--clients 20] [--samples 600] [--batch 50] [--steps 12] [--rounds 10]

FedAvg, the same module, clients, steps and batch size everywhere. Every engine runs in a process of its own, as in
bench/flower.py.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time

import flower


def tensors(o: argparse.Namespace) -> list:
    import torch

    pairs = (flower.samples(o, client) for client in range(o.clients))
    return [(torch.from_numpy(x), torch.from_numpy(y).long()) for x, y in pairs]


def by_hand(o: argparse.Namespace) -> list[float]:
    """What somebody would write who wants FedAvg and nothing else, on one core."""
    import torch

    torch.set_num_threads(1)
    net, clients, ticks = flower.module(), tensors(o), []
    loss = torch.nn.CrossEntropyLoss()
    model = [p.detach().clone() for p in net.parameters()]
    for _ in range(o.rounds + 1):
        mean = [torch.zeros_like(p) for p in model]
        for x, y in clients:
            with torch.no_grad():
                for p, start in zip(net.parameters(), model):
                    p.copy_(start)
            optimizer = torch.optim.SGD(net.parameters(), flower.LR)
            order = torch.randperm(len(x))
            for k in range(o.steps):
                some = order[k * o.batch % len(x) :][: o.batch]
                optimizer.zero_grad()
                loss(net(x[some]), y[some]).backward()
                optimizer.step()
            with torch.no_grad():
                for m, p in zip(mean, net.parameters()):
                    m.add_(p, alpha=1 / len(clients))
        model = mean
        ticks.append(time.perf_counter())
    return ticks


def fedloom_torch(threads: int, **local):
    def engine(o: argparse.Namespace) -> list[float]:
        import torch

        import fedloom.torch

        fed = fedloom.torch.Federation(flower.module(), torch.nn.CrossEntropyLoss(), tensors(o))
        run = fed.prepare("fedavg", rounds=o.rounds + 1, participation="everyone", threads=threads,
                          local={"steps": o.steps, "batch": o.batch, "lr": flower.LR, **local},
                          metrics={"every": o.rounds + 1, "train": False, "clients": False, "test": False})
        return [time.perf_counter() for _ in run]

    return engine


ENGINES = {
    "by hand, 1 core": by_hand,
    "fedloom, 1 thread": fedloom_torch(1),
    "  step by step": fedloom_torch(1, solver="sgd"),
    "fedloom, all cores": fedloom_torch(len(os.sched_getaffinity(0))),
}
if importlib.util.find_spec("flwr"):
    ENGINES["Flower, FedAvg"] = flower.flower_fedavg

if __name__ == "__main__":
    got = flower.compare(__file__, ENGINES, __doc__)
    if got:
        more = got["fedloom, 1 thread"]["fastest"] - got["by hand, 1 core"]["fastest"]
        print(f"a turn of fedloom takes {1e6 * more / got['clients']:+.0f} us more than by hand")
