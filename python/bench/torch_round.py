"""Seconds per round and memory of one PyTorch federation: by hand, by fedloom.torch, by Flower.

    python bench/torch_round.py [--clients 20] [--samples 600] [--batch 50] [--steps 12] [--rounds 10]

FedAvg, the same module, clients, steps and batch size everywhere. Every engine runs in a process of its own, as in
bench/flower.py.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import itertools
import os
import time
from tempfile import TemporaryDirectory
from typing import Iterator

import fedloom  # noqa: F401


def same_blas() -> None:
    """One thread each, and the kernels that fedloom makes OpenBLAS take, for all engines alike."""
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
    try:
        core = ctypes.CDLL("libopenblas.so.0").openblas_get_corename
        core.restype = ctypes.c_char_p
        os.environ["OPENBLAS_CORETYPE"] = core().decode()
    except (OSError, AttributeError):  # PyTorch from PyPI has a BLAS of its own
        pass


same_blas()

import flower  # noqa: E402


def tensors(o: argparse.Namespace) -> list:
    import torch

    pairs = (flower.samples(o, client) for client in range(o.clients))
    return [(torch.from_numpy(x), torch.from_numpy(y).long()) for x, y in pairs]


def rounds_by_hand(o: argparse.Namespace) -> Iterator[None]:
    """What somebody would write who wants FedAvg and nothing else, on one core."""
    import torch

    torch.set_num_threads(1)
    net, clients, loss = flower.module(), tensors(o), torch.nn.CrossEntropyLoss()
    model = [p.detach().clone() for p in net.parameters()]
    while True:
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
        yield


def rounds_of_fedloom(o: argparse.Namespace, threads: int, **local) -> Iterator[None]:
    import torch

    import fedloom.torch

    fed = fedloom.torch.Federation(flower.module(), torch.nn.CrossEntropyLoss(), tensors(o))
    yield from fed.prepare("fedavg", rounds=10000, participation="everyone", threads=threads,
                           local={"steps": o.steps, "batch": o.batch, "lr": flower.LR, **local},
                           metrics={"every": 10000, "train": False, "clients": False, "test": False})


def engine(rounds, *args, **local):
    return lambda o: [time.perf_counter() for _ in itertools.islice(rounds(o, *args, **local), o.rounds + 1)]


CORES = len(os.sched_getaffinity(0))
ENGINES = {
    "by hand, 1 core": engine(rounds_by_hand),
    "fedloom, 1 thread": engine(rounds_of_fedloom, 1),
    "  step by step": engine(rounds_of_fedloom, 1, solver="sgd"),
    f"fedloom, {CORES} threads": engine(rounds_of_fedloom, CORES),
}
if importlib.util.find_spec("flwr"):
    ENGINES["Flower, FedAvg"] = flower.flower_fedavg


def processor_time(o: argparse.Namespace) -> None:
    """Rounds by hand and of fedloom in turn, in one process: what the processor spends on a client's turn."""
    with TemporaryDirectory() as o.folder:
        flower.write_samples(o.folder, o)
        kinds = {"by hand": rounds_by_hand(o), "fedloom": rounds_of_fedloom(o, 1),
                 "fedloom step by step": rounds_of_fedloom(o, 1, solver="sgd")}
        best = dict.fromkeys(kinds, float("inf"))
        for _ in range(2 * o.rounds):
            for name, rounds in kinds.items():
                begin = time.process_time()
                next(rounds)
                best[name] = min(best[name], time.process_time() - begin)
    print("processor time of a turn:", ", ".join(f"{k} {1e6 * v / o.clients:.0f} us" for k, v in best.items()))


if __name__ == "__main__":
    options = flower.compare(__file__, ENGINES, __doc__)
    if options:
        processor_time(options)
