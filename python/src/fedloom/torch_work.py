"""What fedloom asks of a module: losses, gradients, products with the Hessian, whole turns. Part of fedloom.torch."""

from __future__ import annotations

import contextlib
import copy
import threading
import zlib
from typing import Any, Callable, Iterator, Sequence

import numpy as np
import torch
from torch import nn

from . import own
from ._core import ConfigError, Error
from .own import Batch, Local, Problem
from .torch_data import Clients
from .torch_module import Flat, Pool, Statistics, trained, vector

_drawing = threading.Lock()  # PyTorch has one source of random numbers for all threads


@contextlib.contextmanager
def threads_kept() -> Iterator[None]:
    """A thread of the user's has as many threads of PyTorch afterwards as it had before."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)


def _hits(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (output.argmax(1) == target).sum()


def _labels(output: Any, target: Any) -> bool:
    """Whether these are scores of classes, and labels."""
    return (
        isinstance(output, torch.Tensor) and isinstance(target, torch.Tensor) and output.dim() == 2
        and target.shape == output.shape[:1] and not target.is_floating_point() and not target.is_complex()
    )  # fmt: skip


def _looks(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype)[len('torch.'):]} {tuple(value.shape)}"
    return type(value).__name__


class Work:
    """What C calls for: loss, gradient and whole turns, at any number of threads."""

    def __init__(self, module: nn.Module, loss: Callable, clients: Clients, frozen: bool, torch_threads: int) -> None:
        self.name, self.loss, self.clients = type(module).__name__, loss, clients
        try:
            self.module = copy.deepcopy(module)
        except Exception as e:
            raise ConfigError(f"{type(module).__name__} cannot be copied: {e}") from e
        device = clients.device
        self.start = vector(trained(self.module).values()).astype(np.float64)
        self.pool = Pool(lambda: Flat(self.module, device, frozen))
        self.statistics = Statistics(clients)
        self.correct: Callable | None = None
        self.random = False
        self._threads = torch_threads

    # ---- around everything

    @contextlib.contextmanager
    def at(self, where: str, seed: int | None = None) -> Iterator[Flat]:
        """A copy of the module to work with, as many threads in PyTorch as were asked for, and one sentence for
        whatever goes wrong. Modules that draw random numbers do so from the seed, one at a time."""
        if torch.get_num_threads() != self._threads:  # of this thread
            torch.set_num_threads(self._threads)
        try:
            with self.pool.one() as flat, self._seeded(seed), torch.enable_grad():
                yield flat
        except (own.Known, Error):
            raise
        except Exception as e:
            text = " ".join(f"{type(e).__name__}: {e}".split())
            raise Error(f"{self.name} failed at {where}: {text[:160]}") from e

    def _seeded(self, seed: int | None) -> Any:
        return self._seeding(seed) if self.random and seed is not None else contextlib.nullcontext()

    @contextlib.contextmanager
    def _seeding(self, seed: int) -> Iterator[None]:
        device = self.clients.device
        with _drawing, torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(seed & (2**63 - 1))
            yield

    def _value(self, flat: Flat, inputs: Any, target: Any) -> tuple[Any, torch.Tensor]:
        output = flat.outputs(inputs)
        value = self.loss(output, target)
        if not isinstance(value, torch.Tensor) or value.numel() != 1:
            raise ConfigError(f"the loss is a {_looks(value)}, but must be one number, the mean over the batch")
        return output, value.reshape(())

    def _where(self, b: Batch) -> str:
        return "the test samples" if b.test else f"client {self.clients.owner(b.sample)}"

    # ---- the functions of an objective

    def batch(self, x: np.ndarray, b: Batch) -> tuple:
        seed = zlib.crc32(x[:256].tobytes(), zlib.crc32(b.sample.tobytes())) if b.gradient else None
        with self.at(self._where(b), seed) as flat, torch.set_grad_enabled(b.gradient):
            statistics = None if b.gradient else self.statistics.of(x, flat)
            flat.put(flat.x, x)
            flat.training() if b.gradient else flat.evaluating(statistics)
            inputs, target = self.clients.batch(b.sample, b.test)
            output, value = self._value(flat, inputs, target)
            if b.gradient:
                flat.g.zero_()
                value.backward()
            hits = 0 if self.correct is None else int(self.correct(output, target))
            return value.item(), flat.get(flat.g) if b.gradient else None, hits

    def product(self, x: np.ndarray, b: Batch, v: np.ndarray) -> np.ndarray:
        with self.at(self._where(b), zlib.crc32(b.sample.tobytes())) as flat:
            flat.put(flat.x, x)
            flat.training()
            _, value = self._value(flat, *self.clients.batch(b.sample, b.test))
            first = torch.autograd.grad(value, flat.parameters, create_graph=True, allow_unused=True)
            direction = flat.views(flat.put(flat.spare, v))
            along = [(g, d) for g, d in zip(first, direction) if g is not None and g.requires_grad]
            flat.g.zero_()
            if along:
                torch.autograd.backward([g for g, _ in along], [d for _, d in along], inputs=flat.parameters)
            return flat.get(flat.g)

    def measure(self, functions: Sequence[Callable], x: np.ndarray) -> list[float]:
        with self.at("a metric") as flat, torch.no_grad():
            statistics = self.statistics.of(x, flat)
            flat.put(flat.x, x)
            flat.evaluating(statistics)
            return [float(f(flat.module)) for f in functions]

    # ---- a turn

    def solve(self, local: Local, problem: Problem) -> np.ndarray:
        """SGD with momentum on f_i(z) + <shift, z> + rho/2 ||z - anchor||^2, whose terms are where gradients start."""
        with self.at(f"client {local.client}, round {local.round + 1}", local.seed) as flat:
            flat.put(flat.x, problem.start)
            flat.training()
            linear, rho = self._linear(flat, problem)
            momentum = torch.zeros_like(flat.x) if local.momentum else None
            for _ in range(problem.steps):
                numbers, decay = local.next()
                flat.g.zero_() if linear is None else flat.g.copy_(linear)
                self._value(flat, *self.clients.batch(numbers))[1].backward()
                if decay + rho:
                    flat.g.add_(flat.x, alpha=decay + rho)
                if momentum is not None:
                    momentum.mul_(local.momentum).add_(flat.g)
                flat.x.add_(flat.g if momentum is None else momentum, alpha=-problem.lr)
            local.spent(momentum=local.momentum)
            return flat.get(flat.x)

    @staticmethod
    def _linear(flat: Flat, problem: Problem) -> tuple[torch.Tensor | None, float]:
        """shift + rho (z - anchor) = (shift - rho anchor) + rho z: the vector, and rho."""
        anchor, rho = problem.anchor, problem.rho if problem.anchor is not None else 0.0
        if problem.shift is None and not rho:
            return None, 0.0
        linear = flat.spare.zero_() if problem.shift is None else flat.put(flat.spare, problem.shift)
        if anchor is not None and rho:
            linear.add_(flat.put(flat.g, anchor), alpha=-rho)
        return linear, rho

    # ---- before the first run

    @threads_kept()
    def probe(self) -> None:
        """A few samples of the first client, to find out early what is wrong, and what the module is like."""
        inputs = target = None
        state = self._random_state()
        try:
            with self.at("its first samples") as flat:
                flat.put(flat.x, self.start)
                flat.training()
                inputs, target = self.clients.batch(np.arange(min(8, self.clients.sizes[0])))
                output, value = self._value(flat, inputs, target)
                if not value.requires_grad:
                    raise ConfigError("the loss does not depend on the parameters that are to be trained")
                value.backward()
                self.correct = _hits if _labels(output, target) else None
        except ConfigError:
            raise
        except Error as e:
            raise ConfigError(f"{e} (input: {_looks(inputs)}, target: {_looks(target)})") from e.__cause__
        after = self._random_state()
        self.random = any(not torch.equal(a, b) for a, b in zip(state, after))
        torch.set_rng_state(state[0])
        if len(state) > 1:
            torch.cuda.set_rng_state(state[1], self.clients.device)

    def _random_state(self) -> list[torch.Tensor]:
        """Of PyTorch's generators that a module may draw from."""
        device = self.clients.device
        return [torch.get_rng_state()] + ([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])
