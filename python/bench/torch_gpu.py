"""fedloom.torch on a GPU: is it right, and what does it gain?

    python bench/torch_gpu.py [--device cuda] [--rounds 5]

Needs PyTorch with CUDA and this package, and no data. It fails if the GPU's results are not the CPU's, up to rounding.
"cpu" as device tries the script itself.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

import numpy as np
import torch
from torch import nn

import fedloom
import fedloom.torch

QUIET = {"train": False, "clients": False, "test": False}


def block(inner: int, outer: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(inner, outer, 3, padding=1), nn.BatchNorm2d(outer), nn.ReLU(), nn.MaxPool2d(2))


def modules() -> dict[str, tuple]:
    """Module, shape of a sample, batch."""
    torch.manual_seed(0)
    return {
        "mlp 784-200-10": (nn.Sequential(nn.Flatten(), nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 10)),
                           (1, 28, 28), 50),
        "conv net, batch norm": (nn.Sequential(block(3, 32), block(32, 64), block(64, 128), nn.Flatten(),
                                               nn.Linear(2048, 10)), (3, 32, 32), 64),
        "mlp, 13 million": (nn.Sequential(nn.Flatten(), nn.Linear(3072, 3072), nn.ReLU(), nn.Linear(3072, 1024),
                                          nn.Dropout(0.1), nn.Linear(1024, 10)), (3, 32, 32), 64),
    }  # fmt: skip


def samples(shape: tuple, clients: int = 8, each: int = 256) -> list:
    draw = torch.Generator().manual_seed(1)
    centres = torch.randn(10, *shape, generator=draw)
    out = []
    for _ in range(clients):
        y = torch.randint(0, 10, (each,), generator=draw)
        out.append((0.3 * centres[y] + torch.randn(each, *shape, generator=draw), y))
    return out


def agree(device: str) -> None:
    """In double precision, without dropout: all kinds of local problems, both ways to solve them, tests, statistics."""
    torch.manual_seed(0)
    net = nn.Sequential(block(1, 4), nn.Flatten(), nn.Linear(144, 10)).double()
    parts = [(x.double(), y) for x, y in samples((1, 12, 12), 4, 40)]
    for method in ("fedavg", "scaffold", "feddyn", "fedvra", "fedgia"):
        for local in ({}, {"momentum": 0.5}, {"solver": "sgd"}):
            if method == "fedgia" and local:
                continue
            found = []
            for where in ("cpu", device):
                fed = fedloom.torch.Federation(net, nn.CrossEntropyLoss(), parts[:3], test=parts[3], device=where)
                run = fed.run(method, rounds=3, participation="everyone", progress=False,
                              local={"lr": 0.05, "batch": 10, "epochs": 1, **local})
                losses = [run.test_loss, run.train_loss]
                found.append(np.concatenate([v.reshape(-1) for v in run.model.values()] + [losses]))
            gap = np.abs(found[0] - found[1]).max()
            print(f"{method:10} {str(local):20} CPU and {device} differ by {gap:.1e}")
            if not gap < 1e-8:
                sys.exit("they do not agree")


def times(device: str, rounds: int) -> None:
    print(f"\n{'ms per round':24} {'a turn at a time':>18} {'step by step':>14} {'CPU, all cores':>16}")
    for name, (net, shape, batch) in modules().items():
        parts = samples(shape)
        row = []
        for where, local in ((device, {}), (device, {"solver": "sgd"}), ("cpu", {})):
            fed = fedloom.torch.Federation(net, nn.CrossEntropyLoss(), parts, device=where)
            run = fed.prepare("scaffold", rounds=rounds + 1, participation="everyone",
                              local={"lr": 0.01, "batch": batch, "epochs": 2, **local},
                              metrics={"every": rounds + 1, **QUIET})
            ticks = [time.perf_counter() for _ in run]
            row.append(1000 * min(b - a for a, b in zip(ticks, ticks[1:])))
        print(f"{name:24} {row[0]:18.1f} {row[1]:14.1f} {row[2]:16.1f}", flush=True)


def repeats(device: str) -> None:
    """Dropout is drawn from the turn's seed."""
    net, shape, batch = modules()["mlp, 13 million"]
    fed = fedloom.torch.Federation(net, nn.CrossEntropyLoss(), samples(shape, 2, 64), device=device)
    runs = [fed.run("fedavg", rounds=2, participation="everyone", progress=False, local={"lr": 0.01, "batch": 32})
            for _ in range(2)]  # fmt: skip
    gap = max(np.abs(runs[0].model[k] - runs[1].model[k]).max() for k in runs[0].model)
    print(f"\nthe same run twice differs by {gap:.1e}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=5)
    o = parser.parse_args()
    what = torch.cuda.get_device_name() if o.device.startswith("cuda") else o.device
    print(f"fedloom {fedloom.__version__}, PyTorch {torch.__version__}, {what}, {len(os.sched_getaffinity(0))} cores\n")
    agree(o.device)
    times(o.device, o.rounds)
    repeats(o.device)
