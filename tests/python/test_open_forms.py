"""Operators whose sizes are all open, at sizes drawn from 0 to 9: every form of a model gives the same, or refuses with the
same words. The fourth form is the oracle: the same model compiled with those sizes known, which the compiler decides.

Breaks when a requirement is missing from an operator's record, or when a form looks at sizes by itself."""

import random
import re

import numpy as np
import pytest

import tensmith as ts

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402


def window(**attributes):
    return {"kernel_shape": [3, 3], "pads": [1, 0, 1, 1], "strides": [2, 1], **attributes}


# operator; for each input its dimensions, by names that are drawn, or numbers; attributes; constants
CASES = {
    "matmul": ("MatMul", [["a", "k"], ["l", "b"]], {}, {}),
    "matmul-of-stacks": ("MatMul", [["p", "a", "k"], ["q", "k", "b"]], {}, {}),
    "gemm": ("Gemm", [["a", "k"], ["b", "l"], ["c"]], {"transB": 1}, {}),
    "add": ("Add", [["a", "b"], ["c", "d"]], {}, {}),
    "where": ("Add", [["a", 1, "b"], ["c", "d"]], {}, {}),
    "conv": ("Conv", [["n", "c", "h", "w"], ["o", "d", 3, 3], ["b"]], {"pads": [1, 1, 1, 1], "strides": [2, 1]}, {}),
    "conv-transpose": ("ConvTranspose", [["n", "c", "h", 4], [3, 2, 3, 3]], {"strides": [2, 2]}, {}),
    "max-pool": ("MaxPool", [["n", "c", "h", "w"]], window(), {}),
    "average-pool": ("AveragePool", [["n", "c", "h", "w"]], window(count_include_pad=1), {}),
    "concat": ("Concat", [["a", "b"], ["c", "d"]], {"axis": 0}, {}),
    "reshape": ("Reshape", [["a", "b"]], {}, {"shape": [1, 25]}),
    "reshape-to-the-rest": ("Reshape", [["a", "b"]], {}, {"shape": [3, -1]}),
    "batch-norm": ("BatchNormalization", [["n", "c", "h"], ["d"], ["d"], ["d"], ["e"]], {}, {}),
    "instance-norm": ("InstanceNormalization", [["n", "c", "h"], ["d"], ["d"]], {}, {}),
    "layer-norm": ("LayerNormalization", [["a", "b"], ["c"], ["d"]], {}, {}),
    "softmax": ("Softmax", [["a", "b"]], {"axis": 1}, {}),
    "sum": ("ReduceSum", [["a", "b"]], {"keepdims": 0}, {"axes": [1]}),
    "arg-max": ("ArgMax", [["a", "b"]], {"axis": 1}, {}),
    "einsum": ("Einsum", [["a", "k"], ["l", "b"]], {"equation": "ij,jk->ik"}, {}),
    "expand": ("Expand", [["a", 1]], {}, {"shape": [3, 4]}),
    "prelu": ("PRelu", [["a", "b"], ["c"]], {}, {}),
}  # fmt: skip


def model(name, sizes=None):
    operator, dims, attributes, constants = CASES[name]
    known = [[d if sizes is None or isinstance(d, int) else sizes[d] for d in shape] for shape in dims]
    inputs = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, shape) for i, shape in enumerate(known)]
    node = helper.make_node(operator, [i.name for i in inputs] + list(constants), ["y"], **attributes)
    element = TensorProto.INT64 if operator == "ArgMax" else TensorProto.FLOAT
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", element, None)],
                              [numpy_helper.from_array(np.array(v), k) for k, v in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def drawn(name, draw):
    """Sizes, of which a name is often as large as the one before it, so that operands fit now and then."""
    names = {d for shape in CASES[name][1] for d in shape if isinstance(d, str)}
    sizes, last = {}, draw.choice([1, 2, 3, 5])
    for size in sorted(names):
        last = last if draw.random() < 0.65 else draw.choice([0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9])
        sizes[size] = last
    values = np.random.default_rng(draw.randrange(1 << 30))
    arrays = [values.standard_normal([d if isinstance(d, int) else sizes[d] for d in shape]).astype(np.float32)
              for shape in CASES[name][1]]
    return sizes, arrays


def outcome(run):
    try:
        return np.array(run())
    except ts.Error as error:
        return re.sub(r"^model: ", "", str(error))


@pytest.mark.parametrize("name", CASES)
def test_every_form_gives_the_same_or_refuses_with_the_same_words(name):
    draw = random.Random(name)
    text = model(name)
    forms = [ts.compile(text, threads=1), ts.compile(text, threads=2, precision="exact"),
             ts.compile(text, threads=1, fuse=False), ts.compile(text, threads=1, reference=True)]  # fmt: skip
    refused = 0
    for _ in range(12):
        sizes, arrays = drawn(name, draw)
        first, *others = [outcome(lambda form=form: form(*arrays)) for form in forms]
        oracle = outcome(lambda: ts.compile(model(name, sizes), threads=1)(*arrays))
        refused += isinstance(first, str)
        assert isinstance(oracle, str) == isinstance(first, str), (sizes, oracle, first)
        for other in others:
            if isinstance(first, str):
                assert other == first, sizes
            else:
                np.testing.assert_allclose(other, first, rtol=2e-5, atol=2e-5, err_msg=str(sizes))
                np.testing.assert_allclose(oracle, first, rtol=2e-5, atol=2e-5, err_msg=str(sizes))
    assert refused < 12


@pytest.mark.parametrize("upper", [0, 1])
def test_a_triangle_of_any_diagonal(upper):
    """Breaks when a row's number is added to the diagonal, which wraps around."""
    graph = helper.make_graph([helper.make_node("Trilu", ["x", "k"], ["y"], upper=upper)], "g",
                              [helper.make_tensor_value_info("x", 1, ["n", "m"]), helper.make_tensor_value_info("k", 7, [])],
                              [helper.make_tensor_value_info("y", 1, None)])
    triangle = ts.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString(), threads=1)
    x = np.arange(1, 16, dtype=np.float32).reshape(3, 5)
    for k in (0, -1, 3, -100, 100, 2**63 - 1, -(2**63)):
        near = max(-10, min(k, 10))
        np.testing.assert_array_equal(triangle(x, np.array(k)), np.triu(x, near) if upper else np.tril(x, near))


def test_a_check_comes_before_anything_is_computed():
    plan = ts.compile(model("matmul"), threads=1).describe()
    kinds = [step["opcode"] for step in plan["functions"][0]["instructions"]]
    assert "check" in kinds and kinds.index("check") == 0, kinds


def test_known_sizes_pay_nothing():
    sizes = {"a": 2, "k": 3, "l": 3, "b": 4}
    plan = ts.compile(model("matmul", sizes), threads=1).describe()
    assert all(step["opcode"] != "check" for step in plan["functions"][0]["instructions"])


def test_sizes_that_a_function_names_twice_are_compared(tmp_path):
    path = tmp_path / "p.tsm"
    path.write_text("fn f(x: f32[n, m], y: f32[m, n]) = (x, y)\nfn main(a: f32[?, ?], b: f32[?, ?]) = f(a, b)\n")
    compiled = ts.compile(str(path))
    assert compiled.run(np.ones((3, 4), np.float32), np.ones((4, 3), np.float32))[1].shape == (4, 3)
    for shape in [(3, 4), (2, 6), (4, 2)]:
        with pytest.raises(ts.Error):
            compiled.run(np.ones((3, 4), np.float32), np.ones(shape, np.float32))
