"""ONNX operators that are imported as graphs of others, against onnx's own evaluator.

The shapes and attributes are others than those of the standard's suite: dimensions that only the run tells, several trees
and kinds of tests in one ensemble, states handed from call to call.
"""

import numpy
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

tensmith = pytest.importorskip("tensmith")

OPSETS = [helper.make_opsetid("", 27), helper.make_opsetid("ai.onnx.ml", 5), helper.make_opsetid("ai.onnx.preview", 1),
          helper.make_opsetid("ai.onnx.preview.training", 1)]


def rng(seed=0):
    return numpy.random.default_rng(seed)


def normal(*shape, seed=0):
    return rng(seed).standard_normal(shape).astype(numpy.float32)


def check(op, operands, outputs, dynamic=(), domain="", rtol=1e-4, atol=1e-5, **attributes):
    """One node on the operands; those in `dynamic` are declared without sizes."""
    names = [f"x{i}" if operand is not None else "" for i, operand in enumerate(operands)]
    feeds = {name: operand for name, operand in zip(names, operands) if name}
    ports = [helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(value.dtype),
        [f"{name}_{k}" if i in dynamic else size for k, size in enumerate(value.shape)])
        for i, (name, value) in enumerate((n, feeds[n]) for n in names if n)]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, domain=domain, **attributes)
    graph = helper.make_graph([node], "one", ports, [onnx.ValueInfoProto(name=name) for name in results])
    model = helper.make_model(graph, opset_imports=OPSETS, ir_version=13)
    wanted = ReferenceEvaluator(model).run(None, feeds)
    compiled = tensmith.compile(model.SerializeToString(), threads=1)
    for got, expected in zip(compiled.run(*feeds.values()), wanted):
        got, expected = numpy.asarray(got), numpy.asarray(expected)
        assert got.shape == expected.shape
        if expected.dtype.kind in "OUS":
            assert got.astype(str).tolist() == expected.astype(str).tolist()
        else:
            numpy.testing.assert_allclose(got, expected.astype(got.dtype), rtol=rtol, atol=atol)
    return compiled


@pytest.mark.parametrize("update_rule", ["linear", "gated", "delta", "gated_delta"])
def test_linear_attention(update_rule):
    batch, length, heads, queries, size, width = 2, 7, 2, 6, 3, 5
    decay = -numpy.abs(normal(batch, length, heads, seed=4)) if "gated" in update_rule else None
    beta = 1 / (1 + numpy.exp(normal(batch, length, heads, seed=5))) if "delta" in update_rule else None
    operands = [normal(batch, length, queries * size), normal(batch, length, heads * size, seed=1),
                normal(batch, length, heads * width, seed=2), normal(batch, heads, size, width, seed=3), decay, beta]
    check("LinearAttention", operands, 2, update_rule=update_rule, q_num_heads=queries, kv_num_heads=heads)


@pytest.mark.parametrize("activation", ["none", "silu"])
def test_causal_convolution_of_any_length(activation):
    weights, bias, past = normal(4, 1, 3, seed=1), normal(4, seed=2), normal(2, 4, 2, seed=3)
    check("CausalConvWithState", [normal(2, 4, 9), weights, bias, past], 2, dynamic=(0,), activation=activation)
    check("CausalConvWithState", [normal(2, 4, 1), weights], 2, activation=activation)


@pytest.mark.parametrize("mode", ["standard", "nesterov"])
@pytest.mark.parametrize("step", [0, 3])
def test_momentum(mode, step):
    tensors = [normal(3, 2, seed=i) for i in range(6)]
    check("Momentum", [numpy.array(0.1, numpy.float32), numpy.array(step), *tensors], 4, domain="ai.onnx.preview.training",
          alpha=0.9, beta=0.7, norm_coefficient=0.01, mode=mode)


@pytest.mark.parametrize("step", [0, 5])
def test_adam_and_adagrad(step):
    rate, count = numpy.array(0.1, numpy.float32), numpy.array(step)
    x, g, v, h = (normal(5, seed=i) for i in range(4))
    check("Adam", [rate, count, x, g, v, h * h], 3, domain="ai.onnx.preview.training", alpha=0.8, beta=0.95,
          epsilon=1e-3, norm_coefficient=0.1, norm_coefficient_post=0.05)
    check("Adagrad", [rate, count, x, g, h * h], 2, domain="ai.onnx.preview.training", decay_factor=0.1, epsilon=1e-3,
          norm_coefficient=0.1)


@pytest.mark.parametrize("left,right", [(2, -1), (-1, 1), (1, 0)])
@pytest.mark.parametrize("is_causal", [0, 1])
def test_attention_windows(left, right, is_causal):
    q, k, v = normal(2, 3, 5, 4), normal(2, 3, 5, 4, seed=1), normal(2, 3, 5, 6, seed=2)
    past_k, past_v = normal(2, 3, 2, 4, seed=3), normal(2, 3, 2, 6, seed=4)
    check("Attention", [q, k, v, None, past_k, past_v], 1, left_window_size=left, right_window_size=right, is_causal=is_causal)


def test_flex_attention_with_grouped_heads():
    scores = [helper.make_tensor_value_info("s", TensorProto.FLOAT, [None] * 4),
              helper.make_tensor_value_info("t", TensorProto.FLOAT, [None] * 4)]
    square = helper.make_graph([helper.make_node("Mul", ["s", "s"], ["t"])], "square", scores[:1], scores[1:])
    check("FlexAttention", [normal(2, 6, 3, 4), normal(2, 2, 5, 4, seed=1), normal(2, 2, 5, 3, seed=2)], 1,
          domain="ai.onnx.preview", score_mod=square, scale=0.4)


def tensor(values, dtype=numpy.float32):
    return onnx.numpy_helper.from_array(numpy.array(values, dtype))


@pytest.mark.parametrize("aggregate", range(4))
def test_tree_ensembles_of_all_kinds_of_tests(aggregate):
    # Three trees of different depth: a chain of five tests, one of one, and one whose root is a leaf's parent twice.
    compiled = check(
        "TreeEnsemble", [rng(3).integers(-2, 3, (50, 3)).astype(numpy.float32)], 1, dynamic=(0,), domain="ai.onnx.ml",
        n_targets=2, aggregate_function=aggregate, tree_roots=[0, 5, 6],
        nodes_modes=tensor([0, 1, 2, 4, 6, 3, 5], numpy.uint8), nodes_featureids=[0, 1, 2, 0, 1, 2, 0],
        nodes_splits=tensor([0, 1, 0, 1, 0, -1, 2]), membership_values=tensor([2, 1, numpy.nan]),
        nodes_truenodeids=[1, 0, 3, 2, 3, 4, 5], nodes_trueleafs=[0, 1, 0, 1, 1, 1, 1],
        nodes_falsenodeids=[2, 1, 4, 6, 7, 0, 1], nodes_falseleafs=[0, 1, 0, 1, 1, 1, 1],
        leaf_targetids=[0, 1, 0, 1, 1, 0, 1, 0], leaf_weights=tensor([1, 2, 4, 8, -16, 32, 64, 128]))
    steps = [step for function in compiled.describe()["functions"] for step in function["instructions"]]
    assert not any(step.get("kind", step.get("opcode", "")).lower() == "routine" for step in steps)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_regressors_of_trees(aggregate):
    # A tree of three leaves, one of them with two weights, and a tree of two.
    check("TreeEnsembleRegressor", [normal(40, 3)], 1, dynamic=(0,), domain="ai.onnx.ml", aggregate_function=aggregate,
          n_targets=2, base_values=[0.5, -1.0], nodes_treeids=[0, 0, 0, 0, 0, 1, 1, 1], nodes_nodeids=[0, 1, 2, 3, 4, 0, 1, 2],
          nodes_featureids=[0, 1, 0, 0, 0, 2, 0, 0], nodes_values=[0.1, -0.2, 0, 0, 0, 0.3, 0, 0],
          nodes_modes=["BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"],
          nodes_truenodeids=[1, 3, 0, 0, 0, 1, 0, 0], nodes_falsenodeids=[2, 4, 0, 0, 0, 2, 0, 0],
          target_treeids=[0, 0, 0, 0, 1, 1], target_nodeids=[2, 3, 4, 4, 1, 2], target_ids=[0, 1, 0, 1, 1, 0],
          target_weights=[1.0, 2.0, 4.0, 8.0, -16.0, 32.0])


def test_tree_ensemble_refuses_a_cycle():
    node = helper.make_node("TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, tree_roots=[0],
                            nodes_modes=tensor([0], numpy.uint8), nodes_featureids=[0], nodes_splits=tensor([0]),
                            nodes_truenodeids=[0], nodes_trueleafs=[0], nodes_falsenodeids=[0], nodes_falseleafs=[1],
                            leaf_targetids=[0], leaf_weights=tensor([1]))
    graph = helper.make_graph([node], "one", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1])],
                              [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=OPSETS, ir_version=13)
    with pytest.raises(Exception, match="leads back to itself"):
        tensmith.compile(model.SerializeToString())
    next(a for a in node.attribute if a.name == "n_targets").i = 1 << 60
    model.graph.node[0].CopyFrom(node)
    with pytest.raises(Exception, match="2\\^28"):
        tensmith.compile(model.SerializeToString())


def test_features():
    ml = "ai.onnx.ml"
    x = normal(2, 4, 5)
    check("ArrayFeatureExtractor", [x, numpy.array([[4, 0, 4]])], 1, domain=ml)
    check("ArrayFeatureExtractor", [x[0, 0], numpy.array([3, 1])], 1, domain=ml)
    check("Binarizer", [x], 1, domain=ml, threshold=0.25)
    words = numpy.array([["a", "?"], ["c", "b"]], object)
    check("LabelEncoder", [words], 1, domain=ml, keys_strings=["a", "b", "c"], values_floats=[1.5, 2.5, 3.5], default_float=-1.0)
    check("LabelEncoder", [numpy.array([3, 1, 2])], 1, domain=ml, keys_int64s=[1, 2], values_strings=["one", "two"],
          default_string="many")


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_scaled_features(norm):
    ml, x = "ai.onnx.ml", normal(6, 3)
    check("Normalizer", [x], 1, dynamic=(0,), domain=ml, norm=norm)
    check("Scaler", [x], 1, domain=ml, offset=[0.5, 1.0, -1.0], scale=[2.0, 0.5, 1.0])
    check("LinearRegressor", [x], 1, domain=ml, targets=2, coefficients=[1.0, 2.0, 3.0, -1.0, 0.5, 0.0], intercepts=[0.25, -4.0])
    check("LinearRegressor", [x], 1, domain=ml, coefficients=[1.0, 2.0, 3.0], intercepts=[0.25])
    holes = x.copy()
    holes[1, 2] = holes[4, 0] = numpy.nan
    check("Imputer", [holes], 1, domain=ml, imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=float("nan"))
    check("Imputer", [numpy.array([[1, -1], [-1, 5]])], 1, domain=ml, imputed_value_int64s=[3], replaced_value_int64=-1)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "int64"])
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifts_beyond_the_width(dtype, direction):
    x = numpy.array([-100, -1, 0, 1, 77], "int64").astype(dtype)
    amounts = numpy.array([0, 1, 7, 8, 31, 64, 100, -1], "int64").astype(dtype)
    check("BitShift", [x[:, None], amounts[None]], 1, direction=direction, rtol=0, atol=0)


def test_dropout_of_a_seed_is_that_of_the_reference():
    check("Dropout", [normal(7, 5), numpy.array(0.3, numpy.float32), numpy.array(True)], 2, seed=42)


def test_gradients_against_differences():
    """The derivative of sum(y), over broadcasting, both sides of a product and a value used twice."""
    nodes = [("MatMul", ["a", "b"], "p"), ("Add", ["p", "c"], "q"), ("Tanh", ["q"], "r"), ("Mul", ["r", "q"], "s"),
             ("Exp", ["c"], "e"), ("Div", ["s", "e"], "t"), ("Relu", ["t"], "u"), ("Sub", ["u", "a2"], "y")]
    values = {"a": normal(3, 4).astype(numpy.float64), "b": normal(4, 5, seed=1).astype(numpy.float64),
              "c": normal(5, seed=2).astype(numpy.float64), "a2": normal(1, seed=3).astype(numpy.float64)}

    def model(with_gradient):
        graph_nodes = [helper.make_node(op, inputs, [output]) for op, inputs, output in nodes]
        outputs = ["y"]
        if with_gradient:
            outputs = [f"d{name}" for name in values]
            graph_nodes.append(helper.make_node("Gradient", list(values), outputs, domain="ai.onnx.preview.training",
                                                xs=list(values), y="y"))
        ports = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, value.shape) for name, value in values.items()]
        graph = helper.make_graph(graph_nodes, "g", ports, [onnx.ValueInfoProto(name=name) for name in outputs])
        return helper.make_model(graph, opset_imports=OPSETS, ir_version=13).SerializeToString()

    gradients = tensmith.compile(model(True), threads=1).run(*values.values())
    forward = tensmith.compile(model(False), threads=1)
    step = 1e-6
    for gradient, name in zip(gradients, values):
        gradient = numpy.asarray(gradient)
        assert gradient.shape == values[name].shape
        for at in numpy.ndindex(gradient.shape):
            sums = []
            for sign in (1, -1):
                moved = {key: value.copy() for key, value in values.items()}
                moved[name][at] += sign * step
                sums.append(numpy.asarray(forward.run(*moved.values())[0]).sum())
            assert abs((sums[0] - sums[1]) / (2 * step) - gradient[at]) < 1e-4, (name, at)


def test_activations_of_halves_round_once():
    x = numpy.linspace(-4, 4, 97).astype(numpy.float16)
    for op, attributes in (("Celu", {"alpha": 2.0}), ("Elu", {}), ("Softplus", {}), ("Mish", {}), ("Gelu", {})):
        nodes = [helper.make_node(op, ["x"], ["y"], **attributes)]
        results = []
        for kind, values in ((TensorProto.FLOAT16, x), (TensorProto.DOUBLE, x.astype(numpy.float64))):
            graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", kind, x.shape)], [onnx.ValueInfoProto(name="y")])
            model = helper.make_model(graph, opset_imports=OPSETS, ir_version=13)
            results.append(numpy.asarray(tensmith.compile(model.SerializeToString(), threads=1).run(values)[0]))
        # Half a unit in the last place, and a little for what the f32 lacks.
        wanted = results[1]
        error = numpy.abs(results[0].astype(numpy.float64) - wanted)
        assert (error <= 0.51 * numpy.spacing(numpy.abs(wanted).astype(numpy.float16)).astype(numpy.float64) + 1e-6).all(), op


def test_transposition_of_a_value_whose_rank_only_perm_tells():
    """Branches of an If that give other ranks, which broadcasting makes one."""
    def branch(name, node):
        return helper.make_graph([node], name, [], [onnx.ValueInfoProto(name=node.output[0])])
    yes = branch("yes", helper.make_node("Identity", ["scalar"], ["p"]))
    no = branch("no", helper.make_node("Identity", ["row"], ["q"]))
    nodes = [helper.make_node("If", ["choice"], ["v"], then_branch=yes, else_branch=no), helper.make_node("Add", ["x", "v"], ["s"]),
             helper.make_node("Transpose", ["s"], ["y"], perm=[1, 0])]
    inputs = {"choice": (TensorProto.BOOL, []), "scalar": (TensorProto.FLOAT, []), "row": (TensorProto.FLOAT, [3]), "x": (TensorProto.FLOAT, [2, 3])}
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(name, *port) for name, port in inputs.items()],
                              [onnx.ValueInfoProto(name="y")])
    model = tensmith.compile(helper.make_model(graph, opset_imports=OPSETS, ir_version=13).SerializeToString(), threads=1)
    x, row, scalar = normal(2, 3), normal(3, seed=1), numpy.array(2, numpy.float32)
    for choice in (True, False):
        got = numpy.asarray(model.run(numpy.array(choice), scalar, row, x)[0])
        numpy.testing.assert_allclose(got, (x + (scalar if choice else row)).T, rtol=1e-6)


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
def test_equal_columns_of_a_product_are_equal(rows):
    """A softmax over large equal numbers tells apart what was summed in another order, as in the last, narrower panel."""
    column = 1e6 * normal(57, 1, seed=1)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 57])], [onnx.ValueInfoProto(name="y")],
        [onnx.numpy_helper.from_array(numpy.tile(column, (1, 137)), "w")])
    model = helper.make_model(graph, opset_imports=OPSETS, ir_version=13)
    y = numpy.asarray(tensmith.compile(model.SerializeToString(), threads=1)(normal(rows, 57, seed=2)))
    assert (y == y[:, :1]).all()
