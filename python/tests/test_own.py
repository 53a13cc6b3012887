import gc
import warnings

import numpy as np
import pytest
from conftest import same

import fedloom
import fedloom.halves
from fedloom import Part, _core, own


@fedloom.objective(parameters=6, convex=True)
def squares(x, batch):
    r = batch.x @ x - batch.y
    return 0.5 * r @ r / batch.n, batch.x.T @ r / batch.n


class Averaging(fedloom.Method):
    """Federated averaging."""

    up = ("dx",)

    def answer(self, turn, answer):
        turn.up.dx = answer.z - turn.x

    def advance(self, server):
        server.x += server.sum.dx / server.cohort_weight


class Variates(fedloom.Method):
    """Control variates."""

    server, client, up = ("x", "c"), ("c_i",), ("dx", "dc")
    plain_sgd = True
    params = {"step": (1.0, 0.0, 2.0)}

    def pose(self, turn):
        return dict(start=turn.x, shift=turn.c - turn.c_i)

    def answer(self, turn, answer):
        new = turn.c_i - turn.c + (turn.x - answer.z) / (answer.weight * turn.lr)
        turn.up.dx, turn.up.dc = answer.z - turn.x, new - turn.c_i
        turn.c_i = new

    def absorb(self, server, upload):
        server.sum.dx += upload.dx / server.cohort
        server.sum.dc += upload.dc / server.clients

    def advance(self, server):
        server.x += self.step * server.sum.dx
        server.c += server.sum.dc


class Descent(fedloom.Solver):
    """Plain steps."""

    def solve(self, local, problem):
        z = problem.start.copy()
        for _ in range(problem.steps):
            _, g = local.batch(z)
            z -= problem.lr * problem.gradient(z, g)
        local.spent(momentum=0)
        return z


def close(a, b):
    return np.allclose(a.vectors["x"], b.vectors["x"], rtol=1e-9, atol=1e-12)


# ---- objectives --------------------------------------------------------------------------------------------------


def test_objective(regression):
    a = fedloom.run(regression, model=squares)
    assert a.train_loss < 0.1 * a.columns()["train_loss"][0]
    assert same(a, fedloom.run(regression, model="squares", threads=1))
    b = fedloom.run(regression, model="least_squares")
    assert close(a, b) and b.train_loss == pytest.approx(a.train_loss, rel=1e-6)


def test_objective_with_all_it_may_have(samples):
    x, y = samples

    @fedloom.objective(tensors={"w": (6, 3), "b": (3,)}, classifier=True)
    def mine(p, batch):
        w = mine.unpack(p)
        s = batch.x @ w["w"] + w["b"]
        s = np.exp(s - s.max(axis=1, keepdims=True))
        s /= s.sum(axis=1, keepdims=True)
        rows = np.arange(batch.n)
        loss = -np.log(s[rows, batch.y]).mean()
        correct = int((s.argmax(axis=1) == batch.y).sum())
        s[rows, batch.y] -= 1
        return loss, np.concatenate([(batch.x.T @ s).ravel(), s.sum(axis=0)]) / batch.n, correct

    @mine.start
    def begin(rng):
        return 0.01 * rng.normal(size=21)

    @mine.metrics("size_of_w")
    def size(p):
        return np.abs(p).max()

    r = fedloom.run(data=fedloom.Data(x, y, sizes=[30] * 10, test=(x, y)), model=mine, rounds=5, local={"lr": 0.5})
    assert r.model["w"].shape == (6, 3) and r.test_accuracy > 0.6
    assert r.columns()["size_of_w"][-1] == pytest.approx(np.abs(r.vectors["x"]).max(), rel=1e-6)


def test_objective_by_client():
    centres = np.arange(12.0).reshape(4, 3)

    @fedloom.objective(parameters=3, by_client=True, convex=True)
    def nearest(x, client):
        d = x - centres[client]
        return 0.5 * d @ d, d

    data = fedloom.Data(None, n=4, sizes=[1] * 4)
    r = fedloom.run(data=data, model=nearest, rounds=60, local={"lr": 0.2}, participation="everyone",
                    precision="f64")  # fmt: skip
    assert np.allclose(r.vectors["x"], centres.mean(axis=0), atol=1e-3)


class Oops(Exception):
    pass


def test_objectives_that_fail(regression, capfd):
    @fedloom.objective(parameters=6)
    def failing(x, batch):
        raise Oops("too hot")

    with pytest.raises(Oops, match="too hot") as e:
        fedloom.run(regression, model=failing)
    assert "failing" in str(e.traceback[-1])
    cases = {
        "must return": lambda x, b: 3.0,
        r"the shape \(2,\)": lambda x, b: (1.0, np.zeros(2)),
        "read-only": lambda x, b: x.fill(1),
    }
    for sentence, function in cases.items():
        bad = fedloom.objective(function, parameters=6, name="bad")
        with pytest.raises(Exception, match=sentence):
            fedloom.run(regression, model=bad)
    assert capfd.readouterr().err == ""
    with pytest.raises(fedloom.ConfigError, match="number of its parameters"):
        fedloom.objective(lambda x, b: 1)


# ---- solvers -----------------------------------------------------------------------------------------------------


def test_solver(regression):
    a = fedloom.run(regression, model=squares)
    b = fedloom.run(regression, model=squares, **{"local.solver": Descent})
    assert close(a, b)
    assert close(fedloom.run(regression, model=squares, algorithm="feddyn"),
                 fedloom.run(regression, model=squares, algorithm="feddyn", local={**regression["local"],
                                                                                     "solver": Descent}))  # fmt: skip


def test_solvers_that_fail(regression, capfd):
    class Failing(fedloom.Solver):
        def solve(self, local, problem):
            raise Oops(f"client {local.client}")

    with pytest.raises(Oops):
        fedloom.run(regression, model=squares, **{"local.solver": Failing})

    class Short(fedloom.Solver):
        def solve(self, local, problem):
            return np.zeros(2)

    with pytest.raises(fedloom.ConfigError, match=r"the shape \(2,\)"):
        fedloom.run(regression, model=squares, **{"local.solver": Short})

    @fedloom.objective(parameters=6)
    def broken(x, batch):
        raise Oops("inside")

    with pytest.raises(Oops, match="inside"):
        fedloom.run(regression, model=broken, **{"local.solver": Descent}, metrics={"every": 100})
    assert capfd.readouterr().err == ""


# ---- methods -----------------------------------------------------------------------------------------------------


def test_methods_do_what_fedloom_does(regression):
    base = {**regression, "model": squares}
    assert close(fedloom.run(base, algorithm="fedavg"), fedloom.run(base, algorithm=Averaging))
    assert close(fedloom.run(base, algorithm="scaffold"), fedloom.run(base, algorithm=Variates))
    halved = fedloom.run(base, algorithm=Variates(step=0.5))
    assert not close(halved, fedloom.run(base, algorithm=Variates))
    assert same(halved, fedloom.run(base, algorithm={"kind": "Variates", "step": 0.5}, threads=1))


@pytest.mark.parametrize("method", [Averaging, Variates])
def test_conform(method):
    assert fedloom.conform(method)


def test_methods_compared(regression, tmp_path):
    c = fedloom.compare(regression, model=squares, methods=["fedavg", Averaging, Variates(step=0.5)],
                        output=tmp_path / "c")  # fmt: skip
    assert c.runs == (3, 3)
    assert c.columns()["train_loss_mean"][0] == pytest.approx(c.columns()["train_loss_mean"][1])


def test_numbers_and_values(regression):
    class Counting(fedloom.Method):
        up = {"z": "value"}
        up_numbers = ("one",)
        server_numbers = ("uploads",)
        client_numbers = ("turns",)
        uniform = True

        def answer(self, turn, answer):
            turn.up.z = answer.z
            turn.up.one = 1.0
            turn.turns += 1

        def absorb(self, server, upload):
            server.sum.z += upload.z
            server.sum.one += upload.one

        def advance(self, server):
            server.uploads += server.sum.one
            server.x = server.sum.z / server.sum.one

    a = fedloom.run(regression, model=squares, algorithm=Counting)
    assert list(a.client(2)["scalars"]) == [10.0]


def test_methods_that_cannot_be(regression, capfd):
    with pytest.raises(fedloom.ConfigError, match="fedavg comes with fedloom"):
        type("Taken", (fedloom.Method,), {"name": "fedavg", "up": ("dx",)})
    with pytest.raises(fedloom.ConfigError, match="sends nothing up"):
        type("Silent", (fedloom.Method,), {})
    with pytest.raises(fedloom.ConfigError, match="'round' twice, or it has a meaning"):
        type("Odd", (fedloom.Method,), {"up": ("dx",), "client": ("round",)})
    with pytest.raises(fedloom.ConfigError, match="no parameter 'nu'"):
        Variates(nu=3)
    with pytest.raises(fedloom.ConfigError, match="step"):
        fedloom.run(regression, model=squares, algorithm=Variates(step=5.0))

    class Wrong(Averaging):
        def answer(self, turn, answer):
            turn.up.dx = np.zeros(3)

    with pytest.raises(fedloom.ConfigError, match=r"turn.up.dx has the shape \(3,\)"):
        fedloom.run(regression, model=squares, algorithm=Wrong)

    class Unknown(Averaging):
        def advance(self, server):
            server.nothing += 1

    with pytest.raises(AttributeError, match="server has no 'nothing'"):
        fedloom.run(regression, model=squares, algorithm=Unknown)

    class Writes(Averaging):
        def pose(self, turn):
            turn.x[0] = 1

    with pytest.raises(ValueError, match="read-only"):
        fedloom.run(regression, model=squares, algorithm=Writes)

    class Unposed(Averaging):
        def pose(self, turn):
            return None

    with pytest.raises(fedloom.ConfigError, match="must return a dict"):
        fedloom.run(regression, model=squares, algorithm=Unposed)
    assert capfd.readouterr().err == ""


# ---- lives -------------------------------------------------------------------------------------------------------


def test_defining_again_replaces(regression):
    def define(factor):
        @fedloom.objective(parameters=6, name="again")
        def again(x, batch):
            return factor * 0.5 * x @ x + factor, factor * x

        return again

    first = define(1.0)
    a = fedloom.run(regression, model=first, rounds=1)
    second = define(2.0)
    b = fedloom.run(regression, model="again", rounds=1)
    assert a.columns()["train_loss"][0] == 1.0 and b.columns()["train_loss"][0] == 2.0
    del first
    gc.collect()
    assert fedloom.run(regression, model="again", rounds=1).columns()["train_loss"][0] == 2.0
    del second, a, b
    gc.collect()
    with pytest.raises(fedloom.ConfigError, match="again"):
        fedloom.run(regression, model="again", rounds=1)


def test_what_is_gone_is_forgotten(regression):
    class Shortlived(Averaging):
        pass

    r = fedloom.run(regression, model=squares, algorithm="Shortlived", rounds=1)
    del Shortlived
    gc.collect()
    assert r.round == 1 and r.algorithm == "Shortlived"
    del r
    gc.collect()
    assert ("algorithm", "Shortlived") not in own._entries
    assert "Shortlived" not in fedloom.list("algorithms")


def test_what_leads_to_its_own_run_goes_with_it(regression, tmp_path):
    def work():
        made = []

        @fedloom.objective(parameters=6)
        def circular(x, batch):
            return float(len(made)), np.zeros(6)

        made.append(fedloom.run(regression, model=circular, rounds=1))
        made.append(fedloom.compare(regression, model="circular", methods=["fedavg"], rounds=1, output=tmp_path / "c"))
        data = {"kind": "joined", "shape": [6], "classes": 0}
        made.append(fedloom.halves.Server(data=data, model=circular, partition={"clients": 2}))

    gc.collect()
    before = _core.users._alive
    work()
    gc.collect()
    assert _core.users._alive == before and ("model", "circular") not in own._entries


# ---- an object is used as given ----------------------------------------------------------------------------------


def solver_called_same(k, used):
    class Same(fedloom.Solver):
        def solve(self, local, problem):
            used.append(k)
            return problem.start + k

    return Same


def method_called_same(k, used):
    class Same(fedloom.Method):
        up = ("dx",)

        def answer(self, turn, answer):
            used.append(k)
            turn.up.dx = answer.z - turn.x

        def advance(self, server):
            server.x += k * server.sum.dx / server.cohort_weight

    return Same


def objective_called_same(k, used):
    @fedloom.objective(parameters=6, name="same")
    def same(x, batch):
        used.append(k)
        return 0.5 * k * x @ x, k * x

    return same


@pytest.mark.parametrize("make, key", [(solver_called_same, "local.solver"), (method_called_same, "algorithm"),
                                       (objective_called_same, "model")])  # fmt: skip
@pytest.mark.parametrize("executor", ["threads", "loopback"])
def test_an_object_is_used_as_given(regression, make, key, executor):
    used = []
    first, second = make(1, used), make(2, used)
    base = {**regression, "model": squares, "rounds": 1, "executor": executor}
    for k, thing in ((1, first), (2, second), (1, first)):
        used.clear()
        fedloom.run({**base, key: thing})
        assert set(used) == {k}
    used.clear()
    fedloom.run({**base, key: second.name})  # a name means what was defined last
    assert set(used) == {2}


def test_instances_of_methods_are_used_as_given(regression):
    used = []
    first, second = method_called_same(1, used), method_called_same(2, used)
    run = fedloom.run(regression, model=squares, algorithm=first(), rounds=1)
    assert set(used) == {1} and run.algorithm == "Same"
    used.clear()
    assert fedloom.conform(first) and set(used) == {1}
    used.clear()
    fedloom.run(regression, model=squares, algorithm=second(), rounds=1)
    assert set(used) == {2}


def test_what_is_defined_between_settings_and_run_does_not_count(regression):
    used = []
    first = solver_called_same(1, used)
    run = fedloom.Run(regression, model=squares, rounds=1, **{"local.solver": first})
    assert solver_called_same(2, used)
    run.go()
    assert set(used) == {1}


def test_methods_of_one_name_are_compared(regression, tmp_path):
    used = []
    first, second = method_called_same(1, used), method_called_same(0.5, used)
    rows = [{"label": "whole", "algorithm": first}, {"label": "half", "algorithm": second}]
    c = fedloom.compare(regression, model=squares, methods=rows, output=tmp_path / "c")
    loss = c.columns()["train_loss_mean"]
    assert list(c.columns()["method"]) == ["whole", "half"] and loss[0] < loss[1] and set(used) == {1, 0.5}
    solvers = [solver_called_same(k, used) for k in (0, 0.1)]
    c = fedloom.compare(regression, model=squares, methods=["fedavg"], grid={"local.solver": solvers},
                        output=tmp_path / "g")  # fmt: skip
    assert len(set(c.columns()["train_loss_mean"])) == 2


def test_files_have_names_as_people_know_them(regression, tmp_path):
    base = {**regression, "model": squares, "rounds": 2, "local": {**regression["local"], "solver": Descent}}
    fedloom.run(base, algorithm=Variates(step=0.5), output=tmp_path / "run")
    fedloom.compare(base, methods=[Averaging, Variates], grid={"local.solver": ["sgd", Descent]},
                    output=tmp_path / "compare")  # fmt: skip
    fedloom.compare(base, methods=[{"algorithm": Variates}, {"algorithm": Averaging}], output=tmp_path / "labels")
    assert fedloom.compare(base, algorithm=Averaging, output=tmp_path / "one").columns()["method"][0] == "Averaging"
    found = fedloom.tune(base, methods=[Averaging], budget=2, seeds=1, output=tmp_path / "tune")
    assert "Averaging" in (tmp_path / "tune/best.yaml").read_text() and found.winners
    for path in (p for p in tmp_path.rglob("*") if p.is_file()):
        assert "@" not in path.name
        for name in (b"Averaging@", b"Variates@", b"Descent@", b"squares@"):
            assert name not in path.read_bytes(), path


# ---- an instance per run -----------------------------------------------------------------------------------------


class Median(fedloom.Method):
    """Keeps uploads where it should not."""

    up = ("dx",)

    def answer(self, turn, answer):
        turn.up.dx = answer.z - turn.x

    def kept(self):
        return self.__dict__.setdefault("_kept", [])

    def absorb(self, server, upload):
        self.kept().append(upload.dx.copy())

    def advance(self, server):
        if self.kept():
            server.x += np.median(np.stack(self.kept()), axis=0)
        self.kept().clear()


class Shared(Median):
    """Keeps them where all runs are."""

    everywhere = []

    def kept(self):
        return Shared.everywhere


def test_state_on_self_does_not_cross_runs(regression):
    alone = fedloom.run(regression, model=squares, algorithm=Median, threads=1)

    class Inner(fedloom.Solver):
        """In the midst of a round another run of the method takes rounds."""

        def solve(self, local, problem):
            if local.client == 9:  # the others have been absorbed
                fedloom.run(regression, model=squares, algorithm=Median, rounds=1, threads=1, seed=7)
            return Descent().solve(local, problem)

    disturbed = fedloom.run(regression, model=squares, algorithm=Median, threads=1, **{"local.solver": Inner})
    assert close(alone, disturbed)


def test_a_run_that_dies_leaves_nothing_to_the_next(regression):
    dying = [True]

    class Dies(Median):
        def advance(self, server):
            if dying[0]:
                raise Oops("in mid-round")
            super().advance(server)

    with pytest.raises(Oops):
        fedloom.run(regression, model=squares, algorithm=Dies, seed=7)
    dying.clear(), dying.append(False)
    assert same(fedloom.run(regression, model=squares, algorithm=Dies, threads=1),
                fedloom.run(regression, model=squares, algorithm=Median, threads=1))  # fmt: skip


def test_instances_go_with_their_runs(regression):
    run = fedloom.Run(regression, model=squares, algorithm=Median)
    assert len(Median._instances) == 1
    del run
    gc.collect()
    assert not Median._instances


def test_a_method_that_cannot_be_made(regression, capfd):
    class Unmade(Averaging):
        def __init__(self, **params):
            raise Oops("not today")

    with pytest.raises(Oops, match="not today"):
        fedloom.run(regression, model=squares, algorithm=Unmade)
    assert capfd.readouterr().err == ""


def test_conform_interleaves_runs():
    assert "between its uploads another run takes rounds" in fedloom.conform(Median)
    with pytest.raises(fedloom.Error, match="Shared does not conform.*between its uploads another run takes rounds"):
        fedloom.conform(Shared)


# ---- the weight of a solver's gradients --------------------------------------------------------------------------


class Heavy(fedloom.Solver):
    """SGD with momentum."""

    says: dict = {}

    def solve(self, local, problem):
        z, m = problem.start.copy(), np.zeros(local.n)
        for _ in range(problem.steps):
            _, g = local.batch(z)
            m = 0.9 * m + problem.gradient(z, g)
            z -= problem.lr * m
        local.spent(**self.says)
        return z


class Weighs(Heavy):
    says = {"momentum": 0.9}


def unsaid(method, solver, settings):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = fedloom.run(settings, model=squares, algorithm=method, **{"local.solver": solver})
    return run, [w for w in caught if issubclass(w.category, fedloom.FedloomWarning)
                 and "has not said the weight of its gradients" in str(w.message)]  # fmt: skip


@pytest.mark.parametrize("method", ["scaffold", Variates])
def test_a_solver_that_does_not_say_its_weight_is_warned_of(regression, method):
    local = {**regression["local"], "lr": 0.005}
    settings = {**regression, "local": local}
    wrong, caught = unsaid(method, Heavy, settings)
    assert len(caught) == 1 and "is defined for plain SGD: solver Heavy" in str(caught[0].message)
    right, caught = unsaid(method, Weighs, settings)
    assert not caught
    with pytest.warns(fedloom.FedloomWarning, match="is defined for plain SGD: with local.momentum"):
        built_in = fedloom.run(settings, model=squares, algorithm=method, **{"local.momentum": 0.9})
    assert close(built_in, right) and not close(built_in, wrong)


def test_fednova_divides_by_it(regression):
    settings = {**regression, "local": {**regression["local"], "lr": 0.005}}
    right, caught = unsaid("fednova", Weighs, settings)
    built_in = fedloom.run(settings, model=squares, algorithm="fednova", **{"local.momentum": 0.9})
    assert not caught and close(right, built_in)
    _, caught = unsaid("fednova", Heavy, settings)
    assert len(caught) == 1 and "fednova divides by the weight of the gradients" in str(caught[0].message)


def test_methods_that_do_not_read_it_do_not_warn(regression):
    assert not unsaid("fedavg", Heavy, regression)[1]
    with pytest.raises(fedloom.ConfigError, match="momentum is 1"):
        unsaid("fedavg", type("Odd", (Heavy,), {"says": {"momentum": 1}}), regression)


# ---- what some methods have beside that ----------------------------------------------------------------------------


class GradientFirst(Descent):
    """A gradient over all samples, then steps."""

    full_gradient = True

    def solve(self, local, problem):
        _, g = local.loss(problem.start)
        z = super().solve(local, problem)
        local.spent(steps=problem.steps + -(-local.samples // local.batch_size), gradient=g)
        return z


class Lite(fedloom.Method):
    """Mime-lite, by a solver of one's own that answers the gradient at the start as well."""

    server, up = ("x", "m"), ("dx", "g")
    params = {"beta": (0.9, 0.0, 0.99)}
    solver = "GradientFirst"

    def pose(self, turn):
        return dict(start=turn.x, shift=self.beta / (1 - self.beta) * turn.m, lr=(1 - self.beta) * turn.lr)

    def answer(self, turn, answer):
        turn.up.dx, turn.up.g = answer.z - turn.x, answer.gradient

    def advance(self, server):
        server.m = self.beta * server.m + (1 - self.beta) * server.sum.g / server.cohort_weight
        server.x += server.sum.dx / server.cohort_weight


def test_solver_answers_the_gradient(regression):
    ours, theirs = (fedloom.run(regression, model=squares, algorithm=m) for m in (Lite, "mime-lite"))
    assert close(ours, theirs)
    assert np.array_equal(ours.columns()["local_steps"], theirs.columns()["local_steps"])
    assert fedloom.conform(Lite)

    class Hasty(GradientFirst):
        full_gradient = False

    with pytest.raises(fedloom.ConfigError, match="full_gradient"):
        fedloom.run(regression, model=squares, algorithm="fedavg", **{"local.solver": Hasty})


class Skipping(Averaging):
    """ProxSkip: a random number of local steps."""

    client, client_numbers = ("h",), ("s",)
    params = {"p": (0.2, 1e-5, 1.0)}
    everyone = uniform = equal_lr = plain_sgd = True

    def local_steps(self, coin):
        return 1 + int(np.log1p(-coin) / np.log1p(-self.p))

    def pose(self, turn):
        turn.h -= turn.s * turn.x
        return dict(start=turn.x, shift=turn.h)

    def answer(self, turn, answer):
        turn.s = self.p / (turn.lr * answer.weight / turn.steps)
        turn.h += turn.s * answer.z
        super().answer(turn, answer)


class Buffered(Averaging):
    """FedBuff, without the age of uploads."""

    uniform = True
    params = {"size": (4, 1, 100), "tau": (7, 0, 100)}

    def pace(self):
        return self.size, self.tau

    def absorb(self, server, upload):
        server.sum.dx += upload.dx

    def advance(self, server):
        server.x += server.sum.dx / self.size


class Linear(fedloom.Method):
    """FedLin, by stages; the model is looked up in the round's history."""

    server, client = ("x", "g"), ("g_i",)
    down = {"x": Part("keep_each", phases=(0,)), "g": Part(phases=(1,))}
    up = {"u": "value"}
    solver = "gradient|sgd"

    def count_phases(self, coin):
        return 2

    def stage(self, phase, phases):
        return phase

    def pose(self, turn):
        return dict(start=turn.history(0), shift=turn.g - turn.g_i) if turn.stage else dict(start=turn.x)

    def answer(self, turn, answer):
        if turn.stage == 0:
            turn.g_i = answer.gradient
        turn.up.u = answer.z - turn.history(0) if turn.stage else answer.gradient

    def advance(self, server):
        if server.stage == 0:
            server.g = server.sum.u / server.cohort_weight
        else:
            server.x += server.sum.u / server.cohort_weight


class Mixed(Averaging):
    """APFL with a fixed mixture."""

    client, own_model, solver, sends_start = ("own_i",), "own_i", "pair", True

    def pose(self, turn):
        if turn.first:
            turn.own_i = turn.initial
        return dict(start=turn.x, own=turn.own_i, own_lr=turn.lr, own_mix=0.75)

    def answer(self, turn, answer):
        super().answer(turn, answer)
        assert answer.own_mix == 0.75
        turn.own_i = answer.own

    def mix(self, client, numbers):
        return 0.75


def test_functions_of_parameters(regression):
    base = {**regression, "model": squares, "participation": "everyone"}
    assert close(fedloom.run(base, algorithm={"kind": "scaffnew", "p": 0.2}), fedloom.run(base, algorithm=Skipping))
    assert close(fedloom.run(base, algorithm="fedlin"), fedloom.run(base, algorithm=Linear))
    at_work = {**base, "participation": {"kind": "uniform", "count": 3}, "system": "lognormal", "rounds": 20}
    ours = fedloom.run(at_work, algorithm=Buffered)
    theirs = fedloom.run(at_work, algorithm={"kind": "fedbuff", "buffer": 4, "tau": 7, "power": 0})
    assert close(ours, theirs)


def test_mixture_of_models(samples):
    base = dict(data=samples, model="softmax", rounds=4, partition={"kind": "iid", "clients": 4},
                metrics={"local": True})  # fmt: skip
    ours = fedloom.run(base, algorithm=Mixed)
    theirs = fedloom.run(base, algorithm={"kind": "apfl", "mix": 0.75})
    assert ours.columns()["local_train_loss"] == pytest.approx(theirs.columns()["local_train_loss"], nan_ok=True)


@pytest.mark.parametrize("method", [Skipping, Buffered, Linear, Mixed])
def test_conform_of_groups(method):
    assert fedloom.conform(method)


class Careful(Averaging):
    """Federated averaging that knows its theorem."""

    tune = {"local.lr": (0.01, 1.0)}

    def check(self, facts, theorem):
        theorem.condition("(7)", "lr <= 1/(2 L)", facts.lr, 1 / (2 * facts.smoothness))
        theorem.requirement("cohorts", "everyone takes part", facts.probability == 1)
        theorem.assumption("data", "clients are alike")

    def fix(self, worst, fixes):
        fixes.most("(7)", "local.lr", 1 / (2 * worst.smoothness), "half of what is stable")

    def warn(self, facts):
        return "this is a long way" if facts.steps > 3 else None


def test_theory(capfd):
    base = {"data": {"kind": "blobs", "samples": 100}, "model": "softmax", "partition": {"kind": "iid", "clients": 4},
            "participation": "everyone", "local": {"lr": 10.0}}  # fmt: skip
    text = fedloom.check(base, algorithm=Careful).text
    assert "lr <= 1/(2 L)" in text and "fails" in text and "everyone takes part" in text and "assumed" in text
    assert "local.lr" in text and "half of what is stable" in text


class Falling(Averaging):
    """Federated averaging, with a potential that is its objective and the steps of the model."""

    potential, potential_keeps, potential_keeps_numbers = "V", ("last",), ("turns",)
    weight = 0.5

    def answer(self, turn, answer):
        super().answer(turn, answer)
        if turn.watched:
            turn.last = answer.z
            turn.turns += 1

    def potential_client(self, turn, f, gradient):
        if not hasattr(turn, "turns"):
            return (f,)
        assert turn.turns == 0 or abs(turn.last).max() > 0
        with pytest.raises(AttributeError):
            turn.turns = 7
        return f, turn.turns

    def potential_server(self, server, sums, g):
        return sums[0] + g + self.weight * server.moves.sum() + 100 * sums[1]

    def potential_remembers(self):
        return 2

    def potential_falls(self, facts, theorem):
        theorem.requirement("steps", "one step is taken", facts.steps == 1)


def test_potential(regression):
    settings = {**regression, "model": squares, "rounds": 4, "metrics": {"potential": True}}
    run = fedloom.run(settings, algorithm=Falling)
    columns = run.columns()
    x = [fedloom.run(settings, algorithm=Falling, rounds=k).model["x"] for k in range(1, 5)]
    moves = [np.sum((b - a) ** 2) for a, b in zip(x, x[1:])]
    expected = columns["train_loss"][-1] + 0.5 * sum(moves[-2:]) + 100 * 4
    assert columns["potential"][-1] == pytest.approx(expected, rel=1e-5)
    assert same(run, fedloom.run(settings, algorithm=Falling, executor="loopback"))
    assert same(run, fedloom.run({**settings, "metrics": {}}, algorithm=Averaging))
    assert fedloom.conform(Falling)


def test_potential_that_fails(regression):
    class Nowhere(Falling):
        def potential_point(self, turn):
            raise Oops("where?")

    class Long(Falling):
        def potential_client(self, turn, f, gradient):
            return 1, 2, 3

    class Lost(Falling):
        def potential_server(self, server, sums, g):
            raise Oops("how much?")

    settings = {**regression, "model": squares, "metrics": {"potential": True}}
    for method, error, match in ((Nowhere, Oops, "where"), (Long, fedloom.ConfigError, "more than 2 numbers"),
                                 (Lost, Oops, "how much")):  # fmt: skip
        with pytest.raises(error, match=match):
            fedloom.run(settings, algorithm=method)


def test_functions_of_parameters_that_fail(regression, capfd):
    class Hesitates(Averaging):
        def local_steps(self, coin):
            raise Oops("how many?")

    with pytest.raises(Oops, match="how many"):
        fedloom.run(regression, model=squares, algorithm=Hesitates)
    assert capfd.readouterr().err == ""
