"""Requests of a client to a server, over a connection that is kept. Part of fedloom.join."""

from __future__ import annotations

import calendar
import http.client
import json
import re
import secrets
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ._core import ConfigError, Refused

VERSION, OLDEST = 1, 1
PORT = 8443
PACKET = "application/vnd.fedloom.packet"
MOST_LATER = 60  # seconds of Retry-After that a client obeys
MOST_PASSING = 300  # seconds for which a client tries again that was refused
STALL = 60  # seconds without a byte; longer than a server holds a request


class Away(Exception):
    """The server cannot be reached just now, or says that it cannot answer, and perhaps for how many seconds."""

    def __init__(self, why: str, seconds: int = 0) -> None:
        super().__init__(why)
        self.seconds = seconds


class Passing(Refused):
    """A refusal whose cause may pass: the client tries again for up to this many seconds."""

    def __init__(self, why: str, seconds: float) -> None:
        super().__init__(why)
        self.seconds = seconds


class Wire:
    """All requests may be made twice, so one that fails is simply made again."""

    def __init__(self, url: str, name: str | None, certs: Path | None, is_loopback: Callable[[str], bool]) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/") or parts.query:
            raise ConfigError(f"{url!r} is no address of a server, such as https://server:8443")
        if (parts.scheme == "https") != (certs is not None):
            raise ConfigError("https needs certs, the folder with ca.pem, cert.pem and key.pem; plain http takes none")
        if parts.scheme == "http" and not name:
            raise ConfigError("over plain http a client says who it is: name is missing")
        if parts.scheme == "http" and not is_loopback(parts.hostname):
            raise ConfigError("plain http is only for this machine itself: localhost, 127.0.0.1 or [::1]")
        self._host, self._port = parts.hostname, parts.port or PORT
        self._name, self._tls = name, _tls(certs) if certs else None
        self._validity = _validity((certs / "cert.pem").read_text()) if certs else None
        self.folder = ""  # the number of the `keep` folder, 16 hexadecimal digits; "": the process's takes its place
        self._process = secrets.token_hex(8)
        self._connection: http.client.HTTPConnection | None = None

    def another(self) -> Wire:
        """The same for another thread."""
        made = object.__new__(Wire)
        made.__dict__.update(self.__dict__, _connection=None)
        return made

    def close(self) -> None:
        if self._connection:
            self._connection.close()
        self._connection = None

    def _send(self, method: str, path: str, body: bytes | None, headers: dict, most: int) -> tuple[int, Any, bytes]:
        if self._connection is None:
            if self._tls:
                self._connection = http.client.HTTPSConnection(self._host, self._port, timeout=STALL, context=self._tls)
            else:
                self._connection = http.client.HTTPConnection(self._host, self._port, timeout=STALL)
        self._connection.request(method, path, body, headers)
        got = self._connection.getresponse()
        if (got.length or 0) > most:
            raise Refused(f"{path}: the server's answer has {got.length} bytes, and this client takes {most}")
        text = got.read(most + 1) if got.length is None else got.read()
        if len(text) > most:
            raise Refused(f"{path}: the server's answer has more than the {most} bytes that this client takes")
        return got.status, got.headers, text

    def _try(self, *request: Any) -> tuple[int, Any, bytes]:
        """Once more where the server has closed a connection that was not used for a while."""
        kept = self._connection is not None
        try:
            return self._send(*request)
        except (ConnectionError, http.client.BadStatusLine, ssl.SSLEOFError):
            self.close()
            if not kept:
                raise
            return self._send(*request)

    def call(self, method: str, path: str, body: bytes | None = None, kind: str = PACKET, most: int = 64 << 10):
        """Status and body. Away: the server gave no answer, or has no room just now. Passing: it refuses, or is not
        trusted, and that may pass. Refused: it will not pass."""
        headers = {"Fedloom-Protocol": f"{VERSION} {OLDEST}"}
        headers["Fedloom-Instance"] = f"{self.folder or self._process} {self._process}"
        if body is not None:
            headers["Content-Type"] = kind
        if not self._tls:
            headers["Fedloom-Client"] = self._name or ""
        try:
            status, got, text = self._try(method, path, body, headers, most)
        except Refused:
            self.close()
            raise
        except ssl.SSLCertVerificationError as e:
            self.close()
            # It may have been renewed wrongly, or a clock may be wrong.
            raise Passing(f"the server's certificate is not trusted: {e}", MOST_PASSING) from e
        except (OSError, http.client.HTTPException) as e:
            self.close()
            raise Away(f"{self._host}:{self._port}: {e or type(e).__name__}") from e
        if status in (408, 429) or status >= 500:
            raise Away(f"{path}: the server answers {status} {sentence(text)}".strip(), _later(got.get("Retry-After")))
        _check_version(got.get("Fedloom-Protocol"), sentence(text) if status == 426 else "")
        if status < 300 or status in (400, 409, 410, 411, 413, 422):
            return status, text
        why = f"{path}: the server refuses ({status}): {sentence(text) or 'it does not say why'}"
        seconds = self._passing(read_json(text)) if status == 403 else 0
        raise Passing(why, seconds) if seconds > 0 else Refused(why)

    def _passing(self, said: dict[str, Any]) -> float:
        """For how many seconds a server that refuses says that it is worth trying again."""
        seconds = said.get("again")
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
            return 0
        if "clock" in said and self._validity and not self._validity[0] <= time.time() < self._validity[1]:
            return 0  # our certificate has ended, or does not hold yet, by our clock as well
        return min(MOST_PASSING, seconds)


def _tls(certs: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks the certificate, and that it is the host's
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(certs / "ca.pem")
    context.load_cert_chain(certs / "cert.pem", certs / "key.pem")
    return context


def _validity(pem: str) -> tuple[int, int] | None:
    """From when until when a certificate holds, in seconds since 1970: Python's ssl only says so of a peer's. None: it
    cannot be read."""
    found = re.search(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", pem, re.DOTALL)
    try:
        der = ssl.PEM_cert_to_DER_cert(found[0] if found else "")
        fields = _elements(_elements(_elements(der)[0][1])[0][1])
        fields = fields[1:] if fields[0][0] == 0xA0 else fields  # the version, which may be left out
        begins, ends = _elements(fields[3][1])  # behind serial number, algorithm and issuer
        return _seconds(begins), _seconds(ends)
    except (ValueError, IndexError):
        return None


def _elements(der: bytes) -> list[tuple[int, bytes]]:
    """Tags and contents of the DER elements that follow each other."""
    made, at = [], 0
    while at < len(der):
        tag, n, at = der[at], der[at + 1], at + 2
        if n > 127:
            n, at = int.from_bytes(der[at : at + n - 128], "big"), at + n - 128
        made.append((tag, der[at : at + n]))
        at += n
    return made


def _seconds(when: tuple[int, bytes]) -> int:
    """A UTCTime, whose year has two digits (50 is 1950), or a GeneralizedTime."""
    tag, text = when[0], when[1].decode("ascii")
    full = text if tag == 0x18 else ("19" if text >= "50" else "20") + text
    return calendar.timegm(time.strptime(full, "%Y%m%d%H%M%SZ"))


def _later(header: str | None) -> int:
    """Whole seconds. A date is ignored, as the two clocks may differ."""
    text = (header or "").strip()
    return min(MOST_LATER, int(text)) if re.fullmatch(r"[0-9]{1,7}", text) else 0


def _check_version(header: str | None, said: str) -> None:
    found = re.fullmatch(r"(\d{1,6}) (\d{1,6})", header or "")
    if not found:
        raise Refused("the other side is no fedloom server: it does not say which protocol it speaks")
    version, oldest = map(int, found.groups())
    if said or version < OLDEST or oldest > VERSION:
        raise Refused(
            said
            or f"the server speaks protocol {version} ({oldest} at least), this client {VERSION} ({OLDEST} at least)"
        )


def read_json(text: bytes) -> dict[str, Any]:
    try:
        made = json.loads(text)
    except ValueError:
        return {}
    return made if isinstance(made, dict) else {}


def sentence(text: bytes) -> str:
    """Why, in a server's words."""
    return "".join(c if c.isprintable() else "?" for c in str(read_json(text).get("error", ""))[:1000])
