"""Kernels of graphs as nests, where a schedule file asks for it.

What would break these: an operator whose statements say something else than its element, an element that is read outside of a tensor, a
kernel that stays loops, or a contraction, without a word.
"""

import json
import pathlib
import re
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx import helper as h

import tensmith as ts

COMMAND = pathlib.Path(ts.__file__).resolve().parents[2] / "bin/tensmith"
FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


def tensor(name, shape, kind=FLOAT):
    return h.make_tensor_value_info(name, kind, shape)


def whole(name, *values):
    return h.make_tensor(name, INT, [len(values)], values)


def node(kind, inputs, outputs, **attributes):
    return h.make_node(kind, inputs.split(), outputs.split(), name=outputs, **attributes)


# nodes, inputs, outputs, constants, sizes
GRAPHS = {
    "sums of products": ([node("Mul", "x z", "a"), node("ReduceSum", "a ax", "b", keepdims=0), node("Relu", "b", "y")],
                         [tensor("x", ["n", 40]), tensor("z", ["n", 40])], [tensor("y", ["n"])], [whole("ax", 1)], {"n": 7}),
    "extremes": ([node("ReduceMax", "x ax", "b", keepdims=1), node("Sub", "x b", "y")],
                 [tensor("x", [3, "n", 5])], [tensor("y", [3, "n", 5])], [whole("ax", 1)], {"n": 9}),
    "a pool": ([node("MaxPool", "x", "y", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])],
               [tensor("x", [1, 3, "h", "w"])], [tensor("y", [1, 3, "p", "q"])], [], {"h": 11, "w": 8}),
    "means of windows": ([node("AveragePool", "x", "y", kernel_shape=[3, 3], pads=[1, 0, 1, 1], strides=[2, 2])],
                         [tensor("x", [1, 3, "h", "w"])], [tensor("y", [1, 3, "p", "q"])], [], {"h": 10, "w": 9}),
    "a convolution": ([node("Conv", "x w", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 2]), node("Relu", "c", "y")],
                      [tensor("x", [1, 8, 12, 13]), tensor("w", [16, 8, 3, 3])], [tensor("y", [1, 16, 12, 7])], [], {}),
    "a product": ([node("MatMul", "x z", "c"), node("Tanh", "c", "y")],
                  [tensor("x", ["n", 64]), tensor("z", [64, 48])], [tensor("y", ["n", 48])], [], {"n": 5}),
    "the place of an extreme": ([node("ArgMax", "x", "y", axis=1, keepdims=0)], [tensor("x", ["n", 7, 5])],
                                [tensor("y", ["n", 5], INT)], [], {"n": 4}),
    "joined and padded": ([node("Concat", "x z", "c", axis=1), node("Exp", "c", "e"), node("Pad", "e pads", "y")],
                          [tensor("x", ["n", 5]), tensor("z", ["n", 6])], [tensor("y", ["n", 14])], [whole("pads", 0, 1, 0, 2)], {"n": 3}),
    "reflected": ([node("Pad", "x pads", "c", mode="reflect"), node("Neg", "c", "y")],
                  [tensor("x", ["n", 6])], [tensor("y", ["n", 11])], [whole("pads", 0, 3, 0, 2)], {"n": 4}),
    "reflected along an open dimension": ([node("Pad", "x pads", "c", mode="reflect"), node("Neg", "c", "y")],
                                          [tensor("x", ["n", 18])], [tensor("y", ["p", 18])], [whole("pads", 1, 0, 2, 0)], {"n": 4}),
    "turned and cut": ([node("Transpose", "x", "t", perm=[1, 0]), node("Slice", "t from to along by", "s"), node("Mul", "s s", "y")],
                       [tensor("x", ["n", 9])], [tensor("y", [4, "n"])],
                       [whole("from", 8), whole("to", 0), whole("along", 0), whole("by", -2)], {"n": 5}),
    "halves": ([node("Mul", "x x", "a"), node("ReduceSum", "a ax", "y", keepdims=0)],
               [tensor("x", [6, 30], TensorProto.FLOAT16)], [tensor("y", [6], TensorProto.FLOAT16)], [whole("ax", 1)], {}),
    "rows of a table": ([node("Gather", "x i", "g", axis=0), node("Relu", "g", "y")],
                        [tensor("x", [9, 40]), tensor("i", ["n"], INT)], [tensor("y", ["n", 40])], [], {"n": 7}),
    "rows of an open table, added up": ([node("Gather", "x i", "g", axis=0), node("ReduceSum", "g ax", "y", keepdims=0)],
                                        [tensor("x", ["m", 20]), tensor("i", ["n", 6], INT)], [tensor("y", ["n", 20])], [whole("ax", 1)],
                                        {"m": 5, "n": 3}),
    "elements by places, padded": ([node("GatherElements", "x i", "g", axis=1), node("Pad", "g pads", "y")],
                                   [tensor("x", [6, 9]), tensor("i", [6, "n"], INT)], [tensor("y", [6, "p"])], [whole("pads", 0, 1, 0, 2)], {"n": 17}),
    "places of several dimensions": ([node("GatherND", "x i", "g"), node("Exp", "g", "y")],
                                     [tensor("x", [5, 6, 18]), tensor("i", ["n", 2], INT)], [tensor("y", ["n", 18])], [], {"n": 4}),
    "a softmax": ([node("Mul", "x x", "a"), node("Softmax", "a", "s", axis=-1), node("Exp", "s", "y")],
                  [tensor("x", ["n", 40])], [tensor("y", ["n", 40])], [], {"n": 7}),
    "a softmax of an open length": ([node("Softmax", "x", "y", axis=-1)], [tensor("x", [5, "n"])], [tensor("y", [5, "n"])], [], {"n": 37}),
    "rows in norm": ([node("LayerNormalization", "x z b", "c", axis=-1), node("Relu", "c", "y")],
                     [tensor("x", ["n", 24]), tensor("z", [24]), tensor("b", [24])], [tensor("y", ["n", 24])], [], {"n": 6}),
    "attention": ([node("Transpose", "k", "t", perm=[0, 2, 1]), node("MatMul", "q t", "s"), node("Softmax", "s", "p", axis=-1), node("MatMul", "p v", "y")],
                  [tensor("q", [2, "n", 16]), tensor("k", [2, "m", 16]), tensor("v", [2, "m", 16])], [tensor("y", [2, "n", 16])], [], {"n": 5, "m": 9}),
}  # fmt: skip


def saved(folder, name):
    nodes, inputs, outputs, constants, _ = GRAPHS[name]
    model = h.make_model(h.make_graph(nodes, "g", inputs, outputs, constants), opset_imports=[h.make_opsetid("", 18)])
    model.ir_version = 8
    onnx.save(model, folder / "m.onnx")
    return folder / "m.onnx"


def nests(folder, model, **point):
    """A file that asks for nests for all nodes."""
    names = [each.name for each in onnx.load(model).graph.node]
    path = folder / "s.json"
    path.write_text(json.dumps({"schedules": [{"nodes": names, "as_nest": 1, **point}]}))
    return path


@pytest.mark.parametrize("order", [0, 1, 2, 3])
@pytest.mark.parametrize("name", GRAPHS)
def test_a_region_is_a_nest_with_the_same_results(tmp_path, name, order):
    """Breaks if a statement says something else, and if a kernel isn't the nest that was asked for."""
    path = saved(tmp_path, name)
    schedules = nests(tmp_path, path, order=order)
    ours, plain = ts.compile(path, schedules=schedules), ts.compile(path, reference=True)
    rng = np.random.default_rng(3)
    sizes = GRAPHS[name][4]
    feed = {}
    for value in GRAPHS[name][1]:
        shape = [each.dim_param and sizes[each.dim_param] or each.dim_value for each in value.type.tensor_type.shape.dim]
        dtype = h.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if value.name == "i":
            feed["i"] = rng.integers(-5, 5, shape)
            continue
        feed[value.name] = rng.integers(-8, 8, shape).astype(dtype) / (4 if name != "the place of an extreme" else 1)
    found, wanted = ours.run(**feed), plain.run(**feed)
    for one, other in zip(found, wanted, strict=True):
        assert np.allclose(one, other, rtol=1e-3 if name == "halves" else 1e-5, atol=1e-5)
    told = json.loads(ours.describe()["metadata"]["schedules"])
    assert any(entry.get("as_nest") == 1 and entry.get("order") == order for entry in told)
    ours.save(tmp_path / "m.so")
    shown = subprocess.run([COMMAND, "inspect", tmp_path / "m.so"], capture_output=True, text=True, check=True).stdout
    assert re.search(r"nest, ", shown) and "for want of a nest" not in shown


@pytest.mark.parametrize("index", [40, -41, 2**40])
@pytest.mark.parametrize("name", ["rows of an open table, added up", "elements by places, padded", "places of several dimensions"])
def test_an_index_outside_is_refused_as_by_loops(tmp_path, name, index):
    """Breaks if a statement's index is read without a check, or is refused in other words."""
    path = saved(tmp_path, name)
    sizes = GRAPHS[name][4]
    shapes = {value.name: [each.dim_param and sizes[each.dim_param] or each.dim_value for each in value.type.tensor_type.shape.dim] for value in GRAPHS[name][1]}
    feed = {"x": np.ones(shapes["x"], np.float32), "i": np.zeros(shapes["i"], np.int64)}
    feed["i"][(-1,) * len(shapes["i"])] = index
    said = []
    for compiled in (ts.compile(path, schedules=nests(tmp_path, path)), ts.compile(path)):
        with pytest.raises(ts.Error) as error:
            compiled.run(**feed)
        said.append(str(error.value))
    assert said[0] == said[1] and f"{index}," in said[0]


@pytest.mark.parametrize("order", [0, 2, 3])
@pytest.mark.parametrize(
    "name, size, told",
    [("rows of an open table, added up", "m", "indices"), ("reflected along an open dimension", "n", "a dimension is empty, which nothing continues")],
)
def test_an_empty_dimension_is_refused_as_by_loops(tmp_path, name, size, told, order):
    """Breaks if what an element reads is looked at, and told, before the operator's own check."""
    path = saved(tmp_path, name)
    sizes = {**GRAPHS[name][4], size: 0}
    feed = {}
    for value in GRAPHS[name][1]:
        shape = [sizes.get(each.dim_param, each.dim_value) for each in value.type.tensor_type.shape.dim]
        feed[value.name] = np.zeros(shape, h.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
    said = []
    for compiled in (ts.compile(path, schedules=nests(tmp_path, path, order=order)), ts.compile(path)):
        with pytest.raises(ts.Error) as error:
            compiled.run(**feed)
        said.append(str(error.value))
    assert said[0] == said[1] and told in said[0]


def test_loops_that_are_asked_for_are_told(tmp_path):
    """Breaks if `as_nest: 0` is refused as a choice that loops don't have, or isn't among what was taken."""
    path = saved(tmp_path, "extremes")
    schedules = nests(tmp_path, path, as_nest=0)
    command = [COMMAND, "compile", path, "--schedules", schedules, "-o", tmp_path / "m.so"]
    assert "as_nest" not in subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert any(entry.get("as_nest") == 0 for entry in json.loads(ts.load(tmp_path / "m.so").describe()["metadata"]["schedules"]))
