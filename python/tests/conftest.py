"""Small federations for all tests: each runs in milliseconds."""

import numpy as np
import pytest

import fedloom


def pytest_addoption(parser):
    parser.addoption("--no-skips", action="store_true", help="fail if a test was skipped, whatever it lacks")


def pytest_sessionfinish(session):
    if session.config.getoption("--no-skips"):
        skipped = session.config.pluginmanager.get_plugin("terminalreporter").stats.get("skipped", [])
        for report in skipped:
            print(f"\nnot to be skipped: {report.nodeid}: {report.longrepr[-1]}", end="")
        if skipped and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def digits():
    return {
        "rounds": 4,
        "data": {"kind": "digits", "samples": 600, "test_samples": 100},
        "partition": {"kind": "dirichlet", "clients": 10, "alpha": 0.5},
        "model": "softmax",
        "participation": {"kind": "uniform", "count": 4},
        "local": {"epochs": 1, "batch": 20, "lr": 0.1},
        "metrics": {"every": 2},
    }


@pytest.fixture
def samples():
    """Three classes that a linear model can tell apart: (x, y)."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 6))
    return x, (x @ rng.normal(size=(6, 3))).argmax(axis=1)


@pytest.fixture
def regression(samples):
    """Six unknowns, ten clients, everyone takes part: a configuration without model."""
    x, _ = samples
    y = x @ np.arange(1.0, 7.0)
    return {
        "data": fedloom.Data(x, y, sizes=[30] * 10),
        "rounds": 10,
        "precision": "f64",
        "local": {"batch": 10, "lr": 0.05, "epochs": 1},
        "metrics": {"every": 5},
        "participation": "everyone",
    }


def same(a, b):
    """Whether two runs end with the same bits."""
    return all(np.array_equal(a.model[k], b.model[k]) for k in a.model) and a.model.keys() == b.model.keys()
