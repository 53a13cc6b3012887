"""A client written from docs/protocol.md alone, with NumPy and the standard library: the numbers of fedloom's own."""

from __future__ import annotations

import http.client
import json
import struct
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from test_join import CLASSES, FEATURES, NAMES, PATIENCE, in_one_piece, join, same, samples
from test_join import serve as serve  # a fixture

import fedloom.halves

# ---- packets -----------------------------------------------------------------------------------------------------

HEADER = struct.Struct("<8sHHIQIIQQ32s")
CARD, TERMS, ASK, ANSWER = 1, 2, 3, 4


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def packet(
    kind: int, head: bytes, body: bytes = b"", number: int = 0, client: int = 0, run: bytes = bytes(32)
) -> bytes:
    fields = [b"flpacket", 2, kind, 0, number, client, len(head), len(body), 0, run]
    whole = HEADER.pack(*fields) + head + body
    fields[3] = crc32c(whole[:12] + whole[16:])
    return HEADER.pack(*fields) + head + body


def unpack(whole: bytes) -> dict:
    names = "magic version kind checksum number client head body settled run".split()
    p = dict(zip(names, HEADER.unpack_from(whole)))
    assert (p["magic"], p["version"]) == (b"flpacket", 2)
    assert p["checksum"] == crc32c(whole[:12] + whole[16:])
    assert len(whole) == HEADER.size + p["head"] + p["body"]
    p["head"], p["body"] = whole[80 : 80 + p["head"]], whole[80 + p["head"] :]
    return p


def read_tensors(body: bytes) -> dict[str, np.ndarray]:
    (n,) = struct.unpack_from("<Q", body)
    entries = json.loads(body[8 : 8 + n])
    types = {"F32": "<f4", "F64": "<f8"}
    return {
        name: np.frombuffer(body[8 + n + e["data_offsets"][0] : 8 + n + e["data_offsets"][1]], types[e["dtype"]])
        for name, e in entries.items()
    }


def write_tensors(tensors: dict[str, np.ndarray]) -> bytes:
    entries, data = {}, b""
    for name, t in tensors.items():
        entries[name] = {"dtype": "F64", "shape": [len(t)], "data_offsets": [len(data), len(data) + 8 * len(t)]}
        data += t.astype("<f8").tobytes()
    head = json.dumps(entries).encode()
    head += b" " * (-len(head) % 8)
    return struct.pack("<Q", len(head)) + head + data


# ---- softmax regression and FedAvg -------------------------------------------------------------------------------


def softmax(v: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray, int]:
    """Mean loss, gradient, hits."""
    w, b = v[: CLASSES * FEATURES].reshape(CLASSES, FEATURES), v[CLASSES * FEATURES :]
    z = x @ w.T + b
    z -= z.max(axis=1, keepdims=True)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    loss = -np.log(p[np.arange(len(y)), y]).mean()
    p[np.arange(len(y)), y] -= 1
    return loss, np.concatenate([(p.T @ x / len(y)).ravel(), p.mean(axis=0)]), int((z.argmax(axis=1) == y).sum())


class Scratch:
    """Keeps nothing between asks, as FedAvg keeps nothing."""

    def __init__(self, port: int, name: str, data: tuple) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        self.headers = {"Fedloom-Protocol": "1 1", "Fedloom-Client": name}
        self.x, self.y = data

    def call(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        self.connection.request(method, path, body, self.headers)
        got = self.connection.getresponse()
        assert got.headers["Fedloom-Protocol"] == "1 1"
        return got.status, got.read()

    def card(self) -> bytes:
        n, features = self.x.shape
        return packet(CARD, struct.pack("<4Q32s5Q", n, 0, 0, 0, bytes(32), 1, 1, features, CLASSES, 2))

    def answer(self, whole: bytes) -> bytes:
        p = unpack(whole)
        assert p["kind"] == ASK and p["settled"] < p["number"]
        _, _, steps, lr, _, _, client, kind, _, _, _, flags = struct.unpack("<3Q3d6I", p["head"])
        down, taken = read_tensors(p["body"]), 0
        if kind == 0:
            z = down["x"].copy()
            for taken in range(1, steps + 1):
                z -= lr * softmax(z, self.x, self.y)[1]
            up = {"x_i - x": z - down["x"]}
        else:
            assert kind == 1 and flags & 256
            loss, _, hits = softmax(down["x"], self.x, self.y)
            up = {"figures": np.array([1, len(self.y), 0, loss, hits, *[0] * 9, loss, 0, 0, 0], float)}
        outcome = struct.pack("<Q3I", taken, 0, 0, 0)
        return packet(ANSWER, outcome, write_tensors(up), p["number"], client, p["run"])

    def live(self) -> dict:
        status, text = self.call("GET", "/v1/federation")
        assert status == 200 and json.loads(text)["method"] == "fedavg"
        status, text = self.call("POST", "/v1/join", self.card())
        assert status == 200, text
        number = json.loads(text)["client"]
        while (got := self.call("GET", "/v1/terms?wait=5"))[0] == 204:
            pass
        terms = unpack(got[1])
        assert terms["kind"] == TERMS and terms["client"] == number
        wholes = struct.unpack_from("<10Q5I", terms["body"])
        assert wholes[5:7] == (CLASSES, CLASSES * (FEATURES + 1)) and wholes[9:12] == (len(self.y), number, 8)
        while True:
            status, text = self.call("GET", "/v1/ask?wait=5")
            if status == 410:
                assert self.call("POST", "/v1/alive", b'{"over": true}')[0] == 200  # the server waits for that
                return json.loads(text)
            if status == 200:
                answer = self.answer(text)
                for _ in range(2):  # the second time as if the first reply had been lost
                    status, text = self.call("POST", "/v1/answer", answer)
                    assert (status, json.loads(text)) == (200, {"taken": True})


def test_a_client_from_scratch(serve):
    settings = {"algorithm": "fedavg", "participation": "everyone", "local": {"steps": 4, "batch": 0, "lr": 0.3}}
    serving = serve(**settings)
    with ThreadPoolExecutor() as pool:
        ended = [pool.submit(Scratch(serving.port, NAMES[0], samples(0)).live)]
        ended += [pool.submit(join, serving, i) for i in (1, 2)]
        assert all(f.result(PATIENCE)["ok"] for f in ended)
    same(serving.model(), in_one_piece(**settings), most=1e-12)


def test_packets_of_fedloom_are_those_described():
    assert crc32c(b"123456789") == 0xE3069283
    mine = Scratch(0, "a", samples(0))
    theirs = fedloom.halves.Client(fedloom.Data(*samples(0), classes=CLASSES)).card()
    assert mine.card() == theirs
