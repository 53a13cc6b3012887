"""The terms of a local problem in a training loop of one's own. Part of fedloom.torch."""

from __future__ import annotations

from typing import Iterable, Iterator, Sequence

import numpy as np
import torch

from ._core import ConfigError
from .own import Problem
from .torch_module import vector


def _views(array: np.ndarray, parameters: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
    """An array as tensors like the parameters: copies, since arrays of a problem may only be read."""
    n = sum(p.numel() for p in parameters)
    if array.shape != (n,):
        raise ConfigError(f"the vector has the shape {array.shape}, but the parameters have {n} numbers")
    at = 0
    for p in parameters:
        yield torch.tensor(array[at : at + p.numel()], dtype=p.dtype, device=p.device).view(p.shape)
        at += p.numel()


def put(values: np.ndarray, parameters: Iterable[torch.Tensor]) -> None:
    """Sets parameters, in their order, from a vector such as problem.start."""
    parameters = list(parameters)
    with torch.no_grad():
        for p, v in zip(parameters, _views(values, parameters)):
            p.copy_(v)


def take(parameters: Iterable[torch.Tensor]) -> np.ndarray:
    """Parameters, in their order, as one vector: what a solver returns."""
    return vector(parameters)


def _terms(problem: Problem, parameters: Sequence[torch.Tensor]) -> Iterator[tuple]:
    """(parameter, shift, anchor) one by one; what the problem has not is None."""
    none = [None] * len(parameters)
    shift = none if problem.shift is None else _views(problem.shift, parameters)
    anchor = none if problem.anchor is None or not problem.rho else _views(problem.anchor, parameters)
    return zip(parameters, shift, anchor)


def terms(problem: Problem, parameters: Iterable[torch.Tensor]) -> torch.Tensor:
    """<shift, z> + rho/2 ||z - anchor||^2 for the parameters z, to be added to a loss."""
    parameters = list(parameters)
    total = torch.zeros((), dtype=parameters[0].dtype, device=parameters[0].device)
    for p, shift, anchor in _terms(problem, parameters):
        if shift is not None:
            total = total + (shift * p).sum()
        if anchor is not None:
            total = total + problem.rho / 2 * (p - anchor).square().sum()
    return total


def add_terms_(problem: Problem, parameters: Iterable[torch.Tensor]) -> None:
    """Adds the gradients of these terms to those of the parameters, after backward()."""
    parameters = list(parameters)
    with torch.no_grad():
        for p, shift, anchor in _terms(problem, parameters):
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            if shift is not None:
                p.grad.add_(shift)
            if anchor is not None:
                p.grad.add_(p - anchor, alpha=problem.rho)
