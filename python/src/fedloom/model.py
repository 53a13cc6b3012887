"""Trained models at work."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from . import _core
from ._core import ConfigError, Context, ffi, lib, own, string
from .data import features


class Model:
    """A trained model, as fedloom.load() returns it: named arrays, and predictions."""

    def __init__(self, path: str | os.PathLike) -> None:
        ctx = Context()
        new = lambda out: lib.fl_model_load(ctx.ptr, os.fsencode(path), out)  # noqa: E731
        self._model = own(_core.make(ctx.check, new, "fl_model **", lib.fl_model_free), lib.fl_model_free, ctx.ptr)
        self._about = lib.fl_model_about(self._model)

    @property
    def kind(self) -> str:
        return string(self._about.kind)

    @property
    def parameters(self) -> int:
        return self._about.parameters

    @property
    def classes(self) -> int:
        """0: a regression."""
        return self._about.classes

    @property
    def class_names(self) -> list[str]:
        names = self._about.class_name
        return [str(k) if names == ffi.NULL else string(names[k]) for k in range(self.classes)]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of a sample: channels, height, width."""
        return tuple(self._about.shape)

    @property
    def tensors(self) -> dict[str, np.ndarray]:
        """The parameters as named arrays, where they lie."""
        out: dict[str, np.ndarray] = {}
        t, data = ffi.new("fl_tensor *"), ffi.new("const void **")
        while lib.fl_model_tensor(self._model, len(out), t, data):
            shape = [t.shape[i] for i in range(t.dims)]
            flat = _core.view(data[0], int(np.prod(shape, dtype=np.int64)), self._about.real, self._model)
            out[string(t.name)] = flat.reshape(shape)
        return out

    def metadata(self, key: str) -> str | None:
        """What the file says under a key; None: nothing."""
        text = lib.fl_model_metadata(self._model, key.encode())
        return None if text == ffi.NULL else string(text)

    def predict(self, x: Any) -> np.ndarray:
        """Class probabilities (n x classes), or the values of a regression (n). Samples are as they were in the data:
        bytes of pixels, raw features."""
        samples, n, keep = features(x, self._about.dim)
        out = np.empty((n, self._about.outputs))
        ctx = Context()
        ctx.check(lib.fl_model_predict(ctx.ptr, self._model, samples, _core.pointer("double", out)))
        return out if self.classes else out[:, 0]

    def export(self, path: str | os.PathLike) -> None:
        """Writes a softmax, mlp or cnn as ONNX, for other runtimes; the name ends in .onnx. The graph takes samples as
        predict does (`input`, in f32: n x channels x height x width, or n x features), and gives `logits` and
        `probabilities`."""
        ctx = Context()
        ctx.check(lib.fl_model_export(ctx.ptr, self._model, os.fsencode(os.path.expanduser(path))))

    def classify(self, x: Any) -> np.ndarray:
        """The likeliest class of each sample: its number, or what the data called it, as text."""
        likeliest = self._likeliest(x)
        return likeliest if self._about.class_name == ffi.NULL else np.array(self.class_names)[likeliest]

    def _likeliest(self, x: Any) -> np.ndarray:
        if not self.classes:
            raise ConfigError("this model is a regression: it has values, and no classes")
        return self.predict(x).argmax(axis=1)

    def __repr__(self) -> str:
        what = f"{self.classes} classes" if self.classes else "a regression"
        return f"<fedloom.Model: {self.kind}, {self.parameters} parameters, {what}>"


def load(path: str | os.PathLike) -> Model:
    """Reads a model.safetensors that a run has written, or that of a result folder."""
    path = os.path.expanduser(os.fspath(path))
    return Model(os.path.join(path, "model.safetensors") if os.path.isdir(path) else path)
