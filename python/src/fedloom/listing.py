"""What there is to choose from."""

from __future__ import annotations

import re

from ._core import Context, ffi, lib


def listing(kind: str | None = None, name: str | None = None) -> Listing:
    """What there is: list() names the kinds, list("algorithms") one kind, list("algorithms", "fedprox") one thing."""
    ctx = Context()
    kind_c = kind.encode() if kind else ffi.NULL
    name_c = name.encode() if name else ffi.NULL
    return Listing(ctx.text(lambda fn, arg: lib.fl_list(ctx.ptr, kind_c, name_c, fn, arg)), name is None)


class Listing(tuple):
    """Names, as a tuple; as text, with a line about each."""

    text: str

    def __new__(cls, text: str, names: bool) -> Listing:
        found = re.findall(r"^([A-Za-z0-9][\w.-]*)  +\S", text, flags=re.M) if names else []
        made = super().__new__(cls, found)
        made.text = text
        return made

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text
