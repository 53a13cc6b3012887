import os

import numpy as np
import pytest

import fedloom


@pytest.fixture
def comparison(digits, tmp_path):
    return fedloom.compare(digits, methods=["scaffold", "fedavg"], seeds=2, output=tmp_path / "c")


def test_compare(comparison, digits):
    assert comparison.runs == (4, 4) and not comparison.failed
    assert list(comparison.columns()["method"]) == ["scaffold", "fedavg"]
    assert os.path.exists(comparison.report) and "<html" in comparison.html
    assert "scaffold" in comparison.text and "test accuracy" in repr(comparison)
    assert [(c.method, c.seed) for c in comparison.curves()] == [
        ("scaffold", 1), ("scaffold", 2), ("fedavg", 1), ("fedavg", 2)
    ]  # fmt: skip
    best = comparison.model("fedavg", seed=2)
    assert np.array_equal(best.tensors["weight"], fedloom.run(digits, seed=2).model["weight"])
    with pytest.raises(fedloom.ConfigError, match="no run of fedavg .* scaffold seed 1"):
        comparison.model("fedavg", seed=3)
    html = comparison._repr_html_()
    assert "<table" in html and "<svg" in html and "<?xml" not in html
    again = fedloom.compare(digits, methods=["scaffold", "fedavg"], seeds=2, output=comparison.output)
    assert np.array_equal(again.columns()["seconds_mean"], comparison.columns()["seconds_mean"])


def test_compare_in_memory(samples, tmp_path):
    x, y = samples
    c = fedloom.compare(data=fedloom.Data(x, y, sizes=[30] * 10), model="softmax", rounds=2, methods=["fedavg"],
                        output=tmp_path / "c")  # fmt: skip
    assert c.runs == (1, 1)


def test_plot(comparison, digits):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    ax = fedloom.plot(comparison)
    assert len(ax.lines) == 2 and ax.get_ylabel() == "test accuracy"
    ax = fedloom.plot(fedloom.run(digits), "train_loss", x="bytes_up", ax=ax)
    assert len(ax.lines) == 3 and ax.get_ylabel() == "training loss" and ax.get_xlabel().endswith("(MB)")
    assert ax.lines[2].get_xdata()[-1] == pytest.approx(fedloom.run(digits).bytes_up / 1e6)
    assert len(fedloom.plot({"a": fedloom.run(digits)}, "train-loss").lines) == 1
    with pytest.raises(fedloom.ConfigError, match="no metric"):
        fedloom.plot(comparison, "nonsense")


def test_runs_that_fail(digits, tmp_path):
    with pytest.raises(fedloom.Error, match="all runs failed"):
        fedloom.compare(digits, methods=["fedavg"], output=tmp_path / "c", local={"lr": 1e30})
    with pytest.raises(fedloom.ConfigError):
        fedloom.compare(digits, methods=["nonsense"], output=tmp_path / "d")


def test_check(digits):
    c = fedloom.check(digits, algorithm="fedvra")
    assert any(k.holds is False for k in c.conditions) and not c.holds
    assert "L_i" in c.text and repr(c) == c.text
    c = fedloom.check(digits, algorithm={"kind": "fedvra", "gamma": [1, 2, 3, 4]}, partition={"kind": "iid", "clients": 4})
    at = {k.name: k for k in c.conditions}
    assert at["(17)"].verdict == "printed" and at["(17)"].holds is None
    assert at["(17) averaged"].verdict == "fails" and at["(17) averaged"].note and at["(17)"].note


def test_check_and_fix(digits, samples):
    x, y = samples
    mine = {"data": fedloom.Data(x, y, sizes=[30] * 10), "model": "softmax", "rounds": 2}
    for settings in (digits, mine):
        c = fedloom.check(settings, algorithm="fedvra", fix=True)
        assert "algorithm:" in c.fixed and "changed " in c.text
        assert c.conditions and c.holds
    assert fedloom.check(c.fixed, data=mine["data"]).conditions == c.conditions
    several = [{"label": m, "algorithm": m} for m in ("fedvra", "fedavg")]
    c = fedloom.check(digits, methods=several, fix=True)
    assert "methods:" in c.fixed and c.conditions


def test_describe(digits):
    assert "600" in fedloom.describe(digits)


def test_experiments(tmp_path):
    names = fedloom.experiments()["name"]
    assert "gia-table3-linear" in list(names)
    with pytest.raises(fedloom.FileError, match="no experiment nonsense"):
        fedloom.reproduce("nonsense")


def test_tune(digits, tmp_path):
    t = fedloom.tune(digits, methods=["fedavg"], budget=3, seeds=1, output=tmp_path / "t", progress=False,
                     tune={"local.lr": {"from": 0.01, "to": 0.3, "log": True}})  # fmt: skip
    assert "fedavg" in t.text and os.path.exists(t.winners)
