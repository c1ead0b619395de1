"""Values of ONNX's map types: ZipMap, CastMap and DictVectorizer, as results and as inputs, against ONNX Runtime."""

import numpy
import onnx
import pytest
from onnx import TensorProto, helper

tensmith = pytest.importorskip("tensmith")
onnxruntime = pytest.importorskip("onnxruntime")
from tensmith import ort  # noqa: E402

FLOAT, DOUBLE, INT64, STRING = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.STRING


def tensor(name, kind, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def map_type(key, value, shape=None):
    return helper.make_map_type_proto(key, helper.make_tensor_type_proto(value, shape))


def maps(name, key, value):
    return helper.make_value_info(name, map_type(key, value))


def lists_of_maps(name, key):
    return helper.make_value_info(name, helper.make_sequence_type_proto(map_type(key, FLOAT)))


def model(nodes, inputs, outputs):
    graph = helper.make_graph(nodes, "maps", inputs, outputs)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


def node(op, inputs=("x",), outputs=("y",), **attributes):
    return helper.make_node(op, list(inputs), list(outputs), name=f"the_{op}", domain="ai.onnx.ml", **attributes)


def zip_map(labels, shape=(None, None)):
    strings = isinstance(labels[0], str)
    attributes = {"classlabels_strings" if strings else "classlabels_int64s": labels}
    return model([node("ZipMap", **attributes)], [tensor("x", FLOAT, shape)], [lists_of_maps("y", STRING if strings else INT64)])


def random_labels(draw, count, strings, distinct=True):
    numbers = draw.choice(1000, count, replace=not distinct) - 500
    return [f"köln {n}" for n in numbers] if strings else [int(n) * 10**12 for n in numbers]


@pytest.mark.parametrize("strings", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_zip_map(strings, seed):
    draw = numpy.random.default_rng(seed)
    for rows, count in [(0, 3), (1, 1), (2, 7), (int(draw.integers(1, 300)), int(draw.integers(1, 40)))]:
        data = zip_map(random_labels(draw, count, strings, distinct=seed % 2 == 0))
        x = draw.standard_normal((rows, count)).astype(numpy.float32)
        theirs = onnxruntime.InferenceSession(data)
        session = ort.InferenceSession(data)
        assert [(o.type, o.shape) for o in session.get_outputs()] == [(o.type, o.shape) for o in theirs.get_outputs()]
        wanted = theirs.run(None, {"x": x})
        got = session.run(None, {"x": x})
        assert got == wanted and [list(each) for each in got[0]] == [list(each) for each in wanted[0]]
        assert all(type(value) is float for each in got[0] for value in each.values())
        compiled = tensmith.compile(data)
        assert compiled.outputs[0]["kind"] == "sequence" and compiled(x) == wanted[0]
        assert tensmith.compile(data, reference=True)(x) == wanted[0]


def test_zip_map_of_a_vector():
    x = numpy.array([3, 1, 2], numpy.float32)
    assert tensmith.compile(zip_map(["b", "a", "c"], shape=(3,)))(x) == [{"a": 1.0, "b": 3.0, "c": 2.0}]
    assert tensmith.compile(zip_map([5, 4, 3], shape=None))(x) == [{3: 2.0, 4: 1.0, 5: 3.0}]


def test_a_classifier_with_its_maps():
    """As scikit-learn's converters end a classifier, labels beside the maps."""
    nodes = [
        node("LinearClassifier", outputs=("label", "p"), coefficients=[1.0, -2.0, 0.5, 0.25, 2.0, 1.0], intercepts=[0.1, 0.2, 0.3],
             classlabels_strings=["ant", "bee", "cat"], post_transform="SOFTMAX"),
        node("Normalizer", ("p",), ("q",), norm="L1"),
        node("ZipMap", ("q",), ("maps",), classlabels_strings=["ant", "bee", "cat"]),
    ]  # fmt: skip
    data = model(nodes, [tensor("x", FLOAT, ["n", 2])], [tensor("label", STRING, ["n"]), lists_of_maps("maps", STRING)])
    x = numpy.random.default_rng(1).standard_normal((50, 2)).astype(numpy.float32)
    labels, got = ort.InferenceSession(data).run(None, {"x": x})
    wanted_labels, wanted = onnxruntime.InferenceSession(data).run(None, {"x": x})
    assert labels.tolist() == wanted_labels.tolist()
    for ours, theirs in zip(got, wanted, strict=True):
        assert list(ours) == list(theirs)
        numpy.testing.assert_allclose(list(ours.values()), list(theirs.values()), rtol=1e-5)


def run_both(data, value):
    session = ort.InferenceSession(data)
    theirs = onnxruntime.InferenceSession(data)
    assert [(i.name, i.type) for i in session.get_inputs()] == [(i.name, i.type) for i in theirs.get_inputs()]
    got, wanted = session.run(None, {"x": value})[0], theirs.run(None, {"x": value})[0]
    assert got.shape == wanted.shape and got.tolist() == wanted.tolist()
    reference = tensmith.compile(data, reference=True)(value)
    assert reference.tolist() == wanted.tolist()
    return got


@pytest.mark.parametrize("strings", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_dict_vectorizer(strings, seed):
    draw = numpy.random.default_rng(seed)
    vocabulary = random_labels(draw, int(draw.integers(1, 30)), strings, distinct=seed < 3)
    attributes = {"string_vocabulary" if strings else "int64_vocabulary": vocabulary}
    data = model([node("DictVectorizer", **attributes)], [maps("x", STRING if strings else INT64, FLOAT)], [tensor("y", FLOAT)])
    for known in range(1, len(vocabulary) + 1, 3):
        keys = [vocabulary[i] for i in draw.choice(len(vocabulary), known)] + random_labels(draw, 2, strings)
        run_both(data, {key: float(numpy.float32(draw.standard_normal())) for key in keys})


@pytest.mark.parametrize("value", [DOUBLE, INT64, STRING])
def test_dict_vectorizer_of_other_values(value):
    """Which ONNX Runtime's Python has no way to give."""
    of = {DOUBLE: (float, 0.0), INT64: (int, 0), STRING: (str, "")}[value]
    key = INT64 if value == STRING else STRING
    attributes = {"int64_vocabulary": [3, 1, 2]} if key == INT64 else {"string_vocabulary": ["c", "a", "b"]}
    data = model([node("DictVectorizer", **attributes)], [maps("x", key, value)], [tensor("y", value)])
    given = {1: of[0](7), 3: of[0](8)} if key == INT64 else {"a": of[0](7), "c": of[0](8)}
    for run in (tensmith.compile(data), lambda x: ort.InferenceSession(data).run(None, {"x": x})[0]):
        assert run(given).tolist() == [[of[0](8), of[0](7), of[1]]]
        assert run({}).tolist() == [[of[1]] * 3]


@pytest.mark.parametrize("to,kind", [("TO_FLOAT", FLOAT), ("TO_INT64", INT64)])
@pytest.mark.parametrize("form", ["DENSE", "SPARSE"])
def test_cast_map(to, kind, form):
    data = model([node("CastMap", cast_to=to, map_form=form, max_map=9)], [maps("x", INT64, FLOAT)], [tensor("y", kind)])
    run_both(data, {7: 1.5, 2: 2.75e10, 0: -1e-7, 30: 4.0})
    run_both(data, {3: -2.5})


def test_cast_map_of_strings():
    for form, wanted in [("DENSE", [[2.5, -1.0]]), ("SPARSE", [[0.0, 2.5, 0.0, -1.0]])]:
        data = model([node("CastMap", cast_to="TO_FLOAT", map_form=form, max_map=4)], [maps("x", INT64, STRING)], [tensor("y", FLOAT)])
        assert tensmith.compile(data)({3: "-1", 1: "2.5"}).tolist() == wanted


def test_maps_pass_through():
    """A map that is input and output, in a sequence, and behind an If."""
    data = model([helper.make_node("Identity", ["x"], ["y"])], [maps("x", STRING, FLOAT)], [maps("y", STRING, FLOAT)])
    assert tensmith.compile(data)({"b": 2, "a": 1.5}) == {"a": 1.5, "b": 2.0}
    data = model([helper.make_node("Identity", ["x"], ["y"])], [lists_of_maps("x", INT64)], [lists_of_maps("y", INT64)])
    given = [{1: 2.0}, {}, {7: 1.0, -3: 4.0}]
    assert tensmith.compile(data)(given) == given
    assert ort.InferenceSession(data).run(None, {"x": given})[0] == given
    branches = {
        name: helper.make_graph([helper.make_node("Identity", [value], [name])], name, [], [maps(name, INT64, FLOAT)])
        for name, value in (("then_branch", "a"), ("else_branch", "b"))
    }
    data = model([helper.make_node("If", ["c"], ["y"], **branches)],
                 [tensor("c", TensorProto.BOOL, []), maps("a", INT64, FLOAT), maps("b", INT64, FLOAT)], [maps("y", INT64, FLOAT)])  # fmt: skip
    compiled = tensmith.compile(data)
    assert compiled(numpy.array(True), {1: 1.0}, {2: 2.0}) == {1: 1.0}
    assert compiled(numpy.array(False), {1: 1.0}, {2: 2.0}) == {2: 2.0}


def test_values_that_do_not_fit():
    data = model([node("DictVectorizer", string_vocabulary=["a"])], [maps("x", STRING, FLOAT)], [tensor("y", FLOAT)])
    compiled = tensmith.compile(data)
    for given, said in [
        ({1: 2.0}, "string"),
        ({1: 2.0, "a": 3.0}, "all strings or all integers"),
        ({1.5: 2.0}, "all strings or all integers"),
        ({"a": "b"}, "float32"),
        ([{"a": 1.0}], "must be a map"),
        (numpy.zeros(3, numpy.float32), "must be a map"),
        (None, "must be a map"),
    ]:
        with pytest.raises(tensmith.Error, match=said):
            compiled(given)
    session = ort.InferenceSession(data)
    for given, kind in [({1: 2.0}, RuntimeError), (numpy.zeros(3, numpy.float32), ort.errors.InvalidArgument)]:
        with pytest.raises(kind):
            session.run(None, {"x": given})
    with pytest.raises(tensmith.Error, match="the_ZipMap.*2x5 elements for 3 keys"):
        tensmith.compile(zip_map([1, 2, 3]))(numpy.zeros((2, 5), numpy.float32))


BAD = {
    "no labels": (model([node("ZipMap")], [tensor("x", FLOAT, [2, 3])], [lists_of_maps("y", INT64)]), "neither classlabels_strings"),
    "both labels": (
        model([node("ZipMap", classlabels_int64s=[1], classlabels_strings=["a"])], [tensor("x", FLOAT, [2, 1])], [lists_of_maps("y", INT64)]),
        "both classlabels_strings",
    ),
    "too many labels": (zip_map([1, 2, 3, 4], shape=(2, 3)), "4 keys for 3 columns"),
    "three dimensions": (zip_map([1, 2, 3], shape=(2, 3, 3)), "rank 3"),
    "a map of a map": (
        model([helper.make_node("Identity", ["x"], ["y"])],
              [helper.make_value_info("x", helper.make_map_type_proto(INT64, map_type(INT64, FLOAT)))], [tensor("y", FLOAT)]),
        "values are no tensors",
    ),
    "keys of floats": (model([helper.make_node("Identity", ["x"], ["y"])], [maps("x", FLOAT, FLOAT)], [maps("y", FLOAT, FLOAT)]), "keys"),
    "values with dimensions": (
        model([helper.make_node("Identity", ["x"], ["y"])], [helper.make_value_info("x", map_type(INT64, FLOAT, [2]))], [tensor("y", FLOAT)]),
        "single elements",
    ),
    "a vectorizer of a tensor": (
        model([node("DictVectorizer", int64_vocabulary=[1])], [tensor("x", FLOAT, [2])], [tensor("y", FLOAT)]), "is no map"),
    "a vocabulary of another type": (
        model([node("DictVectorizer", int64_vocabulary=[1])], [maps("x", STRING, FLOAT)], [tensor("y", FLOAT)]), "another type"),
    "a cast to nothing": (model([node("CastMap", cast_to="TO_BOOL")], [maps("x", INT64, FLOAT)], [tensor("y", FLOAT)]), "TO_BOOL"),
    "a sparse map of no width": (
        model([node("CastMap", map_form="SPARSE", max_map=-1)], [maps("x", INT64, FLOAT)], [tensor("y", FLOAT)]), "max_map"),
    "a sparse map of any width": (
        model([node("CastMap", map_form="SPARSE", max_map=1 << 60)], [maps("x", INT64, FLOAT)], [tensor("y", FLOAT)]), "max_map"),
    "arithmetic on a map": (
        model([helper.make_node("Add", ["x", "x"], ["y"], name="the_sum")], [maps("x", INT64, FLOAT)], [tensor("y", FLOAT)]), "the_"),
    "a map joined to a tensor": (
        model([helper.make_node("Concat", ["x", "x"], ["y"], name="the_sum", axis=0)], [maps("x", INT64, FLOAT)], [tensor("y", FLOAT)]), "the_"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_models_that_are_refused(what):
    data, said = BAD[what]
    with pytest.raises(tensmith.Error, match=said) as caught:
        tensmith.compile(data)
    assert caught.value.code != "internal"
