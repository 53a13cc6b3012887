"""fedloom's methods on Flower: a strategy for a ServerApp, a mod for ClientApps.

Flower carries messages and keeps what clients keep; fedloom decides who is asked what, computes turns and absorbs the
answers. So every method of fedloom runs on Flower's simulation and deployment engines, and what comes out is what
:func:`fedloom.run` gives for the same federation.

    # server
    app = ServerApp()

    @app.main()
    def main(grid, context):
        strategy = fedloom.flower.Strategy({"algorithm": "scaffold", "rounds": 10, ...})
        result = strategy.start(grid)

    # client
    app = fedloom.flower.client_app(lambda context: my_data(context.node_config["partition-id"]))

A fedloom message is a ``train`` message with a ConfigRecord named ``fedloom``. All others pass through the mod.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Optional

import numpy as np

try:
    from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid
    from flwr.serverapp.strategy import Result
    from flwr.serverapp.strategy import Strategy as FlowerStrategy
except ImportError as missing:
    raise ImportError("fedloom.flower needs Flower: pip install 'flwr[simulation]>=1.22'") from missing

from ._core import Error
from .halves import Client, Server
from .run import Run

__all__ = ["Strategy", "client_app", "mod"]

EvaluateFn = Callable[[int, ArrayRecord], Optional[MetricRecord]]

_ABOUT = "fedloom"  # ConfigRecord: what a message is about, or how far a client is
_BYTES = "fedloom.bytes"  # ArrayRecord: fedloom's own bytes. Flower sends arrays in pieces, so they may be large.


def _records(about: dict[str, Any], **packets: bytes) -> RecordDict:
    arrays = {k: Array("uint8", (len(v),), "fedloom", v) for k, v in packets.items() if v}
    return RecordDict({_ABOUT: ConfigRecord(about), _BYTES: ArrayRecord(arrays)})


def _about(records: RecordDict) -> dict[str, Any]:
    """{} if there is nothing of fedloom's."""
    return dict(records.config_records.get(_ABOUT, {}))


def _packet(records: RecordDict, name: str) -> bytes:
    array = records.array_records[_BYTES].get(name)
    return array.data if array else b""


# ---- clients ---------------------------------------------------------------------------------------------------------


class _Cache:
    """Clients of this process, between their turns. What counts is in Flower's context; these save making them anew."""

    def __init__(self) -> None:
        self._clients: OrderedDict[tuple[int, int, str], tuple[int, Client]] = OrderedDict()

    def take(self, key: tuple[int, int, str], turn: int) -> Client | None:
        """The client, if it is as far as `turn`: another process may have worked for it since."""
        there, client = self._clients.pop(key, (-1, None))
        return client if there == turn else None

    def put(self, key: tuple[int, int, str], turn: int, client: Client, most: int) -> None:
        self._clients[key] = (turn, client)
        while len(self._clients) > most:
            self._clients.popitem(last=False)


_cache = _Cache()


class _Mod:
    """What :func:`mod` returns. A class, so that Flower can send it to the processes in which clients live."""

    def __init__(self, data: Callable[[Context], Any], uses: Callable[[], Any] | None, keep: int) -> None:
        self._data, self._uses, self._keep = data, uses, keep

    def __call__(self, message: Message, context: Context, call_next: Callable[[Message, Context], Message]) -> Message:
        about = _about(message.content) if message.has_content() else {}
        if not about:
            return call_next(message, context)
        if about["kind"] == "card":
            content = self._card(about["federation"], context)
        else:
            content = self._turn(about["federation"], about["turn"], message.content, context)
        return Message(content, reply_to=message)

    def _card(self, federation: str, context: Context) -> RecordDict:
        client = Client(self._data(context))
        # This takes the place of what an earlier federation of the same Flower run has left.
        self._keep_all(federation, 0, client, context, b"")
        number = int(context.node_config.get("partition-id", -1))
        return _records({"kind": "card", "number": number}, card=client.card())

    def _turn(self, federation: str, turn: int, content: RecordDict, context: Context) -> RecordDict:
        kept = _about(context.state)
        if (kept.get("federation"), kept.get("turn")) != (federation, turn):
            raise RuntimeError(
                f"what the client keeps is of turn {kept.get('turn', 0)}, and the server asks for turn {turn}: "
                "Flower's context of this node has been lost"
            )
        terms = _packet(content, "terms") or _packet(context.state, "terms")
        client = _cache.take((context.run_id, context.node_id, federation), turn)
        if client is None or turn == 0:
            client = client or Client(self._data(context))
            own = self._uses() if self._uses else None  # just before accept: a name leads to what had it last
            client.accept(terms)
            del own  # the client keeps it
            if turn > 0:
                client.restore(_packet(context.state, "state"))
        answer = client.work(_packet(content, "ask"))
        self._keep_all(federation, turn + 1, client, context, terms)
        return _records({"kind": "answer"}, answer=answer)

    def _keep_all(self, federation: str, turn: int, client: Client, context: Context, terms: bytes) -> None:
        state = client.state() if turn > 0 else b""
        for name, record in _records({"federation": federation, "turn": turn}, terms=terms, state=state).items():
            context.state[name] = record
        _cache.put((context.run_id, context.node_id, federation), turn, client, self._keep)


def mod(data: Callable[[Context], Any], *, uses: Callable[[], Any] | None = None, keep: int = 8) -> _Mod:
    """A mod for a ClientApp: answers fedloom's messages, and lets all others through.

    `data` gets Flower's Context and returns the client's samples, as for :class:`fedloom.halves.Client`. `uses` returns
    what of one's own the federation uses: an objective, a solver, a method, or a list of them. Terms and state are in
    ``context.state``. `keep`: how many clients of a process stay ready between turns, with their samples; the others
    are made again, which calls `data` and `uses` again.
    """
    return _Mod(data, uses, keep)


def client_app(data: Callable[[Context], Any], *, uses: Callable[[], Any] | None = None, keep: int = 8) -> ClientApp:
    """A ClientApp for :class:`Strategy`. Functions of one's own for ``evaluate`` and ``query`` may be added to it."""
    app = ClientApp(mods=[mod(data, uses=uses, keep=keep)])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        raise ValueError("this ClientApp is for fedloom.flower.Strategy: the message is not one of fedloom's")

    return app


# ---- server ----------------------------------------------------------------------------------------------------------


class _Mail:
    """Messages that are out, and what comes back."""

    def __init__(self, grid: Grid, kind: str, patience: float) -> None:
        self._grid, self._kind, self._patience = grid, kind, patience
        self._out: dict[str, tuple[int, float]] = {}  # message -> node, when it is too late

    def __bool__(self) -> bool:
        return bool(self._out)

    def send(self, letters: Iterable[tuple[int, RecordDict]]) -> None:
        """Sends (node, content), all at once."""
        messages = [Message(content, dst_node_id=node, message_type=self._kind) for node, content in letters]
        nodes = [message.metadata.dst_node_id for message in messages]
        ids = list(self._grid.push_messages(messages))
        if len(ids) != len(nodes) or None in ids:
            raise Error("Flower has not taken all messages")
        self._out.update((i, (node, time.monotonic() + self._patience)) for i, node in zip(ids, nodes))

    def receive(self) -> Iterator[tuple[int, RecordDict | None, str]]:
        """What has come: (node, content, ""), or (node, None, why there is none)."""
        if not self._out:
            return
        for message in self._grid.pull_messages(list(self._out)):
            node, _ = self._out.pop(message.metadata.reply_to_message_id)
            if message.has_error():
                yield node, None, _reason(message)
            else:
                yield node, message.content, ""
        for i, (node, end) in list(self._out.items()):
            if time.monotonic() > end:
                del self._out[i]
                yield node, None, f"no answer for {self._patience:g} seconds"


def _reason(message: Message) -> str:
    """Flower's error as one sentence, without its wrapping."""
    text = message.error.reason or f"Flower's error {message.error.code}"
    text = re.sub(r"^<class '[^']*'>:<(.)(.*)\1>$", r"\2", text, flags=re.S)
    return " ".join(text.rsplit("occurred. Message: ", 1)[-1].split())


class _Pause:
    """How long to wait for news: short while there are some, longer while there are none."""

    shortest, longest = 0.01, 0.25

    def __init__(self) -> None:
        self._seconds = self.shortest

    def next(self, news: bool) -> float:
        self._seconds = self.shortest if news else min(self._seconds * 1.5, self.longest)
        return self._seconds


def _hand_in(server: Server, client: int, answer: bytes) -> None:
    try:
        server.answer(client, answer)
    except Error as error:
        if error.status != "FL_EMISMATCH":
            raise
        # Nobody waits for it any more where another client's answer has ended the run; the next ask says why.
        server.next(10)
        if not server.done:
            raise


def _number(nodes: dict[int, int], clients: int) -> dict[int, int]:
    """Which node is which client. By their partitions if all nodes have one of their own, else by their ids."""
    if -1 not in nodes.values() and len(set(nodes.values())) == len(nodes):
        numbers = {node: number for node, number in nodes.items() if number < clients}
    else:
        numbers = {node: number for number, node in enumerate(sorted(nodes)) if number < clients}
    if len(numbers) < clients:
        raise Error(f"there are {clients} clients, but only {len(numbers)} nodes have a partition-id below that")
    return numbers


class Strategy(FlowerStrategy):
    """fedloom's server as a Flower strategy.

    `config` is a federation as for :class:`fedloom.halves.Server`: its data section says what samples look like
    (``data: {kind: joined, shape: [20], classes: 3}``), ``partition: {clients: 4}`` how many clients there are. Nodes
    with a ``partition-id`` below that become the client of that number; without, nodes are numbered by their ids.

    After :meth:`start`, `run` is the finished :class:`fedloom.Run`, with rows, model and `save`.
    """

    def __init__(self, config: Any = None, *, message_type: str = "train", **settings: Any) -> None:
        self._config, self._type, self._settings = config, message_type, settings
        self.run: Run | None = None

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord | None = None,
        num_rounds: int | None = None,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: EvaluateFn | None = None,
    ) -> Result:
        """Runs the federation. `initial_arrays` is the start model, with the names that Result.arrays has; None for it
        and `num_rounds`: as the configuration says.

        `timeout`: seconds to wait for nodes to be there, and for each answer. `evaluate_fn` is called with the model
        before the first round and after each. Metrics of the test set, which the server measures, are in
        ``evaluate_metrics_serverapp``, all others in ``evaluate_metrics_clientapp``. A client that fails ends the run
        with a :class:`fedloom.Error` that names it.
        """
        if train_config or evaluate_config:
            raise ValueError("fedloom's messages have no room for train_config and evaluate_config")
        settings = dict(self._settings)
        if num_rounds is not None:
            settings["rounds"] = num_rounds
        result = Result()
        with TemporaryDirectory() as folder:
            if initial_arrays:
                settings["model.start"] = _write(initial_arrays, f"{folder}/start.safetensors")
            self.run = self._carry(settings, grid, timeout, lambda run, fresh: _note(result, run, fresh, evaluate_fn))
        result.arrays = _arrays(self.run)
        return result

    def _carry(self, settings: dict[str, Any], grid: Grid, timeout: float, on_round: Callable[[Run, bool], Any]) -> Run:
        server = Server(self._config, on_round=on_round, **settings)
        try:
            self._drive(server, _Mail(grid, self._type, timeout), grid, timeout)
        except BaseException:
            server.close()
            raise
        return server.run

    def _drive(self, server: Server, mail: _Mail, grid: Grid, timeout: float) -> None:
        federation = uuid.uuid4().hex
        clients = self._join(server, mail, grid, timeout, federation)
        nodes = {client: node for node, client in clients.items()}
        server.begin()
        turns, pause, news = [0] * len(nodes), _Pause(), True
        while not server.done:
            letters = []
            ask = server.next(pause.next(news) if mail else 1.0)
            while ask:
                client, packet = ask
                about = {"kind": "ask", "federation": federation, "turn": turns[client]}
                terms = b"" if turns[client] else server.terms(client)
                letters.append((nodes[client], _records(about, terms=terms, ask=packet)))
                turns[client] += 1
                ask = server.next(0)
            if letters:
                mail.send(letters)
            news = bool(letters)
            for node, content, why in mail.receive():
                news = True
                if content is None:
                    server.lost(clients[node], f"Flower's node {node}: {why}")
                    break  # the run is over, and the next ask will say so
                _hand_in(server, clients[node], _packet(content, "answer"))

    def _join(self, server: Server, mail: _Mail, grid: Grid, timeout: float, federation: str) -> dict[int, int]:
        """Asks all nodes for their cards. Returns node -> client."""
        wanted, end = server.missing, time.monotonic() + timeout
        while len(nodes := list(grid.get_node_ids())) < wanted:
            if time.monotonic() > end:
                raise Error(f"the federation has {wanted} clients, and after {timeout:g} seconds {len(nodes)} nodes")
            time.sleep(0.1)
        mail.send((node, _records({"kind": "card", "federation": federation})) for node in nodes)
        cards: dict[int, bytes] = {}
        numbers: dict[int, int] = {}
        pause = _Pause()
        while mail:
            time.sleep(pause.next(False))
            for node, content, why in mail.receive():
                if content is None:
                    raise Error(f"Flower's node {node} cannot join: {why}")
                cards[node], numbers[node] = _packet(content, "card"), int(_about(content)["number"])
        clients = _number(numbers, wanted)
        for node, client in clients.items():
            server.join(client, cards[node])
        return clients

    def summary(self) -> None:
        """Logs nothing: `run` has the settings."""

    def _not_here(self, *args: Any) -> Any:
        raise NotImplementedError("fedloom's server decides who is asked what: call start")

    configure_train = aggregate_train = configure_evaluate = aggregate_evaluate = _not_here  # type: ignore[assignment]


def _note(result: Result, run: Run, fresh: bool, evaluate_fn: EvaluateFn | None) -> None:
    """A round into Flower's result."""
    values: dict[str, Any] = {name: value for name, value in run.row.items() if name != "round"} if fresh else {}
    server = {name: values.pop(name) for name in list(values) if name.startswith("test_")}
    if evaluate_fn:
        server.update(evaluate_fn(run.round, _arrays(run)) or {})
    if server:
        result.evaluate_metrics_serverapp[run.round] = MetricRecord(server)
    if values:
        result.evaluate_metrics_clientapp[run.round] = MetricRecord(values)


def _write(arrays: ArrayRecord, path: str) -> str:
    """Arrays as a safetensors file, which `model.start` reads."""
    header, blocks, at = {}, [], 0
    for name, array in arrays.items():
        value = np.ascontiguousarray(array.numpy(), dtype="<f8")
        header[name] = {"dtype": "F64", "shape": value.shape, "data_offsets": (at, at + value.nbytes)}
        blocks.append(value.tobytes())
        at += value.nbytes
    text = json.dumps(header).encode()
    Path(path).write_bytes(len(text).to_bytes(8, "little") + text + b"".join(blocks))
    return path


def _arrays(run: Run) -> ArrayRecord:
    """The global model, tensor by tensor."""
    return ArrayRecord({name: Array(np.ascontiguousarray(value)) for name, value in run.model.items()})
