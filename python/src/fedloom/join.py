"""A client of a federation over the network, whose server is ``fedloom serve``.

    import fedloom
    fedloom.join("https://server:8443", (x, y), certs="certs/alice")

It does what ``fedloom join`` does: says what samples it has, takes the terms, and turns asks into answers until the run
is over. Samples stay here. A solver of one's own, such as one that trains in PyTorch, takes the place of SGD with
``local={"solver": MySolver}``. The protocol is in docs/protocol.md; nothing but the standard library is needed for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import http.client
import json
import os
import random
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ._core import Error
from .config import Settings
from .data import Data
from .halves import Client

__all__ = ["Refused", "join"]

VERSION, OLDEST = 1, 1
PACKET = "application/vnd.fedloom.packet"
WAIT = 25  # seconds that a request for an ask may wait at the server
MOST = 1 << 32  # bytes of an answer of the server's
HEARTBEAT = 10.0


class Refused(Error):
    """The server does not want this client, or not like this: trying again is of no use."""


class _Away(Exception):
    """The server cannot be reached just now, or says that it cannot answer."""


class _Wire:
    """Requests to one server, over a connection that is kept."""

    def __init__(self, url: str, name: str | None, certs: Path | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/") or parts.query:
            raise ValueError(f"{url!r} is no address of a server, such as https://server:8443")
        if (parts.scheme == "https") != (certs is not None):
            raise ValueError("https needs certs, the folder with ca.pem, cert.pem and key.pem; plain http takes none")
        if parts.scheme == "http" and not name:
            raise ValueError("over plain http a client says who it is: name is missing")
        self._host, self._port = parts.hostname, parts.port or 8443
        self._name, self._tls = name, _tls(certs) if certs else None
        self._connection: http.client.HTTPConnection | None = None

    def another(self) -> _Wire:
        """The same for another thread."""
        made = object.__new__(_Wire)
        made.__dict__.update(self.__dict__, _connection=None)
        return made

    def close(self) -> None:
        if self._connection:
            self._connection.close()
        self._connection = None

    def _send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, Any, bytes]:
        if self._connection is None:
            if self._tls:
                self._connection = http.client.HTTPSConnection(self._host, self._port, timeout=60, context=self._tls)
            else:
                self._connection = http.client.HTTPConnection(self._host, self._port, timeout=60)
        self._connection.request(method, path, body, headers)
        got = self._connection.getresponse()
        text = got.read(MOST + 1)
        if len(text) > MOST:
            raise Refused(f"{path}: the server's answer has more than {MOST} bytes")
        return got.status, got.headers, text

    def call(self, method: str, path: str, body: bytes | None = None, kind: str = PACKET) -> tuple[int, bytes]:
        """Status and body. :class:`_Away` for what may go better later."""
        headers = {"Fedloom-Protocol": f"{VERSION} {OLDEST}"}
        if body is not None:
            headers["Content-Type"] = kind
        if not self._tls:
            headers["Fedloom-Client"] = self._name or ""
        try:
            status, got, text = self._send(method, path, body, headers)
        except ssl.SSLCertVerificationError as e:
            raise Refused(f"the server's certificate is not trusted: {e}") from e
        except (OSError, http.client.HTTPException) as e:
            self.close()
            raise _Away(str(e)) from e
        if status == 429 or status == 408 or status >= 500:
            raise _Away(f"{path}: the server answers {status}")
        _check_version(got.get("Fedloom-Protocol"))
        if status in (401, 403, 404, 405, 426) or 300 <= status < 400:
            raise Refused(f"{path}: {_sentence(text) or status}")
        return status, text


def _tls(certs: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(certs / "ca.pem")
    context.load_cert_chain(certs / "cert.pem", certs / "key.pem")
    return context


def _check_version(header: str | None) -> None:
    found = re.fullmatch(r"(\d{1,6}) (\d{1,6})", header or "")
    if not found:
        raise Refused("the other side is no fedloom server: it does not say which protocol it speaks")
    version, oldest = map(int, found.groups())
    if version < OLDEST or oldest > VERSION:
        raise Refused(
            f"the server speaks protocol {version} ({oldest} at least), this client {VERSION} ({OLDEST} at least)"
        )


def _json(text: bytes) -> dict[str, Any]:
    try:
        made = json.loads(text)
    except ValueError:
        return {}
    return made if isinstance(made, dict) else {}


def _sentence(text: bytes) -> str:
    return str(_json(text).get("error", ""))[:1000]


class _Keep:
    """What a client has on disk between asks: its state, and an answer until it has arrived."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        if folder:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(self._lock)
                raise Error(f"{folder}: another client works there") from None
        self._memory: dict[str, bytes] = {}

    def close(self) -> None:
        if self._folder:
            os.close(self._lock)

    def get(self, name: str) -> bytes | None:
        if not self._folder:
            return self._memory.get(name)
        with contextlib.suppress(FileNotFoundError):
            return (self._folder / name).read_bytes()
        return None

    def put(self, name: str, content: bytes) -> None:
        """All of it, or what was there before, also if the machine stops now."""
        if not self._folder:
            self._memory[name] = content
            return
        new = self._folder / (name + ".new")
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as f:
            f.write(content)
            f.flush()
            os.fsync(f.fileno())
        new.replace(self._folder / name)
        folder = os.open(self._folder, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def drop(self, name: str) -> None:
        self._memory.pop(name, None)
        if self._folder:
            (self._folder / name).unlink(missing_ok=True)


class _Life:
    """A client from its joining to the end of the run."""

    def __init__(self, wire: _Wire, client: Client, keep: _Keep, on_ask: Callable[[int], Any] | None) -> None:
        self.wire, self.client, self.keep, self.on_ask = wire, client, keep, on_ask
        self.card = client.card(digest=True)
        self.terms: bytes | None = None
        self.asks = 0

    def join(self) -> bool:
        """Whether the server has taken it, and the run has begun."""
        self.wire.call("GET", "/v1/federation")
        status, text = self.wire.call("POST", "/v1/join", self.card)
        if status != 200:
            raise Refused(_sentence(text) or f"/v1/join: the server answers {status}")
        status, terms = self.wire.call("GET", f"/v1/terms?wait={WAIT}")
        if status != 200:
            return False
        if self.terms is None:
            self._accept(terms)
        elif terms != self.terms:
            raise Refused("the server runs another federation now")
        return True

    def _accept(self, terms: bytes) -> None:
        self.client.accept(terms)
        self.terms = terms
        of = hashlib.sha256(terms).hexdigest()[:16]  # a state is of one run
        self.state, self.unsent = f"state-{of}", f"answer-{of}"
        state = self.keep.get(self.state)
        if state:
            self.client.restore(state)

    def send(self) -> None:
        """The answer that has not arrived, if there is one. Nobody may want it any more, which is fine."""
        answer = self.keep.get(self.unsent)
        if answer is not None:
            self.wire.call("POST", "/v1/answer", answer)
            self.keep.drop(self.unsent)

    def turn(self, ask: bytes) -> None:
        with _alive(self.wire, ask):
            answer = self.client.work(ask)
        self.keep.put(self.state, self.client.state())
        self.keep.put(self.unsent, answer)
        self.asks += 1
        if self.on_ask:
            self.on_ask(self.asks)
        self.send()

    def step(self) -> dict[str, Any] | None:
        """One request for an ask, and what it takes. How the run ended, once it has."""
        self.send()
        status, text = self.wire.call("GET", f"/v1/ask?wait={WAIT}")
        if status == 410:
            return _json(text)
        if status == 200:
            self.turn(text)
        elif status == 409:
            self.join()
        return None


@contextlib.contextmanager
def _alive(wire: _Wire, ask: bytes) -> Iterator[None]:
    """Tells the server from time to time that a turn is being worked on."""
    over, other = threading.Event(), wire.another()
    number = int.from_bytes(ask[16:24], "little")

    def beat() -> None:
        while not over.wait(HEARTBEAT):
            with contextlib.suppress(_Away, Error):
                other.call("POST", "/v1/alive", json.dumps({"number": number}).encode(), "application/json")
        other.close()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def join(
    url: str,
    data: Data | tuple | Settings = None,
    *,
    certs: str | os.PathLike | None = None,
    name: str | None = None,
    keep: str | os.PathLike | None = None,
    patience: float = float("inf"),
    on_ask: Callable[[int], Any] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Takes part in a federation until its run is over, and returns how it ended: ``{"ok": True, ...}``.

    `data`: the samples, as for :class:`fedloom.halves.Client`. `certs`: the folder that ``fedloom cert client`` made;
    `name` instead of it for plain http on this machine. `keep`: a folder for what the client keeps between asks, so
    that it can be ended at any moment and started again; without it a client that ends has lost its state. A server
    that does not answer is tried again for `patience` seconds. `on_ask` is called with the number of asks so far.
    """
    wire = _Wire(url, name, Path(certs) if certs is not None else None)
    kept = _Keep(Path(keep) if keep is not None else None)
    try:
        return _go_on(_Life(wire, Client(data, **settings), kept, on_ask), patience)
    finally:
        wire.close()
        kept.close()


def _go_on(life: _Life, patience: float) -> dict[str, Any]:
    joined, failures, since = False, 0, time.monotonic()
    while True:
        try:
            if not joined:
                joined = life.join()
            else:
                ended = life.step()
                if ended is not None:
                    return ended
            failures, since = 0, time.monotonic()
        except _Away as e:
            if time.monotonic() - since > patience:
                raise Error(f"the server has not answered for {patience:g} seconds: {e}") from None
            joined, failures = False, failures + 1
            time.sleep(random.uniform(0, min(30.0, 0.25 * 2 ** min(failures, 10))))
