"""The notebooks run from top to bottom, and print what is stored in them.

    python tests/test_notebooks.py [NAME ...]    executes them, and stores what comes out
"""

import base64
import io
import re
import sys
import tempfile
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="notebooks need nbformat")
nbclient = pytest.importorskip("nbclient", reason="notebooks need nbclient")
pytest.importorskip("ipykernel", reason="notebooks need ipykernel")

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))
LARGEST = 200_000  # bytes of a notebook with its outputs
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def executed(path, folder):
    """The notebook with the outputs of a fresh run in a folder."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    where = {"metadata": {"path": str(folder)}}
    return nbclient.NotebookClient(notebook, timeout=600, record_timing=False, resources=where).execute()


# ---- storing


def smaller(png):
    """A chart with fewer colours, in base64."""
    from PIL import Image

    made = io.BytesIO()
    image = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    image.quantize(128, method=Image.Quantize.MAXCOVERAGE).save(made, "png", optimize=True)
    return base64.b64encode(made.getvalue()).decode()


def stored(notebook):
    """The notebook as it is kept: small, and without what nobody sees."""
    for cell in notebook.cells:
        if "outputs" in cell:  # lines of progress are empty in the end
            cell.outputs = [out for out in cell.outputs if out.get("data", {}).get("text/html") != ""]
        for out in cell.get("outputs", ()):
            data = out.get("data", {})
            if {"text/html", "image/png"} & data.keys():
                data.pop("text/plain", None)
            if "image/png" in data:
                data["image/png"] = smaller(data["image/png"])
    notebook.metadata.language_info = {"name": "python"}
    return notebook


def store(names):
    for path in NOTEBOOKS:
        if not names or path.stem in names:
            with tempfile.TemporaryDirectory() as folder:
                nbformat.write(stored(executed(path, folder)), path)


# ---- testing


def printed(notebook):
    """What each cell printed."""
    return [
        "".join(out.text for out in cell.outputs if out.get("name") == "stdout")
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def progress_left(notebook):
    outputs = [out.get("data", {}).get("text/html", "") for cell in notebook.cells for out in cell.get("outputs", ())]
    return [text for text in outputs if re.search(r"\d left<", text)]


def needed(notebook):
    """Packages that it imports, of those that fedloom does not need; tables come with pandas."""
    source = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    return ["pandas"] + [name for name in ("matplotlib", "torch") if re.search(rf"\b(import|from) {name}\b", source)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook(path, tmp_path):
    kept = nbformat.read(path, as_version=4)
    nbformat.validate(kept)
    for name in needed(kept):
        pytest.importorskip(name, reason=f"{path.name} needs {name}")
    assert path.stat().st_size < LARGEST
    made = executed(path, tmp_path)
    for now, before in zip(printed(made), printed(kept)):
        # Other versions of PyTorch and of NumPy's BLAS round differently.
        assert NUMBER.sub("0", now) == NUMBER.sub("0", before)
        numbers = [float(n) for n in NUMBER.findall(before)]
        assert [float(n) for n in NUMBER.findall(now)] == pytest.approx(numbers, rel=0.05, abs=0.05)
    assert not progress_left(made)
    assert not list(tmp_path.iterdir()), "it leaves files"


def test_notebooks_are_there():
    assert len(NOTEBOOKS) >= 3


if __name__ == "__main__":
    store(sys.argv[1:])
