"""The programs of docs/language.md, in blocks marked `tsm`: they compile, and give what the manual says they give, by
kernels and by the reference evaluation; and its Python runs.

What would break these: a manual that says what the language does not do.
"""

import ast
import pathlib
import re

import numpy as np
import pytest
import tensmith as ts

MANUAL = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "language.md").read_text()
PROGRAMS = re.findall(r"^```tsm\n(.*?)^```", MANUAL, re.MULTILINE | re.DOTALL)
WITH_RESULTS = [program for program in PROGRAMS if " gives " in program]
TYPES = {"f32": np.float32, "i64": np.int64, "bool": np.bool_}


def given(port, value):
    if "object" in port:
        element = TYPES[re.match(r"List\[(\w+)\[", port["object"])[1]]
        return [element(one) for one in value]
    return np.array(value, TYPES[port["type"]])


def plain(value):
    """As the manual writes it."""
    if not isinstance(value, ts.Value):
        return value.tolist()
    if value.name in ("Cons", "Nil"):
        return [plain(part) for part in value]
    parts = tuple(plain(part) for part in value.fields)
    return parts if not value.name else (value.name, *parts)


def said(text):
    """A tuple of Python, and constructors as tuples that begin with their names."""

    def value(node):
        if isinstance(node, ast.Call):
            return (node.func.id, *(value(part) for part in node.args))
        if isinstance(node, (ast.Tuple, ast.List)):
            return (tuple if isinstance(node, ast.Tuple) else list)(value(part) for part in node.elts)
        return ast.literal_eval(node)

    return value(ast.parse(text, mode="eval").body)


def test_the_manual_has_programs():
    assert len(WITH_RESULTS) >= 8


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("text", WITH_RESULTS, ids=lambda text: text.split("(")[0].split()[-1])
def test_a_program_gives_what_the_manual_says(tmp_path, text, reference):
    path = tmp_path / "program.tsm"
    path.write_text(text)
    model = ts.compile(path, threads=1, reference=reference)
    calls = re.findall(r"^// main\((.*)\) gives (.*)$", text, re.MULTILINE)
    assert calls
    for arguments, wanted in calls:
        values = said(f"({arguments},)")
        results = model.run(*(given(port, value) for port, value in zip(model.describe()["inputs"], values, strict=True)))
        results = tuple(plain(result) for result in results)
        assert (results if len(results) > 1 else results[0]) == said(wanted)


def test_the_python_of_the_manual(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "total.tsm").write_text(PROGRAMS[0])
    code = re.search(r"^```python\n(.*?)^```", MANUAL, re.MULTILINE | re.DOTALL)[1]
    x, y = np.ones((2, 3), np.float32), np.full((2, 3), 2, np.float32)
    lines = code.rstrip().split("\n")
    lines[-1] = f"result = {lines[-1]}"
    names = {"x": x, "y": y}
    exec("\n".join(lines), names)
    np.testing.assert_array_equal(names["result"], x + y)
