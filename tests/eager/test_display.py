"""What notebooks show: every element or a sign that some are left out, and each step of a graph below what it reads."""

import re
import xml.etree.ElementTree as tree

import numpy
import pytest

tnp = pytest.importorskip("tensmith.numpy")
from tensmith.display import graph_of, page_of  # noqa: E402

import tensmith as ts  # noqa: E402


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (40, 30), (2, 0), (2, 3, 4), (1, 1, 25, 13)])
@pytest.mark.parametrize("name", ["float32", "bfloat16", "int64", "bool", "complex64"])
def test_tensors_are_tables(shape, name):
    x = tnp.astype(tnp.reshape(tnp.arange(numpy.prod(shape, dtype=int)), shape), getattr(tnp, name))
    table = tree.fromstring(x._repr_html_())
    assert table.tag == "table" and table.find("caption").text.startswith(name)
    rows = table.findall("tr")
    sizes = (*(1,) * (2 - len(shape)), *shape)[-2:]
    if 0 in shape:
        assert rows == []
        return
    assert len(rows) == (sizes[0] if sizes[0] <= 20 else 7) and len(rows[0]) == (sizes[1] if sizes[1] <= 12 else 7)
    assert "inf" not in table.find("caption").text and all(each.text for row in rows for each in row)


def boxes_and_lines(svg):
    at = {}
    for group in svg.iter("{http://www.w3.org/2000/svg}g"):
        box = group.find("{http://www.w3.org/2000/svg}rect")
        place = float(box.get("x")) + float(box.get("width")) / 2
        at[place, float(box.get("y"))] = group.find("{http://www.w3.org/2000/svg}text").text
    lines = []
    for path in svg.iter("{http://www.w3.org/2000/svg}path"):
        numbers = [float(each) for each in re.findall(r"[-\d.]+", path.get("d"))]
        lines.append((at[numbers[0], numbers[1] - 34], at[numbers[-2], numbers[-1]]))
        assert numbers[1] < numbers[-1]
    return at, lines


def test_a_function_shows_its_graph():
    @ts.function
    def layer(x, w):
        y = tnp.tanh(x @ w) + 1.0
        return y * 2.0, tnp.sum(y)

    for _ in range(3):
        layer(tnp.ones((3, 4), dtype=tnp.float32), tnp.ones((4, 2), dtype=tnp.float32))
    shown = layer._repr_html_()
    assert "3 calls" in shown and "x has the shape (3, 4)" in shown
    svg = tree.fromstring(re.search(r"<svg.*</svg>", shown).group())
    boxes, lines = boxes_and_lines(svg)
    assert sorted(lines) == sorted([("input", "matmul"), ("input", "matmul"), ("matmul", "tanh"), ("tanh", "add 1"), ("add 1", "mul 2"), ("add 1", "sum"),
                                    ("mul 2", "result 0"), ("sum", "result 1")])  # fmt: skip
    assert len(boxes) == 9  # no two at one place


def test_steps_of_several_results_and_large_graphs():
    split = "input f32 6\nsplit|axis=i:0|0|f32 3,f32 3\nadd||1 2|f32 3\nout 3\n"
    _, lines = boxes_and_lines(tree.fromstring(graph_of(split)))
    assert lines == [("input", "split"), ("split", "add"), ("split", "add"), ("add", "result 0")]
    many = "input f32 6\n" + "".join(f"tanh||{i}|f32 6\n" for i in range(400)) + "out 400\n"
    assert "402 steps" in graph_of(many)


def test_a_page_that_is_not_there(tmp_path):
    assert page_of(tmp_path / "curves.html") is None
    (tmp_path / "curves.html").write_text('<p class="x">1 & 2</p>')
    assert tree.fromstring(page_of(tmp_path / "curves.html")).get("srcdoc") == '<p class="x">1 & 2</p>'
