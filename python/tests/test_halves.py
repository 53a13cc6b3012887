"""A federation in two halves, with bytes between them, against the same federation in one piece."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import fedloom
import fedloom.halves
import numpy as np
import pytest

CLIENTS, FEATURES, CLASSES = 4, 5, 3
CONFIG = {
    "model": "softmax",
    "precision": "f64",
    "rounds": 6,
    "algorithm": "scaffold",
    "local": {"steps": 3, "batch": 4, "lr": 0.3},
    "participation": {"kind": "uniform", "count": 3},
}
NONE = {"train": False, "test": False, "clients": False}  # nobody is measured: all asks are for turns
JOINED = {"data": {"kind": "joined", "shape": [FEATURES], "classes": CLASSES}, "partition": {"clients": CLIENTS}}


def samples(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, 10 + seed).astype(np.int32)
    return np.eye(CLASSES, FEATURES)[y] + rng.normal(size=(len(y), FEATURES)), y


def new_client(i: int) -> fedloom.halves.Client:
    return fedloom.halves.Client(fedloom.Data(*samples(i), classes=CLASSES))


def joined(clients: list[fedloom.halves.Client], **settings) -> fedloom.halves.Server:
    """A server that has begun, and clients that have accepted its terms."""
    server = fedloom.halves.Server({**CONFIG, **JOINED}, **settings)
    assert server.missing == CLIENTS
    for i, client in enumerate(clients):
        server.join(i, client.card())
    assert server.missing == 0
    server.begin()
    for i, client in enumerate(clients):
        client.accept(server.terms(i))
    return server


def in_one_piece(**settings) -> fedloom.Run:
    x, y = zip(*(samples(i) for i in range(CLIENTS)))
    data = fedloom.Data(np.concatenate(x), np.concatenate(y), sizes=[len(v) for v in y], classes=CLASSES)
    return fedloom.run(CONFIG, data=data, progress=False, **settings)


def same(a: fedloom.Run, b: fedloom.Run) -> None:
    assert a.model.keys() == b.model.keys()
    for name in a.model:
        np.testing.assert_array_equal(a.model[name], b.model[name])
    for name, column in a.columns().items():
        if "seconds" not in name and "memory" not in name:
            np.testing.assert_array_equal(column, b.columns()[name], err_msg=name)


def test_same_bits():
    clients = [new_client(i) for i in range(CLIENTS)]
    server = joined(clients)
    for i, ask in server:
        server.answer(i, clients[i].work(ask))
    same(server.run, in_one_piece())


def test_clients_that_are_made_anew_for_every_turn():
    clients = [new_client(i) for i in range(CLIENTS)]
    server = joined(clients)
    kept: dict[int, bytes] = {}
    for i, ask in server:
        client = new_client(i)
        client.accept(server.terms(i))
        if i in kept:
            client.restore(kept[i])
        server.answer(i, client.work(ask))
        kept[i] = client.state()
    same(server.run, in_one_piece())


def test_answers_from_several_threads():
    clients = [new_client(i) for i in range(CLIENTS)]
    server = joined(clients)
    with ThreadPoolExecutor() as pool:
        out = []
        while not server.done:
            ask = server.next(0.01)
            if ask:
                out.append((ask[0], pool.submit(clients[ask[0]].work, ask[1])))
            elif out:
                i, answer = out.pop()  # the last first: the order must not matter
                server.answer(i, answer.result())
    same(server.run, in_one_piece())


def test_every_round_is_seen():
    seen = []
    clients = [new_client(i) for i in range(CLIENTS)]
    server = joined(clients, on_round=lambda run, fresh: seen.append((run.round, fresh, run.model.copy())))
    for i, ask in server:
        server.answer(i, clients[i].work(ask))
    assert [(k, fresh) for k, fresh, _ in seen] == [(k, True) for k in range(7)]


def test_what_on_round_raises_comes_out():
    def on_round(run, fresh):
        if run.round == 2:
            raise KeyError("mine")

    clients = [new_client(i) for i in range(CLIENTS)]
    server = joined(clients, on_round=on_round)
    with pytest.raises(KeyError, match="mine"):
        for i, ask in server:
            server.answer(i, clients[i].work(ask))


def test_a_lost_client_ends_the_run():
    clients = [new_client(i) for i in range(CLIENTS)]
    server = joined(clients)
    i, _ = server.next(10)
    server.lost(i, f"client {i} has gone for a walk")
    with pytest.raises(fedloom.Error, match="gone for a walk"):
        for k, ask in server:
            server.answer(k, clients[k].work(ask))


def test_an_objective_that_raises_in_a_client():
    @fedloom.objective(parameters=FEATURES)
    def moody(x, batch):
        if batch.n == len(samples(2)[1]):
            raise ArithmeticError("client 2 is in a bad mood")
        return 0.5 * x @ x, x

    clients = [new_client(i) for i in range(CLIENTS)]
    server = joined(clients, model=moody, algorithm="fedavg", server={"failed": "end"})
    with pytest.raises(ArithmeticError, match="bad mood"):
        for i, ask in server:
            server.answer(i, clients[i].work(ask))


def test_objectives_of_one_name():
    def plain():
        return fedloom.objective(lambda x, batch: (0.5 * x @ x, x), parameters=FEATURES, name="plain")

    first = plain()
    clients = [new_client(i) for i in range(CLIENTS)]
    second = plain()  # this is what the clients will find under the name,
    server = joined(clients, model=first, algorithm="fedavg")
    del second  # and what they keep
    gc.collect()
    for i, ask in server:
        server.answer(i, clients[i].work(ask))
    assert server.run.round == 6


def test_bytes_that_are_none_of_ours_are_refused():
    clients = [new_client(i) for i in range(CLIENTS)]
    server = joined(clients)
    i, ask = server.next(10)
    for bad in (b"", b"x", ask[:-1], ask + b"x"):
        with pytest.raises(fedloom.Error):
            clients[i].work(bad)
    answer = clients[i].work(ask)
    for bad in (b"", answer[:-1], ask):
        with pytest.raises(fedloom.Error):
            server.answer(i, bad)
    server.answer(i, answer)
    with pytest.raises(fedloom.Error):
        server.answer(i, answer)  # there is no ask that it would belong to
    for i, ask in server:
        server.answer(i, clients[i].work(ask))
    same(server.run, in_one_piece())


def test_a_client_with_other_samples_is_refused():
    clients = [new_client(i) for i in range(CLIENTS)]
    server = joined(clients)
    other = fedloom.halves.Client((np.zeros((4, FEATURES + 1)), np.array([0, 1, 2, 0])))
    with pytest.raises(fedloom.Error):
        other.accept(server.terms(0))


def test_no_run_before_its_end():
    server = joined([new_client(i) for i in range(CLIENTS)])
    with pytest.raises(fedloom.Error, match="not over"):
        _ = server.run


def test_the_server_tests_the_model():
    clients = [new_client(i) for i in range(CLIENTS)]
    server = joined(clients, test=samples(99))
    for i, ask in server:
        server.answer(i, clients[i].work(ask))
    assert 0 < server.run.test_accuracy <= 1


def test_a_server_may_be_left_at_any_time():
    server = joined([new_client(i) for i in range(CLIENTS)])
    server.next(10)
    server.close()
    server.close()
    with pytest.raises(fedloom.Error, match="this server is closed"):
        server.next(0)
    joined([new_client(i) for i in range(CLIENTS)])


def test_what_a_client_lets_a_server_ask_for():
    clients = [new_client(i) for i in range(CLIENTS)]
    server = joined(clients, metrics=NONE)
    i, ask = server.next(10)
    clients[i].limit(steps=2)
    with pytest.raises(fedloom.Refused, match="3 steps"):
        clients[i].work(ask)
    clients[i].limit(steps=3, bytes=1 << 20, memory=1 << 30, samples=1000, seconds=60, methods=["fedavg", "scaffold"],
                     models=["softmax"])  # fmt: skip
    server.answer(i, clients[i].work(ask))
    clients[i].limit()
    picky = new_client(0)
    picky.limit(methods=["fedavg", "fedprox"])
    with pytest.raises(fedloom.Refused, match="scaffold"):
        picky.accept(server.terms(0))
    with pytest.raises(fedloom.ConfigError, match="lists of names"):
        picky.limit(models="softmax")
    for i, ask in server:
        server.answer(i, clients[i].work(ask))


def test_a_turn_that_is_stopped_may_be_asked_for_again():
    clients = [new_client(i) for i in range(CLIENTS)]
    server = joined(clients, metrics=NONE)
    i, ask = server.next(10)
    clients[i].stop()
    with pytest.raises(fedloom.Refused, match="stopped"):
        clients[i].work(ask)
    server.answer(i, clients[i].work(ask))
    for i, ask in server:
        server.answer(i, clients[i].work(ask))
    same_model = in_one_piece(metrics=NONE).model
    assert all(np.array_equal(server.run.model[k], same_model[k]) for k in same_model)


def test_messages_in_words():
    clients = [new_client(i) for i in range(CLIENTS)]
    server = joined(clients)
    i, ask = server.next(10)
    assert 18 * 8 < len(ask) <= clients[i].ask_bytes < len(ask) + 65536 and new_client(i).ask_bytes == 0
    answer = clients[i].work(ask)
    words = [clients[i].describe(m) for m in (new_client(i).card(), server.terms(i), ask, answer)]
    assert len(set(words)) == 4 and all(len(w) > 20 for w in words) and "scaffold" in words[1]
    with pytest.raises(fedloom.Error):
        clients[i].describe(b"flpacket")


@pytest.mark.filterwarnings("ignore::fedloom.FedloomWarning")
def test_a_client_that_is_dropped_was_not_invited():
    clients = [new_client(i) for i in range(CLIENTS)]
    server = joined(clients, algorithm="fedavg", participation="everyone", metrics=NONE)
    assert server.answer_bytes > 18 * 8
    absent, taken = 2, 0
    for i, ask in server:
        assert i in server.awaited
        if i == absent:
            server.drop(i, "it sleeps")
            assert i not in server.awaited
        else:
            server.answer(i, clients[i].work(ask))
            taken += 1
    assert taken == 6 * (CLIENTS - 1) and server.awaited == []


def test_nobody_can_be_dropped_from_a_method_that_needs_everyone():
    clients = [new_client(i) for i in range(CLIENTS)]
    server = joined(clients, algorithm="fedlin", participation="everyone", metrics=NONE)
    i, ask = server.next(10)
    with pytest.raises(fedloom.Refused):
        server.drop(i, "it sleeps")
    server.answer(i, clients[i].work(ask))
    for i, ask in server:
        server.answer(i, clients[i].work(ask))


def test_a_solver_that_only_the_client_knows():
    class Still(fedloom.Solver):
        def solve(self, local, problem):
            return problem.start

    def with_solver(i):
        return fedloom.halves.Client(fedloom.Data(*samples(i), classes=CLASSES), local={"solver": Still})

    clients = [with_solver(i) for i in range(CLIENTS)]
    server = joined(clients, algorithm="fedavg")
    for i, ask in server:
        server.answer(i, clients[i].work(ask))
    assert all(not v.any() for v in server.run.model.values())  # where softmax starts
    with pytest.raises(fedloom.ConfigError, match="which is not registered"):
        fedloom.halves.Client(fedloom.Data(*samples(0), classes=CLASSES), local={"solver": "nobodys"})


def test_messages_are_bytes():
    client = new_client(0)
    server = joined([new_client(i) for i in range(CLIENTS)])
    for call in (client.accept, client.work, client.restore, client.describe, lambda m: server.answer(0, m),
                 lambda m: server.join(0, m)):  # fmt: skip
        for message in (bytearray(b"abc"), memoryview(b"abc"), "abc", None):
            with pytest.raises(fedloom.ConfigError, match=f"is a {type(message).__name__}, but must be bytes"):
                call(message)


def test_a_closed_server_says_so():
    clients = [new_client(i) for i in range(CLIENTS)]
    server = joined(clients)
    for i, ask in server:
        server.answer(i, clients[i].work(ask))
    run = server.run
    kept = run.vectors["x"].copy()
    server.close()
    for call in (server.begin, server.stop, lambda: server.run, lambda: server.missing, lambda: server.awaited,
                 lambda: server.terms(0), lambda: server.drop(0, "gone"), lambda: server.answer_bytes):  # fmt: skip
        with pytest.raises(fedloom.Error, match="this server is closed"):
            call()
    gc.collect()
    assert np.array_equal(run.vectors["x"], kept)  # it stays for those who have it


def test_a_run_that_was_lent_for_a_call():
    seen = []

    def look(run, measured):
        seen.append((run, run.vectors["x"], run.round))

    clients = [new_client(i) for i in range(CLIENTS)]
    server = joined(clients, on_round=look)
    for i, ask in server:
        server.answer(i, clients[i].work(ask))
    last = server.run.vectors["x"].copy()
    server.close()
    del server
    gc.collect()
    for call in (lambda: seen[0][0].round, lambda: seen[0][0].vectors, lambda: seen[0][0].metrics, seen[0][0].step):
        with pytest.raises(fedloom.Error, match="this run is closed"):
            call()
    assert np.array_equal(seen[-1][1], last)
