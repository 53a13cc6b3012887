"""Clients in Python against the real server, `fedloom serve`, over loopback: the same bits as in one piece."""

from __future__ import annotations

import contextlib
import http.server
import json
import multiprocessing
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fedloom
import fedloom.torch
import numpy as np
import pytest
import torch

CLIENTS, FEATURES, CLASSES = 3, 5, 3
NAMES = [f"client-{i}" for i in range(CLIENTS)]
CONFIG = {
    "model": "softmax",
    "precision": "f64",
    "rounds": 6,
    "algorithm": "scaffold",
    "participation": {"kind": "uniform", "count": 2, "seed": 11},  # a server draws one if there is none
    "local": {"steps": 3, "batch": 4, "lr": 0.3},
    "metrics": {"every": 2},
}
PATIENCE = 60  # seconds without a server, after which a test has failed


def program() -> str:
    """The program of the same build: python/test.sh says where it is."""
    return os.environ["FEDLOOM_PROGRAM"]


def fedloom_program(*args: str | os.PathLike) -> None:
    subprocess.run([program(), *map(str, args)], check=True, capture_output=True, timeout=120)


def samples(i: int, shape: tuple = (FEATURES,)) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(i)
    y = rng.integers(0, CLASSES, 20 + i).astype(np.int32)
    means = np.eye(CLASSES, int(np.prod(shape)))
    return means[y].reshape(len(y), *shape) + rng.normal(size=(len(y), *shape)), y


def own(i: int, shape: tuple = (FEATURES,)) -> fedloom.Data:
    return fedloom.Data(*samples(i, shape), classes=CLASSES)


def in_one_piece(shape: tuple = (FEATURES,), **settings) -> fedloom.Run:
    x, y = zip(*(samples(i, shape) for i in range(CLIENTS)))
    data = fedloom.Data(np.concatenate(x), np.concatenate(y), sizes=[len(v) for v in y], classes=CLASSES)
    return fedloom.run(CONFIG, data=data, progress=False, **settings)


def same(got: fedloom.Model, run: fedloom.Run, most: float = 0) -> None:
    assert got.tensors.keys() == run.model.keys()
    for name, array in got.tensors.items():
        np.testing.assert_allclose(array, run.model[name], rtol=0, atol=most)


class Serving:
    """A `fedloom serve`, and where it is."""

    def __init__(self, folder, certs=None, port=0, shape=(FEATURES,), **settings) -> None:
        self.folder, self.certs, self.shape = folder, certs, shape
        self.result = folder / "result"
        config = {**CONFIG, **settings, "partition": {"clients": CLIENTS}}
        config["data"] = {"kind": "joined", "shape": list(shape), "classes": CLASSES}
        (folder / "server.yaml").write_text(json.dumps(config))
        (folder / "roster").write_text("\n".join(NAMES) + "\n")
        self.log: list[str] = []
        self.start(port)

    def start(self, port: int) -> None:
        safe = ["--certs", self.certs] if self.certs else ["--insecure-http"]
        self.process = subprocess.Popen(
            [program(), "serve", self.folder / "server.yaml", "--output", self.result, "--listen", f"127.0.0.1:{port}",
             "--roster", self.folder / "roster", *safe],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        for line in self.process.stderr:
            self.log.append(line)
            found = re.search(r"event=serving .*port=(\d+)", line)
            if found:
                break
        else:
            raise AssertionError("".join(self.log))
        self.port = int(found.group(1))
        self.url = f"{'https' if self.certs else 'http'}://127.0.0.1:{self.port}"
        self.reader = threading.Thread(target=lambda err: self.log.extend(err), args=[self.process.stderr], daemon=True)
        self.reader.start()

    def again(self) -> None:
        self.end()
        self.start(self.port)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stderr.close()

    def model(self) -> fedloom.Model:
        assert self.process.wait(PATIENCE) == 0, "".join(self.log)
        return fedloom.load(self.result)


@pytest.fixture
def serve(tmp_path):
    with contextlib.ExitStack() as stack:

        def start(**settings) -> Serving:
            made = Serving(tmp_path, **settings)
            stack.callback(made.end)
            return made

        yield start


def join(serving: Serving, i: int, **settings) -> dict:
    who = {"certs": serving.folder / "ca" / "clients" / NAMES[i]} if serving.certs else {"name": NAMES[i]}
    return fedloom.join(serving.url, own(i, serving.shape), **{"patience": PATIENCE, **who, **settings})


def join_all(serving: Serving, who=range(CLIENTS), **settings) -> list[dict]:
    with ThreadPoolExecutor() as pool:
        return [f.result(PATIENCE) for f in [pool.submit(join, serving, i, **settings) for i in who]]


def warnings_of(caplog, pattern: str) -> list[str]:
    said = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    return [text for text in said if re.search(pattern, text)]


def test_same_bits(serve):
    serving = serve()
    assert [ended["ok"] for ended in join_all(serving)] == [True] * CLIENTS
    same(serving.model(), in_one_piece())


def test_same_bits_with_certificates(serve, tmp_path):
    ca = tmp_path / "ca"
    fedloom_program("cert", "init", ca)
    fedloom_program("cert", "server", ca, "127.0.0.1")
    fedloom_program("cert", "client", ca, *NAMES, "stranger")
    serving = serve(certs=ca / "server")
    fedloom_program("cert", "revoke", ca, "stranger")
    with pytest.raises(fedloom.Refused, match="revoked"):
        fedloom.join(serving.url, own(0), certs=ca / "clients" / "stranger", patience=PATIENCE)
    assert [ended["ok"] for ended in join_all(serving)] == [True] * CLIENTS
    same(serving.model(), in_one_piece())


def test_a_server_of_another_authority_is_not_trusted(serve, tmp_path, caplog):
    for ca in (tmp_path / "ca", tmp_path / "other"):
        fedloom_program("cert", "init", ca)
    fedloom_program("cert", "server", tmp_path / "ca", "127.0.0.1")
    fedloom_program("cert", "client", tmp_path / "other", "client-0")
    serving = serve(certs=tmp_path / "ca" / "server")
    with pytest.raises(fedloom.Refused, match="not trusted"):
        fedloom.join(serving.url, own(0), certs=tmp_path / "other" / "clients" / "client-0", patience=0.3)
    assert len(warnings_of(caplog, "not trusted.*trying again until 20..-..-..T..:..:..Z")) == 1


def _live(url: str, i: int, keep, die_at: int) -> None:
    """A process that ends at once, as by kill -9, after that many asks."""

    def on_ask(asks: int) -> None:
        if asks == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    fedloom.join(url, own(i), name=NAMES[i], keep=keep, patience=PATIENCE, on_ask=on_ask)


def test_a_client_that_is_killed_goes_on(serve, tmp_path):
    serving = serve(participation="everyone")
    processes = multiprocessing.get_context("spawn")
    with ThreadPoolExecutor() as pool:
        others = [pool.submit(join, serving, i) for i in (1, 2)]
        for die_at, code in ((2, -signal.SIGKILL), (3, -signal.SIGKILL), (0, 0)):
            p = processes.Process(target=_live, args=[serving.url, 0, tmp_path / "kept", die_at])
            p.start()
            p.join(PATIENCE)
            assert p.exitcode == code
        assert all(f.result(PATIENCE)["ok"] for f in others)
    same(serving.model(), in_one_piece(participation="everyone"))
    assert sorted(f.name for f in (tmp_path / "kept").iterdir()) == ["lock"]  # the run is over


def test_a_server_that_is_killed_goes_on(serve, tmp_path):
    serving = serve()
    asks = threading.Semaphore(0)
    with ThreadPoolExecutor() as pool:
        all_of_them = [pool.submit(join, serving, i, on_ask=lambda _: asks.release()) for i in range(CLIENTS)]
        for _ in range(7):
            asks.acquire(timeout=PATIENCE)
        serving.again()
        assert all(f.result(PATIENCE)["ok"] for f in all_of_them)
    same(serving.model(), in_one_piece())


def test_beside_clients_in_c(serve, tmp_path):
    serving = serve()
    np.savez(tmp_path / "one.npz", x=samples(1)[0], y=samples(1)[1])
    c = subprocess.Popen([program(), "join", serving.url, "--data", tmp_path / "one.npz", "--name", NAMES[1],
                          "--insecure-http", "--keep", tmp_path / "c", "--set", "precision=f64",
                          "--quiet"])  # fmt: skip
    assert all(ended["ok"] for ended in join_all(serving, (0, 2)))
    assert c.wait(PATIENCE) == 0
    same(serving.model(), in_one_piece())


# ---- a solver of one's own ---------------------------------------------------------------------------------------


def softmax() -> torch.nn.Module:
    return torch.nn.Linear(FEATURES, CLASSES)


def torch_solver(data: dict[int, tuple], module: Callable[[], torch.nn.Module] = softmax) -> type[fedloom.Solver]:
    """SGD by PyTorch: minibatches are those that fedloom would take."""
    turns: list[int] = []

    class TorchSGD(fedloom.Solver):
        def solve(self, local, problem):
            turns.append(local.client)
            x, y = (torch.tensor(a) for a in data[local.client])
            model = module().double()
            fedloom.torch.put(problem.start, model.parameters())
            steps = torch.optim.SGD(model.parameters(), problem.lr, momentum=local.momentum)
            for _ in range(problem.steps):
                batch = torch.from_numpy(local.next()[0].astype(np.int64))
                steps.zero_grad()
                torch.nn.functional.cross_entropy(model(x[batch]), y[batch].long()).backward()
                fedloom.torch.add_terms_(problem, model.parameters())
                steps.step()
            local.spent(momentum=local.momentum)
            return fedloom.torch.take(model.parameters())

    TorchSGD.turns = turns
    return TorchSGD


@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold"])
def test_training_in_pytorch(serve, algorithm):
    """The server and the other client know nothing of it."""
    mine = torch_solver({i: samples(i) for i in (0, 1)})
    settings = {"algorithm": algorithm, "participation": "everyone"}
    serving = serve(**settings)
    with ThreadPoolExecutor() as pool:
        ended = [pool.submit(join, serving, i, local={"solver": mine}) for i in (0, 1)]
        ended.append(pool.submit(join, serving, 2))
        assert all(f.result(PATIENCE)["ok"] for f in ended)
    assert sorted(mine.turns) == sorted([0, 1] * CONFIG["rounds"])
    same(serving.model(), in_one_piece(**settings), most=1e-9)


IMAGE = (2, 8, 6)  # channels, and sides that differ, so that none can be taken for another
NETWORKS = {
    "mlp": (
        (FEATURES,), {"kind": "mlp", "hidden": [7, 4]},
        lambda: torch.nn.Sequential(
            torch.nn.Linear(FEATURES, 7), torch.nn.ReLU(), torch.nn.Linear(7, 4), torch.nn.ReLU(),
            torch.nn.Linear(4, CLASSES),
        ),
    ),
    "cnn": (
        IMAGE, {"kind": "cnn", "layers": "conv 3x3, pool 2, fc 5"},
        lambda: torch.nn.Sequential(
            torch.nn.Conv2d(2, 3, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
            torch.nn.Linear(3 * 3 * 2, 5), torch.nn.ReLU(), torch.nn.Linear(5, CLASSES),
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", NETWORKS)
def test_networks_in_pytorch(serve, kind):
    """Two clients train in PyTorch and one does not: the order of the parameters is that of a module of theirs."""
    shape, model, module = NETWORKS[kind]
    mine = torch_solver({i: samples(i, shape) for i in (0, 1)}, module)
    settings = {"model": model, "shape": shape, "participation": "everyone"}
    serving = serve(**settings)
    with ThreadPoolExecutor() as pool:
        ended = [pool.submit(join, serving, i, local={"solver": mine}) for i in (0, 1)]
        ended.append(pool.submit(join, serving, 2))
        assert all(f.result(PATIENCE)["ok"] for f in ended)
    assert sorted(mine.turns) == sorted([0, 1] * CONFIG["rounds"])
    same(serving.model(), in_one_piece(**settings), most=1e-9)


def test_one_round_of_whole_steps_in_pytorch(serve):
    mine = torch_solver({i: samples(i) for i in range(CLIENTS)})
    settings = {"algorithm": "fedavg", "rounds": 1, "participation": "everyone",
                "local": {"steps": 5, "batch": 0, "lr": 0.3}}  # fmt: skip
    serving = serve(**settings)
    join_all(serving, local={"solver": mine})
    same(serving.model(), in_one_piece(**settings), most=1e-12)


def test_a_solver_that_fails_is_left_out(serve, caplog):
    class Tired(fedloom.Solver):
        def solve(self, local, problem):
            raise ArithmeticError("too tired")

    serving = serve(algorithm="fedavg", participation="everyone")
    with ThreadPoolExecutor() as pool:
        ended = [pool.submit(join, serving, 0, local={"solver": Tired})]
        ended += [pool.submit(join, serving, i) for i in (1, 2)]
        assert all(f.result(PATIENCE)["ok"] for f in ended)
    assert serving.model()
    assert "too tired" in caplog.text and "Traceback" in caplog.text


# ---- who may ask for what ----------------------------------------------------------------------------------------


def test_limits_of_a_client(serve):
    serving = serve(
        algorithm="fedavg", participation="everyone", metrics={"train": False, "test": False, "clients": False}
    )
    with pytest.raises(fedloom.Refused, match="fedavg, and this client takes scaffold"):
        join(serving, 0, limits={"methods": ["scaffold"]})
    with pytest.raises(fedloom.Refused, match="softmax, and this client takes mlp"):
        join(serving, 0, limits={"models": ["mlp"]})
    with ThreadPoolExecutor() as pool:
        ended = [pool.submit(join, serving, 0, limits={"steps": 2})]  # refuses every turn
        ended += [pool.submit(join, serving, i) for i in (1, 2)]
        assert all(f.result(PATIENCE)["ok"] for f in ended)
    assert serving.model()
    refused = [line for line in serving.log if "event=refused" in line and "name=client-0" in line]
    assert len(refused) == CONFIG["rounds"] and "3 steps" in refused[0]


def test_labels_that_do_not_fit_take_no_place(serve):
    serving = serve()
    x, y = samples(0)
    words = np.array(["ann", "bob", "cat"])[y]
    with pytest.raises(fedloom.Refused, match="labels of the federation are 0 to 2.*ann, bob, cat"):
        fedloom.join(serving.url, (x, words), name=NAMES[0], patience=PATIENCE)
    assert not any("event=joined" in line for line in serving.log)


def test_all_that_leaves_is_shown(serve):
    serving, shown = serve(), []
    with ThreadPoolExecutor() as pool:
        ended = [pool.submit(join, serving, i, show=shown.append if i == 0 else None) for i in range(CLIENTS)]
        assert all(f.result(PATIENCE)["ok"] for f in ended)
    assert "card" in shown[0] and len(shown) > CONFIG["rounds"]
    same(serving.model(), in_one_piece())


def test_a_card_that_is_not_let_go(serve):
    serving = serve()
    with pytest.raises(fedloom.Refused, match="not let go"):
        join(serving, 0, show=lambda text: False)
    assert not any("event=joined" in line for line in serving.log)


@pytest.mark.parametrize(
    "data",
    [
        fedloom.Data(np.zeros((4, FEATURES + 1)), np.arange(4) % CLASSES),
        fedloom.Data(np.zeros((4, FEATURES)), np.arange(4.0)),
    ],
)
def test_samples_that_do_not_suit_are_refused_before_anything_leaves(serve, data):
    serving = serve()
    with pytest.raises(fedloom.Refused, match="federation's samples"):
        fedloom.join(serving.url, data, name=NAMES[0], patience=PATIENCE)
    assert not any("joined" in line for line in serving.log)


def test_a_name_that_is_not_on_the_list(serve):
    serving = serve()
    with pytest.raises(fedloom.Refused, match="mallory"):
        fedloom.join(serving.url, own(0), name="mallory", patience=PATIENCE)


def test_other_samples_in_mid_run_are_refused(serve, tmp_path):
    serving = serve(participation="everyone")
    x, y = samples(0)
    kept = tmp_path / "kept"
    processes = multiprocessing.get_context("spawn")
    with ThreadPoolExecutor() as pool:
        others = [pool.submit(join, serving, i) for i in (1, 2)]
        p = processes.Process(target=_live, args=[serving.url, 0, kept, 2])
        p.start()
        p.join(PATIENCE)
        with pytest.raises(fedloom.Refused, match="the samples are not those that this client began the run in"):
            others_labels = fedloom.Data(x, (y + 1) % CLASSES, classes=CLASSES)
            fedloom.join(serving.url, others_labels, name=NAMES[0], keep=kept, patience=PATIENCE)
        assert fedloom.join(serving.url, own(0), name=NAMES[0], keep=kept, patience=PATIENCE)["ok"]
        assert all(f.result(PATIENCE)["ok"] for f in others)
    same(serving.model(), in_one_piece(participation="everyone"))


def test_a_second_process_of_one_client_is_refused(serve, tmp_path, caplog):
    serving = serve()
    thread = threading.Thread(target=lambda: join(serving, 0, keep=tmp_path / "kept"), daemon=True)
    thread.start()
    until = time.monotonic() + PATIENCE
    while not any("event=joined" in line for line in serving.log) and time.monotonic() < until:
        time.sleep(0.01)
    with pytest.raises(fedloom.Refused, match="another process takes part as client-0"):
        join(serving, 0, keep=tmp_path / "other", patience=0.3)
    assert len(warnings_of(caplog, "another process takes part as client-0.*trying again until")) == 1
    assert all(ended["ok"] for ended in join_all(serving, (1, 2)))
    thread.join(PATIENCE)
    assert not thread.is_alive()
    same(serving.model(), in_one_piece())


def test_one_client_per_folder(serve, tmp_path):
    serving = serve()
    thread = threading.Thread(target=lambda: join(serving, 0, keep=tmp_path / "kept"), daemon=True)
    thread.start()
    until = time.monotonic() + PATIENCE
    while not any("event=joined" in line for line in serving.log) and time.monotonic() < until:
        time.sleep(0.01)
    with pytest.raises(fedloom.Busy, match="another client works there"):
        join(serving, 0, keep=tmp_path / "kept")
    join_all(serving, (1, 2))
    thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    "url, settings, sentence",
    [
        ("ftp://127.0.0.1", {"name": "a"}, "no address"),
        ("http://127.0.0.1:1/x", {"name": "a"}, "no address"),
        ("http://127.0.0.1:1", {}, "name is missing"),
        ("https://127.0.0.1:1", {"name": "a"}, "needs certs"),
        ("http://server.example:1", {"name": "a"}, "this machine"),
        ("http://127.0.0.1:1", {"name": "a", "limits": {"steps": -1}}, "negative"),
    ],
)
def test_what_cannot_be(url, settings, sentence):
    with pytest.raises((ValueError, OverflowError), match=sentence):
        fedloom.join(url, own(0), patience=0, **settings)


def test_a_server_that_is_not_there():
    with pytest.raises(fedloom.Error, match="has not answered"):
        fedloom.join("http://127.0.0.1:9", own(0), name="a", patience=0.3)


class _Busy(http.server.BaseHTTPRequestHandler):
    """A server that has no room just now, and says for how long."""

    said = ""

    def do_GET(self) -> None:
        self.send_response(503)
        self.send_header("Fedloom-Protocol", "1 1")
        self.send_header("Retry-After", self.said)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@pytest.mark.parametrize(
    "said, least", [("7", 7), (" 3 ", 3), ("999999", 60), ("-1", 0), ("Fri, 31 Dec 1999 23:59:59 GMT", 0), ("7 s", 0)]
)
def test_a_server_says_when_to_come_again(said, least, monkeypatch):
    class Slept(Exception):
        pass

    def sleep(seconds: float) -> None:
        assert least <= seconds <= least + 1  # the first pause of one's own is a second at most
        raise Slept

    handler = type("Handler", (_Busy,), {"said": said})
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as busy:
        threading.Thread(target=busy.handle_request, daemon=True).start()
        monkeypatch.setattr(sys.modules["fedloom.join"].time, "sleep", sleep)
        with pytest.raises(Slept):
            fedloom.join(f"http://127.0.0.1:{busy.server_port}", own(0), name="a")


# ---- what may pass -----------------------------------------------------------------------------------------------


class _Scripted(http.server.BaseHTTPRequestHandler):
    """A server that gives these answers one after the other, and the last one for ever."""

    answers: list[tuple[int, str]] = []

    def do_GET(self) -> None:
        code, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.send_response(code)
        self.send_header("Fedloom-Protocol", "1 1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, *args: object) -> None:
        pass


class _Tls(http.server.ThreadingHTTPServer):
    """The k-th connection is given the k-th certificate, and those after the last one the last."""

    certs: list[Path] = []

    def get_request(self):
        connection, address = super().get_request()
        folder = self.certs.pop(0) if len(self.certs) > 1 else self.certs[0]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        return context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request, client_address) -> None:
        pass  # a client that does not trust a certificate ends the connection


@contextlib.contextmanager
def scripted(answers: list[tuple[int, str]], certs: list[Path] | None = None):
    """Where such a server is, over HTTPS if there are certificates."""
    handler = type("Handler", (_Scripted,), {"answers": answers})
    kind = type("Server", (_Tls,), {"certs": certs}) if certs else http.server.ThreadingHTTPServer
    with kind(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield f"{'https' if certs else 'http'}://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def clock(monkeypatch):
    """Time for joining, which only passes while a client sleeps."""
    start = 1_900_000_000.0
    made = types.SimpleNamespace(now=0.0, strftime=time.strftime, gmtime=time.gmtime)
    made.monotonic = lambda: made.now
    made.time = lambda: start + made.now

    def sleep(seconds: float) -> None:
        made.now += max(seconds, 1e-3)

    made.sleep = sleep
    monkeypatch.setattr(sys.modules["fedloom.join"], "time", made)
    return made


def refusal(**more) -> tuple[int, str]:
    return 403, json.dumps({"error": "not now", **more})


OVER = (410, '{"ok": true}')
UNTIL = "trying again until 2030-03-17T17:"  # the clock's start, and some minutes


@pytest.mark.parametrize(
    "said, patience, seconds",
    [
        ({"again": 90}, float("inf"), 90),
        ({"again": 1e9}, float("inf"), 300),
        ({"again": 90}, 20, 20),
        ({"again": 90, "clock": "2026-01-31T12:00:00.123Z"}, float("inf"), 90),  # over plain HTTP: no certificate
        ({}, float("inf"), 0),
        ({"again": 0}, float("inf"), 0),
        ({"again": -1}, float("inf"), 0),
        ({"again": float("nan")}, float("inf"), 0),
        ({"again": True}, float("inf"), 0),
        ({"again": "90"}, float("inf"), 0),
    ],
)
def test_a_refusal_says_for_how_long_to_try(clock, caplog, said, patience, seconds):
    with scripted([refusal(**said)]) as url, pytest.raises(fedloom.Refused, match="not now"):
        fedloom.join(url, own(0), name="a", patience=patience)
    assert clock.now == pytest.approx(seconds, abs=0.01)
    assert len(warnings_of(caplog, "trying again")) == (seconds > 0)


def test_only_a_403_says_so(clock):
    with scripted([(404, refusal(again=90)[1])]) as url, pytest.raises(fedloom.Refused, match="not now"):
        fedloom.join(url, own(0), name="a")
    assert clock.now == 0


def test_a_refusal_passes(clock, caplog):
    """One warning for the refusals in a row, whatever else fails between them."""
    with scripted([refusal(again=90), (503, ""), refusal(again=90), OVER]) as url:
        assert fedloom.join(url, own(0), name="a") == {"ok": True}
    assert 0 < clock.now < 90
    assert len(warnings_of(caplog, "not now.*" + UNTIL)) == 1


@pytest.fixture(scope="module")
def authorities(tmp_path_factory):
    """Two of them, each with a server and a client."""
    made = [tmp_path_factory.mktemp("authorities") / name for name in ("ca", "other")]
    for ca in made:
        fedloom_program("cert", "init", ca)
        fedloom_program("cert", "server", ca, "127.0.0.1")
        fedloom_program("cert", "client", ca, "client-0", "--days", "10")
    return made


def test_a_certificate_that_is_not_trusted_is_replaced(clock, caplog, authorities):
    ca, other = authorities
    with scripted([OVER], [other / "server", other / "server", ca / "server"]) as url:
        assert fedloom.join(url, own(0), certs=ca / "clients" / "client-0") == {"ok": True}
    assert len(warnings_of(caplog, "not trusted.*" + UNTIL)) == 1


def test_a_certificate_that_is_never_trusted(clock, authorities):
    ca, other = authorities
    with scripted([OVER], [other / "server"]) as url, pytest.raises(fedloom.Refused, match="not trusted"):
        fedloom.join(url, own(0), certs=ca / "clients" / "client-0")
    assert clock.now == pytest.approx(300, abs=0.01)


@pytest.mark.parametrize("days, seconds", [(-1, 0), (5, 300), (11, 0)])
def test_a_server_whose_clock_is_another(clock, monkeypatch, authorities, days, seconds):
    """The client tries again if its certificate, of ten days, holds by its own clock."""
    ca = authorities[0]
    wire = types.SimpleNamespace(**vars(time))
    wire.time = lambda: time.time() + 86400 * days
    monkeypatch.setattr(sys.modules["fedloom._join_wire"], "time", wire)
    said = refusal(again=300, clock="2026-01-31T12:00:00.123Z")
    with scripted([said], [ca / "server"]) as url, pytest.raises(fedloom.Refused, match="not now"):
        fedloom.join(url, own(0), certs=ca / "clients" / "client-0")
    assert clock.now == pytest.approx(seconds, abs=0.01)


def test_from_when_until_when_a_certificate_holds(authorities):
    read = sys.modules["fedloom._join_wire"]._validity
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authorities[0] / "ca.pem")
    [known] = context.get_ca_certs()
    dates = tuple(ssl.cert_time_to_seconds(known[key]) for key in ("notBefore", "notAfter"))
    assert read((authorities[0] / "ca.pem").read_text()) == dates
    assert read("no certificate") is None
