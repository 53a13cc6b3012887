import gc
import os
import select
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from conftest import same

import fedloom
import fedloom.halves


def test_settings_come_in_any_form(digits, tmp_path):
    text = textwrap.dedent("""
        rounds: 4
        data: {kind: digits, samples: 600, test_samples: 100}
        partition: {kind: dirichlet, clients: 10, alpha: 0.5}
        model: softmax
        participation: {kind: uniform, count: 4}
        local: {epochs: 1, batch: 20, lr: 0.5}
        metrics: {every: 2}
    """)
    path = tmp_path / "a.yaml"
    path.write_text(text)
    a = fedloom.run(digits)
    assert same(a, fedloom.run(path, local={"lr": 0.1}))
    assert same(a, fedloom.run(str(path), **{"local.lr": 0.1}))
    assert same(a, fedloom.run(text, local={"lr": np.float64(0.1)}))
    assert same(a, fedloom.run(**digits))
    assert not same(a, fedloom.run(path))


def test_metrics(digits):
    a = fedloom.run(digits)
    assert list(a.columns()["round"]) == [0, 2, 4]
    assert a.columns()["round"].dtype == np.int64
    assert "local_worst" not in a.columns()
    assert a.accuracy == a.test_accuracy == a.columns()["test_accuracy"][-1] == a.row["test_accuracy"]
    assert a.rounds == a.round == a.planned == 4
    assert a.stopped_by == "rounds"
    pandas = pytest.importorskip("pandas")
    assert isinstance(a.metrics, pandas.DataFrame) and len(a.metrics) == 3
    with pytest.raises(AttributeError, match="no metric"):
        a.no_such_thing


def test_dict_without_pandas(digits, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    a = fedloom.run(digits)
    assert isinstance(a.metrics, dict) and a.metrics["train_loss"].shape == (3,)


def test_targets(digits):
    a = fedloom.run(digits, metrics={"every": 1, "targets": [0.01, 0.999]})
    assert a.targets[0.01] is not None and a.targets[0.999] is None


def test_steps_end_where_a_run_ends(digits):
    rows = []
    with fedloom.Run(digits, algorithm="scaffold") as b:
        for row in b:
            rows.append(row)
    assert [row["round"] for row in rows] == [1, 2, 3, 4]
    assert "train_loss" in rows[1] and "train_loss" not in rows[0]
    assert list(b) == []
    assert same(b, fedloom.run(digits, algorithm="scaffold"))


def test_model_is_a_view_that_keeps_the_run(digits):
    a = fedloom.run(digits)
    x = a.vectors["x"]
    assert sum(v.size for v in a.model.values()) == x.size == a.parameters
    assert all(np.shares_memory(v, x) for v in a.model.values())
    assert not x.flags.writeable
    before = x.copy()
    del a
    assert np.array_equal(x, before)


def test_what_clients_keep(digits):
    a = fedloom.run(digits, algorithm="scaffold", participation="everyone")
    assert list(a.vectors) == ["x", "c"]
    assert a.client(3)["c_i"].shape == (a.parameters,) and a.client(3)["c_i"].any()
    assert fedloom.Run(digits, algorithm="scaffold").client(3) == {}
    with pytest.raises(fedloom.ConfigError, match="no client 10"):
        a.client(10)


def test_another_start(digits):
    a = fedloom.run(digits)
    b = fedloom.Run(digits)
    b.start_at(a.model)
    assert same(a, b)
    with pytest.raises(fedloom.Error):
        b.start_at(np.zeros(3))
    with pytest.raises(fedloom.ConfigError, match="the arrays"):
        b.start_at({"w": np.zeros(3)})


def test_saving_and_predicting(digits, tmp_path):
    out = tmp_path / "result"
    a = fedloom.run(digits, output=out)
    assert (out / "metrics.csv").exists()
    with pytest.raises(fedloom.FileError, match="exists already"):
        fedloom.run(digits, output=out)
    fedloom.run(digits, output=out, force=True)
    m = fedloom.load(out)
    assert m.kind == "softmax" and m.classes == 10 and m.parameters == a.parameters
    assert all(np.array_equal(m.tensors[k], a.model[k]) for k in a.model)
    p = m.predict(np.zeros((5, 28, 28), np.uint8))
    assert p.shape == (5, 10) and np.allclose(p.sum(axis=1), 1)
    with pytest.raises(fedloom.ConfigError, match="3 features"):
        m.predict(np.zeros((5, 3)))


def test_saving_later(digits, tmp_path):
    a = fedloom.run(digits)
    with pytest.raises(fedloom.ConfigError, match="no folder"):
        a.save()
    assert a.save(tmp_path / "one") == str(tmp_path / "one")
    a.save(tmp_path / "two")
    with pytest.raises(fedloom.FileError, match="exists already"):
        a.save(tmp_path / "one")
    a.save(tmp_path / "one", force=True)
    assert sorted(os.listdir(tmp_path)) == ["one", "two"]
    x = np.zeros((5, 28, 28), np.uint8)
    assert np.array_equal(a.predict(x), fedloom.load(tmp_path / "two").predict(x))


def test_classes_have_their_names(samples):
    x, y = samples
    names = np.array(["red", "green", "blue"])[y]
    a = fedloom.run(data=fedloom.Data(x, names, sizes=[30] * 10), model="softmax", rounds=20, local={"lr": 0.5})
    assert (a.classify(x) == names).mean() > 0.8


def test_checkpoints(digits, tmp_path):
    whole = fedloom.run(digits, algorithm="scaffold")
    b = fedloom.Run(digits, algorithm="scaffold", output=tmp_path / "r", checkpoint_every=1)
    b.step()
    b.step()
    del b
    assert same(whole, fedloom.resume(tmp_path / "r"))


@pytest.mark.parametrize(
    "settings, sentence",
    [
        ({"local": {"lr": -1}}, "local.lr is -1, but must be"),
        ({"algorithm": {"kind": "fedprox", "nu": 1}}, "did you mean algorithm.mu"),
        ({"local.lr": float("nan")}, "finite"),
        ({"rounds": object()}, "must be a number"),
        ({"model": "nonsense"}, "nonsense"),
    ],
)
def test_bad_settings(digits, settings, sentence):
    with pytest.raises(fedloom.ConfigError, match=sentence) as e:
        fedloom.run({**digits, **settings} if "." not in next(iter(settings)) else digits, **settings)
    assert "settings:" not in str(e.value)


def test_files_that_are_not_there():
    with pytest.raises(fedloom.FileError, match="none.yaml"):
        fedloom.run("none.yaml")
    with pytest.raises(OSError):
        fedloom.load("none.safetensors")


def test_divergence(regression):
    with pytest.raises(fedloom.Diverged):
        fedloom.run(regression, model="least_squares", local={"lr": 1e6}, rounds=200)


def test_warnings(digits):
    with pytest.warns(fedloom.FedloomWarning, match="momentum") as seen:
        fedloom.run(digits, algorithm="scaffold", **{"local.momentum": 0.9})
    assert seen[0].filename == __file__


def test_lists():
    assert "scaffold" in fedloom.list("algorithms") and "algorithms" in fedloom.list()
    assert "mu" in str(fedloom.list("algorithm", "fedprox"))
    with pytest.raises(fedloom.ConfigError):
        fedloom.list("nonsense")
    assert fedloom.kernels() and fedloom.__version__


def test_showing(digits, capsys):
    a = fedloom.run(digits, progress=False)
    assert "scaffold" not in repr(a) and "fedavg" in repr(a)
    html = a._repr_html_()
    assert "<svg" in html and "<table" in html
    assert "<html" in a.html
    fedloom.run(digits, progress=True)
    assert "lr: 0.1" in fedloom.show_config(digits)


def test_threads_may_run_at_the_same_time(digits):
    import threading

    out = []
    threads = [threading.Thread(target=lambda: out.append(fedloom.run(digits))) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(out) == 3 and same(out[0], out[1]) and same(out[0], out[2])


def test_ctrl_c(tmp_path):
    """An interrupt ends a run after the round under way, as KeyboardInterrupt, and nothing is printed."""
    script = tmp_path / "long.py"
    script.write_text(
        textwrap.dedent("""
        import fedloom
        run = fedloom.Run(rounds=100000000, data="digits", model="softmax", partition={"kind": "iid", "clients": 5})
        print("ready", flush=True)
        try:
            run.go()
        except KeyboardInterrupt:
            print("stopped", run.stopped_by, run.round < run.planned)
    """)
    )
    p = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         env={**os.environ})  # fmt: skip
    assert p.stdout.readline() == "ready\n"
    import time

    time.sleep(0.3)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=30)
    assert out == "stopped asked True\n" and not err


def test_nothing_is_said_at_exit(tmp_path):
    script = tmp_path / "s.py"
    script.write_text(
        textwrap.dedent("""
        import ctypes
        import fedloom
        from fedloom import _core
        small = dict(rounds=2, data="digits", model="softmax", partition={"kind": "iid", "clients": 5})
        run = fedloom.Run(small)
        run.step()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(_core))  # a module that stays loses its names one by one
        _core.kept = [run, run.model, fedloom.run(small)]
    """)
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# ---- what cannot be is refused by name -----------------------------------------------------------------------------


def test_start_models_that_cannot_be(digits):
    run = fedloom.Run(digits)
    n = run.parameters
    with pytest.raises(fedloom.ConfigError, match="the start model is of type complex128"):
        run.start_at(np.full(n, 1j))
    with pytest.raises(fedloom.ConfigError, match=f"the start model has {n} masked entries"):
        run.start_at(np.ma.masked_all(n))
    with pytest.raises(fedloom.ConfigError, match="is of type complex64"):
        run.start_at({k: v + 0j for k, v in run.model.items()})


def test_a_run_belongs_to_one_thread_at_a_time(regression):
    inside, go_on = threading.Event(), threading.Event()

    @fedloom.objective(parameters=6)
    def slow(x, batch):
        inside.set()
        assert go_on.wait(60)
        return 0.5 * x @ x, x

    run = fedloom.Run(regression, model=slow, rounds=2)
    other = threading.Thread(target=run.go)
    other.start()
    assert inside.wait(60)
    try:
        for call in (run.step, run.go, run.save, run.checkpoint, lambda: run.start_at(np.zeros(6)),
                     lambda: run.client(0), lambda: run.metrics, lambda: run.row, lambda: run.train_loss, run.as_model):  # fmt: skip
            with pytest.raises(fedloom.Error, match="a run belongs to one thread at a time"):
                call()
        assert run.round == 0 and run.planned == 2
        run.stop()
    finally:
        go_on.set()
        other.join()
    assert run.round <= 1 and run.stopped_by == "asked" and len(run.metrics) >= 1


def test_a_run_does_not_go_on_in_a_call_of_its_own(regression):
    made = []

    @fedloom.objective(parameters=6)
    def circular(x, batch):
        made[0].step()
        return 0.5 * x @ x, x

    made.append(fedloom.Run(regression, model=circular, threads=1))
    with pytest.raises(fedloom.Error, match="in a call of its own"):
        made[0].go()


def in_a_child(work):
    """What work() returns, or the sentence of what it raises, in a fork of this process."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            said = str(work())
        except BaseException as e:
            said = f"{type(e).__name__}: {e}"
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    ready, _, _ = select.select([read], [], [], 60)
    if not ready:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    said = os.read(read, 4096).decode() if ready else "it hangs"
    os.close(read)
    return said


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_run_does_not_go_on_after_a_fork(digits, tmp_path):
    run = fedloom.Run(digits, threads=2, output=tmp_path / "r")
    run.step()
    for call in (run.step, run.go, run.checkpoint, run.save):
        assert "after a fork it can be read, not continued" in in_a_child(call)
    loss = run.columns()["train_loss"][0]
    assert in_a_child(lambda: run.columns()["train_loss"][0]) == str(loss)
    server = fedloom.halves.Server(data={"kind": "joined", "shape": [6], "classes": 2}, model="softmax",
                                   partition={"clients": 2})  # fmt: skip
    assert "after a fork it cannot go on here" in in_a_child(lambda: server.next(0))

    def left_and_new():
        nonlocal run
        run = None
        gc.collect()
        return fedloom.run(digits, threads=2).round

    assert in_a_child(left_and_new) == "4"
    run.go()
    assert run.round == 4
