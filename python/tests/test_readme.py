"""The code of README.md, of this folder and of the front page, as it stands there: block after block."""

import importlib.util
import re
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[1]
OPTIONAL = ("flwr", "matplotlib", "pandas", "torch")


@pytest.mark.parametrize("path", [HERE / "README.md", HERE.parent / "README.md"], ids=["package", "front page"])
def test_the_code_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    text = path.read_text(encoding="utf-8")
    names = {"__name__": "readme"}  # what stands under __main__ is not run
    blocks = list(re.finditer(r"^```python\n(.*?)^```$", text, re.M | re.S))
    assert len(blocks) >= 2
    for block in blocks:
        code = block[1]
        missing = [m for m in OPTIONAL if needs(code, m) and importlib.util.find_spec(m) is None]
        if not missing:
            first_line = text[: block.start(1)].count("\n")
            exec(compile("\n" * first_line + code, str(path), "exec"), names)


def needs(code, module):
    words = {"matplotlib": r"fedloom\.plot\(", "torch": r"\btorch\b", "flwr": r"\bflwr\b|fedloom\.flower",
             "pandas": r"^import pandas"}  # fmt: skip
    return re.search(words[module], code, re.M)
