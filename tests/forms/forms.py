"""The forms in which one model can be compiled, each a choice for each of five factors.

A form changes how a model is written or compiled, never what it means: whatever a model gives in one of them it must give in all.
`build` writes a case's model in a form, `run` compiles and runs it there. What is open in a form, as a size, or an operand that
only a run tells, takes other ways through the compiler than what is known, and each factor's levels are those ways:

    sizes      known; symbols: each dimension of each input has a name of its own; unnamed: no dimension has a name or a size
    operands   inputs: all come at run time; parameters: all but the first are initialisers; folded: all are
    way        fast, exact, unfused (-O0), reference
    place      plain; function: the body of a function of the model; loop: a loop's body, twice, with operands from outside;
               steps: the same with the operands carried from one iteration to the next; last: once, with results that are carried;
               branch: one side of an If; program: a program of the language, where that has the node's operator;
               grad: in tensmith.grad, with the gradients of the first result by all inputs of floats
    threads    1, 2
"""

import dataclasses
import itertools
import pathlib
import random
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

FACTORS = {
    "sizes": ("known", "symbols", "unnamed"),
    "operands": ("inputs", "parameters", "folded"),
    "way": ("fast", "exact", "unfused", "reference"),
    "place": ("plain", "function", "loop", "steps", "last", "branch", "program", "grad"),
    "threads": (1, 2),
}
SETTINGS = {"fast": {}, "exact": {"precision": "exact"}, "unfused": {"fuse": False}, "reference": {"reference": True}}
# Operators as the language writes them: those of whose names it has the graph's, and others.
NAMED = "Abs Neg Ceil Floor Round Sign Sqrt Exp Log Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Erf Sigmoid Not IsNaN IsInf".split()
EXPRESSIONS = {
    **{name: f"{name.lower()}({{0}})" for name in NAMED},
    "Add": "{0} + {1}", "Sub": "{0} - {1}", "Mul": "{0} * {1}", "Div": "{0} / {1}", "Pow": "pow({0}, {1})", "Mod": "mod({0}, {1})",
    "Max": "max({0}, {1})", "Min": "min({0}, {1})", "Less": "{0} < {1}", "Greater": "{0} > {1}", "Equal": "{0} == {1}",
    "LessOrEqual": "{0} <= {1}", "GreaterOrEqual": "{0} >= {1}",
}  # fmt: skip
ELEMENTS = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "bool": "bool",
            **{f"{name}int{bits}": f"{name or 'i'}{bits}" for name in ("", "u") for bits in (8, 16, 32, 64)}}  # fmt: skip
DIFFERENTIABLE = ("float32", "float64", "float16")


@dataclasses.dataclass(frozen=True)
class Form:
    sizes: str = "known"
    operands: str = "inputs"
    way: str = "fast"
    place: str = "plain"
    threads: int = 1

    def __str__(self):
        return "/".join(str(level) for level in dataclasses.astuple(self))

    @staticmethod
    def parse(text):
        *levels, threads = text.split("/")
        form = Form(*levels, int(threads))
        assert all(getattr(form, factor) in levels for factor, levels in FACTORS.items()), f"no form {text}"
        return form


PLAIN = Form()


@dataclasses.dataclass
class Case:
    """A model, what it is fed and what it shall give. `values` and `expected` stand in the order of the graph's ports."""

    name: str
    model: bytes
    values: list
    expected: list
    rtol: float = 1e-3
    atol: float = 1e-7
    graph: onnx.GraphProto = dataclasses.field(init=False)

    def __post_init__(self):
        self.graph = onnx.load_from_string(self.model).graph
        stored = {initialiser.name for initialiser in self.graph.initializer}
        self.ports = [port for port in self.graph.input if port.name not in stored]
        self.feeds = dict(zip([port.name for port in self.ports], self.values))


def single_forms():
    """The plain form, and those that differ from it in one factor."""
    yield PLAIN
    for factor, levels in FACTORS.items():
        yield from (dataclasses.replace(PLAIN, **{factor: level}) for level in levels[1:])


def pairwise_forms(seed):
    """Forms in which any two levels of any two factors meet, few of them: each the best of 30 that are drawn."""
    draw = random.Random(seed)
    names = list(FACTORS)
    pairs = {((a, x), (b, y)) for a, b in itertools.combinations(names, 2) for x in FACTORS[a] for y in FACTORS[b]}
    pairs -= {pair for pair in pairs if not possible(Form(**dict(pair)))}
    covered = lambda form: {pair for pair in pairs if all(getattr(form, factor) == level for factor, level in pair)}
    while pairs:
        factor = dict(draw.choice(sorted(pairs, key=str)))
        drawn = (Form(**{n: factor.get(n, draw.choice(FACTORS[n])) for n in names}) for _ in range(30))
        best = max((form for form in drawn if possible(form)), key=lambda form: len(covered(form)), default=PLAIN)
        pairs -= covered(best)
        if best != PLAIN:
            yield best


def possible(form):
    """Whether the form is one at all: a model without inputs has no open sizes, and nothing to differentiate by."""
    if form.place == "program" and form.operands != "inputs":
        return False
    return form.operands != "folded" or (form.sizes == "known" and form.place != "grad")


def refusal(case, form):
    """Why the case has no such form, or None."""
    tensors = [port for port in case.ports if is_tensor(port)]
    kinds = {port.type.WhichOneof("value") for port in case.graph.output}
    if form.sizes != "known" and not any(is_tensor(port) and numpy.ndim(as_value(case.feeds[port.name])) for port in open_ports(case, form)):
        return "no input has a dimension"
    if form.operands == "folded" and not tensors or form.operands == "parameters" and len(tensors) < 2:
        return "too few operands are tensors"
    if form.place in ("loop", "steps") and kinds != {"tensor_type"}:
        return "a loop stacks tensors only"
    if form.place in ("last", "branch") and (not kinds <= {"tensor_type", "sequence_type"} or any(v is None for v in case.expected)):
        return "there is no other value of the result's type"
    if form.place == "last" and "sequence_type" in kinds and opset_of(onnx.load_from_string(case.model)) < 13:
        return "loops carry sequences since opset 13"
    if form.place == "program" and not is_expression(case):
        return "the language has no one operator for it"
    if form.place == "grad" and not (differentiated(case, form) and target_of(case) is not None):
        return "nothing is a float that a derivative could be by"
    return None


def is_expression(case):
    """Whether the model is one node that the language has an operator for, on tensors of one type."""
    if not all(is_tensor(port) for port in case.ports):
        return False
    node, types = case.graph.node[0], {str(numpy.asarray(as_value(value)).dtype) for value in case.values}
    if len(case.graph.node) != 1 or node.op_type not in EXPRESSIONS or any(attribute.name != "fmod" for attribute in node.attribute):
        return False
    return len(types) == 1 and types <= set(ELEMENTS) and len(node.input) == EXPRESSIONS[node.op_type].count("{") == len(case.ports)


def program(case, form):
    """The text of a program that does what the case's node does."""
    node, parameters = case.graph.node[0], []
    for place, port in enumerate(case.ports):
        value = numpy.asarray(as_value(case.feeds[port.name]))
        dims = {"known": value.shape, "symbols": [f"size_{place}_{axis}" for axis in range(value.ndim)], "unnamed": ["?"] * value.ndim}[form.sizes]
        parameters.append(f"x{place}: {ELEMENTS[str(value.dtype)]}[{', '.join(map(str, dims))}]")
    names = [f"x{[port.name for port in case.ports].index(name)}" for name in node.input]
    text = EXPRESSIONS[node.op_type].format(*names)
    if any(attribute.i for attribute in node.attribute):
        text = text.replace(")", ", fmod = true)")
    return f"fn main({', '.join(parameters)}) = {text}\n"


def is_tensor(port):
    return port.type.WhichOneof("value") == "tensor_type"


def open_ports(case, form):
    """The inputs that the form leaves to the run."""
    tensors = [port for port in case.ports if is_tensor(port)]
    folded = {"inputs": [], "parameters": tensors[1:], "folded": tensors}[form.operands]
    return [port for port in case.ports if port not in folded]


def differentiated(case, form):
    ports = [port for port in open_ports(case, form) if is_tensor(port)]
    return [p.name for p in ports if str(numpy.asarray(as_value(case.feeds[p.name])).dtype) in DIFFERENTIABLE]


def target_of(case):
    """The place of the first result that is a float."""
    floats = [i for i, value in enumerate(case.expected) if isinstance(value, numpy.ndarray) and str(value.dtype) in DIFFERENTIABLE]
    return floats[0] if floats else None


def opset_of(model):
    return next((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), 0)


def zero_of(name, port, value):
    """A node that gives a value of the port's type, other than the expected one."""
    if port.type.WhichOneof("value") == "sequence_type":
        return helper.make_node("SequenceEmpty", [], [name], dtype=port.type.sequence_type.elem_type.tensor_type.elem_type)
    value = numpy.asarray(value)
    zeros = numpy.full(value.shape, "", object) if value.dtype.kind in "OUS" else numpy.zeros(value.shape, value.dtype)
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(zeros, name))


def output_of(name, port):
    """The port under another name; of a tensor without its sizes."""
    result = onnx.ValueInfoProto(name=name)
    result.type.CopyFrom(port.type)
    if is_tensor(result):
        result.type.tensor_type.ClearField("shape")
    return result


def scalar(name, element):
    return helper.make_tensor_value_info(name, element, [])


def place_in_function(model, case, feeds):
    graph = model.graph
    stored = [initialiser.name for initialiser in graph.initializer]
    names = [port.name for port in case.ports]
    body = helper.make_function("forms", "Body", names + stored, [port.name for port in graph.output], graph.node, model.opset_import)
    results = [f"form_{port.name}" for port in graph.output]
    del graph.node[:]
    graph.node.append(helper.make_node("Body", names + stored, results, domain="forms"))
    replace_outputs(graph, results)
    model.opset_import.append(helper.make_opsetid("forms", 1))
    model.functions.append(body)
    model.ir_version = max(model.ir_version, 8)


def replace_outputs(graph, names):
    ports = [output_of(name, port) for name, port in zip(names, graph.output)]
    del graph.output[:]
    graph.output.extend(ports)


def place_in_branch(model, case, feeds):
    graph = model.graph
    outputs = list(graph.output)
    results = [f"form_{port.name}" for port in outputs]
    then = helper.make_graph(graph.node, "then", [], [output_of(port.name, port) for port in outputs])
    zeros = [zero_of(f"zero_{port.name}", port, value) for port, value in zip(outputs, case.expected)]
    other = helper.make_graph(zeros, "else", [], [output_of(f"zero_{port.name}", port) for port in outputs])
    del graph.node[:]
    graph.node.append(helper.make_node("If", ["form_chosen"], results, then_branch=then, else_branch=other))
    replace_outputs(graph, results)
    graph.input.append(scalar("form_chosen", TensorProto.BOOL))
    feeds["form_chosen"] = numpy.array(True)


def place_in_loop(model, case, feeds, carries=False, keeps_last=False):
    """Two iterations whose results are stacked; with `carries` the operands are the loop's states, with `keeps_last` the results
    are, and there is one iteration."""
    graph = model.graph
    outputs = list(graph.output)
    moved = [port for port in case.ports if carries and is_tensor(port)]
    initial = [f"form_{port.name}" for port in moved]
    for port, name in zip(moved, initial):
        feeds[name] = feeds.pop(port.name)
    states = [output_of(port.name, port) for port in moved]
    nexts = [output_of(f"next_{port.name}", port) for port in moved]
    steps = [helper.make_node("Identity", [port.name], [f"next_{port.name}"]) for port in moved]
    zeros = []
    if keeps_last:
        zeros = [zero_of(f"zero_{port.name}", port, value) for port, value in zip(outputs, case.expected)]
        initial = [f"zero_{port.name}" for port in outputs]
        states = [output_of(f"before_{port.name}", port) for port in outputs]
    results = [f"form_result_{port.name}" for port in outputs]
    steps.append(helper.make_node("Identity", ["form_goes"], ["form_goes_on"]))
    body = helper.make_graph(
        [*graph.node, *steps], "body", [scalar("form_step", TensorProto.INT64), scalar("form_goes", TensorProto.BOOL), *states],
        [scalar("form_goes_on", TensorProto.BOOL), *nexts, *(output_of(port.name, port) for port in outputs)])  # fmt: skip
    del graph.node[:]
    finals = [f"form_final_{port.name}" for port in moved]
    goes = helper.make_node("Constant", [], ["form_goes_at_first"], value=numpy_helper.from_array(numpy.array(True), "true"))
    graph.node.extend([*zeros, goes, helper.make_node("Loop", ["form_trips", "form_goes_at_first", *initial], finals + results, body=body)])
    for port in graph.input:
        port.name = f"form_{port.name}" if carries and port in moved else port.name
    replace_outputs(graph, results)
    graph.input.append(scalar("form_trips", TensorProto.INT64))
    feeds["form_trips"] = numpy.array(1 if keeps_last else 2, numpy.int64)


PLACES = {
    "plain": lambda model, case, feeds: None,
    "grad": lambda model, case, feeds: None,
    "function": place_in_function,
    "branch": place_in_branch,
    "loop": place_in_loop,
    "steps": lambda model, case, feeds: place_in_loop(model, case, feeds, carries=True),
    "last": lambda model, case, feeds: place_in_loop(model, case, feeds, keeps_last=True),
}


def tensor_of(value, name):
    if isinstance(value, TensorProto):
        result = TensorProto()
        result.CopyFrom(value)
        result.name = name
        return result
    return numpy_helper.from_array(numpy.asarray(value), name)


def fold(graph, feeds, operands):
    """Turns inputs into initialisers."""
    tensors = [port for port in graph.input if port.name in feeds and is_tensor(port)]
    kept = tensors[:1] if operands == "parameters" else []
    for port in tensors:
        if port not in kept:
            graph.initializer.append(tensor_of(feeds.pop(port.name), port.name))
            graph.input.remove(port)


def open_sizes(graph, feeds, named):
    """Gives each dimension of the inputs a name of its own, or none; results say nothing of their sizes."""
    for place, port in enumerate(graph.input):
        inner = port.type
        while inner.WhichOneof("value") in ("sequence_type", "optional_type"):
            inner = getattr(inner, inner.WhichOneof("value")).elem_type
        if port.name in feeds and inner.HasField("tensor_type"):
            for axis, dim in enumerate(inner.tensor_type.shape.dim):
                dim.Clear()
                if named and inner is port.type:
                    dim.dim_param = f"size_{place}_{axis}"
    replace_outputs(graph, [port.name for port in graph.output])


def build(case, form):
    """The case's model in the form, as bytes, and what it is fed."""
    model = onnx.load_from_string(case.model)
    if not opset_of(model):
        model.opset_import.append(helper.make_opsetid("", 21))
    feeds = dict(case.feeds)
    PLACES[form.place](model, case, feeds)
    if form.operands != "inputs":
        fold(model.graph, feeds, form.operands)
    if form.sizes != "known":
        open_sizes(model.graph, feeds, form.sizes == "symbols")
    return model.SerializeToString(), feeds


def as_value(value):
    """What a test holds as a protobuf, for types that NumPy lacks, as the value."""
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, onnx.SequenceProto):
        return numpy_helper.to_list(value)
    if isinstance(value, onnx.OptionalProto):
        return numpy_helper.to_optional(value)
    return value


def run(case, form):
    """What the case gives in the form, for each of the outputs a list: two values of a loop that ran twice. And, in the place
    `grad`, the gradients by name."""
    import tensmith

    if form.place == "program":
        return run_program(case, form)
    data, feeds = build(case, form)
    feeds = {name: as_value(value) for name, value in feeds.items()}
    settings = dict(SETTINGS[form.way], threads=form.threads)
    if form.place == "grad":
        return run_derivative(case, form, data, feeds, settings)
    results = tensmith.compile(data, **settings).run(**feeds)
    if form.place in ("loop", "steps"):
        results = results[len(results) - len(case.expected):]
        short = next((numpy.asarray(result) for result in results if numpy.shape(result)[:1] != (2,)), None)
        if short is not None:
            raise AssertionError(f"{short.shape} is no stack of two results")
        return [[numpy.asarray(result)[i] for i in range(2)] for result in results], {}
    return [[result] for result in results], {}


def run_program(case, form):
    import tensmith

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "form.tsm"
        path.write_text(program(case, form))
        model = tensmith.compile(path, **SETTINGS[form.way], threads=form.threads)
    return [[result] for result in model.run(*map(as_value, case.values))], {}


def run_derivative(case, form, data, feeds, settings):
    import tensmith

    target = target_of(case)
    name, value = case.graph.output[target].name, case.expected[target]
    wrt = differentiated(case, form)
    model = tensmith.grad(data, wrt=wrt, of=name, cotangent=True, **settings)
    feeds[f"cotangent.{name}"] = numpy.random.default_rng(1).standard_normal(value.shape).astype(value.dtype)
    results = [numpy.array(result) if isinstance(result, numpy.ndarray) else result for result in model.run(**feeds)]
    count = len(case.expected)
    return [[result] for result in results[:count]], dict(zip(wrt, results[count:]))
