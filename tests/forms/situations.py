"""Small models that users of other engines reported as wrong: the sizes, axes, numbers and operands that made them so.

A situation is a graph in the standard's text form, what it is fed, and who says what it gives: the standard's reference
implementation, ONNX Runtime where that one has a fault of its own, or NumPy. They stand by family in situations_of_*.py.
"""

import importlib
import warnings

import forms
import numpy
import onnx.parser
import opsets

FAMILIES = ("sizes", "numbers", "layers", "control", "states", "nothing", "reports", "engines")
SITUATIONS = {}


def f32(*shape):
    """Numbers of which hardly two are equal, none of them whole, half of them negative."""
    count = int(numpy.prod(shape))
    return ((numpy.arange(count) * 7919 % 1009) / 63 - 8.03).astype(numpy.float32).reshape(shape)


def i64(*values):
    return numpy.array(values, numpy.int64)


def scalar(value, dtype="float32"):
    return numpy.array(value, dtype)


def boxes(batch, count):
    corner = numpy.abs(f32(batch, count, 2)) % 3
    return numpy.concatenate([corner, corner + 1.5], -1)


def softmax(x):
    x = numpy.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def situation(name, text, feeds, expected="reference", opset=21):
    """`expected`: reference, ort, or a function of the feeds that gives the results."""
    assert name not in SITUATIONS, f"there are two situations {name}"
    SITUATIONS[name] = text, feeds, expected, opset


def model_of(text, opset):
    """The model, whose results say nothing of their sizes."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\nsituation {text}')
    for port in model.graph.output:
        if forms.is_tensor(port):
            port.type.tensor_type.ClearField("shape")
    return model


def judged(model, feeds, expected):
    if callable(expected):
        return [numpy.asarray(value) for value in expected(feeds)]
    judges = {"reference": opsets.by_reference, "ort": opsets.by_onnxruntime}
    answers = judges[expected](model, feeds)
    assert answers is not None, f"{expected} does not know what it gives"
    return [value if isinstance(value, list) else numpy.asarray(value) for value in answers]


def situation_cases():
    for family in FAMILIES:
        importlib.import_module(f"situations_of_{family}")
    for name, (text, feeds, expected, opset) in SITUATIONS.items():
        model = model_of(text, opset)
        feeds = {port.name: feeds[port.name] for port in model.graph.input}
        with warnings.catch_warnings(), numpy.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            wanted = judged(model, feeds, expected)
        yield forms.Case(f"situation_{name}".replace(" ", "_"), model.SerializeToString(), list(feeds.values()), wanted, 1e-3, 1e-4)
