"""Attention as exporters write it: a product, scaled and masked, a softmax and a product, in one kernel that never keeps
the scores; compared with ONNX's reference on shapes that leave rests."""

import numpy
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

tensmith = pytest.importorskip("tensmith")

CASES = [
    # batch, heads, queries, keys, size, mask's shape
    (1, 12, 33, 33, 64, (1, 1, 33, 33)),
    (2, 3, 7, 50, 24, (2, 1, 1, 50)),
    (3, 1, 1, 19, 8, None),
    (1, 2, 130, 65, 17, (130, 65)),
    (2, 5, 6, 1, 5, None),
    (1, 4, 20, 300, 40, (1, 4, 20, 300)),
]


def attention(batch, heads, queries, keys, size, mask, symbolic):
    """Projections [batch, length, heads * size] are cut into heads, as models do; returns the model and its inputs."""
    rng = numpy.random.default_rng(queries * 7 + keys)
    shapes = {"q": (batch, queries, heads * size), "k": (batch, keys, heads * size), "v": (batch, keys, heads * size)}
    names = {"q": ["n", "queries", heads * size], "k": ["n", "keys", heads * size], "v": ["n", "keys", heads * size]}
    if mask:
        shapes["mask"] = mask
        sizes = {queries: "queries", keys: "keys"} if queries != keys else {}
        names["mask"] = [*mask[:-2], *(sizes.get(size, size) if size != 1 else 1 for size in mask[-2:])]
        symbolic &= len(mask) == 4 and mask[0] == batch == 1 and bool(sizes)
    split = numpy.array([0, 0, heads, size], numpy.int64)
    nodes = [node for name in "qkv" for node in (
        helper.make_node("Reshape", [name, "split"], [name + "s"]),
        helper.make_node("Transpose", [name + "s"], [name + "t"], perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]))]
    nodes += [helper.make_node("MatMul", ["qt", "kt"], ["s"]), helper.make_node("Mul", ["s", "scale"], ["t"])]
    nodes += [helper.make_node("Add", ["t", "mask"], ["u"])] if mask else [helper.make_node("Identity", ["t"], ["u"])]
    nodes += [helper.make_node("Softmax", ["u"], ["w"], axis=-1), helper.make_node("MatMul", ["w", "vt"], ["o"]),
              helper.make_node("Transpose", ["o"], ["y"], perm=[0, 2, 1, 3])]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, names[name] if symbolic else shape)
              for name, shape in shapes.items()]
    constants = [numpy_helper.from_array(split, "split"),
                 numpy_helper.from_array(numpy.array(1 / numpy.sqrt(size), numpy.float32), "scale")]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)
    graph = helper.make_graph(nodes, "attention", inputs, [output], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feed = {name: rng.standard_normal(shape).astype(numpy.float32) for name, shape in shapes.items()}
    if mask and keys > 3:
        feed["mask"][..., -keys // 3:] = -1e9
    return model, feed


# Breaks if a query sees another one's mask, keys or weights, or keys behind the last.
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_attention_agrees_with_the_reference(case, symbolic, threads):
    model, feed = attention(*case, symbolic)
    compiled = tensmith.compile(model.SerializeToString(), threads=threads)
    assert any("softmax+matmul" in kernel["label"] for kernel in compiled.describe()["kernels"]), "it is not one kernel"
    wanted = ReferenceEvaluator(model).run(None, feed)[0]
    numpy.testing.assert_allclose(compiled(**feed), wanted, rtol=1e-4, atol=1e-5)


# Breaks if a run's memory grows with the matrix of scores, 64 MB here.
def test_scores_are_not_kept():
    model, _ = attention(1, 4, 2000, 2001, 16, None, False)
    described = tensmith.compile(model.SerializeToString()).describe()
    assert described["functions"][0]["arena_bytes"] < 4 << 20


def bare(queries, keys, guarded):
    """softmax(q k) v of the model's own inputs; guarded: weights that are no numbers are 0."""
    nodes = [helper.make_node("MatMul", ["q", "k"], ["s"]), helper.make_node("Add", ["s", "mask"], ["t"]),
             helper.make_node("Softmax", ["t"], ["w"], axis=-1), helper.make_node("IsNaN", ["w"], ["nan"]),
             helper.make_node("Where", ["nan", "zero", "w"], ["g"]), helper.make_node("MatMul", ["g" if guarded else "w", "v"], ["y"])]
    if not guarded:
        del nodes[3:5]
    shapes = {"q": (2, 3, queries, 8), "k": (2, 3, 8, keys), "v": (2, 3, keys, 5), "mask": (queries, keys)}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    zero = [numpy_helper.from_array(numpy.float32(0), "zero")] if guarded else []
    graph = helper.make_graph(nodes, "bare", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], zero)
    rng = numpy.random.default_rng(keys)
    return (helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
            {name: rng.standard_normal(shape).astype(numpy.float32) for name, shape in shapes.items()})


# Breaks if inputs are taken for attention's own intermediates, or a row without a key that counts is anything but NaN.
@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("queries, keys", [(7, 1), (1, 31), (9, 40)])
def test_attention_of_inputs(queries, keys, guarded):
    model, feed = bare(queries, keys, guarded)
    feed["mask"][queries // 2] = -numpy.inf
    feed["mask"][0, keys // 2 + 1:] = -numpy.inf
    compiled = tensmith.compile(model.SerializeToString())
    assert any("matmul" in kernel["label"] and "softmax" in kernel["label"] for kernel in compiled.describe()["kernels"])
    with numpy.errstate(invalid="ignore"):
        wanted = ReferenceEvaluator(model).run(None, feed)[0]
    numpy.testing.assert_allclose(compiled(**feed), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("keys", [19, 64])
def test_weights_that_are_rounded_before_the_product(keys):
    """Breaks if the kernel keeps rows of weights as bf16 where it computes them in f32."""
    rng = numpy.random.default_rng(keys)
    shapes = {"q": (3, 7, 16), "k": (3, 16, keys), "v": (3, keys, 16)}
    nodes = [helper.make_node("MatMul", ["q", "k"], ["s"]), helper.make_node("Softmax", ["s"], ["p"], axis=-1),
             helper.make_node("Cast", ["p"], ["h"], to=TensorProto.BFLOAT16),
             helper.make_node("Cast", ["h"], ["r"], to=TensorProto.FLOAT), helper.make_node("MatMul", ["r", "v"], ["y"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    feed = [rng.standard_normal(shape).astype(numpy.float32) for shape in shapes.values()]
    ours = numpy.asarray(tensmith.compile(data).run(*feed)[0])
    apart = numpy.asarray(tensmith.compile(data, fuse=False).run(*feed)[0])
    assert numpy.abs(ours - apart).max() < 1e-3 * numpy.abs(apart).max()
