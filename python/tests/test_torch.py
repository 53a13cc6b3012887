"""Modules of PyTorch: the same as fedloom's own models, whatever the method; buffers, odd modules, what goes wrong."""

import gc
import warnings
import weakref

import numpy as np
import pytest

import fedloom

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset  # noqa: E402

import fedloom.torch as ft  # noqa: E402
import fedloom.torch_module  # noqa: E402

CLIENTS, EACH = 6, 20


def arrays(features=5, classes=3, n=CLIENTS * EACH + 40, dtype=np.float64):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(n, features))
    return x.astype(dtype), (x @ rng.normal(size=(features, classes))).argmax(axis=1)


def clients(x, y, count=CLIENTS):
    x, y = torch.tensor(x), torch.tensor(y)
    return [(x[i : i + EACH], y[i : i + EACH]) for i in range(0, count * EACH, EACH)]


def of(module, dtype=np.float64, **more):
    """A federation of the samples above, with the last 40 for the test."""
    x, y = arrays(dtype=dtype)
    test = torch.tensor(x[-40:]), torch.tensor(y[-40:])
    return ft.Federation(module, nn.CrossEntropyLoss(), clients(x, y), **{"test": test, **more})


def seeded(make):
    torch.manual_seed(7)
    return make()


def mlp():
    return seeded(lambda: nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).double())


SMALL = {
    "rounds": 4,
    "participation": "everyone",
    "local": {"lr": 0.1, "batch": 6, "epochs": 2},
    "metrics": {"every": 4},
    "progress": False,
}


def small(**more):
    return {**SMALL, **more}


def gap(a, b):
    """The largest difference of two runs' models."""
    return max(np.abs(a.model[k] - b.model[k]).max() for k in a.model)


# ---- the same as fedloom's own ---------------------------------------------------------------------------------------

METHODS = [
    "fedavg", {"kind": "fedprox", "mu": 0.3}, "fednova", "scaffold", "vrl-sgd", "feddyn", "fedpd", "fedvra", "fedadmm",
    "feddr", "fedsplit", "fedadam", "mime-lite", "fedlin", "scaffnew",
]  # fmt: skip


def softmax_runs(method, dtype, **more):
    """A linear layer, and fedloom's softmax from the same start."""
    x, y = arrays(dtype=dtype)
    n = CLIENTS * EACH
    layer = seeded(lambda: nn.Linear(5, 3).to(torch.float64 if dtype == np.float64 else torch.float32))
    settings = small(algorithm=method, **more)
    ours = of(layer, dtype, convex=True).run(**settings)
    data = fedloom.Data(x[:n], y[:n], sizes=[EACH] * CLIENTS, test=(x[n:], y[n:]), normalize="none")
    settings.pop("progress")
    theirs = fedloom.Run(data=data, model="softmax", precision="f64" if dtype == np.float64 else "f32", **settings)
    start = {name: p.detach().numpy() for name, p in layer.named_parameters()}
    own = theirs.model
    named = {k: next(v for v in start.values() if v.size == own[k].size).reshape(own[k].shape) for k in own}
    theirs.start_at(named)
    theirs.go()
    return ours, theirs


def flat(run):
    return np.sort(np.concatenate([v.reshape(-1) for v in run.model.values()]))


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_a_linear_layer_is_softmax(method):
    ours, theirs = softmax_runs(method, np.float64)
    assert np.abs(flat(ours) - flat(theirs)).max() < 1e-10
    assert ours.train_loss == pytest.approx(theirs.train_loss, abs=1e-10)
    assert ours.test_accuracy == theirs.test_accuracy
    assert ours.local_steps == theirs.local_steps


def test_fedgia_goes_by_the_curvature_of_the_start():
    """fedloom's softmax goes by a bound for every model, which an objective from elsewhere does not have."""
    ours, theirs = softmax_runs("fedgia", np.float64)
    assert np.abs(flat(ours) - flat(theirs)).max() > 1e-6
    assert ours.train_loss < np.log(3) and theirs.train_loss < np.log(3)


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedvra"])
def test_in_single_precision(method):
    ours, theirs = softmax_runs(method, np.float32)
    assert np.abs(flat(ours) - flat(theirs)).max() < 1e-4
    assert ours.model["weight"].dtype == np.float32


@pytest.mark.parametrize("dtype, within", [(torch.float32, 1e-6), (torch.float64, 1e-12)])
@pytest.mark.parametrize(
    "more",
    [{}, {"algorithm": "feddyn"}, {"algorithm": "scaffold", "model": {"weight_decay": 0.1}},
     {"local": {"lr": 0.1, "batch": 7, "epochs": 2, "momentum": 0.8}},
     {"algorithm": "fedasync", "system": "constant"}],
)  # fmt: skip
def test_whole_turns_are_single_steps(dtype, within, more):
    """SGD in PyTorch, a turn at a time, and fedloom's SGD, which asks for one gradient after the other."""
    module = mlp().to(dtype)
    fed = of(module, np.float32 if dtype is torch.float32 else np.float64)
    settings = small(**more)
    turns = fed.run(**settings)
    steps = fed.run(**{**settings, "local": {**settings["local"], "solver": "sgd"}})
    assert gap(turns, steps) < within
    assert gap(turns, fed.prepare(**settings)) > 1e-3


def test_threads_make_no_difference():
    fed = of(mlp())
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        one, four = fed.run("scaffold", **small(threads=1)), fed.run("scaffold", **small(threads=4))
        with fed.prepare("scaffold", **small(threads=1)) as steps, torch.no_grad():
            assert [row["round"] for row in steps] == [1, 2, 3, 4]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert gap(one, four) == 0
    assert gap(one, steps) == 0


def test_vectors_by_way_of_the_host(monkeypatch):
    """As on other devices, where vectors are staged in memory of the host."""
    expected = of(mlp()).run("feddyn", **SMALL)
    init = fedloom.torch_module.Flat.__init__

    def staged(self, *args):
        init(self, *args)
        self._host = torch.empty_like(self.x)

    monkeypatch.setattr(fedloom.torch_module.Flat, "__init__", staged)
    fed = of(mlp())
    assert gap(fed.run("feddyn", **SMALL), expected) == 0
    assert gap(fed.run("feddyn", **small(local={**SMALL["local"], "solver": "sgd"})), expected) < 1e-12


def test_the_gradient_is_that_of_differences():
    work = of(mlp())._work
    rng = np.random.default_rng(0)
    b = batch_of(range(3, 9))
    for x in (work.start, rng.normal(size=work.start.shape)):
        _, g, _ = work.batch(x, b)
        g, d = g.copy(), rng.normal(size=x.shape)
        slope = (work.batch(x + 1e-6 * d, b)[0] - work.batch(x - 1e-6 * d, b)[0]) / 2e-6
        assert slope == pytest.approx(g @ d, rel=1e-6)
        plus, minus = (work.batch(x + s * 1e-5 * d, b)[1].copy() for s in (1, -1))
        np.testing.assert_allclose(work.product(x, b, d), (plus - minus) / 2e-5, rtol=1e-4, atol=1e-7)


def batch_of(numbers, test=False, gradient=True):
    class Some:
        pass

    b = Some()
    b.sample, b.test, b.gradient, b.n = np.array(numbers, np.uint32), test, gradient, len(numbers)
    return b


# ---- loops of one's own ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("momentum", [0, 0.9])
@pytest.mark.parametrize("way", ["loss", "gradient"])
@pytest.mark.parametrize("method", ["scaffold", "fedprox", "fedvra", "feddyn"])
@pytest.mark.filterwarnings("ignore:.*with local.momentum:fedloom.FedloomWarning")
def test_terms_in_a_loop_of_ones_own(method, way, momentum):
    """The same to rounding, whatever the method: what a method makes of rounding errors is not in the loop."""
    fed = of(mlp())
    loss = nn.CrossEntropyLoss()

    class Loop(fedloom.Solver):
        def solve(self, local, problem):
            net = fed.module(problem.start)
            optimizer = torch.optim.SGD(net.parameters(), problem.lr, momentum=momentum)
            for _ in range(problem.steps):
                optimizer.zero_grad()
                x, y = fed.batch(local)
                value = loss(net(x), y)
                if way == "loss":
                    value = value + ft.terms(problem, net.parameters())
                value.backward()
                if way == "gradient":
                    ft.add_terms_(problem, net.parameters())
                optimizer.step()
            local.spent(momentum=momentum)
            return ft.take(net.parameters())

    local = {**SMALL["local"], "lr": 0.02}
    ours = fed.run(method, **small(rounds=12, threads=1, local={**local, "solver": Loop}))
    assert gap(ours, fed.run(method, **small(rounds=12, local={**local, "momentum": momentum}))) < 1e-12


def test_two_federations_of_one_name():
    """Each trains its own module, whichever was made last."""
    wide = seeded(lambda: nn.Linear(5, 3).double())
    one, two = of(mlp(), name="one_name"), of(wide, name="one_name")
    for fed, parameters in ((one, 66), (two, 18), (one, 66)):
        run = fed.prepare("fedavg", **SMALL)
        assert run.parameters == parameters
        run.go()


def test_a_vector_of_another_length_is_refused():
    with pytest.raises(fedloom.ConfigError, match=r"shape \(3,\), but the parameters have 66"):
        ft.put(np.zeros(3), mlp().parameters())


# ---- modules ---------------------------------------------------------------------------------------------------------


def test_what_comes_out():
    module = mlp()
    before = [p.clone() for p in module.parameters()]
    fed = of(module)
    result = fed.run("fedavg", **SMALL)
    assert all(torch.equal(p, q) for p, q in zip(module.parameters(), before))  # the given one is not touched
    x, y = arrays()
    with torch.no_grad():
        right = result.module(torch.tensor(x[-40:])).argmax(1).numpy() == y[-40:]
    assert right.mean() == result.test_accuracy
    assert isinstance(result.module, nn.Sequential) and result.module.training
    assert [*result.model] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    again = fed.run("fedavg", **SMALL)  # every run starts anew
    assert gap(again, result) == 0


def test_saved_and_loaded(tmp_path):
    fed = of(mlp())
    result = fed.run("fedavg", **small(output=str(tmp_path / "run")))
    loaded = fed.trained(fedloom.load(tmp_path / "run").tensors)
    assert all(torch.equal(p, q) for p, q in zip(loaded.parameters(), result.module.parameters()))


class Tied(nn.Module):
    """One matrix used twice, a frozen one, a scalar, five dimensions, one that is not contiguous, one without use."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(5, 5, bias=False)
        self.second = nn.Linear(5, 5, bias=False)
        self.second.weight = self.first.weight
        self.fixed = nn.Linear(5, 3)
        self.fixed.requires_grad_(False)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.deep = nn.Parameter(torch.ones(1, 1, 1, 1, 3))
        self.turned = nn.Parameter(torch.randn(4, 3).t())
        self.idle = nn.Parameter(torch.ones(2))

    def forward(self, x):
        return self.fixed(self.second(self.first(x))) * self.scale + self.deep.view(-1) + self.turned.sum(1)


def test_shared_frozen_and_odd_parameters():
    module = seeded(Tied).double()
    fed = of(module)
    result = fed.run("scaffold", **SMALL)
    assert result.parameters == 25 + 1 + 3 + 12 + 2
    trained = result.module
    assert trained.first.weight is trained.second.weight
    assert torch.equal(trained.fixed.weight, module.fixed.weight)
    assert torch.equal(trained.idle, module.idle)
    for name in ("scale", "deep", "turned"):
        old, new = getattr(module, name), getattr(trained, name)
        assert old.shape == new.shape and not torch.equal(old, new)
    assert gap(result, fed.run("scaffold", **small(local={**SMALL["local"], "solver": "sgd"}))) < 1e-12


def conv_net():
    layers = lambda: [nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)]  # noqa: E731
    return seeded(lambda: nn.Sequential(*layers()))


def images(count=4):
    rng = torch.Generator().manual_seed(5)
    y = torch.randint(0, 2, (count * EACH,), generator=rng)
    x = torch.randn(count * EACH, 1, 6, 6, generator=rng) * 3 + 5 + y[:, None, None, None]
    return x, y


def test_fresh_statistics():
    """Those of the trained module are the means over the clients' batches, and tests are taken with them."""
    x, y = images()
    parts = [(x[i : i + EACH], y[i : i + EACH]) for i in range(0, len(x), EACH)]
    module = conv_net()
    fed = ft.Federation(module, nn.CrossEntropyLoss(), parts, test=(x, y))
    result = fed.run("scaffold", **small(rounds=10))
    trained = result.module
    norm = trained[1]
    with torch.no_grad():
        inner = [trained[0](part) for part, _ in parts]
        mean = torch.stack([v.mean((0, 2, 3)) for v in inner]).mean(0)
        var = torch.stack([v.var((0, 2, 3)) for v in inner]).mean(0)
    torch.testing.assert_close(norm.running_mean, mean)
    torch.testing.assert_close(norm.running_var, var)
    assert torch.equal(module[1].running_mean, torch.zeros(4))
    trained.eval()
    with torch.no_grad():
        assert nn.functional.cross_entropy(trained(x), y).item() == pytest.approx(result.test_loss, rel=1e-5)
    assert result.test_loss < result.columns()["test_loss"][0]
    assert gap(result, fed.run("scaffold", **small(rounds=10))) == 0


def test_frozen_statistics():
    x, y = images()
    module = conv_net()
    module[1].running_mean.fill_(5.0)
    module[1].running_var.fill_(9.0)
    fed = ft.Federation(module, nn.CrossEntropyLoss(), [(x, y)], test=(x, y), buffers="frozen")
    result = fed.run("fedavg", **small(local={"lr": 0.01, "batch": 80, "steps": 1}, rounds=1))
    assert torch.equal(result.module[1].running_mean, module[1].running_mean)
    module.eval()
    nn.functional.cross_entropy(module(x), y).backward()  # a step with the statistics that it has
    expected = module[0].weight.detach() - 0.01 * module[0].weight.grad
    torch.testing.assert_close(result.module[0].weight.detach(), expected)


def test_dropout_repeats():
    module = seeded(lambda: nn.Sequential(nn.Linear(5, 9), nn.ReLU(), nn.Dropout(0.5), nn.Linear(9, 3)).double())
    fed = of(module)
    torch.manual_seed(1)
    drawn = torch.rand(3)
    torch.manual_seed(1)
    one = fed.run("scaffold", **small(threads=4))
    assert torch.equal(torch.rand(3), drawn)  # the user's random numbers are left alone
    assert gap(one, fed.run("scaffold", **small(threads=1))) == 0
    assert gap(one, fed.run("scaffold", **small(seed=2))) > 1e-4
    steps = {**SMALL["local"], "solver": "sgd"}
    assert gap(fed.run(**small(local=steps, threads=4)), fed.run(**small(local=steps))) == 0


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.LSTM(2, 4, batch_first=True)
        self.outer = nn.Linear(4, 1)

    def forward(self, x, scale):
        return self.outer(self.inner(x)[0][:, -1])[:, 0] * scale


class Walks(Dataset):
    """Items of two inputs and a number."""

    def __len__(self):
        return 12

    def __getitem__(self, i):
        walk = torch.linspace(0, i, 8).view(4, 2)
        return (walk, torch.tensor(1.0 + i)), walk.sum()


def test_data_sets_of_any_items_and_metrics():
    module = seeded(Sequence)
    metrics = {"norm": lambda m: sum(float(p.square().sum()) for p in m.parameters()) ** 0.5}
    fed = ft.Federation(module, nn.MSELoss(), [Walks(), Subset(Walks(), [1, 2, 3])], metrics=metrics)
    result = fed.run("fedavg", **small(local={"lr": 1e-4, "batch": 5, "epochs": 1}))
    columns = result.columns()
    assert columns["train_loss"][-1] < columns["train_loss"][0]
    assert "train_accuracy" not in columns
    expected = metrics["norm"](result.module.requires_grad_(False))
    assert columns["norm"][-1] == pytest.approx(expected)


def test_parts_of_tensors_are_taken_as_they_are():
    x, y = arrays()
    whole = TensorDataset(torch.tensor(x), torch.tensor(y))
    half = Subset(whole, range(1, 121, 2))
    parts = [Subset(half, range(0, 30)), Subset(half, range(30, 60))]
    fed = ft.Federation(mlp(), nn.CrossEntropyLoss(), parts)
    assert fed.clients.train[0].x is fed.clients.train[1].x
    same = [(torch.tensor(x[1:61:2]), torch.tensor(y[1:61:2])), (torch.tensor(x[61:121:2]), torch.tensor(y[61:121:2]))]
    other = ft.Federation(mlp(), nn.CrossEntropyLoss(), same)
    slow = ft.Federation(mlp(), nn.CrossEntropyLoss(), parts, collate=torch.utils.data.default_collate)
    assert gap(fed.run(**SMALL), other.run(**SMALL)) == 0
    assert gap(fed.run(**SMALL), slow.run(**SMALL)) == 0


def test_two_of_one_name():
    """Each keeps to its own loss; results of other samples, or of another start, go by another name."""
    x, y = arrays()
    twice = lambda output, target: 2 * nn.functional.cross_entropy(output, target)  # noqa: E731
    one, two = (ft.Federation(mlp(), loss, clients(x, y)) for loss in (nn.functional.cross_entropy, twice))
    assert one.name == two.name
    first, second, again = one.run(**SMALL), two.run(**SMALL), one.run(**SMALL)
    assert gap(first, again) == 0 and gap(first, second) > 1e-3
    other = mlp()
    nn.init.zeros_(other[0].bias)
    names = {one.name, of(other, test=None).name, of(mlp()).name, ft.Federation(mlp(), twice, clients(x + 1, y)).name}
    assert len(names) == 4


def test_compare(tmp_path):
    """A method that solves otherwise than by SGD among them."""
    fed = of(mlp())
    c = fed.compare(["fedavg", "fedgia", {"label": "prox", "algorithm": {"kind": "fedprox", "mu": 0.1}}], seeds=2,
                    output=str(tmp_path / "c"), jobs=2, **SMALL)  # fmt: skip
    assert c.runs == (6, 6)
    curve = next(k for k in c.curves() if k.method == "fedavg" and k.seed == 1)
    assert curve.columns["test_loss"][-1] == pytest.approx(fed.run("fedavg", **SMALL).test_loss, rel=1e-12)


# ---- what goes wrong -------------------------------------------------------------------------------------------------


def refused(text, make):
    with pytest.raises(fedloom.ConfigError, match=text) as e:
        make()
    return e.value


def test_modules_that_cannot_be_trained():
    refused("Sequential has no parameters to train", lambda: of(nn.Sequential(nn.ReLU())))
    refused("Linear has no parameters to train", lambda: of(nn.Linear(5, 3).requires_grad_(False)))
    refused("is of type torch.float16, but models are trained in", lambda: of(nn.Linear(5, 3).half()))
    turning = nn.Module()
    turning.phase = nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    refused("is of type torch.complex64", lambda: of(turning))
    refused("different types: 0.bias is torch.float32, 1.bias is torch.float64",
            lambda: of(nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 3).double())))  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        refused("has no shape yet: call the module", lambda: of(nn.LazyLinear(3)))
    refused("the module is a function", lambda: of(lambda x: x))
    refused("device is 'nowhere'", lambda: of(mlp(), device="nowhere"))
    refused("buffers is 'mine', but must be one of fresh, frozen", lambda: of(mlp(), buffers="mine"))


def test_samples_that_cannot_be():
    x, y = (torch.tensor(v) for v in arrays())
    loss = nn.CrossEntropyLoss()

    class Endless(IterableDataset):
        def __iter__(self):
            return iter(())

    refused("client 1 has no samples", lambda: ft.Federation(mlp(), loss, [(x, y), (x[:0], y[:0])]))
    refused("there are no clients", lambda: ft.Federation(mlp(), loss, []))
    refused("must be a list", lambda: ft.Federation(mlp(), loss, (x, y)))
    refused("a target for every input", lambda: ft.Federation(mlp(), loss, [(x, y[:5])]))
    refused("client 0 is an IterableDataset", lambda: ft.Federation(mlp(), loss, [Endless()]))
    refused("client 0 is a DataLoader", lambda: ft.Federation(mlp(), loss, [DataLoader(TensorDataset(x, y))]))
    refused("client 0 is a int", lambda: ft.Federation(mlp(), loss, [3]))
    e = refused(r"failed at its first samples.*input: float32 \(8, 5\), target: int64 \(8,\)",
                lambda: ft.Federation(mlp(), loss, [(x.float(), y)]))  # fmt: skip
    assert isinstance(e.__cause__, RuntimeError)
    refused(r"input: float64 \(8, 4\)", lambda: ft.Federation(mlp(), loss, [(x[:, :4], y)]))
    refused("the loss is a float64 .8,., but must be one number",
            lambda: ft.Federation(mlp(), nn.CrossEntropyLoss(reduction="none"), [(x, y)]))  # fmt: skip
    idle = lambda output, target: target.double().sum()  # noqa: E731
    refused("does not depend on the parameters", lambda: ft.Federation(mlp(), idle, [(x, y)]))


@pytest.mark.parametrize("solver", ["turns", "sgd"])
def test_a_loss_that_raises(solver):
    """Not at once, but at one client's samples: the sentence says where, and the cause is the exception itself."""
    x, y = arrays()
    y = y.copy()
    y[2 * EACH + 3] = 77

    def loss(output, target):
        if target.max() > 2:
            raise LookupError("no such class: 77")
        return nn.functional.cross_entropy(output, target)

    fed = ft.Federation(mlp(), loss, clients(x, y), correct=False)
    local = {**SMALL["local"], **({"solver": "sgd"} if solver == "sgd" else {})}
    metrics = {"train": False, "test": False, "clients": False}
    with pytest.raises(fedloom.Error, match="^Sequential failed at client 2.*no such class: 77") as e:
        fed.run(**small(local=local, metrics=metrics))
    assert isinstance(e.value.__cause__, LookupError)


def test_settings_that_do_not_fit():
    fed = of(mlp())
    refused("precision is f32, but the module's parameters are f64", lambda: fed.run(precision="f32"))
    refused("the model is the module", lambda: fed.run(model="softmax"))
    refused("algorithm", lambda: fed.run("fedavgg"))


def test_whether_there_are_accuracies():
    for correct, measured in ((None, True), (True, True), (False, False)):
        assert ("test_accuracy" in of(mlp(), correct=correct).run("fedavg", **SMALL).columns()) is measured


def test_nothing_stays():
    fed = of(conv_like())
    fed.run("fedavg", **SMALL)
    gone = [weakref.ref(v) for v in (fed, fed._work, fed._work.module, fed.clients, fed._objective)]
    name = fed.name
    assert fedloom.own.live_owner("model", name) is not None
    del fed
    gc.collect()
    assert [r() for r in gone] == [None] * len(gone)
    for section in ("model", "solver"):
        assert (section, name) not in fedloom.own._entries


def conv_like():
    return seeded(lambda: nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)).double())
