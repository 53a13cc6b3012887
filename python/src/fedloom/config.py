"""Settings: dictionaries, files and YAML texts, laid over each other, become an fl_config."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Union

import numpy as np

from . import _core
from ._core import ConfigError, Context, ffi, lib, own
from .data import Data, as_data
from .own import live_owner

Settings = Union[None, Mapping, str, os.PathLike]

_ORIGIN = "settings"


_IN_LABELS = ("grid", "points")  # their values become names of folders and rows of tables


def yaml(value: Any, exact: bool = True) -> str:
    """A value as YAML on one line. An objective, solver or method becomes its exact name, NAME@k, which no other has;
    or, in labels, its plain NAME, as long as that means the same object."""
    if hasattr(value, "_fedloom_setting"):
        return yaml(value._fedloom_setting(exact))
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if value is None:
        return "~"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ConfigError(f"a setting is {value}, but settings are finite numbers")
        return repr(value)
    if isinstance(value, (str, os.PathLike)):
        return json.dumps(os.fspath(value))
    if isinstance(value, Mapping):
        inside = ((k, yaml(v, exact and k not in _IN_LABELS)) for k, v in value.items())
        return "{" + ", ".join(f"{json.dumps(str(k))}: {v}" for k, v in inside) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(yaml(v, exact) for v in value) + "]"
    raise ConfigError(f"a setting is a {type(value).__name__}, but must be a number, a text, a list or a dict")


def things_in(value: Any) -> list:
    """The objectives, solvers and methods of one's own that settings name, which must live as long as the run."""
    if hasattr(value, "_fedloom_setting"):
        return [value]
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    return [thing for v in inside for thing in things_in(v)]


def without_place(text: str) -> str:
    """Places in a text that nobody has seen are of no use."""
    return re.sub(rf"^({_ORIGIN}:\d+:\d+|--set [^:]*): ", "", text, flags=re.M)


class Config:
    """An fl_config, and what must stay alive for it.

    `keep` is what C has pointers to. `things` are objectives, solvers and methods of one's own, which whoever works
    with the configuration holds, but no C object: what a user's function can see may be the run itself, and the garbage
    collector must be able to see that, too. `client`: it is one's, whose samples may be few of many classes.
    """

    def __init__(self, config: Settings = None, settings: Mapping | None = None, client: bool = False) -> None:
        self.ctx = Context()
        self.client = client
        ptr = lib.fl_config_new(self.ctx.ptr)
        if ptr == ffi.NULL:
            raise _core.OutOfMemory("out of memory")
        self.keep: list = [self.ctx.ptr]
        self.things: list = []
        self.data: Data | None = None
        self.ptr = own(ptr, lib.fl_config_free, self.keep)
        if isinstance(config, Config):
            raise ConfigError("a configuration is a dict, a file or a YAML text")
        if isinstance(config, Mapping):
            self._lay(config)
        elif config is not None:
            self._read(config)
        self._lay(settings or {})

    def keep_named(self) -> Config:
        """Things of one's own that are chosen by name must live as long as the run, too."""
        for section, keys in (("algorithm", ("algorithm", "algorithm.kind")), ("model", ("model", "model.kind")),
                              ("solver", ("local.solver",))):  # fmt: skip
            self.things += [live_owner(section, self.get(key)) for key in keys]
        return self

    def check(self, status: int) -> None:
        self.ctx.check(status, without_place)

    def text(self, call: Any) -> str:
        return self.ctx.text(call, without_place)

    def get(self, key: str) -> str:
        """What was given for a key, as text; "" if nothing was."""
        return _core.string(lib.fl_config_get(self.ptr, key.encode()))

    def _read(self, config: Any) -> None:
        if not isinstance(config, (str, os.PathLike)):
            raise ConfigError(
                f"a configuration is a {type(config).__name__}, but must be a dict, a file or a YAML text"
            )
        if isinstance(config, str) and ("\n" in config or ": " in config):
            self.ctx.check(lib.fl_config_text(self.ptr, config.encode(), b"the text"))
        else:
            self.ctx.check(lib.fl_config_load(self.ptr, os.fsencode(Path(config).expanduser())))

    def _lay(self, settings: Mapping) -> None:
        """Lays settings over what is there; "local.lr" and {"local": {"lr": ...}} mean the same."""
        plain: dict[str, Any] = {}
        dotted: dict[str, Any] = {}
        for key, value in settings.items():
            samples = as_data(value) if key == "data" else None
            if samples is not None:
                self.data = samples
            else:
                (dotted if "." in str(key) else plain)[key] = value
        self.things += things_in(list(settings.values()))
        if plain:
            text = "\n".join(f"{json.dumps(str(k))}: {yaml(v, k not in _IN_LABELS)}" for k, v in plain.items())
            self.check(lib.fl_config_text(self.ptr, text.encode(), _ORIGIN.encode()))
        if self.data is not None and "data" in settings and "data" not in plain:
            self._hand_over(self.data)
        for key, value in dotted.items():
            self.check(lib.fl_config_set(self.ptr, f"{key}={yaml(value)}".encode()))

    def _hand_over(self, data: Data) -> None:
        """Samples in memory: no copy is made, so they are kept."""
        if not self.client:
            data.check_labels()
        train, test, who, arrays = data._structs()
        self.keep += [data, arrays]
        self.check(lib.fl_config_data(self.ptr, train, test, who))
        for key, value in data.settings.items():
            self.check(lib.fl_config_set(self.ptr, f"data.{key}={yaml(value)}".encode()))


def show(config: Settings = None, **settings: Any) -> str:
    """Checks a configuration without loading data; returns it resolved, as YAML: every key with its value."""
    cfg = Config(config, settings)
    return cfg.text(lambda fn, arg: lib.fl_config_print(cfg.ptr, fn, arg))
