"""Sizes that only the run knows, and that don't agree as an operator requires: an error, as of the reference, and no
reading beyond an operand."""

import numpy as np
import pytest

import tensmith as ts

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402


def ones(*shape):
    return np.ones(shape, np.float32)


# operator, dimensions of the inputs, arrays that disagree, attributes
CASES = {
    "matmul": ("MatMul", [[1, "n"], [64, 64]], [ones(1, 100000), ones(64, 64)], {}),
    "matmul-of-stacks": ("MatMul", [["p", 2, 3], ["q", 3, 8]], [ones(2, 2, 3), ones(3, 3, 8)], {}),
    "matmul-of-a-known-stack": ("MatMul", [["p", 2, 3], [3, 3, 8]], [ones(2, 2, 3), ones(3, 3, 8)], {}),
    "matmul-by-an-unknown-stack": ("MatMul", [[4, 3, 2, 3], ["p", 3, 8]], [ones(4, 3, 2, 3), ones(2, 3, 8)], {}),
    "gemm": ("Gemm", [[2, "a"], ["b", 8], ["c"]], [ones(2, 4), ones(6, 8), ones(8)], {}),
    "gemm-bias": ("Gemm", [[2, "a"], ["a", 8], ["c"]], [ones(2, 4), ones(4, 8), ones(5)], {}),
    "conv": ("Conv", [[1, "c", 8, 8], [5, 3, 3, 3]], [ones(1, 2, 8, 8), ones(5, 3, 3, 3)], {}),
    "conv-bias": ("Conv", [[1, 3, 8, 8], [5, 3, 3, 3], ["b"]], [ones(1, 3, 8, 8), ones(5, 3, 3, 3), ones(4)], {}),
    "conv-groups": ("Conv", [["n", "c", 8, 8], ["o", "i", 3, 3]], [ones(1, 6, 8, 8), ones(4, 2, 3, 3)], {"group": 2}),
    "concat": ("Concat", [["a", 3], ["b", "k"]], [ones(4, 3), ones(6, 2)], {"axis": 0}),
    "layer-norm": ("LayerNormalization", [["a", "k"], ["s"]], [ones(4, 3), ones(2)], {"axis": -1}),
    "layer-norm-bias": ("LayerNormalization", [["a", "k"], ["k"], ["s"]], [ones(4, 3), ones(3), ones(2)], {"axis": -1}),
    "einsum": ("Einsum", [["a", "b"], ["c", "d"]], [ones(2, 4), ones(6, 3)], {"equation": "ij,jk->ik"}),
    "gather-elements": ("GatherElements", [[3, "b"], [2, 4]], [ones(3, 2), np.zeros((2, 4), np.int64)], {"axis": 0}),
    "gather-of-batches": ("GatherND", [["b", 4], [3, 2, 1]], [ones(2, 4), np.zeros((3, 2, 1), np.int64)], {"batch_dims": 1}),
    "scatter-of-sums": ("ScatterND", [[6, 4], ["b", 1], ["b", "c"]], [ones(6, 4), np.zeros((2, 1), np.int64), ones(2, 2)],
                        {"reduction": "add"}),
    "scatter": ("ScatterElements", [["a", "b"], ["c", "d"], ["e", "f"]],
                [ones(2, 4), np.zeros((2, 4), np.int64), ones(1, 3)], {}),
}  # fmt: skip


@pytest.mark.parametrize("reference", [False, True], ids=["compiled", "reference"])
@pytest.mark.parametrize("name", CASES)
def test_is_an_error(name, reference):
    operator, dims, arrays, attributes = CASES[name]
    kinds = [TensorProto.INT64 if array.dtype == np.int64 else TensorProto.FLOAT for array in arrays]
    inputs = [helper.make_tensor_value_info(f"x{i}", *of) for i, of in enumerate(zip(kinds, dims))]
    node = helper.make_node(operator, [value.name for value in inputs], ["y"], **attributes)
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    model = helper.make_model(helper.make_graph([node], "g", inputs, [output]),
                              opset_imports=[helper.make_opsetid("", 17)], ir_version=8)  # fmt: skip
    compiled = ts.compile(model.SerializeToString(), reference=reference, threads=1)
    with pytest.raises(ts.Error, match=rf"'y \({operator}\)'"):
        compiled.run(*arrays)


# Breaks when a length that no part of the sequence has is taken as it is, is told of as an index of something else, or isn't
# looked at where nothing is known of the sizes.
@pytest.mark.parametrize("operator, gates", [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("sizes", [(5, 3), ("steps", "batch"), (None, None)], ids=["known", "open", "unnamed"])
@pytest.mark.parametrize("reference", [False, True], ids=["compiled", "reference"])
def test_lengths_beyond_a_sequence(operator, gates, sizes, reference):
    steps, batch = sizes
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [steps, batch, 2]),
              helper.make_tensor_value_info("n", TensorProto.INT32, [batch])]
    constants = [helper.make_tensor(name, TensorProto.FLOAT, shape, np.full(shape, 0.1).ravel())
                 for name, shape in (("w", (2, 4 * gates, 2)), ("r", (2, 4 * gates, 4)))]
    node = helper.make_node(operator, ["x", "w", "r", "", "n"], ["y"], hidden_size=4, direction="bidirectional")
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    model = helper.make_model(helper.make_graph([node], "g", inputs, [output], constants),
                              opset_imports=[helper.make_opsetid("", 17)], ir_version=8)  # fmt: skip
    compiled = ts.compile(model.SerializeToString(), reference=reference, threads=1)
    x = ones(5, 3, 2)
    (y,) = compiled.run(x, np.array([5, 0, 2], np.int32))
    assert not y[2:, :, 2].any() and y[:2, :, 2].all() and not y[:, :, 1].any()
    for wrong in (6, -1):
        with pytest.raises(ts.Error, match=rf"'y \({operator}\)'.*sequence_lens' has a length that is negative or beyond the sequence"):
            compiled.run(x, np.array([5, wrong, 2], np.int32))


@pytest.mark.parametrize("a, b, sizes", [
    (["p", 2, 3], [3, 3, 8], [1, 3]), ([3, 2, 3], ["p", 3, 8], [1, 3]), ([4, "p", 2, 3], [3, 3, 8], [1, 3]),
    (["p", "p", 2, 3], [2, 1, 3, 8], [1, 2])])
def test_stacks_of_matrices_that_are_1_or_as_many(a, b, sizes):
    """Only the run can tell which; the product is compiled all the same, and reads nothing behind the smaller one."""
    random = np.random.default_rng(4)
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in (("a", a), ("b", b))]
    node = helper.make_node("MatMul", ["a", "b"], ["y"])
    model = helper.make_model(helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")]),
                              opset_imports=[helper.make_opsetid("", 17)], ir_version=8)  # fmt: skip
    compiled = ts.compile(model.SerializeToString())
    assert any("contraction" in kernel["schedule"] for kernel in compiled.describe()["kernels"])
    for size in sizes:
        arrays = [random.standard_normal([size if dim == "p" else dim for dim in dims]).astype(np.float32) for dims in (a, b)]
        np.testing.assert_allclose(compiled.run(*arrays)[0], np.matmul(*arrays), rtol=1e-5, atol=1e-5)


def test_a_scale_that_is_known_not_to_fit_is_refused():
    node = helper.make_node("LayerNormalization", ["x", "s"], ["y"], axis=-1)
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in (("x", [4, 3]), ("s", [2]), ("y", [4, 3]))]
    model = helper.make_model(helper.make_graph([node], "g", values[:2], values[2:]),
                              opset_imports=[helper.make_opsetid("", 17)], ir_version=8)  # fmt: skip
    with pytest.raises(ts.Error, match="dimensions of 'scale' and of x differ: 2 and 3"):
        ts.compile(model.SerializeToString())
