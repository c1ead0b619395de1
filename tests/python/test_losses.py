"""Losses over classes that models write themselves: one kernel of scores, from which it makes loss and gradient, in every form."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ts = pytest.importorskip("tensmith")

NUMPY = {TensorProto.FLOAT: np.float32, TensorProto.FLOAT16: np.float16, TensorProto.DOUBLE: np.float64}


def onnx_loss(shape, sizes, form, *, element=TensorProto.FLOAT, reduction="mean", ignore=None, weighted=False, smoothing=0.0, labels=TensorProto.INT64):
    """Of y = x + w: a loss, its log-probabilities where it gives them, and their mean."""
    classes = shape[1]
    attributes = {"reduction": reduction} | ({} if ignore is None else {"ignore_index": ignore})
    operands = ["t", *(["share"] if weighted else [])]
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    if form == "SoftmaxCrossEntropyLoss":
        nodes.append(helper.make_node(form, ["y", *operands], ["each"], **attributes))
    else:
        nodes += [helper.make_node("LogSoftmax", ["y"], ["logs"], axis=1), helper.make_node("NegativeLogLikelihoodLoss", ["logs", *operands], ["each"], **attributes)]
    if smoothing:  # the mean over classes and samples beside it
        nodes += [helper.make_node("ReduceMean", ["logs"], ["rows"], keepdims=0, axes=[1]), helper.make_node("ReduceMean", ["rows"], ["spread"], keepdims=0),
                  helper.make_node("Mul", ["spread", "smoothing"], ["part"]),
                  helper.make_node("Sub", ["each", "part"], ["smoothed"])]  # fmt: skip
    nodes.append(helper.make_node("ReduceMean", ["smoothed" if smoothing else "each"], ["loss"], keepdims=0))
    draw = np.random.default_rng(classes)
    weights = [numpy_helper.from_array(draw.normal(0, 2, shape[1:]).astype(NUMPY[element]), "w")]
    if weighted:
        weights.append(numpy_helper.from_array(draw.uniform(0.2, 2, classes).astype(NUMPY[element]), "share"))
    if smoothing:
        weights.append(numpy_helper.from_array(np.array(smoothing, NUMPY[element]), "smoothing"))
    inputs = [helper.make_tensor_value_info("x", element, sizes), helper.make_tensor_value_info("t", labels, [sizes[0], *sizes[2:]])]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("loss", element, [])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return model.SerializeToString(), {tensor.name: numpy_helper.to_array(tensor).astype(np.float64) for tensor in weights}


def expected(x, t, p, reduction="mean", ignore=None, smoothing=0.0):
    """The loss and its gradient by w."""
    y = np.moveaxis(x.astype(np.float64) + p["w"], 1, -1)
    logs = y - y.max(-1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(-1, keepdims=True))
    counts = np.ones(t.shape, bool) if ignore is None else t != ignore
    place = np.where(t < 0, t + y.shape[-1], t)
    hit = (place[..., None] == np.arange(y.shape[-1])) & counts[..., None]
    hit = hit.astype(np.float64)
    share = (hit * p.get("share", np.ones(y.shape[-1]))).sum(-1)
    whole = {"mean": share.sum(), "sum": 1, "none": t.size}[reduction]
    loss = -(logs * hit).sum(-1) * share
    slope = -hit * share[..., None] / whole - smoothing / y.size
    back = slope - np.exp(logs) * slope.sum(-1, keepdims=True)
    return loss.sum() / whole - smoothing * logs.mean(), np.moveaxis(back, -1, 1).sum(0)


def check(shape, sizes, form, tolerance=2e-5, **settings):
    element, labels = settings.get("element", TensorProto.FLOAT), settings.get("labels", TensorProto.INT64)
    data, p = onnx_loss(shape, sizes, form, **settings)
    step = ts.train_step(data, "loss", "sgd", learning_rate=1.0, trainable=["w"])
    draw = np.random.default_rng(sum(shape))
    for rows in {shape[0]} | ({1, 7} if isinstance(sizes[0], str) else set()):
        x = draw.normal(0, 2, (rows, *shape[1:])).astype(NUMPY[element])
        t = draw.integers(0, shape[1], (rows, *shape[2:])).astype(np.int32 if labels == TensorProto.INT32 else np.int64)
        ignore = settings.get("ignore")
        if ignore is not None:
            t[draw.random(t.shape) < 0.3] = ignore
            t.flat[0] = 0 if ignore else 1
        rest = {name: settings[name] for name in ("reduction", "ignore", "smoothing") if name in settings}
        loss, gradient = expected(x, t, p, **rest)
        result = step(x=x, t=t)
        np.testing.assert_allclose(result["loss"], loss, rtol=tolerance, atol=tolerance)
        p["w"] = p["w"] - gradient
        np.testing.assert_allclose(step.state["w"], p["w"], rtol=tolerance, atol=tolerance * max(1, np.abs(gradient).max()))
        p["w"] = step.state["w"].astype(np.float64)


FORMS = ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"]


# Breaks when a form's gradient is another's: a sample that is ignored or weighed counts wrongly, or a row reads another one's label.
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("ignore, weighted", [(None, False), (3, True), (-100, False)])
def test_forms(form, reduction, ignore, weighted):
    check((9, 37), [9, 37], form, reduction=reduction, ignore=ignore, weighted=weighted)


# Breaks when classes don't lie last, batches are of any size, or classes are few, one or many.
@pytest.mark.parametrize("shape", [(5, 7, 3), (2, 33, 4, 5), (3, 1), (33, 1000), (1, 64)])
@pytest.mark.parametrize("open", [False, True])
def test_shapes(shape, open):
    check(shape, ["n" if open else shape[0], *shape[1:]], FORMS[0], ignore=0 if shape[1] > 1 else None)
    if open and len(shape) == 2 and shape[1] > 1:  # as many classes as the run says
        data, p = onnx_loss(shape, ["n", "classes"], FORMS[0])
        gradient = ts.grad(data, ["x"], "loss")
        draw = np.random.default_rng(7)
        x, t = draw.normal(size=shape).astype(np.float32), draw.integers(0, shape[1], shape[0])
        y = x + p["w"]
        powers = np.exp(y - y.max(1, keepdims=True))
        wanted = (powers / powers.sum(1, keepdims=True) - (t[:, None] == np.arange(shape[1]))) / len(t)
        np.testing.assert_allclose(gradient(x=x, t=t)[1], wanted, rtol=1e-4, atol=1e-6)


# Breaks when a loss is computed in the type that it is stored in, or a label's type is no class number.
@pytest.mark.parametrize("element, tolerance", [(TensorProto.FLOAT16, 2e-2), (TensorProto.DOUBLE, 1e-12)])
def test_types(element, tolerance):
    check((9, 21), ["n", 21], FORMS[0], tolerance, element=element)
    check((9, 21), ["n", 21], FORMS[0], labels=TensorProto.INT32)


# Breaks when the loss of the smoothed labels isn't a sum over the row.
@pytest.mark.parametrize("weighted", [False, True])
def test_smoothed_labels(weighted):
    check((11, 40), ["n", 40], FORMS[1], smoothing=0.1, weighted=weighted, ignore=2)


SAMPLES, CLASSES = 512, 2000
PROGRAM = """
import "tensmith/losses.tsm"
let w = load("w.npy")
fn main(x: f32[512, 16], t: i64[512]) = cross_entropy(x @ transpose(w, permutation = [1, 0]), t)
"""


def large(tmp_path, form):
    """Of scores x w, SAMPLES of CLASSES; the loss's name."""
    w = np.random.default_rng(3).normal(size=(CLASSES, 16)).astype(np.float32)
    if form == "program":
        np.save(tmp_path / "w.npy", w)
        (tmp_path / "m.tsm").write_text(PROGRAM)
        return tmp_path / "m.tsm", "result"
    data, _ = onnx_loss((SAMPLES, CLASSES), [SAMPLES, CLASSES], FORMS[form != "softmax"], weighted=form == "weighted",
                        ignore=5 if form == "ignored" else None, smoothing=0.1 if form == "smoothed" else 0.0)  # fmt: skip
    model = onnx.load_from_string(data)
    model.graph.node[0].CopyFrom(helper.make_node("Gemm", ["x", "w"], ["y"], transB=1))
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, [SAMPLES, 16]))
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(w, "w"))
    return model.SerializeToString(), "loss"


# Breaks when a form has probabilities, labels as rows or a gradient in memory beside the scores, which the gradient is written over.
@pytest.mark.parametrize("form", ["softmax", "likelihood", "weighted", "ignored", "smoothed", "program"])
def test_scores_alone_are_in_memory(tmp_path, form):
    model, loss = large(tmp_path, form)
    step = ts.train_step(model, loss, "sgd", learning_rate=0.1, trainable=["w"])
    assert step.describe()["metadata"]["arena_bytes_planned"] < 1.5 * 4 * SAMPLES * CLASSES
    exponentials = [kernel["label"] for kernel in step.describe()["kernels"] if "exp" in kernel["label"] or "log_softmax" in kernel["label"]]
    assert len(exponentials) == 1, f"it is not one kernel: {exponentials}"
