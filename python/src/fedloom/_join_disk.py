"""What a client of a federation has on its disk between asks. Part of fedloom.join."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
from pathlib import Path

from ._core import Busy


class Keep:
    """Its state, and an answer until it has arrived; in a folder that one process at a time has, or in memory."""

    def __init__(self, folder: Path | None) -> None:
        self._folder, self._run = folder, ""
        self._memory: dict[str, bytes] = {}
        if folder:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(self._lock)
                raise Busy(f"{folder}: another client works there") from None

    def instance(self) -> str:
        """The folder's random number, which only its copies share. The lock file holds it."""
        if not self._folder:
            return ""
        found = re.fullmatch(rb"[0-9a-f]{16}", os.pread(self._lock, 64, 0))
        if found:
            return found[0].decode()
        number = secrets.token_hex(8)
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, number.encode(), 0)
        return number

    def close(self) -> None:
        if self._folder:
            os.close(self._lock)

    def of(self, run: bytes) -> None:
        """From now on what is kept belongs to this run."""
        self._run = run.hex()[:16]
        self._memory.clear()

    @property
    def folder(self) -> Path | None:
        return self._folder

    def _file(self, name: str) -> Path:
        assert self._folder
        return self._folder / f"{name}-{self._run}"

    def get(self, name: str) -> bytes | None:
        if not self._folder:
            return self._memory.get(name)
        with contextlib.suppress(FileNotFoundError):
            return self._file(name).read_bytes()
        return None

    def put(self, name: str, content: bytes) -> None:
        """If the machine stops meanwhile, either all of the content is there or what was there before."""
        if not self._folder:
            self._memory[name] = content
            return
        new = self._folder / (name + ".new")
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as f:
            f.write(content)
            f.flush()
            os.fsync(f.fileno())
        new.replace(self._file(name))
        folder = os.open(self._folder, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def drop(self, name: str) -> None:
        self._memory.pop(name, None)
        if self._folder:
            self._file(name).unlink(missing_ok=True)

    def forget(self) -> None:
        """The run is over."""
        for name in ("state", "answer", "begun"):
            self.drop(name)
