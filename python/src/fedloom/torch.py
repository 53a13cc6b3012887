"""fedloom for PyTorch: any method trains any module.

    import fedloom.torch

    fed = fedloom.torch.Federation(net, nn.CrossEntropyLoss(), clients, test=test)    # clients: a data set each
    result = fed.run("scaffold", rounds=50, local={"lr": 0.1, "batch": 32, "epochs": 1})
    result.metrics                # as of fedloom.run
    result.module                 # the trained module

For those who keep their own training loop, in a fedloom.Solver:

    terms(problem, parameters)           <shift, z> + rho/2 ||z - anchor||^2, to be added to a loss
    add_terms_(problem, parameters)      the same, added to the gradients
    fed.module(problem.start), fed.batch(local)                 a module, and the next mini-batch
    put(vector, parameters), take(parameters)                   from a vector, and back
"""

from __future__ import annotations

import copy
import re
import zlib
from typing import Any, Callable, Mapping, Sequence

import numpy as np

try:
    import torch
except ImportError as e:
    raise ImportError("fedloom.torch needs PyTorch: pip install torch") from e
from torch import nn

try:
    torch.zeros(1).numpy()
except RuntimeError as e:
    raise ImportError(f"this PyTorch ({torch.__version__}) was built for another NumPy than {np.__version__}") from e

from . import study
from ._core import ConfigError, lib
from .config import show
from .data import Data
from .display import Wanted
from .own import Local, Objective, Solver
from .run import Run
from .torch_data import Clients, fingerprint
from .torch_module import precision, put_statistics, statistics_of, trained
from .torch_terms import add_terms_, put, take, terms
from .torch_work import Work, threads_kept

__all__ = ["Federation", "Result", "add_terms_", "put", "take", "terms"]

BUFFERS = ("fresh", "frozen")


class Result(Run):
    """A run of a Federation: all that a fedloom.Run has, and the module."""

    def __init__(self, federation: Federation, progress: Wanted, force: bool, settings: Mapping) -> None:
        super().__init__(settings, progress=progress, force=force)
        self._federation = federation

    @threads_kept()
    def step(self) -> bool:
        return super().step()

    @threads_kept()
    def go(self) -> Result:
        super().go()
        return self

    @property
    def module(self) -> nn.Module:
        """A module with the parameters as they are now."""
        return self._federation.trained(self.model)


class Federation:
    """Clients that train a module together.

    module    any nn.Module whose parameters are float32 or float64. Parameters that do not require gradients are
              neither trained nor sent. It is copied, and every run starts with the parameters it has now.
    loss      f(output, target): the mean over a batch.
    datasets  one for each client: a map-style data set of pairs (input, target), or a pair of tensors. Inputs that are
              tuples or dicts become arguments of the module.
    test      the same, for the test set.
    device    where it is trained: "cpu", "cuda".
    buffers   what becomes of running statistics (batch norm). "fresh": clients normalise by their mini-batches.
              Wherever a model is evaluated without its gradient, and for the module that comes out, statistics are the
              means over batches of all clients' samples. "frozen": the module's own are used everywhere, in training
              as well. Other buffers start every turn as the module has them.
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
        self._work = Work(module, loss, self.clients, buffers == "frozen", torch_threads)
        self._precision = precision(parameters)
        self._work.probe()
        if correct is False:
            self._work.correct = None
        elif correct is not None and correct is not True:
            self._work.correct = correct
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
        """The configuration of this federation, for other functions: fedloom.tune(fed.settings(...), ...)."""
        made = dict(settings)
        model = made.get("model", {})
        if not isinstance(model, Mapping):
            raise ConfigError("the model is the module: `model` can only have settings, such as {'weight_decay': 0.1}")
        if made.setdefault("precision", self._precision) != self._precision:
            raise ConfigError(f"precision is {made['precision']}, but the module's parameters are {self._precision}")
        made["model"] = {"kind": self._objective, **model}
        made["data"] = self._data
        if self.clients.device.type != "cpu":
            made.setdefault("threads", 1)
        return made

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

    @threads_kept()
    def trained(self, model: Mapping[str, np.ndarray]) -> nn.Module:
        """A module with these parameters, by name: of a run (`model`), or of a file (fedloom.load(...))."""
        x = np.concatenate([np.asarray(v).reshape(-1) for v in model.values()])
        work = self._work
        made = copy.deepcopy(work.module)
        put(x, trained(made).values())
        with work.at("the statistics of the trained module") as flat:
            statistics = work.statistics.of(x, flat)
            if statistics is not None:
                put_statistics(statistics_of(made), statistics)
        return made

    def module(self, x: Any) -> nn.Module:
        """A copy of the module with the parameters x (one vector: problem.start), ready to be trained by a loop of
        one's own. What becomes of its buffers is not fedloom's business."""
        made = copy.deepcopy(self._work.module).to(self.clients.device)
        put(x, trained(made).values())
        return made.train()

    def batch(self, local: Local) -> tuple[Any, Any]:
        """(input, target) of the mini-batch that fedloom's own SGD would take next, for loops of one's own."""
        return self.clients.batch(local.next()[0])

    def __repr__(self) -> str:
        return (f"<fedloom.torch.Federation {self.name}: {len(self.clients)} clients, "
                f"{self.clients.start[-1]} samples, {len(self._work.start)} parameters>")  # fmt: skip


_COMPARE = {"seeds", "jobs", "quick", "output", "tensorboard", "force", "progress"}


def _turns(name: str, work: Work) -> type:
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
