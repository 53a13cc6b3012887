import numpy as np
import pytest
from conftest import same

import fedloom
from fedloom import Data

COMMON = {"model": "softmax", "rounds": 3, "local": {"lr": 0.5}, "participation": "everyone"}


def pointer(a):
    return a.__array_interface__["data"][0]


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_no_copies(samples, dtype):
    x, y = samples
    x, y = np.abs(10 * x).astype(dtype), y.astype(np.int32)
    d = Data(x, y)
    assert pointer(d.train["x"]) == pointer(x) and pointer(d.train["label"]) == pointer(y)
    assert d.conversions == []


def test_conversions_are_said(samples):
    x, y = samples
    assert "float16 to float32" in Data(x.astype(np.float16), y).conversions[0]
    assert "not contiguous" in Data(np.asfortranarray(x), y).conversions[0]
    assert "int64 to float64" in Data((10 * x).astype(np.int64), y).conversions[0]
    with pytest.raises(fedloom.ConfigError, match="copy=False"):
        Data(x[:, ::2], y, copy=False)


def test_layouts_do_not_matter(samples):
    x, y = samples
    a = fedloom.run(COMMON, data=Data(x, y, sizes=[30] * 10))
    assert same(a, fedloom.run(COMMON, data=Data(np.asfortranarray(x), y.astype(np.uint8), sizes=[30] * 10)))
    owner = np.repeat(np.arange(10), 30)
    assert same(a, fedloom.run(COMMON, data=Data(x, y, clients=owner)))
    names = np.array(["abcdefghij"[i] for i in owner])
    assert same(a, fedloom.run(COMMON, data=Data(x, y, clients=names)))
    parts = [range(30 * i, 30 * i + 30) for i in range(10)]
    assert same(a, fedloom.run(COMMON, data=Data(x, y, clients=parts)))
    assert same(a, fedloom.run(COMMON, data=Data(np.split(x, 10), np.split(y, 10))))
    b = fedloom.run(COMMON, data=Data(x.astype(np.float32), y, sizes=[30] * 10))
    assert np.allclose(a.vectors["x"], b.vectors["x"], atol=1e-5)


def test_partitions_of_arrays(samples):
    a = fedloom.run(COMMON, data=samples, partition={"kind": "iid", "clients": 5})
    assert a.clients == 5 and a.train_loss < 1


def test_sparse(samples):
    sparse = pytest.importorskip("scipy.sparse")
    x, y = samples
    x = np.where(np.abs(x) < 0.5, 0, x)
    a = fedloom.run(COMMON, data=Data(x, y, sizes=[30] * 10))
    for kind in (sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix):
        s = fedloom.run(COMMON, data=Data(kind(x), y, sizes=[30] * 10))
        assert np.allclose(a.vectors["x"], s.vectors["x"], atol=1e-5)
    m = sparse.csr_matrix(x)
    assert pointer(Data(m, y).train["x"]) == pointer(m.data)


def test_classes_by_name(samples):
    x, y = samples
    d = Data(x, np.array(["red", "green", "blue"])[y])
    assert list(d.class_names) == ["blue", "green", "red"] and d.classes == 3
    assert (d.class_names[d.train["label"]] == np.array(["red", "green", "blue"])[y]).all()
    assert list(Data(x, np.where(y > 0, 1, -1)).class_names) == [-1, 1]


def test_models_know_class_names(samples, tmp_path):
    x, y = samples
    colours = np.array(["red", "green", "blue"])[y]
    run = fedloom.run(COMMON, data=Data(x, colours, sizes=[len(x) // 2] * 2))
    model = fedloom.load(run.save(tmp_path / "out"))
    assert model.class_names == ["blue", "green", "red"]
    assert (model.classify(x) == run.classify(x)).all() and set(model.classify(x)) <= set(colours)


def test_test_set(samples):
    x, y = samples
    a = fedloom.run(COMMON, data=Data(x[:200], y[:200], sizes=[20] * 10, test=(x[200:], y[200:])))
    assert 0 < a.test_accuracy <= 1


def test_images():
    x = np.random.default_rng(0).integers(0, 255, (60, 8, 8), dtype=np.uint8)
    a = fedloom.run(
        COMMON, data=Data(x, np.arange(60) % 3, sizes=[20] * 3), model={"kind": "cnn", "layers": "conv 2x3"}
    )
    assert a.parameters > 0


X, Y = np.zeros((6, 2)), np.array([0, 1, 0, 1, 0, 1])


@pytest.mark.parametrize(
    "make, sentence",
    [
        (lambda: Data(X, Y[:5]), "there are 6 samples"),
        (lambda: Data(np.zeros(6), Y), r"the shape \(6,\)"),
        (lambda: Data(np.zeros((0, 2)), []), "no samples"),
        (lambda: Data(X.astype(complex), Y), "complex"),
        (lambda: Data(np.array([["a", "b"]] * 6), Y), "features are numbers"),
        (lambda: Data(np.zeros((6, 8, 8, 3)), Y), "channels come first"),
        (lambda: Data(X, Y, classes=1), "a label is 1"),
        (lambda: Data(X, Y, target=Y), "both y and target"),
        (lambda: Data(X, Y, sizes=[3, 2]), "with the sum 6"),
        (lambda: Data(X, Y, clients=[0, 1]), "clients has the shape"),
        (lambda: Data(X, Y, clients=[-2] * 6), "the number -2"),
        (lambda: Data(X, Y, clients=[[0, 1], [1, 2]]), "given already"),
        (lambda: Data(X, Y, clients=[[0, 1], [7]]), "do not exist"),
        (lambda: Data(X, Y, clients=[[0, 1], []]), "client 1 has no samples"),
        (lambda: Data(X, Y, weights=[1]), "weights belong to clients"),
        (lambda: Data(X, Y, sizes=[3, 3], weights=[1]), "there are 2 clients"),
        (lambda: Data(X, Y, shape=(3, 3)), "no images"),
        (lambda: fedloom.run(COMMON, data=Data(X, Y, sizes=[6, 0])), "client 1"),
        (lambda: fedloom.run(COMMON, data=Data(np.full((6, 2), np.nan), Y, sizes=[3, 3])), "finite|nan"),
    ],
)
def test_bad_data(make, sentence):
    with pytest.raises(fedloom.Error, match=sentence):
        make()


# ---- labels that look like values to predict -----------------------------------------------------------------------


MANY = np.random.default_rng(0).permutation(498)
TOO_MANY = "is the last of 498 different numbers in 498 samples, too many for classes; for values to predict, say"
FIVE = np.linspace(-1, 1, 498 * 5).reshape(498, 5)


@pytest.mark.parametrize("y", [MANY, MANY + 10**6, -MANY], ids=["from 0", "large", "negative"])
def test_many_different_numbers_are_refused(y):
    shown = f"y: sample 497: label {y[497]} {TOO_MANY}"
    for data in (Data(FIVE, y, sizes=[249] * 2), (FIVE, y)):
        with pytest.raises(fedloom.ConfigError) as raised:
            fedloom.run(COMMON, data=data)
        assert str(raised.value).startswith(shown)
    with pytest.raises(fedloom.ConfigError, match='task="regression".*task="classification"'):
        fedloom.describe(data=Data(FIVE, y), model="softmax")


def test_many_different_numbers_that_are_meant():
    for data in (Data(FIVE, MANY, task="classification", sizes=[249] * 2), Data(FIVE, MANY, classes=498, sizes=[498])):
        assert fedloom.run(COMMON, data=data, rounds=1).parameters == 498 * 6
    values = Data(FIVE, MANY, task="regression", sizes=[249] * 2, test=(FIVE, MANY))
    assert values.classes == 0 and values.train["target"].dtype == values.test["target"].dtype == np.float64
    assert fedloom.run(COMMON, data=values, model="least_squares", rounds=1).parameters == 5
    few = Data(FIVE, MANY % 3 * 1.0, task="classification")
    assert few.classes == 3 and "float64 to int64" in few.conversions[0]


def test_the_rule_is_that_of_files(tmp_path):
    def refused(data):
        try:
            fedloom.describe(data=data, model="softmax", partition={"kind": "iid", "clients": 2})
        except fedloom.Error as e:
            assert "too many for classes" in str(e)
            return True
        return False

    kinds = {"numbers": lambda i: i, "words": np.char.mod("w%d", np.arange(1200)).__getitem__}
    for kind, n, many in [("numbers", 200, 20), ("numbers", 200, 21), ("numbers", 210, 21), ("numbers", 20000, 1000),
                          ("numbers", 20000, 1001), ("words", 1999, 1000), ("words", 2001, 1001),
                          ("words", 2002, 1001)]:  # fmt: skip
        y = np.arange(n) % many
        x = np.zeros((n, 1), np.float32)
        table = tmp_path / "t.csv"
        table.write_text("".join(f"0,{kinds[kind](i)}\n" for i in y))
        file = {"kind": "csv", "train": str(table), "header": False}
        assert refused(Data(x, kinds[kind](y))) == refused(file), (kind, n, many)


def test_a_client_may_have_few_samples_of_each_class():
    client = fedloom.halves.Client(Data(FIVE, MANY))
    client.check_labels(498)


@pytest.mark.parametrize(
    "make, sentence",
    [
        (lambda: Data(X, Y, task="guess"), "task is 'guess', but must be one of: auto, classification, regression"),
        (lambda: Data(X, Y + 0.5, task="classification"), "y has 0.5, which is not a whole number, as classes are"),
        (lambda: Data(X, [np.inf] * 6, task="classification"), "y has inf, which is not a whole number"),
        (lambda: Data(X, target=Y, task="classification"), "task is classification, but there are targets"),
        (lambda: Data(X, list("ababab"), task="regression"), "targets are numbers"),
        (lambda: Data(X, Y * 1.0, task="classification", copy=False), "copy=False"),
    ],
)
def test_tasks_that_labels_do_not_fit(make, sentence):
    with pytest.raises(fedloom.ConfigError, match=sentence):
        make()


# ---- what NumPy and SciPy would let pass ---------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["x", "y", "target", "weights", "sizes", "clients", "a client's x"])
def test_masked_entries_are_refused(place):
    def masked(values):
        return np.ma.masked_array(values, mask=np.arange(np.size(values)).reshape(np.shape(values)) == 1)

    x, y = np.ones((4, 3)), np.array([0, 1, 0, 1])
    made = {
        "x": lambda: fedloom.Data(masked(x), y),
        "y": lambda: fedloom.Data(x, masked(y)),
        "target": lambda: fedloom.Data(x, target=masked(y)),
        "weights": lambda: fedloom.Data(x, y, sizes=[2, 2], weights=masked([1.0, 2.0])),
        "sizes": lambda: fedloom.Data(x, y, sizes=masked([2, 2])),
        "clients": lambda: fedloom.Data(x, y, clients=masked(y)),
        "a client's x": lambda: fedloom.Data([x, masked(x)], [y, y]),
    }
    with pytest.raises(fedloom.ConfigError, match="has 1 masked entries"):
        made[place]()
    assert fedloom.Data(np.ma.masked_array(x, mask=False), y).train["n"] == 4


@pytest.mark.parametrize("kind", [">f4", ">f8", ">i2"])
def test_the_other_byte_order_is_converted(samples, kind):
    x, y = samples
    x = (100 * x).astype(kind)
    data = fedloom.Data(x, y.astype(">i8"), sizes=[30] * 10)
    assert "x: converted from " + kind in "\n".join(data.conversions)
    base = {"model": "softmax", "rounds": 2, "local": {"lr": 0.001}}
    native = fedloom.Data(x.astype(kind[1:]), y, sizes=[30] * 10)
    assert same(fedloom.run(base, data=data), fedloom.run(base, data=native))
    with pytest.raises(fedloom.ConfigError, match="byte order"):
        fedloom.Data(x, y, copy=False)


def broken_matrices():
    scipy = pytest.importorskip("scipy.sparse", reason="SciPy is not installed")

    def compressed(kind, **arrays):
        m = kind(np.eye(4))
        for name, values in arrays.items():
            setattr(m, name, np.array(values, m.indices.dtype))
        return m

    coo = scipy.coo_matrix(np.eye(4))
    coo.row = coo.row + 10**6
    return {
        "a column beyond the last": compressed(scipy.csr_matrix, indices=[0, 1, 2, 10**9]),
        "a column before the first": compressed(scipy.csr_matrix, indices=[0, -1, 2, 3]),
        "rows that end before they begin": compressed(scipy.csr_matrix, indptr=[0, 4, 1, 3, 4]),
        "rows beyond the values": compressed(scipy.csr_matrix, indptr=[0, 1, 2, 3, 10**9]),
        "rows from elsewhere": compressed(scipy.csr_matrix, indptr=[-(10**9), 1, 2, 3, 4]),
        "an end before the start": compressed(scipy.csr_matrix, indptr=[0, 10**6, 10**6, 10**6, -1]),
        "too few rows": compressed(scipy.csr_matrix, indptr=[0, 4]),
        "a row beyond the last": compressed(scipy.csc_matrix, indices=[0, 1, 2, 10**9]),
        "a place beyond": coo,
    }


def test_broken_sparse_matrices_are_refused():
    for what, m in broken_matrices().items():
        with pytest.raises(fedloom.ConfigError, match=f"x is a broken {m.format} matrix"):
            fedloom.Data(m, [0, 1, 0, 1])
            pytest.fail(what)
