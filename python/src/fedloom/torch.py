"""fedloom for PyTorch: any method trains any module.

    import fedloom.torch

    fed = fedloom.torch.Federation(net, nn.CrossEntropyLoss(), clients, test=test)    # clients: a data set each
    result = fed.run("scaffold", rounds=50, local={"lr": 0.1, "batch": 32, "epochs": 1})
    result.metrics                # as of fedloom.run
    result.module                 # the trained module

For those who keep their own training loop, in a fedloom.Solver:

    terms(problem, parameters)           <shift, z> + rho/2 ||z - anchor||^2, to be added to a loss
    add_terms_(problem, parameters)      the same, added to the gradients
    put(vector, parameters), take(parameters)                   from a vector, and back
"""

from __future__ import annotations

import contextlib
import copy
import re
import threading
import zlib
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

try:
    import torch
except ImportError as e:  # pragma: no cover
    raise ImportError("fedloom.torch needs PyTorch: pip install torch") from e
from torch import nn

from . import own, study
from ._core import ConfigError, Error, lib
from .config import show
from .data import Data
from .display import Wanted
from .own import Batch, Local, Objective, Problem, Solver
from .run import Run
from .torch_data import Clients, fingerprint
from .torch_module import Flat, Pool, Statistics, precision, put_statistics, statistics_of, trained, vector

__all__ = ["Federation", "Result", "add_terms_", "put", "take", "terms"]

BUFFERS = ("fresh", "frozen")


# ---- for loops of one's own ----------------------------------------------------------------------------------------


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


# ---- threads ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _threads_kept() -> Iterator[None]:
    """A thread of the user's has as many threads of PyTorch afterwards as it had before."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)


# ---- the objective ---------------------------------------------------------------------------------------------------


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


class _Work:
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
        self._drawing = threading.Lock()

    # ---- around everything

    @contextlib.contextmanager
    def _at(self, where: str, seed: int | None = None) -> Iterator[Flat]:
        """A copy of the module to work with, as many threads in PyTorch as were asked for, and one sentence for
        whatever goes wrong. PyTorch has one source of random numbers for all threads, so those who draw from it take
        turns."""
        if torch.get_num_threads() != self._threads:  # of this thread
            torch.set_num_threads(self._threads)
        try:
            with self.pool.one() as flat, self._seeded(seed):
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
        with self._drawing, torch.random.fork_rng([device] if device.type == "cuda" else []):
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
        seed = zlib.crc32(x[:256].tobytes(), zlib.crc32(b.sample)) if b.gradient else None
        with self._at(self._where(b), seed) as flat, torch.set_grad_enabled(b.gradient):
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
        with self._at(self._where(b), zlib.crc32(b.sample)) as flat:
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
        with self._at("a metric") as flat, torch.no_grad():
            statistics = self.statistics.of(x, flat)
            flat.put(flat.x, x)
            flat.evaluating(statistics)
            return [float(f(flat.module)) for f in functions]

    # ---- a turn

    def solve(self, local: Local, problem: Problem) -> np.ndarray:
        """SGD with momentum on f_i(z) + <shift, z> + rho/2 ||z - anchor||^2, whose terms are where gradients start."""
        with self._at(f"client {local.client}, round {local.round + 1}", local.seed) as flat:
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
            return flat.get(flat.x)

    @staticmethod
    def _linear(flat: Flat, problem: Problem) -> tuple[torch.Tensor | None, float]:
        """shift + rho (z - anchor) = (shift - rho anchor) + rho z: the vector, and rho."""
        rho = problem.rho if problem.anchor is not None else 0.0
        if problem.shift is None and not rho:
            return None, 0.0
        linear = flat.spare.zero_() if problem.shift is None else flat.put(flat.spare, problem.shift)
        if rho:
            linear.add_(flat.put(flat.g, problem.anchor), alpha=-rho)
        return linear, rho

    # ---- before the first run

    @_threads_kept()
    def probe(self) -> None:
        """A few samples of the first client, to find out early what is wrong, and what the module is like."""
        inputs = target = None
        state = self._random_state()
        try:
            with self._at("its first samples") as flat:
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


# ---- a federation ------------------------------------------------------------------------------------------------------


class Result(Run):
    """A run of a Federation: all that a fedloom.Run has, and the module."""

    def __init__(self, federation: Federation, progress: Wanted, force: bool, settings: Mapping) -> None:
        super().__init__(settings, progress=progress, force=force)
        self._federation = federation

    @_threads_kept()
    def step(self) -> bool:
        return super().step()

    @_threads_kept()
    def go(self) -> Result:
        super().go()
        return self

    @property
    def module(self) -> nn.Module:
        """A module with the parameters as they are now."""
        return self._federation.trained(self.model)


class Federation:
    """Clients that train a module together.

    module    any nn.Module whose parameters are float32 or float64. Parameters that do not require gradients are neither
              trained nor sent. It is copied, and every run starts with the parameters it has now.
    loss      f(output, target): the mean over a batch.
    datasets  one for each client: a map-style data set of pairs (input, target), or a pair of tensors. Inputs that are
              tuples or dicts become arguments of the module.
    test      the same, for the test set.
    device    where it is trained: "cpu", "cuda".
    buffers   what becomes of running statistics (batch norm). Clients normalise by their mini-batches; "fresh": wherever
              a model is evaluated, and for the module that comes out, its statistics are the means over the batches of
              all clients' samples. "frozen": the module's own are used everywhere, in training as well. Other
              buffers start every turn as the module has them.
    correct   f(output, target): how many of a batch are right, for accuracies; None: if outputs are scores of classes
              and targets are labels, those whose highest score is the label's; False: there is no such thing.
    metrics   {"name": f(module)}: numbers of one's own, columns of `metrics`.
    weights   of the clients, up to a factor; else by their samples.
    collate   makes a batch of a list of samples; else torch's default.
    convex    the loss is convex in the parameters, which some methods need.
    name      in configurations and result folders; else the name of the module's class and a checksum of parameters
              and samples, so that a comparison takes over finished runs of the same federation alone.
    torch_threads    of PyTorch, within a turn. `threads` of a run are how many turns are under way at a time.
    """

    def __init__(
        self,
        module: nn.Module,
        loss: Callable[[Any, Any], torch.Tensor],
        datasets: Sequence,
        *,
        test: Any = None,
        device: str | torch.device = "cpu",
        buffers: str = "fresh",
        correct: Callable[[Any, Any], Any] | bool | None = None,
        metrics: Mapping[str, Callable[[nn.Module], float]] | None = None,
        weights: Any = None,
        collate: Callable | None = None,
        convex: bool = False,
        name: str | None = None,
        torch_threads: int = 1,
    ) -> None:
        if not isinstance(module, nn.Module):
            raise ConfigError(f"the module is a {type(module).__name__}, but must be a torch.nn.Module")
        if not callable(loss):
            raise ConfigError(f"the loss is a {type(loss).__name__}, but must be a function of (output, target)")
        if buffers not in BUFFERS:
            raise ConfigError(f"buffers is {buffers!r}, but must be one of {', '.join(BUFFERS)}")
        parameters = trained(module)
        self.clients = Clients(datasets, test, collate, _device(device))
        self.name = name or _name(module, self.clients, buffers)
        self._work = _Work(module, loss, self.clients, buffers == "frozen", torch_threads)
        self._precision = precision(parameters)
        self._work.probe()
        if correct is not None:
            self._work.correct = correct or None
        self._objective = self._objective_of(parameters, dict(metrics or {}), convex)
        self._solver = _turns(self.name, self._work)
        self._data = self._numbers(weights)

    def _objective_of(self, parameters: Mapping[str, nn.Parameter], metrics: Mapping[str, Callable],
                      convex: bool) -> Objective:  # fmt: skip
        work = self._work
        shapes = {_tensor_name(name, k): _at_most_four(p.shape) for k, (name, p) in enumerate(parameters.items())}
        traits = lib.FL_OBJECTIVE_CLASSIFIER if work.correct else 0
        traits |= lib.FL_OBJECTIVE_CONVEX if convex else 0
        made = Objective(work.batch, self.name, len(work.start), shapes, False, traits)
        made.product(work.product)
        made.start(lambda rng: work.start)
        if metrics:
            functions = list(metrics.values())
            made.metrics(*metrics)(lambda x: work.measure(functions, x))
        return made

    def _numbers(self, weights: Any) -> Data:
        """Samples stay where they are: fedloom knows their numbers."""
        n = int(self.clients.start[-1])
        test = None if self.clients.test is None else len(self.clients.test)
        return Data(None, n=n, sizes=self.clients.sizes, weights=weights, test=test)

    # ---- running

    def settings(self, **settings: Any) -> dict[str, Any]:
        """The configuration for this federation, for functions such as fedloom.tune: fedloom.tune(fed.settings(...))."""
        made = dict(settings)
        model = made.get("model", {})
        if not isinstance(model, Mapping):
            raise ConfigError("the model is the module: `model` can only have settings, such as {'weight_decay': 0.001}")
        if made.setdefault("precision", self._precision) != self._precision:
            raise ConfigError(f"precision is {made['precision']}, but the module's parameters are {self._precision}")
        self._answer_to_name()
        made["model"] = {"kind": self._objective, **model}
        made["data"] = self._data
        if self.clients.device.type != "cpu":
            made.setdefault("threads", 1)
        return made

    def _answer_to_name(self) -> None:
        """Another federation of the same name may have been made since, as notebooks do."""
        if own.live_owner("model", self.name) is not self._objective:
            self._objective._register()
            self._solver = _turns(self.name, self._work)

    def prepare(self, algorithm: Any = "fedavg", *, progress: Wanted = None, force: bool = False,
                **settings: Any) -> Result:  # fmt: skip
        """A run before its first round, to be taken round by round."""
        made = self._by_turns(self.settings(algorithm=algorithm, **settings))
        return Result(self, progress, force, made)

    def run(self, algorithm: Any = "fedavg", *, progress: Wanted = None, force: bool = False,
            **settings: Any) -> Result:  # fmt: skip
        """Trains to the end. Settings are those of fedloom.run: rounds=50, local={"lr": 0.1}, participation=..."""
        with self.prepare(algorithm, progress=progress, force=force, **settings) as made:
            made.go()
        return made

    def compare(self, methods: Sequence[Any], **settings: Any) -> study.Comparison:
        """Compares methods, settings and seeds, as fedloom.compare does."""
        options = {k: settings.pop(k) for k in _COMPARE & settings.keys()}
        base = self.settings(**settings)
        rows = []
        for m in methods:
            row = dict(study._method(m))
            if "solver" in self._by_turns({**base, **row}).get("local", {}):
                row["local"] = {**row.get("local", {}), "solver": self._solver}
            rows.append(row)
        return study.compare(base, methods=rows, **options)

    def _by_turns(self, settings: dict) -> dict:
        """The same with whole turns in PyTorch, if the method poses problems for SGD and nobody else solves them."""
        local = settings.get("local", {})
        if not isinstance(local, Mapping) or "solver" in local or "local.solver" in settings:
            return settings
        made = {**settings, "local": {**local, "solver": self._solver}}
        try:
            show({k: v for k, v in made.items() if k != "label"})
        except ConfigError as e:
            if "local.solver" in str(e):
                return settings
        return made

    # ---- what comes out

    @_threads_kept()
    def trained(self, model: Mapping[str, np.ndarray]) -> nn.Module:
        """A module with these parameters, by name: of a run (`model`), or of a file (fedloom.load(...))."""
        x = np.concatenate([np.asarray(v).reshape(-1) for v in model.values()])
        work = self._work
        made = copy.deepcopy(work.module)
        put(x, trained(made).values())
        with work._at("the statistics of the trained module") as flat:
            statistics = work.statistics.of(x, flat)
            if statistics is not None:
                put_statistics(statistics_of(made), statistics)
        return made

    def batch(self, local: Local) -> tuple[Any, Any]:
        """(input, target) of the mini-batch that fedloom's own SGD would take next, for loops of one's own."""
        return self.clients.batch(local.next()[0])

    def __repr__(self) -> str:
        return (f"<fedloom.torch.Federation {self.name}: {len(self.clients)} clients, {self.clients.start[-1]} samples, "
                f"{len(self._work.start)} parameters>")  # fmt: skip


_COMPARE = {"seeds", "jobs", "quick", "output", "tensorboard", "force", "progress"}


def _turns(name: str, work: _Work) -> type:
    return type(name, (Solver,), {"name": name, "title": f"SGD in PyTorch for {name}",
                                  "solve": lambda self, local, problem: work.solve(local, problem)})  # fmt: skip


def _device(given: Any) -> torch.device:
    try:
        device = torch.empty(0, device=given).device
    except Exception as e:
        raise ConfigError(f"device is {given!r}, which PyTorch does not have here: {e}") from e
    return device


def _name(module: nn.Module, clients: Clients, buffers: str) -> str:
    crc = zlib.crc32(f"{module} {buffers}".encode())
    crc = clients.fingerprint(fingerprint(module.state_dict().values(), crc))
    return f"torch_{re.sub('[^A-Za-z0-9]', '', type(module).__name__)[:24]}-{crc:08x}"


def _tensor_name(name: str, k: int) -> str:
    return name if len(name) < 128 and re.fullmatch(r"[!-~]+", name) and not set('"\\') & set(name) else f"parameter{k}"


def _at_most_four(shape: Sequence[int]) -> tuple[int, ...]:
    """Files know one to four dimensions: the last ones become one."""
    shape = tuple(shape) or (1,)
    return shape if len(shape) <= 4 else shape[:3] + (int(np.prod(shape[3:])),)
