"""Seconds per round and memory of one PyTorch federation, carried by different engines.

    python bench/flower.py [--clients 20] [--samples 600] [--batch 50] [--steps 12] [--rounds 10]

FedAvg, the same module, clients, steps and batch size everywhere. Every engine runs in a process of its own, one after
the other: the memory is the most that it and the processes it started have taken together (proportional set size).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

os.environ.update(FLWR_TELEMETRY_ENABLED="0", FLWR_DISABLE_UPDATE_CHECK="1", RAY_USAGE_STATS_ENABLED="0")

FEATURES, HIDDEN, CLASSES, LR = 784, 200, 10, 0.05


def module():
    import torch

    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(FEATURES, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, CLASSES)
    )


def write_samples(folder: str, o: argparse.Namespace) -> None:
    """Every client's samples as files: Gaussian clouds around centres that all clients share."""
    centres = np.random.default_rng(0).normal(size=(CLASSES, FEATURES)).astype(np.float32)
    for client in range(o.clients):
        rng = np.random.default_rng(1 + client)
        y = rng.integers(0, CLASSES, o.samples).astype(np.int32)
        np.save(f"{folder}/x{client}.npy", centres[y] * 0.2 + rng.standard_normal((o.samples, FEATURES), np.float32))
        np.save(f"{folder}/y{client}.npy", y)


def samples(o: argparse.Namespace, client: int) -> tuple[np.ndarray, np.ndarray]:
    return np.load(f"{o.folder}/x{client}.npy"), np.load(f"{o.folder}/y{client}.npy")


# ---- engines: each returns seconds per round ------------------------------------------------------------------------


def flower_fedavg(o: argparse.Namespace) -> list[float]:
    """Flower's own strategy, and a train function as in Flower's PyTorch tutorial."""
    import torch
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg

    client, server, ticks = ClientApp(), ServerApp(), []

    @client.train()
    def train(message, context):
        torch.set_num_threads(1)
        net = module()
        net.load_state_dict(message.content["arrays"].to_torch_state_dict())
        x, y = (torch.from_numpy(a) for a in samples(o, context.node_config["partition-id"]))
        optimizer = torch.optim.SGD(net.parameters(), LR)
        order = torch.randperm(len(x))
        for k in range(o.steps):
            some = order[[(k * o.batch + j) % len(x) for j in range(o.batch)]]
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x[some]), y[some].long()).backward()
            optimizer.step()
        content = {"arrays": ArrayRecord(net.state_dict()), "metrics": MetricRecord({"num-examples": len(x)})}
        return Message(RecordDict(content), reply_to=message)

    @server.main()
    def main(grid, context):
        strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=o.clients, min_train_nodes=o.clients)
        strategy.start(grid, ArrayRecord(module().state_dict()), num_rounds=o.rounds + 1,
                       evaluate_fn=lambda k, arrays: ticks.append(time.perf_counter()))

    simulate(server, client, o)
    return ticks[1:]  # the first round starts the actors


def objective():
    """The module as an objective: parameters and gradients are views of one vector each, of every thread its own."""
    import torch

    import fedloom

    mine = threading.local()

    def prepare() -> None:
        torch.set_num_threads(1)
        mine.net = module()
        mine.x, mine.g = (torch.zeros(sum(p.numel() for p in mine.net.parameters())) for _ in range(2))
        at = 0
        for p in mine.net.parameters():
            p.data, p.grad = (v[at : at + p.numel()].view(p.shape) for v in (mine.x, mine.g))
            at += p.numel()

    shapes = {name: tuple(p.shape) for name, p in module().named_parameters()}

    @fedloom.objective(tensors=shapes, classifier=True)
    def torch_mlp(x, batch):
        if not hasattr(mine, "net"):
            prepare()
        mine.x.numpy()[:] = x
        mine.g.zero_()
        inputs, y = torch.tensor(batch.x), torch.tensor(batch.y).long()
        with torch.set_grad_enabled(batch.gradient):
            out = mine.net(inputs)
            loss = torch.nn.functional.cross_entropy(out, y)
        if batch.gradient:
            loss.backward()
        return loss.item(), mine.g.numpy(), (out.argmax(1) == y).sum()

    @torch_mlp.start
    def start(rng):
        return np.concatenate([p.detach().numpy().ravel() for p in module().parameters()]).astype(np.float64)

    return torch_mlp


def settings(o: argparse.Namespace) -> dict:
    return {"algorithm": "fedavg", "rounds": o.rounds + 1, "participation": {"kind": "everyone"},
            "local": {"steps": o.steps, "batch": o.batch, "lr": LR},
            "metrics": {"every": o.rounds + 1, "train": False, "clients": False, "test": False}}


def fedloom_itself(o: argparse.Namespace) -> list[float]:
    """fedloom's own engine, in one process."""
    import torch

    import fedloom.torch

    clients = [(torch.from_numpy(x), torch.from_numpy(y).long()) for x, y in (samples(o, i) for i in range(o.clients))]
    federation = fedloom.torch.Federation(module(), torch.nn.CrossEntropyLoss(), clients)
    return [time.perf_counter() for _ in federation.prepare(**settings(o))]


def fedloom_flower(o: argparse.Namespace) -> list[float]:
    """fedloom's server and clients, carried by Flower."""
    from flwr.serverapp import ServerApp

    import fedloom.flower

    server, ticks = ServerApp(), []

    @server.main()
    def main(grid, context):
        data = {"kind": "joined", "shape": [FEATURES], "classes": CLASSES}
        strategy = fedloom.flower.Strategy(settings(o), model=objective(), data=data, partition={"clients": o.clients})
        strategy.start(grid, evaluate_fn=lambda k, arrays: ticks.append(time.perf_counter()))

    def data(context):
        return fedloom.Data(*samples(o, context.node_config["partition-id"]), classes=CLASSES)

    simulate(server, fedloom.flower.client_app(data, uses=objective, keep=o.clients), o)
    return ticks[1:]


def simulate(server, client, o: argparse.Namespace) -> None:
    from flwr.simulation import run_simulation

    cores = len(os.sched_getaffinity(0))
    run_simulation(server, client, o.clients, backend_config={
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": cores}})


ENGINES = {
    "fedloom": fedloom_itself,
    "fedloom on Flower": fedloom_flower,
    "Flower, FedAvg": flower_fedavg,
}


# ---- measuring ------------------------------------------------------------------------------------------------------


def tree(root: int) -> list[int]:
    """A process and all that it started."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
        except OSError:  # it is gone
            continue
    found = [root]
    for pid in found:
        found += parents.get(pid, [])
    return found


def memory(root: int) -> int:
    """Bytes that a process and all that it started take."""
    total = 0
    for pid in tree(root):
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        except OSError:
            continue
    return total


def measure(script: str, name: str, arguments: list[str]) -> dict:
    """Runs one engine in a process of its own."""
    process = subprocess.Popen([sys.executable, script, "--one", name, *arguments], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    most = 0

    def watch() -> None:
        nonlocal most
        while process.poll() is None:
            most = max(most, memory(process.pid))
            time.sleep(0.2)

    watcher = threading.Thread(target=watch)
    watcher.start()
    out, errors = process.communicate()
    watcher.join()
    if process.returncode:
        raise SystemExit(f"{name} failed:\n{errors}")
    return {"memory": most, **json.loads(out.splitlines()[-1])}


def compare(script: str, engines: dict, about: str) -> argparse.Namespace | None:
    """Runs the engines one after the other, prints a table and returns the options. `script` calls this, and is what
    processes start: there it runs one of them, and returns None."""
    parser = argparse.ArgumentParser(description=about.split("\n")[0])
    for key, default in {"clients": 20, "samples": 600, "batch": 50, "steps": 12, "rounds": 10}.items():
        parser.add_argument(f"--{key}", type=int, default=default)
    parser.add_argument("--one", choices=engines, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.one:
        begin = time.perf_counter()
        ticks = engines[o.one](o)
        rounds = sorted(b - a for a, b in zip(ticks, ticks[1:]))
        total = time.perf_counter() - begin
        print(json.dumps({"median": rounds[len(rounds) // 2], "fastest": rounds[0], "total": total}))
        return None
    print(f"{o.clients} clients of {o.samples} samples, {o.steps} steps of {o.batch}, {o.rounds} rounds, "
          f"{len(os.sched_getaffinity(0))} cores")
    print(f"{'':20} {'fastest round':>14} {'median round':>14} {'all with start':>15} {'most memory':>13}")
    with TemporaryDirectory() as folder:
        write_samples(folder, o)
        for name in engines:
            got = measure(script, name, [*sys.argv[1:], "--folder", folder])
            print(f"{name:20} {1000 * got['fastest']:11.1f} ms {1000 * got['median']:11.1f} ms {got['total']:13.1f} s "
                  f"{got['memory'] / 2**20:9.0f} MiB", flush=True)
    return o


if __name__ == "__main__":
    compare(__file__, ENGINES, __doc__)
