"""Models as ONNX: well formed, and runtimes compute with them what fedloom predicts."""

import numpy as np
import pytest

import fedloom

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

CNN = {"kind": "cnn", "layers": "conv 4x5 same, pool 2, conv 6x3 stride 2, avgpool 2, fc 12"}
ODD = {"kind": "cnn", "layers": "avgpool 2, conv 5x3 pad 1, pool 3, conv 4x2"}
COLOURED = {"kind": "cnn", "layers": "conv 4x3 pad 2, pool 2"}


def session_of(model, path):
    model.export(path)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def agrees(settings, x, tmp_path):
    """Trains, exports and asks both; returns the saved model and the session."""
    run = fedloom.run({"rounds": 3, "local": {"epochs": 2, "batch": 20, "lr": 0.05}, **settings})
    model = fedloom.load(run.save(tmp_path / "out"))
    session = session_of(model, tmp_path / "model.onnx")
    given = x.reshape(len(x), *model.shape) if model.shape[:2] != (1, 1) else x
    logits, p = session.run(["logits", "probabilities"], {"input": given.astype(np.float32)})
    expected = model.predict(x)
    assert expected.std(axis=0).max() > 1e-3  # samples are told apart
    assert np.abs(p - expected).max() <= 1e-5
    ours = np.log(expected)  # logits up to a number per sample
    ours, theirs = (v - v.max(axis=1, keepdims=True) for v in (ours, logits.astype(np.float64)))
    assert np.abs(ours - theirs).max() <= 1e-5
    one = session.run(["probabilities"], {"input": given[:1].astype(np.float32)})[0]  # batches of any size
    assert np.abs(one - expected[:1]).max() <= 1e-5
    return model, session


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize(
    "model, data",
    [
        ("softmax", {}),
        ({"kind": "mlp", "hidden": [16, 8]}, {"normalize": "standard"}),
        (CNN, {}),
        (CNN, {"normalize": "standard", "crop": 24}),
        (ODD, {"normalize": "image", "crop": 25}),
        ("softmax", {"normalize": "image"}),
    ],
)
def test_images(model, data, precision, tmp_path):
    x = np.random.default_rng(3).integers(0, 256, (40, 784), dtype=np.uint8)
    digits = {"kind": "digits", "samples": 300, "test_samples": 50, **data}
    partition = {"kind": "iid", "clients": 5}
    _, session = agrees({"data": digits, "partition": partition, "model": model, "precision": precision}, x, tmp_path)
    assert session.get_inputs()[0].shape == ["batch", 1, 28, 28]


@pytest.mark.parametrize("normalize", ["auto", "standard", "image"])
def test_channels(normalize, tmp_path):
    """Channels come first, and each has its own scale."""
    rng = np.random.default_rng(4)
    x = rng.integers(0, 256, (60, 3, 9, 7), dtype=np.uint8) // np.array([1, 2, 5], np.uint8)[:, None, None]
    data = fedloom.Data(x, rng.integers(0, 4, 60), sizes=[20] * 3, normalize=normalize)
    model, _ = agrees({"data": data, "model": COLOURED}, x, tmp_path)
    assert model.shape == (3, 9, 7)


@pytest.mark.parametrize("model", ["softmax", {"kind": "mlp", "hidden": [7]}])
@pytest.mark.parametrize("normalize", ["none", "standard"])
def test_features(model, normalize, samples, tmp_path):
    x, y = samples
    x = x * [1, 2, 3, 0.5, 1, 1] + [0, 1, 0, 0, -2, 0]
    words = np.array(["red", "green", "blue"])[y]
    data = fedloom.Data(x, words, sizes=[150] * 2, normalize=normalize)
    _, session = agrees({"data": data, "model": model}, x, tmp_path)
    about = session.get_modelmeta()
    assert about.producer_name == "fedloom" and about.custom_metadata_map["class_names"] == '["blue", "green", "red"]'
    assert session.get_inputs()[0].shape == ["batch", 6]


def test_refused(regression, digits, tmp_path):
    model = fedloom.load(fedloom.run(regression, model="least_squares").save(tmp_path / "a"))
    with pytest.raises(fedloom.ConfigError, match="kind least_squares is not exported as ONNX"):
        model.export(tmp_path / "a.onnx")
    model = fedloom.load(fedloom.run(digits).save(tmp_path / "b"))
    with pytest.raises(fedloom.ConfigError, match="names end in .onnx"):
        model.export(tmp_path / "b.pt")
