"""Folders of images: the engine sees what Pillow sees."""

import numpy as np
import pytest
from conftest import same

import fedloom

image = pytest.importorskip("PIL.Image")

CLASSES = ["ant", "bee", "cat"]
COMMON = {
    "model": {"kind": "cnn", "layers": "conv 3x3, pool 2"},
    "partition": {"kind": "iid", "clients": 3},
    "local": {"lr": 0.1},
    "rounds": 2,
    "participation": "everyone",
}
# No image is much taller than wide: for those Pillow 13 works in another order than others, and than fedloom.
FILES = [(mode, "png") for mode in ("1", "L", "LA", "P", "RGB", "RGBA")] + [("L", "jpg"), ("RGB", "jpg")]


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(5)
    tmp_path = tmp_path / "images"
    for name in CLASSES:
        (tmp_path / name).mkdir(parents=True)
        for k, (mode, ending) in enumerate(FILES):
            height, width = rng.integers(9, 30), rng.integers(30, 50)
            pixels = image.fromarray(rng.integers(0, 256, (height, width, 4), dtype=np.uint8))
            pixels.convert("RGB").convert(mode).save(tmp_path / name / f"{k}.{ending}")
    return tmp_path


@pytest.mark.parametrize("channels, mode", [(3, "RGB"), (1, "L")])
def test_as_pillow_reads_them(folder, channels, mode):
    files = sorted(folder.glob("*/*"))
    pixels = [image.open(f).convert("RGB").convert(mode).resize((12, 14), image.BILINEAR) for f in files]
    x = np.stack([np.asarray(p) for p in pixels]).reshape(len(files), 14, 12, channels).transpose(0, 3, 1, 2)
    y = [f.parent.name for f in files]
    read = {"kind": "image_folder", "train": str(folder), "resize": [14, 12], "channels": channels}
    a = fedloom.run(COMMON, data=read)
    assert same(a, fedloom.run(COMMON, data=(np.ascontiguousarray(x), y)))
    assert fedloom.load(a.save(folder.parent / "out")).class_names == CLASSES
