"""Operators as each opset in which they were changed has them: the nodes of the standard's tests, written for an earlier opset.

Operands that were attributes then become attributes. What the earlier signature does not take gives no case. What is expected is
what the standard's reference implementation gives at that opset, or ONNX Runtime where that has no such version; where both answer
and differ (the reference implementation has one version of most operators alone) nobody is the judge, and there is no case.
"""

import collections
import warnings

import forms
import numpy
import onnx
from onnx import defs, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

CHANCE = {"Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Dropout"}


def versions():
    """The schemas of each operator of the main domain, the earliest first."""
    found = collections.defaultdict(list)
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "":
            found[schema.name].append(schema)
    return {name: sorted(schemas, key=lambda schema: schema.since_version) for name, schemas in found.items()}


def as_attribute(schema, name, value):
    """An operand's value as the attribute of that name."""
    value = numpy.asarray(forms.as_value(value))
    kind = schema.attributes[name].type
    if kind in (defs.OpSchema.AttrType.INTS, defs.OpSchema.AttrType.FLOATS):
        return helper.make_attribute(name, [v.item() for v in value.reshape(-1)], attr_type=int(kind.value))
    if kind in (defs.OpSchema.AttrType.INT, defs.OpSchema.AttrType.FLOAT) and value.size == 1:
        kind_of = int if kind == defs.OpSchema.AttrType.INT else float
        return helper.make_attribute(name, kind_of(value.reshape(-1)[0]))
    return None


def takes(schema, place, port):
    """Whether the schema's operand at the place may have the port's type."""
    formal = schema.inputs[min(place, len(schema.inputs) - 1)] if schema.inputs else None
    if formal is None or not forms.is_tensor(port):
        return False
    name = helper.tensor_dtype_to_string(port.type.tensor_type.elem_type).split(".")[1].lower()
    name = {"float8e4m3fn": "float8e4m3fn"}.get(name, name)
    return f"tensor({name})" in formal.types


def earlier(case, schema, newer):
    """The case's only node written for the schema's opset: a model and the values of its inputs, or None."""
    node = onnx.NodeProto()
    node.CopyFrom(case.graph.node[0])
    ports, values = {port.name: port for port in case.ports}, dict(case.feeds)
    del node.input[:]
    for place, name in enumerate(case.graph.node[0].input):
        formal = newer.inputs[min(place, len(newer.inputs) - 1)].name
        is_attribute = formal in schema.attributes and formal not in [each.name for each in schema.inputs]
        if is_attribute:
            made = as_attribute(schema, formal, values.pop(name)) if name else None
            if name and made is None:
                return None
            if made is not None:
                node.attribute.append(made)
        elif name and not takes(schema, place, ports[name]):
            return None
        else:
            node.input.append(name)
    while node.input and not node.input[-1]:
        node.input.pop()
    known = all(attribute.name in schema.attributes for attribute in node.attribute)
    required = {name for name, each in schema.attributes.items() if each.required} <= {each.name for each in node.attribute}
    fits = schema.min_input <= len(node.input) <= schema.max_input and len(node.output) <= schema.max_output
    if not (known and required and fits) or any(each.type in (5, 10) for each in node.attribute):
        return None
    graph = helper.make_graph([node], "g", [ports[name] for name in values], case.graph.output)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", schema.since_version)], ir_version=8)
    return model, values


def by_reference(model, values):
    try:
        return ReferenceEvaluator(model).run(None, values)
    except Exception:  # whatever it raises, it is no judge
        return None


def by_onnxruntime(model, values):
    try:
        import onnxruntime

        onnxruntime.set_default_logger_severity(4)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, values)
    except Exception:
        return None


def alike(some, others):
    import judge

    try:
        for one, other in zip(some, others, strict=True):
            judge.SUITE.compare(one, other, 1e-3, 1e-5, "y")
    except AssertionError:
        return False
    return True


def judged(model, values):
    """What is expected, or None where there is no judge."""
    answers = [answer for answer in (by_reference(model, values), by_onnxruntime(model, values)) if answer is not None]
    if not answers or len(answers) == 2 and not alike(*answers):
        return None
    return answers[0]


def opset_cases(suite, each=1):
    """For each operator and version before the newest `each` cases, of the first tests that can be written so."""
    tests = collections.defaultdict(list)
    for case in suite:
        if len(case.graph.node) == 1 and case.graph.node[0].domain == "" and not case.graph.initializer:
            tests[case.graph.node[0].op_type].append(case)
    for name, schemas in versions().items():
        for schema in schemas[:-1] if name not in CHANCE else ():
            made = 0
            for case in tests[name]:
                if made == each or (written := earlier(case, schema, schemas[-1])) is None:
                    continue
                model, values = written
                with warnings.catch_warnings(), numpy.errstate(all="ignore"):
                    warnings.simplefilter("ignore")
                    expected = judged(model, {k: forms.as_value(v) for k, v in values.items()})
                if expected is not None and all(isinstance(value, numpy.ndarray) for value in expected):
                    made += 1
                    model = unshaped(model, expected)
                    yield forms.Case(f"opset_{name}_{schema.since_version}_{case.name}", model.SerializeToString(), list(values.values()), expected, 1e-3, 1e-5)


def unshaped(model, expected):
    """With the types of results that there are at this opset."""
    for port, value in zip(model.graph.output, expected):
        kind = numpy_helper.from_array(value).data_type
        port.CopyFrom(helper.make_tensor_value_info(port.name, kind, None))
    return model
