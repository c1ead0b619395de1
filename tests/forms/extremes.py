"""Operators at the ends of their arguments: zeros, infinities, NaN, denormals, the limits of integers, the sine of 1e20.

What is expected is the standard's reference implementation in double precision, rounded once to the result's type; where its own
formula overflows or cancels in doubles, and the standard's words are about the mathematical function, NumPy says it. What the
standard leaves open is not asked: integers divided by zero, floats beyond an integer's range that are cast to it, shifts by as many
bits as there are.
"""

import math
import warnings

import forms
import ml_dtypes
import numpy
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

FLOATS = ("float32", "float64", "float16")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
TOLERANCE = {"float32": 4e-6, "float64": 1e-11, "float16": 2e-3, "bfloat16": 2e-2}


def extremes(dtype):
    """Extreme numbers of a type, and a few that are none."""
    if dtype == "bool":
        return numpy.array([False, True, True, False, True])
    if dtype not in (*FLOATS, "bfloat16"):
        info = numpy.iinfo(dtype)
        near = [0, 1, 2, 3, 5, 7, 100, info.max, info.max - 1, info.max // 2 + 1, info.min, info.min + 1]
        return numpy.array(near + [-1, -2, -3, -7, -100] * (info.min < 0), dtype)
    info = ml_dtypes.finfo(dtype)
    values = [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, -3.5, 7, numpy.nan, numpy.inf, -numpy.inf, numpy.pi, -numpy.pi / 2, 100 * numpy.pi,
              1e20, -1e20, 1e-20, 88.8, -88.8, 104, -104, 16777217, 1e4, 2.0**31, -(2.0**31), 2.0**63, 1 / 3, 0.49999997, -1e-7]
    edges = [info.max, info.min, info.tiny, -info.tiny, info.smallest_subnormal, -info.smallest_subnormal]
    with numpy.errstate(over="ignore"):
        return numpy.concatenate([numpy.array(values, numpy.float64).astype(dtype), numpy.array(edges).astype(dtype)])


def softplus(x):
    return numpy.logaddexp(0, x)


# Where the reference overflows, cancels, rounds to f32 or differs from the standard's words, which are about numbers.
EXACT = {
    "Softplus": lambda x: softplus(x),
    "Mish": lambda x: x * numpy.tanh(softplus(x)),
    "Erf": numpy.vectorize(math.erf, otypes="d"),
    "HardSwish": lambda x: x * numpy.maximum(0, numpy.minimum(1, x / 6 + 0.5)),
    "PRelu": lambda x, slope: numpy.where(x >= 0, x, slope * x),
    "LogSoftmax": lambda x: x - x.max(-1, keepdims=True) - numpy.log(numpy.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)),
    "Asinh": numpy.arcsinh,
    "Acosh": numpy.arccosh,
    "Sigmoid": lambda x: numpy.where(x >= 0, 1 / (1 + numpy.exp(-numpy.abs(x))), numpy.exp(-numpy.abs(x)) / (1 + numpy.exp(-numpy.abs(x)))),
    "Elu": lambda x: numpy.where(x > 0, x, numpy.expm1(x)),
    "Selu": lambda x: 1.05070102214813232421875 * numpy.where(x > 0, x, 1.67326319217681884765625 * numpy.expm1(x)),
    "Celu": lambda x: numpy.where(x > 0, x, numpy.expm1(x)),
}
# Results that cancel: how far from zero a result may be, in units of the type's precision.
CANCELS = {"Elu", "Selu", "Celu", "Gelu", "Mish", "Softplus", "Swish", "LogSoftmax", "Softmax", "Sigmoid"}
UNARY = ("Abs Neg Ceil Floor Round Sign Sqrt Reciprocal Exp Log Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Erf Sigmoid "
         "Relu LeakyRelu Elu Selu Celu ThresholdedRelu HardSigmoid HardSwish Softplus Softsign Mish Gelu Shrink Swish IsNaN IsInf Identity").split()  # fmt: skip
BINARY = "Add Sub Mul Div Pow Max Min Less Greater Equal LessOrEqual GreaterOrEqual Mod PRelu".split()
REDUCTIONS = "ReduceMax ReduceMin ReduceSum ReduceMean ReduceProd ReduceL1 ArgMax ArgMin Softmax LogSoftmax Hardmax CumSum".split()
NEWEST = 23


def case_of(name, op, arrays, dtype=None, out=None, opset=NEWEST, undefined=None, tolerance=None, **attributes):
    """One node on arrays. What is `undefined` of the results is not looked at: it is replaced on both sides by a Where."""
    names = [f"x{i}" for i in range(len(arrays))]
    ports = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in zip(names, arrays)]
    node = helper.make_node(op, names, ["y"], name="node", **attributes)
    wide = [a.astype(numpy.float64) if a.dtype.name in (*FLOATS, "bfloat16") else a for a in arrays]
    with numpy.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if op in EXACT:
            y = EXACT[op](*wide)
        else:
            graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                                                    for n, a in zip(names, wide)], [helper.make_tensor_value_info("y", 0, None)])  # fmt: skip
            y = ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])).run(None, dict(zip(names, wide)))[0]
        y = numpy.asarray(y)
        y = y.astype(out or (arrays[0].dtype if y.dtype == numpy.float64 else y.dtype))
    nodes, inputs = [node], list(arrays)
    if undefined is not None:
        ports.append(helper.make_tensor_value_info("undefined", TensorProto.BOOL, undefined.shape))
        nodes = [helper.make_node(op, names, ["raw"], name="node", **attributes), helper.make_node("CastLike", ["nought", "raw"], ["zero"]),
                 helper.make_node("Where", ["undefined", "zero", "raw"], ["y"])]  # fmt: skip
        nodes.insert(0, helper.make_node("Constant", [], ["nought"], value_int=0))
        inputs.append(undefined)
        y = numpy.where(undefined, numpy.zeros((), y.dtype), y)
    port = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(y.dtype), y.shape)
    model = helper.make_model(helper.make_graph(nodes, name, ports, [port]), opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    rtol = tolerance or TOLERANCE.get(y.dtype.name, 0)
    atol = 3 * float(ml_dtypes.finfo(y.dtype).smallest_subnormal) if y.dtype.name in TOLERANCE else 0
    atol = rtol / 8 if op in CANCELS and rtol else atol
    return forms.Case(name, model.SerializeToString(), inputs, [y], rtol, atol)


def unary_cases():
    for op in UNARY:
        types = [*FLOATS]
        types += {"Abs": INTEGERS, "Neg": INTEGERS[::2], "Sign": INTEGERS, "Identity": (*INTEGERS, "bool"), "Relu": INTEGERS[::2]}.get(op, ())
        for dtype in types:
            if op in ("Celu",) and dtype != "float32" or op == "IsInf" and dtype == "float16":
                continue
            attributes = {"Shrink": {"lambd": 0.5, "bias": 0.25}}.get(op, {})
            yield case_of(f"extreme_{op}_{dtype}", op, [extremes(dtype)], out=None, opset=24 if op == "Swish" else NEWEST, **attributes)
    yield case_of("extreme_IsInf_positive", "IsInf", [extremes("float32")], detect_negative=0)
    yield case_of("extreme_Gelu_tanh", "Gelu", [extremes("float32")], approximate="tanh")
    for dtype in INTEGERS:
        yield case_of(f"extreme_BitwiseNot_{dtype}", "BitwiseNot", [extremes(dtype)])


def pairs_of(dtype):
    values = extremes(dtype)
    return values[:, None], values[None, :]


def binary_cases():
    for op in BINARY:
        for dtype in (*FLOATS, *(INTEGERS if op != "PRelu" else ())):
            x, y = pairs_of(dtype)
            undefined, attributes, tolerance = None, {}, None
            if dtype in INTEGERS and op in ("Div", "Mod"):
                least = numpy.iinfo(dtype).min
                undefined = (y == 0) | ((x == least) & (y.astype(object) == -1).astype(bool) if least else x != x)
                y = numpy.where(undefined.all(0), 1, y).astype(dtype)
                undefined = None if not undefined.any() else undefined
            if op == "Mod" and dtype in FLOATS:
                attributes, undefined = {"fmod": 1}, None
            if op == "Pow" and dtype not in ("float32", "float64", "int32", "int64"):
                continue
            if op == "Pow" and dtype in INTEGERS:
                y = numpy.arange(4, dtype=dtype)[None, :]
            if op == "PRelu":
                attributes = {}
            yield case_of(f"extreme_{op}_{dtype}", op, [x, y], undefined=undefined, tolerance=tolerance, **attributes)
            if op == "Mod" and dtype in INTEGERS[::2]:
                yield case_of(f"extreme_fmod_{dtype}", op, [x, y], undefined=undefined, fmod=1)
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        for dtype in INTEGERS:
            yield case_of(f"extreme_{op}_{dtype}", op, list(pairs_of(dtype)))
    for op in ("And", "Or", "Xor", "Equal"):
        yield case_of(f"extreme_{op}_bool", op, list(pairs_of("bool")))
    for dtype in INTEGERS[1::2]:
        for direction in ("LEFT", "RIGHT"):
            bits = numpy.arange(numpy.iinfo(dtype).bits, dtype=dtype)[None, :]
            yield case_of(f"extreme_BitShift_{direction}_{dtype}", "BitShift", [extremes(dtype)[:, None], bits], direction=direction)
    for kind in ("int32", "int64", "float32", "float64"):
        for power in ("int32", "int64", "float32", "float64"):
            base = extremes(kind)[:, None] if "float" in kind else numpy.array([0, 1, 2, 3, -1, -2, -3], kind)[:, None]
            exponent = numpy.array([0, 1, 2, 3, 0.5, 5] if "float" in power and "float" in kind else [0, 1, 2, 3], power)[None, :]
            if kind != power:
                yield case_of(f"extreme_Pow_{kind}_{power}", "Pow", [base, exponent])


def rows_of(dtype):
    """Rows of a reduction with at most one element that is not small, so that no order of sums overflows on the way."""
    values = extremes(dtype)
    rows = numpy.full((len(values), 19), 1, dtype)
    rows[:, 3::4] = 0
    rows[numpy.arange(len(values)), numpy.arange(len(values)) % 19] = values
    return rows


def reduction_cases():
    for op in REDUCTIONS:
        types = ["float32", "float64", "float16"]
        types += {"ReduceMax": ("int8", "uint8", "int32", "uint32", "int64", "uint64"), "ReduceMin": ("int8", "uint8", "int32", "uint32", "int64", "uint64"),
                  "ArgMax": INTEGERS, "ArgMin": INTEGERS}.get(op, ())  # fmt: skip
        for dtype in types:
            attributes = {"keepdims": 0} if op.startswith(("Reduce", "Arg")) else {}
            arrays = [rows_of(dtype)]
            if op.startswith(("Arg", "Softmax", "LogSoftmax", "Hardmax")):
                attributes["axis"] = 1
            else:
                arrays.append(numpy.array(1) if op == "CumSum" else numpy.array([1]))
            yield case_of(f"extreme_{op}_{dtype}", op, arrays, **attributes)
    for op in ("ReduceMax", "ReduceMin"):
        yield case_of(f"extreme_{op}_bool", op, [numpy.eye(4, 7, dtype=bool), numpy.array([1])], keepdims=0)


def limited_cases():
    """Clip, whose limits may be the wrong way round, NaN or infinite, and what rounds into few bits."""
    for dtype in (*FLOATS, *INTEGERS):
        for low, high in ((1, 5), (5, 1), *(((-numpy.inf, numpy.inf), (0.0, numpy.inf)) if dtype in FLOATS else ())):
            arrays = [extremes(dtype), numpy.array(low, dtype), numpy.array(high, dtype)]
            yield case_of(f"extreme_Clip_{dtype}_{low}_{high}", "Clip", arrays)
    for codes in ("uint8", "int8", "uint16", "int16"):
        info = numpy.iinfo(codes)
        for scale in (0.5, 1e-3, 3.0):
            x = extremes("float32")
            x = x[~numpy.isnan(x)]
            for zero in (0, 3, info.max, info.min):
                with numpy.errstate(all="ignore"):
                    q = numpy.clip(numpy.rint(x / numpy.float32(scale)).astype(numpy.float64) + zero, info.min, info.max).astype(codes)
                made = case_of(f"extreme_QuantizeLinear_{codes}_{scale}_{zero}", "QuantizeLinear", [x, numpy.float32(scale).reshape(()), numpy.array(zero, codes)])
                made.expected = [q]
                yield made
    for codes in ("uint8", "int8", "uint16", "int16"):
        q = extremes(codes)
        for zero in (0, numpy.iinfo(codes).max, numpy.iinfo(codes).min):
            for scale in (1.0, 1e-38, 1e30):
                made = case_of(f"extreme_DequantizeLinear_{codes}_{scale}_{zero}", "DequantizeLinear",
                               [q, numpy.float32(scale).reshape(()), numpy.array(zero, codes)], out="float32")  # fmt: skip
                made.expected = [((q.astype(numpy.int64) - zero) * numpy.float64(numpy.float32(scale))).astype(numpy.float32)]
                yield made


def cast_cases():
    """Casts of what the target can hold; into floats everything, since what is too large becomes an infinity."""
    kinds = ("float32", "float64", "float16", "bfloat16", *INTEGERS, "bool")
    for source in kinds:
        for target in kinds:
            x = extremes(source)
            with numpy.errstate(all="ignore"):
                if target in INTEGERS and source in ("float32", "float64", "float16", "bfloat16"):
                    info, wide = numpy.iinfo(target), numpy.trunc(x.astype(numpy.float64))
                    x = x[numpy.isfinite(wide) & (wide >= info.min) & (wide <= float(info.max) if info.bits < 54 else wide < float(info.max))]
                expected = x.astype(bool) if target == "bool" else x.astype(target)
            made = case_of(f"extreme_Cast_{source}_{target}", "Identity", [x])
            graph = helper.make_graph([helper.make_node("Cast", ["x0"], ["y"], to=helper.np_dtype_to_tensor_dtype(numpy.dtype(target)))], made.name,
                                      made.ports, [helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(numpy.dtype(target)), x.shape)])  # fmt: skip
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
            yield forms.Case(made.name, model.SerializeToString(), [x], [expected], 0, 0)


def extreme_cases():
    for family in (unary_cases, binary_cases, reduction_cases, limited_cases, cast_cases):
        yield from family()
