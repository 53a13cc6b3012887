"""What fedloom.flower does with messages that come late, not at all, or to clients that have lost their state: Flower's
apps and messages, on a grid in this process.
"""

from __future__ import annotations

import os
from types import SimpleNamespace

os.environ.update(FLWR_TELEMETRY_ENABLED="0", FLWR_DISABLE_UPDATE_CHECK="1")

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed")

from flwr.app import Context, RecordDict

import fedloom
import fedloom.flower

try:  # newer versions of Flower want to know in which run messages are made
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
except ImportError:
    pass

CLIENTS, FEATURES, CLASSES = 5, 4, 3
COMMON = {
    "model": "softmax",
    "precision": "f64",
    "rounds": 4,
    "local": {"steps": 2, "batch": 4, "lr": 0.2},
    "participation": {"kind": "uniform", "count": 3},
}
JOINED = {"data": {"kind": "joined", "shape": [FEATURES], "classes": CLASSES}, "partition": {"clients": CLIENTS}}


def samples(client: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(client)
    y = np.arange(9 + 2 * client) % CLASSES
    return 2 * np.eye(CLASSES, FEATURES)[y] + rng.normal(size=(len(y), FEATURES)), y


class Grid:
    """Nodes in this process, whose answers come when they are pulled. Every turn finds a process without memory."""

    def __init__(self, nodes: dict[int, dict]) -> None:
        self.app = fedloom.flower.client_app(lambda context: samples(context.node_config["number"]), keep=0)
        self.contexts = {
            node: Context(run_id=1, node_id=node, node_config=config, state=RecordDict(), run_config={})
            for node, config in nodes.items()
        }
        self.waiting: list = []
        self.silent: set[int] = set()

    def get_node_ids(self):
        return list(self.contexts)

    def push_messages(self, messages):
        for message in messages:
            message.metadata.__dict__["_message_id"] = f"message {id(message)}"
            self.waiting.append(message)
        return [message.metadata.message_id for message in messages]

    def pull_messages(self, ids):
        ready = [m for m in self.waiting if m.metadata.message_id in ids and m.metadata.dst_node_id not in self.silent]
        self.waiting = [m for m in self.waiting if m not in ready]
        return [self.app(m, self.contexts[m.metadata.dst_node_id]) for m in reversed(ready)]


def grid(first: int = 10, partitions: bool = True, nodes: int = CLIENTS) -> Grid:
    """Nodes with falling ids: the order of the ids is not that of the partitions."""
    ids = range(first + nodes - 1, first - 1, -1)
    number = (lambda k: {"number": k, "partition-id": k}) if partitions else (lambda k: {"number": nodes - 1 - k})
    return Grid({node: number(k) for k, node in enumerate(ids)})


def in_one_piece(settings: dict) -> fedloom.Run:
    x, y = zip(*(samples(i) for i in range(CLIENTS)))
    held = fedloom.Data(np.concatenate(x), np.concatenate(y), sizes=[len(v) for v in y])
    return fedloom.run({**COMMON, **settings}, data=held, progress=False)


def same(strategy: fedloom.flower.Strategy, run: fedloom.Run) -> None:
    for name, value in run.model.items():
        np.testing.assert_array_equal(strategy.run.model[name], value)


@pytest.mark.parametrize(
    "algorithm",
    ["fedavg", "fedprox", "scaffold", "fedvra", "feddyn", "fedpd", "fedadmm", "feddr", "fedgia", "fedasync", "fedbuff",
     "asyncfeddr", "apfl", "fedadam", "mime-lite", "fedlin", "scaffnew"],
)  # fmt: skip
def test_every_kind_of_method(algorithm):
    settings = {"algorithm": algorithm}
    if algorithm in ("fedpd", "scaffnew"):
        settings["participation"] = {"kind": "everyone"}
    if algorithm in ("fedasync", "fedbuff", "asyncfeddr"):
        settings["system"] = {"kind": "lognormal"}
    strategy = fedloom.flower.Strategy({**COMMON, **JOINED, **settings})
    strategy.start(grid())
    same(strategy, in_one_piece(settings))


def test_nodes_without_partitions_are_numbered_by_their_ids():
    strategy = fedloom.flower.Strategy({**COMMON, **JOINED})
    strategy.start(grid(partitions=False))
    same(strategy, in_one_piece({}))


def test_more_nodes_than_clients():
    strategy = fedloom.flower.Strategy({**COMMON, **JOINED})
    strategy.start(grid(nodes=CLIENTS + 2))
    same(strategy, in_one_piece({}))


def test_partitions_that_are_not_those_of_the_clients():
    strangers = grid()
    for context in strangers.contexts.values():
        context.node_config["partition-id"] += 3
    with pytest.raises(fedloom.Error, match="there are 5 clients, but only 2 nodes have a partition-id below that"):
        fedloom.flower.Strategy({**COMMON, **JOINED}).start(strangers)


def test_a_client_that_does_not_answer_is_named():
    mute = grid()

    def hush(round_, arrays):
        mute.silent = {12}  # partition 2

    with pytest.raises(fedloom.Error, match="client 2: Flower's node 12: no answer for 0.2 seconds"):
        fedloom.flower.Strategy({**COMMON, **JOINED}, participation={"kind": "everyone"}).start(
            mute, timeout=0.2, evaluate_fn=hush
        )


def test_a_client_that_never_joins_is_named():
    mute = grid()
    mute.silent = {13}
    with pytest.raises(fedloom.Error, match="Flower's node 13 cannot join: no answer for 0.2 seconds"):
        fedloom.flower.Strategy({**COMMON, **JOINED}).start(mute, timeout=0.2)


def test_a_context_that_is_lost_is_noticed():
    forgetful = grid()

    def forget(round_, arrays):
        if round_ == 2:
            forgetful.contexts[11].state = RecordDict()

    with pytest.raises(RuntimeError, match="context of this node has been lost"):
        fedloom.flower.Strategy({**COMMON, **JOINED}, participation={"kind": "everyone"}).start(
            forgetful, evaluate_fn=forget
        )


def test_what_evaluate_fn_raises_comes_out():
    def evaluate(round_, arrays):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        fedloom.flower.Strategy({**COMMON, **JOINED}).start(grid(), evaluate_fn=evaluate)


def test_the_test_set_of_the_server():
    strategy = fedloom.flower.Strategy({**COMMON, **JOINED}, test=samples(77))
    result = strategy.start(grid(), evaluate_fn=lambda k, arrays: {"mine": float(k)})
    assert result.evaluate_metrics_serverapp[4]["test_accuracy"] == strategy.run.test_accuracy > 0
    assert result.evaluate_metrics_serverapp[4]["mine"] == 4


def test_messages_that_flower_does_not_take():
    deaf = grid()
    deaf.push_messages = lambda messages: []
    with pytest.raises(fedloom.Error, match="Flower has not taken all messages"):
        fedloom.flower.Strategy({**COMMON, **JOINED}).start(deaf)


def test_configurations_for_flowers_own_strategies_are_refused():
    with pytest.raises(ValueError, match="no room for train_config"):
        fedloom.flower.Strategy({**COMMON, **JOINED}).start(grid(), train_config={"lr": 0.1})


def test_errors_of_flower_become_sentences():
    sentence = lambda reason: fedloom.flower._reason(SimpleNamespace(error=SimpleNamespace(code=2, reason=reason)))  # noqa: E731
    assert sentence("<class 'RuntimeError'>:<'the disk\nis full'>") == "the disk is full"
    assert sentence(None) == "Flower's error 2"
    wrapped = "<class 'ray.RayTaskError'>:<'ray::run()\nException ClientAppException occurred. Message: it's late'>"
    assert sentence(wrapped) == "it's late"
