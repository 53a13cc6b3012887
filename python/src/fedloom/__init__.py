"""fedloom: federated optimisation.

    import fedloom

    result = fedloom.run(rounds=30, data="digits", partition={"kind": "dirichlet", "clients": 50, "alpha": 0.3},
                         model={"kind": "mlp", "hidden": [64]}, algorithm="scaffold")
    result.metrics                # a DataFrame, or a dict of arrays without pandas
    result.model                  # named arrays, where they lie

A configuration is what `fedloom run` takes: a dict, a YAML file, or its text, with keyword arguments laid over it.
`fedloom.list()` says what there is to choose from.
"""

from ._core import (
    Busy,
    ConfigError,
    Diverged,
    Error,
    FedloomWarning,
    FileError,
    OutOfMemory,
    Refused,
    kernels,
    version,
)
from .config import show as show_config
from .data import Data
from .join import join
from .listing import listing as list
from .method import Answer, Method, Part, Server, Turn, Upload, conform
from .model import Model, load
from .own import Batch, Local, Objective, Problem, Solver, objective
from .plot import plot
from .run import Run, resume, run
from .study import Check, Comparison, Condition, Tuning, check, compare, describe, experiments, reproduce, tune

__version__ = version()

__all__ = [
    "Answer", "Batch", "Busy", "Check", "Comparison", "Condition", "ConfigError", "Data", "Diverged", "Error",
    "FedloomWarning", "FileError", "Local", "Method", "Model", "Objective", "OutOfMemory", "Part", "Problem", "Refused",
    "Run", "Server", "Solver", "Tuning", "Turn", "Upload", "check", "compare", "conform", "describe", "experiments",
    "join", "kernels", "list", "load", "objective", "plot", "reproduce", "resume", "run", "show_config", "tune",
]  # fmt: skip
