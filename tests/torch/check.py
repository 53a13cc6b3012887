"""The Python of docs/library.md, run as it stands there: it must predict what fl_model_predict does.

Usage: check.py DOCUMENT FOLDER, where the folder is what make_models has filled."""
import glob
import os
import re
import sys

import numpy
import torch

document, folder = sys.argv[1:]
text = open(document, encoding="utf-8").read()
section = text[re.search(r"^#+ Models in PyTorch$", text, re.M).end():]
blocks = re.findall(r"^```python\n(.*?)^```$", section, re.M | re.S)
passed = failed = 0


def check(what, holds, figure):
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    print(f"{'ok' if holds else 'FAIL'}  {what}: {figure}")


networks, by_package, by_hand = blocks[:3]
readers = [("by hand", by_hand)]
try:
    import safetensors.torch
    readers.append(("safetensors", by_package))
except ImportError:
    print("without the package safetensors: the file is read by hand only")

images = numpy.fromfile(os.path.join(folder, "images.u8"), numpy.uint8).reshape(50, -1)
models = sorted(glob.glob(os.path.join(folder, "*.expected")))
check("models to compare", len(models) >= 5, len(models))
for how, code in readers:
    names = {}
    exec(networks, names)
    exec(code, names)
    for path in models:
        name = os.path.basename(path)[:-len(".expected")]
        expected = numpy.fromfile(path, numpy.float64).reshape(50, -1)
        with torch.no_grad():
            tensors, about = names["read"](os.path.join(folder, name, "model.safetensors"))
            net = names["network"](tensors, about)
            got = names["probabilities"](net, images, about).double().numpy()
        worst = abs(got - expected).max()
        check(f"{name}, {how}", worst <= 1e-5, f"largest difference {worst:.2g}")
        check(f"{name}, {how}: predictions differ from sample to sample", expected.std(0).max() > 1e-3, "")
        if how == "safetensors":
            names["save_file"](net.state_dict(), os.path.join(folder, name + ".start"))
            again = os.path.join(folder, name + ".start")
            check(f"{name}: written by PyTorch", os.path.getsize(again) > 0, again)
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
