#!/usr/bin/env python3
"""Golden cases: trajectories of a method, computed here and nowhere near the library.

    tools/golden.py METHOD [KEY=VALUE ...] > tests/golden/NAME.json     makes a case
    tools/golden.py --check FILE ...                                    computes cases anew, and compares

A method is a class below: write it from the paper, in plain Python and double precision, without a look
at its C file. `fedloom verify FILE` then says whether the two agree. KEY=VALUE sets the method's
parameters, and of the case itself: seed, clients, features, rounds, l2, objective (least_squares or
logistic).
"""
import json
import math
import random
import sys


# ---- vectors: lists of numbers -------------------------------------------------------------------------

def dot(x, y):
    return sum(a * b for a, b in zip(x, y))


def lin(a, x, b, y):
    """a x + b y"""
    return [a * s + b * t for s, t in zip(x, y)]


def solve(m, b):
    """x with m x = b, by elimination."""
    rows = [list(r) + [v] for r, v in zip(m, b)]
    for k in range(len(b)):
        top = max(range(k, len(b)), key=lambda i: abs(rows[i][k]))
        rows[k], rows[top] = rows[top], rows[k]
        for i in range(k + 1, len(b)):
            rows[i] = lin(1, rows[i], -rows[i][k] / rows[k][k], rows[k])
    x = [0.0] * len(b)
    for k in reversed(range(len(b))):
        x[k] = (rows[k][-1] - dot(rows[k][k + 1:-1], x[k + 1:])) / rows[k][k]
    return x


def soft(x, by):
    """prox of by ||x||_1"""
    return [math.copysign(max(abs(v) - by, 0.0), v) for v in x]


def mean(weights, vectors):
    """Weighted mean; the weights need not add up to 1."""
    total = sum(weights)
    return [sum(w * v[j] for w, v in zip(weights, vectors)) / total for j in range(len(vectors[0]))]


# ---- the federation ------------------------------------------------------------------------------------

class Federation:
    """f_i(x) = 1/(2d) ||A x - b||^2, or the logistic loss with labels 0 and 1, plus l2/2 ||x||^2."""

    def __init__(self, objective, clients, weights):
        self.objective, self.clients, self.weights = objective, clients, weights

    def grad(self, i, x):
        rows, answers = self.clients[i]["A"], self.clients[i]["b"]
        out = [self.objective["l2"] * v for v in x]
        for a, b in zip(rows, answers):
            s = dot(a, x)
            error = s - b if self.objective["kind"] == "least_squares" else 1 / (1 + math.exp(-s)) - b
            for j, v in enumerate(a):
                out[j] += error * v / len(rows)
        return out

    def descend(self, i, start, lr, steps, shift=None, rho=0, anchor=None):
        """Gradient descent on f_i(z) + <shift, z> + rho/2 ||z - anchor||^2."""
        z = list(start)
        for _ in range(steps):
            g = self.grad(i, z)
            if shift:
                g = lin(1, g, 1, shift)
            if rho:
                g = lin(1, g, rho, lin(1, z, -1, anchor))
            z = lin(1, z, -lr, g)
        return z

    def prox(self, i, eta, y):
        """The minimiser of f_i(z) + 1/(2 eta) ||z - y||^2, for least squares."""
        rows, n = self.clients[i]["A"], len(y)
        if self.objective["kind"] != "least_squares":
            sys.exit("exact proxes are for least_squares")
        h = [[sum(a[j] * a[k] for a in rows) / len(rows) for k in range(n)] for j in range(n)]
        for j in range(n):
            h[j][j] += self.objective["l2"] + 1 / eta
        g = [sum(a[j] * b for a, b in zip(rows, self.clients[i]["b"])) / len(rows) for j in range(n)]
        return solve(h, lin(1, g, 1 / eta, y))


# ---- the methods ---------------------------------------------------------------------------------------

class Method:
    """What the methods below have in common. `round` returns the next model; of methods without rounds `event` does,
    given the model that one client works from."""

    defaults = {}        # parameters with the values that a case is made with; lr is always there
    everyone = False     # all clients take part in every round
    uniform = False      # weights 1/N
    equal_steps = False  # everyone takes the same number of steps
    delays = 0           # > 0: without rounds, and clients are late by up to this many server steps

    def __init__(self, fed, params, x0):
        self.fed, self.p, self.w = fed, params, fed.weights
        self.start(x0)

    def start(self, x0):
        """State of server and clients before the first round."""

    def round(self, x, clients, steps):
        raise NotImplementedError

    def event(self, x, client, steps):
        raise NotImplementedError


class FedAvg(Method):
    defaults = {"lr": 0.1, "server_lr": 1.0}

    def round(self, x, clients, steps):
        models = [self.fed.descend(i, x, self.p["lr"], q) for i, q in zip(clients, steps)]
        weights = [self.w[i] for i in clients]
        change = lin(1, mean(weights, models), -1, x)
        rate = self.p.get("server_lr", 1)
        if self.p.get("aggregation") == "unbiased":
            rate *= len(self.w) / len(clients) * sum(weights)
        return lin(1, x, rate, change)


class MimeLite(Method):
    defaults = {"lr": 0.2, "beta": 0.8}

    def start(self, x0):
        self.m = [0.0] * len(x0)

    def round(self, x, clients, steps):
        lr, beta = self.p["lr"], self.p["beta"]
        models = []
        for i, q in zip(clients, steps):
            z = list(x)
            for _ in range(q):
                z = lin(1, z, -lr, lin(1 - beta, self.fed.grad(i, z), beta, self.m))
            models.append(z)
        weights = [self.w[i] for i in clients]
        gradient = mean(weights, [self.fed.grad(i, x) for i in clients])
        self.m = lin(1 - beta, gradient, beta, self.m)
        return mean(weights, models)


class FedLin(Method):
    defaults = {"lr": 0.05}

    def round(self, x, clients, steps):
        weights = [self.w[i] for i in clients]
        own = [self.fed.grad(i, x) for i in clients]
        g = mean(weights, own)
        models = [self.fed.descend(i, x, self.p["lr"], q, shift=lin(1, g, -1, g_i))
                  for i, q, g_i in zip(clients, steps, own)]
        return mean(weights, models)


class Scaffnew(Method):
    defaults = {"lr": 0.05, "p": 0.3}
    everyone = uniform = equal_steps = True

    def start(self, x0):
        self.h = [[0.0] * len(x0) for _ in self.w]

    def round(self, x, clients, steps):
        lr, p = self.p["lr"], self.p["p"]
        models = [self.fed.descend(i, x, lr, q, shift=lin(-1, self.h[i], 0, x)) for i, q in zip(clients, steps)]
        after = mean([1] * len(models), models)
        self.h = [lin(1, h, p / lr, lin(1, after, -1, z)) for h, z in zip(self.h, models)]
        return after


class AsyncFedDR(Method):
    """[DR] Algorithm 2 with exact proxes; with init: exact every x_i is a prox before the first step, by (21)."""

    defaults = {"eta": 0.3, "alpha": 0.8, "tau": 6, "init": "exact", "regularizer": {"kind": "l1", "weight": 0.1}}
    uniform = True
    delays = 6

    def start(self, x0):
        n = range(len(self.w))
        self.y = [list(x0) for _ in n]
        exact = self.p.get("init") == "exact"
        self.x = [self.fed.prox(i, self.p["eta"], x0) if exact else list(x0) for i in n]
        self.hat = [lin(2, x, -1, y) for x, y in zip(self.x, self.y)]

    def event(self, x, client, steps):
        eta, alpha = self.p["eta"], self.p["alpha"]
        self.y[client] = lin(1, self.y[client], alpha, lin(1, x, -1, self.x[client]))
        self.x[client] = self.fed.prox(client, eta, self.y[client])
        self.hat[client] = lin(2, self.x[client], -1, self.y[client])
        return soft(mean([1] * len(self.hat), self.hat), eta * self.p["regularizer"]["weight"])


METHODS = {"asyncfeddr": AsyncFedDR, "fedavg": FedAvg, "fedlin": FedLin, "mime-lite": MimeLite, "scaffnew": Scaffnew}
OBJECTIVES = ("least_squares", "logistic")


# ---- cases ---------------------------------------------------------------------------------------------

CASE = {"seed": 1, "clients": 5, "features": 5, "rounds": 6, "l2": 0.05, "objective": "least_squares"}


def trajectory(case):
    """The model after every round of a case."""
    fed = Federation(case["objective"], case["clients"], case["weights"])
    method = METHODS[case["algorithm"]](fed, case["params"], case["x0"])
    models = [case["x0"]]
    for k, r in enumerate(case["rounds"]):
        if method.delays:
            models.append(method.event(models[k - r["delay"]], r["client"], r["steps"]))
        else:
            models.append(method.round(models[k], r["clients"], r["steps"]))
    return models[1:]


def events(rng, method, clients, count):
    """Who comes back when. A client works from no model older than its own last answer."""
    out, last = [], [0] * clients
    for k in range(count):
        i = rng.randrange(clients)
        out.append({"client": i, "delay": rng.randint(0, min(method.delays, k - last[i])), "steps": 1})
        last[i] = k + 1
    return out


def normal(rng, n, scale=1.0):
    return [round(rng.gauss(0, scale), 6) for _ in range(n)]


def client(rng, settings):
    """Samples of a linear model of the client's own, so that clients differ."""
    own = normal(rng, settings["features"], 1.5)
    rows = [normal(rng, settings["features"]) for _ in range(rng.randint(7, 13))]
    answers = [round(dot(a, own) + rng.gauss(0, 0.3), 6) for a in rows]
    if settings["objective"] == "logistic":
        answers = [1.0 if b > 0 else 0.0 for b in answers]
    return {"A": rows, "b": answers}


def make(name, settings, params):
    rng, method, n = random.Random(settings["seed"]), METHODS[name], settings["clients"]
    sizes = [1 if method.uniform else rng.randint(1, 8) for _ in range(n)]
    case = {"format": "golden-1", "name": name, "algorithm": name,
            "objective": {"kind": settings["objective"], "features": settings["features"], "l2": settings["l2"]},
            "clients": [client(rng, settings) for _ in range(n)],
            "weights": [s / sum(sizes) for s in sizes],
            "x0": normal(rng, settings["features"]), "params": params, "rounds": []}
    if method.delays:
        case["rounds"] = events(rng, method, n, settings["rounds"])
    for _ in range(0 if method.delays else settings["rounds"]):
        who = list(range(n)) if method.everyone else sorted(rng.sample(range(n), max(1, n // 2)))
        steps = [rng.randint(1, 6) for _ in who]
        case["rounds"].append({"clients": who, "steps": steps[:1] * len(who) if method.equal_steps else steps})
    case["expect"] = {"x": trajectory(case)}
    return case


def check(path):
    """The largest difference from what the file expects, relative to the largest entry of a model."""
    with open(path, encoding="utf-8") as file:
        case = json.load(file)
    if case["algorithm"] not in METHODS:
        sys.exit(f"{path}: {case['algorithm']} is not among {', '.join(METHODS)}")
    if case["objective"]["kind"] not in OBJECTIVES:
        sys.exit(f"{path}: objective {case['objective']['kind']} is not among {', '.join(OBJECTIVES)}")
    worst = 0.0
    for x, want in zip(trajectory(case), case["expect"]["x"]):
        worst = max(worst, max(abs(a - b) for a, b in zip(x, want)) / max(abs(b) for b in want))
    return worst


def value_of(text):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def main(args):
    if args[:1] == ["--check"]:
        for path in args[1:]:
            print(f"{path}: {check(path):.1e}")
        return
    if not args or args[0] not in METHODS or not all("=" in a for a in args[1:]):
        sys.exit(f"{__doc__}\nmethods: {', '.join(METHODS)}")
    given = {k: value_of(v) for k, v in (a.split("=", 1) for a in args[1:])}
    settings = {k: given.pop(k, v) for k, v in CASE.items()}
    if settings["objective"] not in OBJECTIVES:
        sys.exit(f"objective is one of {', '.join(OBJECTIVES)}")
    case = make(args[0], settings, {**METHODS[args[0]].defaults, **given})
    print(json.dumps(case, separators=(",", ":")))


main(sys.argv[1:])
