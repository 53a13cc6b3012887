"""pandas, pyarrow and PyTorch hand their data over as they have them, and give what arrays give."""

import subprocess
import sys

import numpy as np
import pytest
from conftest import same

import fedloom
from fedloom import Data

COMMON = {"model": "softmax", "rounds": 3, "local": {"lr": 0.5}, "participation": "everyone"}
COLOURS = np.array(["red", "green", "blue"])


def test_nothing_is_imported():
    code = "import fedloom, sys; print([m for m in ('pandas', 'pyarrow', 'torch') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


# ---- tables


def as_pandas(columns):
    return pytest.importorskip("pandas").DataFrame(columns)


def as_arrow(columns):
    return pytest.importorskip("pyarrow").table(columns)


TABLES = pytest.mark.parametrize("table", [as_pandas, as_arrow], ids=["pandas", "pyarrow"])


def columns_of(samples, rows=slice(None)):
    """Two features, the label among them, two more, and who holds the sample."""
    x, y = samples
    owner = np.array(["ann", "bob", "cid"])[np.arange(len(x)) % 3]
    names = {"a": x[:, 0], "b": x[:, 1], "colour": COLOURS[y], "c": x[:, 2], "d": x[:, 3], "who": owner}
    return {k: v[rows] for k, v in names.items()}


@TABLES
def test_columns_by_name(table, samples):
    x, y = samples
    plain = Data(x[:, :4], COLOURS[y], clients=np.arange(len(x)) % 3)
    d = Data(table(columns_of(samples)), "colour", clients="who")
    assert np.array_equal(d.train["x"], x[:, :4]) and d.train["x"].dtype == np.float64
    assert list(d.class_names) == ["blue", "green", "red"]
    assert "columns of a" in d.conversions[0]
    assert same(fedloom.run(COMMON, data=plain), fedloom.run(COMMON, data=d))


@TABLES
def test_a_pair_of_table_and_name(table, samples):
    columns = columns_of(samples)
    del columns["who"]
    a = fedloom.run(COMMON, data=(table(columns), "colour"), partition={"kind": "iid", "clients": 5})
    assert a.clients == 5 and set(a.classify(samples[0][:9, :4])) <= set(COLOURS)


@TABLES
def test_features_alone(table, samples):
    x, y = samples
    d = Data(table({"a": x[:, 0], "b": x[:, 1]}), y)
    assert np.array_equal(d.train["x"], x[:, :2]) and np.array_equal(d.train["label"], y)
    model = fedloom.run(COMMON, data=Data(x[:, :2], y, sizes=[150, 150]))
    assert np.array_equal(model.predict(table({"a": x[:, 0], "b": x[:, 1]})), model.predict(x[:, :2]))


@TABLES
def test_a_table_per_client(table, samples):
    parts = [slice(0, 100), slice(100, 180), slice(180, 300)]
    whole = columns_of(samples)
    del whole["who"]
    tables = [table({k: v[rows] for k, v in whole.items()}) for rows in parts]
    a = fedloom.run(COMMON, data=Data(tables, "colour"))
    assert same(a, fedloom.run(COMMON, data=Data(samples[0][:, :4], COLOURS[samples[1]], sizes=[100, 80, 120])))


@TABLES
def test_test_tables(table, samples):
    x, y = samples
    columns = columns_of(samples, slice(200, None))
    test = table(dict(reversed(columns.items())))  # columns are found by name, wherever they are
    d = Data(table(columns_of(samples, slice(0, 200))), "colour", clients="who", test=test)
    assert np.array_equal(d.test["x"], x[200:, :4])
    assert (d.class_names[d.test["label"]] == COLOURS[y[200:]]).all()
    del columns["who"]
    d = Data(x[:200, :4], COLOURS[y[:200]], test=(table(columns), "colour"))
    assert np.array_equal(d.test["x"], x[200:, :4])


@TABLES
def test_regressions(table, samples):
    x, y = samples
    t = table({"a": x[:, 0], "b": x[:, 1], "price": y})
    d = Data(t, target="price", test=t)
    assert d.classes == 0 and np.array_equal(d.train["target"], y) and np.array_equal(d.test["target"], y)
    assert "target" in Data(table({"a": x[:, 0], "price": x[:, 1]}), "price").train


@TABLES
def test_types(table):
    n = np.arange(6)
    types = {"f": np.float32, "u": np.uint8, "b": bool}
    d = Data(table({"p": n.astype(np.uint8), "q": n.astype(np.uint8), "y": n % 2}), "y")
    assert d.train["x"].dtype == np.uint8
    d = Data(table({**{k: n.astype(t) for k, t in types.items()}, "y": n % 2}), "y")
    assert d.train["x"].dtype == np.float32 and np.array_equal(d.train["x"][:, 0], n)
    d = Data(table({"i": n.astype(np.int32), "f": n.astype(np.float32), "y": n % 2}), "y")
    assert d.train["x"].dtype == np.float64


def test_types_of_pandas():
    pandas = pytest.importorskip("pandas")
    t = pandas.DataFrame({"a": pandas.array([1, 2, 3], "Int64"), "y": pandas.Categorical(["u", "v", "u"])})
    d = Data(t, "y")
    assert d.train["x"].tolist() == [[1], [2], [3]] and list(d.class_names) == ["u", "v"]
    assert Data(pandas.DataFrame(np.eye(3)), 2).train["x"].shape == (3, 2)  # columns that have numbers


def test_types_of_pyarrow():
    pyarrow = pytest.importorskip("pyarrow")
    words = pyarrow.array(["u", "v", "u"]).dictionary_encode()
    d = Data(pyarrow.table({"a": pyarrow.chunked_array([[1, 2], [3]]), "y": words}), "y")
    assert d.train["x"].tolist() == [[1], [2], [3]] and list(d.class_names) == ["u", "v"]


@TABLES
@pytest.mark.parametrize(
    "make, sentence",
    [
        (lambda t: Data(t({"a": [1.0], "label": [0]}), "lable"), "x has no column 'lable'; did you mean 'label'"),
        (lambda t: Data(t({"a": [1.0], "b": [0]}), "weight"), "no column 'weight'; it has 'a', 'b'"),
        (lambda t: Data(t({"a": [1.0], "city": ["Rome"], "y": [0]}), "y"), "column 'city' of x is .* are numbers"),
        (lambda t: Data(t({"a": [1.0, None], "y": [0, 1]}), "y"), "column 'a' of x has 1 missing values"),
        (lambda t: Data(t({"a": [1, 2], "y": ["u", None]}), "y"), "column 'y' of x has 1 missing values"),
        (lambda t: Data(t({"y": [0, 1]}), "y"), "no column that could be a feature"),
        (lambda t: Data(t({"a": [1.0], "y": [0]}), "y", clients="who"), "x has no column 'who'"),
        (lambda t: Data(t({"a": [1.0], "y": [0]}), "y", test=t({"b": [1.0], "y": [0]})), "test x has no column 'a'"),
        (lambda t: Data(t({"a": [1.0]}), [0], test=t({"a": [1.0]})), "names none of its columns"),
        (lambda t: Data([t({"a": [1.0], "y": [0]}), t({"b": [1.0], "y": [0]})], "y"), r"x\[1\] has no column 'a'"),
        (lambda t: Data(t({"a": [1.0], "y": [0]}), "y", copy=False), "copy=False"),
        (lambda t: Data(np.zeros((2, 2)), "y"), "names of columns only where x is a table"),
    ],
)
def test_bad_tables(table, make, sentence):
    table({})  # skips where the library is missing
    with pytest.raises(fedloom.ConfigError, match=sentence):
        make(table)


# ---- data sets


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def dataset_of(torch, x, y, classes=None):
    class Items(torch.utils.data.Dataset):
        def __len__(self):
            return len(x)

        def __getitem__(self, i):
            return torch.tensor(x[i]), int(y[i])

    made = Items()
    if classes is not None:
        made.classes = classes
    return made


def test_tensors_stay_where_they_are(torch, samples):
    x, y = torch.tensor(samples[0]), torch.tensor(samples[1].astype(np.int32))
    d = Data(torch.utils.data.TensorDataset(x, y), sizes=[100, 200])
    assert d.train["x"].ctypes.data == x.data_ptr() and d.train["label"].ctypes.data == y.data_ptr()
    assert d.conversions == []


def test_items(torch, samples):
    x, y = samples
    a = fedloom.run(COMMON, data=Data(x, y, sizes=[100, 200]))
    d = Data(dataset_of(torch, x, y), sizes=[100, 200])
    assert "300 items of a data set" in d.conversions[0]
    assert same(a, fedloom.run(COMMON, data=d))
    parts = [torch.utils.data.Subset(dataset_of(torch, x, y), range(*r)) for r in ((0, 100), (100, 300))]
    assert same(a, fedloom.run(COMMON, data=Data(parts)))
    assert fedloom.run(COMMON, data=dataset_of(torch, x, y), partition={"kind": "iid", "clients": 4}).clients == 4
    d = Data(dataset_of(torch, x[:200], y[:200]), test=dataset_of(torch, x[200:], y[200:]))
    assert np.array_equal(d.test["x"], x[200:]) and np.array_equal(d.test["label"], y[200:])


def test_names_of_classes(torch, samples):
    x, y = samples
    d = Data(dataset_of(torch, x, y, ["red", "green", "blue"]), sizes=[100, 200])
    assert list(d.class_names) == ["red", "green", "blue"] and np.array_equal(d.train["label"], y)
    assert set(fedloom.run(COMMON, data=d).classify(x)) <= set(COLOURS)


def test_pictures(torch):
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(1).integers(0, 256, (6, 8, 9, 3), dtype=np.uint8)

    class Pictures(torch.utils.data.Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, i):
            return image.fromarray(pixels[i]), i % 2

    d = Data(Pictures())
    assert d.train["shape"] == (3, 8, 9) and np.array_equal(d.train["x"], pixels.transpose(0, 3, 1, 2))


def test_bad_datasets(torch):
    data = torch.utils.data

    class Endless(data.IterableDataset):
        pass

    good = data.TensorDataset(torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64))
    for make, sentence in [
        (lambda: Data(Endless()), "x is an IterableDataset"),
        (lambda: Data(data.DataLoader(good)), "x is a DataLoader"),
        (lambda: Data(good, [0, 1, 0, 1]), "y and target have no place"),
        (lambda: Data(data.TensorDataset(torch.zeros(4, 2))), "item 0 of x is a tuple, but must be a pair"),
        (lambda: Data(dataset_of(torch, [np.zeros(2), np.zeros(3)], [0, 1])), r"item 1 of x is of the shape \(3,\)"),
        (lambda: Data(dataset_of(torch, [], [])), "x has no samples"),
        (lambda: Data(dataset_of(torch, np.zeros((2, 2)), [0, 1]), copy=False), "copy=False"),
    ]:
        with pytest.raises(fedloom.ConfigError, match=sentence):
            make()
