"""fedloom's methods, carried by Flower's simulation engine, against fedloom's own runs of the same federations.

Starting Flower takes seconds, so one simulation does it all: its server runs one federation after the other.
"""

from __future__ import annotations

import os

os.environ.update(FLWR_TELEMETRY_ENABLED="0", FLWR_DISABLE_UPDATE_CHECK="1", RAY_USAGE_STATS_ENABLED="0")
os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"  # else ray warns

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed")
pytest.importorskip("ray", reason="Flower's simulation engine needs ray")

try:
    import torch
except ImportError:
    torch = None

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation

import fedloom
import fedloom.flower

CLIENTS, FEATURES, CLASSES, ROUNDS = 4, 5, 3, 10
STRICT = {"server": {"failed": "end"}}  # a turn that fails ends the run

COMMON = {
    "model": "softmax",
    "precision": "f64",
    "rounds": ROUNDS,
    "seed": 7,
    "local": {"steps": 3, "batch": 0, "lr": 0.3},
    "participation": {"kind": "everyone"},
    "metrics": {"every": 5},
}
CASES = {
    "fedavg": {"algorithm": "fedavg"},
    "scaffold": {"algorithm": "scaffold"},
    "fedvra": {"algorithm": "fedvra"},
    "feddyn": {"algorithm": "feddyn"},
    "feddr": {"algorithm": "feddr"},
    "fedgia": {"algorithm": "fedgia"},
    "scaffold, two of four": {"algorithm": "scaffold", "participation": {"kind": "uniform", "count": 2}},
    "fedvra, mini-batches": {"algorithm": "fedvra", "local": {"steps": 3, "batch": 4, "lr": 0.3}},
}
TORCH = {"algorithm": "scaffold", "precision": "f32"}
JOINED = {"data": {"kind": "joined", "shape": [FEATURES], "classes": CLASSES}, "partition": {"clients": CLIENTS}}


def samples(client: int) -> tuple[np.ndarray, np.ndarray]:
    """Clients of different sizes, each with its own mixture of classes."""
    rng = np.random.default_rng(100 + client)
    y = rng.choice(CLASSES, 12 + 5 * client, p=np.roll([0.6, 0.3, 0.1], client)).astype(np.int32)
    return np.eye(CLASSES, FEATURES)[y] + rng.normal(size=(len(y), FEATURES)), y


def linear():
    """Softmax regression as a PyTorch module."""

    @fedloom.objective(tensors={"weight": (CLASSES, FEATURES), "bias": (CLASSES,)}, classifier=True)
    def torch_linear(x, batch):
        net = torch.nn.Linear(FEATURES, CLASSES)
        torch.nn.utils.vector_to_parameters(torch.tensor(x), net.parameters())
        out, y = net(torch.tensor(batch.x)), torch.tensor(batch.y).long()
        loss = torch.nn.functional.cross_entropy(out, y)
        gradient = torch.autograd.grad(loss, list(net.parameters()))
        return loss.item(), torch.cat([g.ravel() for g in gradient]).numpy(), (out.argmax(1) == y).sum()

    return torch_linear


def moody():
    """An objective that client 1 cannot evaluate."""

    @fedloom.objective(parameters=FEATURES, name="moody")
    def function(x, batch):
        if batch.n == len(samples(1)[1]):
            raise ArithmeticError("not in the mood")
        return 0.5 * x @ x, x

    return function


# ---- the app: fedloom's mod in an app that has functions of its own --------------------------------------------------


def data(context):
    return fedloom.Data(*samples(context.node_config["partition-id"]), classes=CLASSES)


def failing(message, context, call_next):
    """Once told to, client 2 fails in its third turn."""
    told = "fail" in context.state and context.node_config["partition-id"] == 2
    if told and context.state["fedloom"]["turn"] == 2:
        raise RuntimeError("the client's disk\nis full")
    return call_next(message, context)


def client_app() -> ClientApp:
    app = ClientApp(mods=[failing, fedloom.flower.mod(data, uses=lambda: [moody(), torch and linear()], keep=1)])

    @app.train()
    def train(message, context):
        context.state["fail"] = message.content["fail"]
        return Message(RecordDict({"mine": ConfigRecord({"node": context.node_id})}), reply_to=message)

    return app


def carried(grid, settings: dict, **how) -> dict:
    """One federation on Flower: the model before the first round and after each, Flower's result, fedloom's run."""
    models: list = []
    strategy = fedloom.flower.Strategy({**COMMON, **JOINED, **settings})
    result = strategy.start(grid, evaluate_fn=lambda k, arrays: models.append(vector(arrays)), **how)
    return {"models": models, "result": result, "run": strategy.run}


@pytest.fixture(scope="module")
def simulation() -> dict:
    """What came of each federation, by its name."""
    got: dict = {}
    server = ServerApp()

    @server.main()
    def main(grid, context):
        module = {"torch": {**TORCH, "model": linear()}} if torch else {}
        for name, settings in {**CASES, **module}.items():
            got[name] = carried(grid, settings)
        got["again"] = carried(grid, {}, initial_arrays=got["fedavg"]["result"].arrays, num_rounds=1)
        got["moody"] = pytest.raises(fedloom.Error, carried, grid, {"model": moody(), **STRICT}).value
        messages = [Message(RecordDict({"fail": ConfigRecord({})}), node, "train") for node in grid.get_node_ids()]
        got["mine"] = grid.send_and_receive(messages)
        got["failed"] = pytest.raises(fedloom.Error, carried, grid, {}).value
        got["alone"] = pytest.raises(fedloom.Error, carried, grid, {"partition": {"clients": 5}}, timeout=0.5).value

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 2}}
    try:
        run_simulation(server, client_app(), CLIENTS, backend_config=resources)
    except Exception:  # on a busy machine ray's own processes have been seen to abort; what is ours fails again
        got.clear()
        run_simulation(server, client_app(), CLIENTS, backend_config=resources)
    return got


def vector(arrays) -> np.ndarray:
    return np.concatenate([a.numpy().ravel() for a in arrays.values()])


def own_run(settings: dict) -> tuple[list[np.ndarray], fedloom.Run]:
    """The same federation without Flower: the model before the first round and after each, and the run."""
    x, y = zip(*(samples(i) for i in range(CLIENTS)))
    held = fedloom.Data(np.concatenate(x), np.concatenate(y), sizes=[len(v) for v in y], classes=CLASSES)
    run = fedloom.Run({**COMMON, **settings}, data=held)
    flat = lambda: np.concatenate([v.ravel() for v in run.model.values()])  # noqa: E731
    return [flat()] + [flat() for _ in run], run


@pytest.mark.parametrize("name", CASES)
def test_same_trajectory(simulation, name):
    models, run = own_run(CASES[name])
    ours = simulation[name]["models"]
    assert len(ours) == len(models) == ROUNDS + 1
    assert np.abs(models[-1] - models[0]).max() > 1e-2  # something was learnt
    for k, (a, b) in enumerate(zip(ours, models)):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-9, err_msg=f"after round {k}")


@pytest.mark.parametrize("name", CASES)
def test_same_metrics(simulation, name):
    _, run = own_run(CASES[name])
    ours, theirs = simulation[name]["run"].columns(), run.columns()
    assert list(ours["round"]) == [0, 5, 10]
    for key in theirs:
        if "seconds" not in key and "memory" not in key:
            np.testing.assert_allclose(ours[key], theirs[key], rtol=1e-9, err_msg=key)
    flower = simulation[name]["result"].evaluate_metrics_clientapp
    assert {k: v["train_loss"] for k, v in flower.items()} == dict(zip(ours["round"], ours["train_loss"]))


@pytest.mark.skipif(not torch, reason="PyTorch is not installed")
def test_a_pytorch_module(simulation):
    models, run = own_run(TORCH)
    for k, (a, b) in enumerate(zip(simulation["torch"]["models"], models)):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-4, err_msg=f"after round {k}")
    assert simulation["torch"]["run"].row["train_accuracy"] == run.row["train_accuracy"]


def test_model_in_result(simulation):
    case = simulation["fedavg"]
    assert {k: v.shape for k, v in case["result"].arrays.items()} == {k: v.shape for k, v in case["run"].model.items()}
    np.testing.assert_array_equal(vector(case["result"].arrays), case["models"][-1])


def test_a_start_model(simulation):
    models = simulation["again"]["models"]
    assert len(models) == 2
    np.testing.assert_array_equal(models[0], simulation["fedavg"]["models"][-1])


def test_other_messages_pass_through(simulation):
    assert sorted(m.content["mine"]["node"] for m in simulation["mine"]) == sorted(
        m.metadata.src_node_id for m in simulation["mine"]
    )
    assert len(simulation["mine"]) == CLIENTS


def test_a_client_that_fails_is_named(simulation):
    assert "client 2" in str(simulation["failed"])
    assert "the client's disk is full" in str(simulation["failed"])


def test_an_objective_that_raises_names_its_client(simulation):
    assert "client 1" in str(simulation["moody"])
    assert "ArithmeticError: not in the mood" in str(simulation["moody"])


def test_too_few_nodes(simulation):
    assert str(simulation["alone"]) == "the federation has 5 clients, and after 0.5 seconds 4 nodes"


def test_abstract_parts_of_a_strategy_say_what_to_call():
    with pytest.raises(NotImplementedError, match="call start"):
        fedloom.flower.Strategy({}).configure_train(1, None, None, None)
