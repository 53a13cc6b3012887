"""What Python adds: to a whole run beside the program, and to every call of a user's function.

    python bench/overhead.py [PROGRAM] [--data DIR]

PROGRAM is the `fedloom` to compare with. Every figure is the best of several runs; the machine should be idle.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time

import numpy as np

import fedloom

FRONT_PAGE = """
rounds: 150
data: {{kind: idx, dir: {data}}}
partition: {{kind: dirichlet, clients: 100, alpha: 0.2}}
model: {{kind: mlp, hidden: [200], weight_decay: 1e-4}}
participation: {{kind: uniform, fraction: 0.1}}
local: {{epochs: 2, batch: 50, lr: 0.05}}
metrics: {{every: 5}}
"""


def best(call, times: int = 3) -> float:
    """Seconds of the fastest of several calls."""
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begun)
    return min(taken)


def whole_runs(program: str | None, data: str) -> list[tuple[str, str]]:
    """The front page's run, in this process and by the program, both from nothing to the end."""
    text = FRONT_PAGE.format(data=data)
    script = f"import fedloom; fedloom.run({text!r})"
    path = "/tmp/fedloom-overhead.yaml"
    with open(path, "w") as f:
        f.write(text)
    inside = best(lambda: fedloom.run(text))
    outside = best(lambda: subprocess.run([sys.executable, "-c", script], check=True, stderr=subprocess.DEVNULL))
    rows = [
        ("front page's run, fedloom.run", f"{inside:.2f} s"),
        ("the same, with the start of Python", f"{outside:.2f} s"),
    ]
    if program:
        c = best(lambda: subprocess.run([program, "run", path, "--quiet"], check=True, stdout=subprocess.DEVNULL))
        rows.append(("the same, by the program", f"{c:.2f} s"))
        rows.append(("fedloom.run beside the program", f"{100 * (inside / c - 1):+.1f} %"))
    return rows


def per_call() -> list[tuple[str, str]]:
    """What a call costs beyond the user's own code: that of functions that do next to nothing."""
    rng = np.random.default_rng(0)
    n, clients = 10, 20
    data = fedloom.Data(rng.normal(size=(1000 * clients, n)), rng.normal(size=1000 * clients), sizes=[1000] * clients)
    calls = [0]
    zeros = np.zeros(n, np.float32)

    @fedloom.objective(parameters=n)
    def nothing(x, batch):
        calls[0] += 1
        return 1.0, zeros

    class Stay(fedloom.Solver):
        """Stays where it starts."""

        def solve(self, local, problem):
            calls[0] += 1
            return problem.start

    class Keep(fedloom.Method):
        """Does what averaging does, with nothing to average."""

        up = ("dx",)
        elementwise = True

        def answer(self, turn, answer):
            calls[0] += 1
            turn.up.dx = zeros

        def absorb(self, server, upload):
            pass

        def advance(self, server):
            pass

    common = {"data": data, "participation": "everyone", "metrics": {"every": 10**6}, "threads": 1}
    cases = [
        ("call of an objective", {"model": nothing, "local": {"batch": 1, "epochs": 1}, "rounds": 5}),
        (
            "turn of a solver",
            {"model": "least_squares", "local": {"solver": Stay, "steps": 1, "batch": 1}, "rounds": 2000},
        ),
        (
            "turn of a method",
            {"model": "least_squares", "algorithm": Keep, "rounds": 2000, "local": {"steps": 1, "batch": 1}},
        ),
    ]

    def once(settings) -> float:
        run = fedloom.Run(common, **settings)
        begun = time.process_time()
        run.go()
        return time.process_time() - begun

    rows = []
    for name, settings in cases:
        calls[0] = 0
        taken = min(once(settings) for _ in range(3))
        turns = calls[0] / 3
        engine = {
            **settings,
            "model": "least_squares",
            "algorithm": "fedavg",
            "local": {**settings["local"], "solver": "sgd"},
        }
        if name == "turn of a method":  # less what the engine itself does in such a turn
            taken -= min(once(engine) for _ in range(3))
        rows.append((name, f"{1e6 * taken / turns:.2f} us"))
    return rows


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("program", nargs="?", default=shutil.which("fedloom"))
    p.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    a = p.parse_args()
    rows = per_call() + whole_runs(a.program, a.data)
    for name, value in rows:
        print(f"{name:<40}{value:>12}")


if __name__ == "__main__":
    main()
