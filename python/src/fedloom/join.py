"""A client of a federation over the network, whose server is ``fedloom serve``.

    import fedloom
    fedloom.join("https://server:8443", (x, y), certs="certs/alice")

It does what ``fedloom join`` does: says what samples it has, takes the terms, and turns asks into answers until the run
is over. Samples stay here. A solver of one's own, such as one that trains in PyTorch, takes the place of SGD with
``local={"solver": MySolver}``. The protocol is in docs/protocol.md; nothing but the standard library is needed for it.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import json
import math
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ._core import Error, OutOfMemory, Refused, log, raised_in
from ._join_disk import Keep
from ._join_wire import PACKET, Away, Passing, Wire, read_json, sentence
from .config import Settings
from .data import Data
from .halves import Client

__all__ = ["join"]

WAIT = 30  # seconds that a request for an ask may wait at the server
HEARTBEAT = 5.0
SMALL, MOST_TERMS = 64 << 10, 16 << 20  # bytes of what a server sends
LIMITS = {"steps": 1_000_000}  # of a client that sets no limits

# Where things are in a packet: docs/protocol.md.
_NUMBER, _RUN, _HEAD = slice(16, 24), slice(48, 80), 80
_SAMPLES = slice(_HEAD + 32, _HEAD + 64)  # their digest, in a card
_KIND_OF_ASK = slice(_HEAD + 52, _HEAD + 56)
_STATUS, _REASON = slice(_HEAD + 16, _HEAD + 20), _HEAD + 20


def _whole(packet: bytes, at: slice) -> int:
    return int.from_bytes(packet[at], "little")


class _Over(Exception):
    """The run is over; the argument is what the server says of it."""


class _Life:
    """A client from its joining to the end of the run."""

    def __init__(self, wire: Wire, make: Callable[[], Client], keep: Keep, digest: bool, limits: Mapping[str, Any],
                 show: Callable[[str], Any] | None, on_ask: Callable[[int], Any] | None,
                 changed_data: bool = False) -> None:  # fmt: skip
        self.wire, self.make, self.keep, self.limits, self.show, self.on_ask = wire, make, keep, limits, show, on_ask
        self.changed_data = changed_data
        self.client = make()
        self.samples = self.client.card(digest=True)[_SAMPLES]
        self.card = self.client.card(digest=digest)
        self.run: bytes | None = None  # which one the client has accepted the terms of
        self.shown = self.stop_stale = False
        self.asks = 0

    def call(self, method: str, path: str, body: bytes | None = None, kind: str = PACKET, most: int = SMALL):
        status, text = self.wire.call(method, path, body, kind, most)
        if status == 410:
            self.say_heard()
            raise _Over(read_json(text))
        return status, text

    def say_heard(self) -> None:
        """So that the server need not wait; a few times, as it may be gone if only its reply was lost."""
        for pause in (0.5, 1.0, 0.0):
            try:
                self.wire.call("POST", "/v1/alive", b'{"over": true}', "application/json", SMALL)
                return
            except Away:
                time.sleep(random.uniform(0, pause))
            except Error:
                return

    # ---- joining ----

    def join(self) -> bool:
        """Whether the server has taken it, and the run has begun. All of it may be said again."""
        status, text = self.call("GET", "/v1/federation")
        if status != 200:
            raise Refused(sentence(text) or f"/v1/federation: the server answers {status}")
        self.look(read_json(text))
        status, text = self.call("POST", "/v1/join", self.card)
        if status != 200:
            raise Refused(sentence(text) or f"/v1/join: the server answers {status}")
        status, terms = self.call("GET", f"/v1/terms?wait={WAIT}", most=MOST_TERMS)
        if status == 200:
            self.accept(terms)
        elif status not in (204, 409):
            raise Refused(sentence(terms) or f"/v1/terms: the server answers {status}")
        return status == 200

    def look(self, offer: dict[str, Any]) -> None:
        """What can be seen before anything of the client's leaves."""
        if offer.get("state") == "over":
            self.call("GET", "/v1/ask?wait=0")  # says how
            raise _Over({"ok": True})
        for key, allowed in (("method", self.limits.get("methods")), ("model", self.limits.get("models"))):
            if allowed and offer.get(key) not in allowed:
                raise Refused(f"the federation's {key} is {offer.get(key)}, and this client takes {', '.join(allowed)}")
        self.compare(offer.get("samples"))
        if self.show and not self.shown and self.show(self.client.describe(self.card)) is False:
            raise Refused("the card was not let go: `show` returned False")
        self.shown = True

    def compare(self, wanted: Any) -> None:
        """What the federation says of samples, with those of the card."""
        if not isinstance(wanted, dict):
            return
        shape, classes = wanted.get("shape"), wanted.get("classes")
        own = [_whole(self.card, slice(_HEAD + at, _HEAD + at + 8)) for at in (64, 72, 80, 88)]
        if (
            isinstance(shape, list)
            and all(isinstance(k, int) for k in shape)
            and math.prod(shape) != math.prod(own[:3])
        ):
            raise Refused(f"the federation's samples have the shape {shape}, and this client's {own[:3]}")
        if isinstance(classes, int) and (own[3] > classes or (classes and not own[3])):
            raise Refused(f"the federation's samples have {classes} classes, and this client's {own[3]}")
        if isinstance(classes, int) and classes > 0 and self.run is None:
            self.compare_labels(classes, wanted.get("class_names"))

    def compare_labels(self, classes: int, names: Any) -> None:
        """Refuses labels that the federation does not have, before the client takes a place: it would fail later, when
        all have joined."""
        if names is not None and not (isinstance(names, list) and len(names) == classes):
            return
        try:
            self.client.check_labels(classes, names and [str(name) for name in names])
        except Error as e:
            raise Refused(f"this client cannot join: {e}") from None

    def accept(self, terms: bytes) -> None:
        run = terms[_RUN]
        if self.run is not None and run != self.run:
            log.info("the server has begun another run")
            self.client, self.run = self.make(), None
        try:
            self.client.accept(terms)
        except Refused as e:
            self.refuse(0, str(e))
            raise
        if self.run is None:
            self.run = run
            self.keep.of(run)
            self.compare_with_begun(terms)
            state = self.keep.get("state")
            if state:
                self.client.restore(state)

    def compare_with_begun(self, terms: bytes) -> None:
        """Refuses samples or terms other than those with which the run began: they made the kept state."""
        now = self.samples + hashlib.sha256(terms).digest()
        then = self.keep.get("begun")
        if then == now:
            return
        if then:
            changed = [what for what, at in (("samples", slice(32)), ("terms", slice(32, 64))) if then[at] != now[at]]
            what = " and ".join(changed)
            if not self.changed_data:
                self.refuse(0, f"its {what} are not those that it began this run with")
                raise Refused(
                    f"the {what} are not those that this client began the run in {self.keep.folder} with; bring those "
                    "back, or go on with these by changed_data=True"
                )
            log.warning("going on with other %s than those with which the run began", what)
        self.keep.put("begun", now)

    # ---- working ----

    def refuse(self, number: int, reason: str) -> None:
        log.warning("refused what the server asks: %s", reason)
        body = json.dumps({"number": number, "reason": reason}).encode()
        self.call("POST", "/v1/refuse", body, "application/json")

    def send(self) -> bool:
        """Sends the answer that has not arrived, if there is one. False: the server wants the card first. It is no
        error if the server does not want the answer any more."""
        answer = self.keep.get("answer")
        if answer is None:
            return True
        status, text = self.call("POST", "/v1/answer", answer)
        if status == 409 and read_json(text).get("join") is True:
            return False
        if status != 200:
            log.warning("the server did not take an answer: %s", sentence(text) or status)
        self.keep.drop("answer")
        return True

    def compute(self, ask: bytes) -> bytes:
        with _alive(self.wire, self.client, _whole(ask, _NUMBER)) as told:
            try:
                answer = self.client.work(ask)
            except Refused:
                if not self.stop_stale:
                    raise
                answer = self.client.work(ask)  # it was the turn before that was not wanted any more
        self.stop_stale = told.is_set()
        return answer

    def turn(self, ask: bytes) -> bool:
        number, is_turn = _whole(ask, _NUMBER), _whole(ask, _KIND_OF_ASK) == 0
        try:
            answer = self.compute(ask)
        except OutOfMemory:
            raise
        except Error as e:  # no answer, and nothing has changed
            self.stop_stale = False
            self.refuse(number, str(e))
            raise Away(str(e)) from None  # the same may come at once, again and again
        if _whole(answer, _STATUS):
            reason = answer[_REASON:].decode("utf-8", "replace")
            log.warning("a turn failed: %s", reason, exc_info=raised_in(reason))
        if self.show and self.show(self.client.describe(answer)) is False:
            self.refuse(number, "the answer was not let go by the people at this client")
            return True
        if is_turn:
            self.keep.put("state", self.client.state())  # before the answer: the server counts on it
        self.keep.put("answer", answer)
        self.asks += 1
        if self.on_ask:
            self.on_ask(self.asks)
        return self.send()

    def step(self) -> bool:
        """One request for an ask, and what it takes. False: the server wants the card first."""
        if not self.send():
            return False
        status, text = self.call("GET", f"/v1/ask?wait={WAIT}", most=self.client.ask_bytes)
        if status == 200:
            return self.turn(text)
        if status not in (204, 409):
            raise Refused(sentence(text) or f"/v1/ask: the server answers {status}")
        return status == 204

    def live(self, patience: float) -> None:
        joined, failures, since = False, 0, time.monotonic()
        refused: float | None = None  # since when, in a row
        while True:
            try:
                joined = self.step() if joined else self.join()
                failures, since, refused = 0, time.monotonic(), None
            except Passing as e:
                seconds, now = min(e.seconds, patience), time.monotonic()
                if refused is None:
                    refused = now
                    if seconds > 0:
                        log.warning("%s; trying again until %s", e, _utc(time.time() + seconds))
                left = refused + seconds - now
                if left <= 0:
                    raise Refused(str(e)) from None
                joined, failures = False, failures + 1
                time.sleep(min(left, _pause(failures)))
            except Away as e:
                if time.monotonic() - since > patience:
                    raise Error(f"the server has not answered for {patience:g} seconds: {e}") from None
                if not failures:
                    log.info("%s; trying again", e)
                joined, failures = False, failures + 1
                time.sleep(e.seconds + _pause(failures))


def _pause(failures: int) -> float:
    return random.uniform(0, min(30.0, 0.5 * 2 ** min(failures, 10)))


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


@contextlib.contextmanager
def _alive(wire: Wire, client: Client, number: int) -> Iterator[threading.Event]:
    """Tells the server from time to time that a turn is being worked on, and ends the turn if the server does not want
    it any more. The event that it yields is set in that case."""
    over, told, other = threading.Event(), threading.Event(), wire.another()
    body = json.dumps({"number": number}).encode()

    def beat() -> None:
        while not over.wait(HEARTBEAT):
            with contextlib.suppress(Away, Error):
                status, text = other.call("POST", "/v1/alive", body, "application/json")
                if status == 200 and read_json(text).get("wanted") is False and not over.is_set():
                    told.set()
                    client.stop()
                    break
        other.close()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield told
    finally:
        over.set()
        thread.join()


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def join(
    url: str,
    data: Data | tuple | Settings = None,
    *,
    certs: str | os.PathLike | None = None,
    name: str | None = None,
    keep: str | os.PathLike | None = None,
    limits: Mapping[str, Any] | None = None,
    digest: bool = False,
    changed_data: bool = False,
    show: Callable[[str], Any] | None = None,
    patience: float = float("inf"),
    on_ask: Callable[[int], Any] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Takes part in a federation until its run is over, and returns how it ended: ``{"ok": True, ...}``.

    `data`: the samples, as for :class:`fedloom.halves.Client`. `certs`: the folder that ``fedloom cert client`` made;
    `name` instead of it for plain http, on this machine alone. `keep`: a folder for what the client keeps between asks,
    so that it can be ended at any moment and started again; without it a client that ends has lost its state.

    `limits`: what the server may ask for, as :meth:`fedloom.halves.Client.limit` takes it, such as ``{"steps": 500,
    "seconds": 60, "methods": ["fedavg"]}``. What is beyond is refused, and logged. Without a limit on steps a client
    takes 1,000,000 per ask at most. `digest`: tells the server a digest of the samples. `changed_data`: continues a run
    from `keep` although its samples or terms are not those with which it began; otherwise they are refused. `show` is
    called with every card and answer in words before it is sent; if it returns False, it is not sent.

    ``local={"solver": MySolver}`` trains by a :class:`fedloom.Solver` of this process.

    A server that does not answer is tried again for `patience` seconds. A refusal that may pass is tried again for as
    many seconds as the server says, 300 at most, or for `patience` seconds if that is less: another process takes part
    as this client, or this client's certificate does not hold by the server's clock but by its own. A server whose
    certificate is not trusted is tried again for 300 seconds, or `patience`. One warning in the log says until when.

    `on_ask` is called with the number of asks so far. Raises :class:`fedloom.Refused` if the server does not want this
    client, or the federation is beyond its limits.
    """
    wire = Wire(url, name, Path(certs) if certs is not None else None, _is_loopback)
    allowed = {**LIMITS, **(limits or {})}

    def make() -> Client:
        client = Client(data, **settings)
        client.limit(**allowed)
        return client

    kept = Keep(Path(keep) if keep is not None else None)
    try:
        wire.folder = kept.instance()
        _Life(wire, make, kept, digest, allowed, show, on_ask, changed_data).live(patience)
        raise AssertionError("a life without an end")
    except _Over as e:
        kept.forget()
        return e.args[0]
    except (KeyboardInterrupt, Refused):
        with contextlib.suppress(Exception):
            wire.call("POST", "/v1/alive", b'{"leaving": true}', "application/json", SMALL)
        raise
    finally:
        wire.close()
        kept.close()
