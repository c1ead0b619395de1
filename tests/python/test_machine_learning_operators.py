"""The operators of ai.onnx.ml on random models, against ONNX Runtime."""

import numpy
import onnx
import pytest
from onnx import TensorProto, helper

tensmith = pytest.importorskip("tensmith")
onnxruntime = pytest.importorskip("onnxruntime")

F32 = numpy.float32
TRANSFORMS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"]


def rng(seed=0):
    return numpy.random.default_rng(seed)


def normal(*shape, seed=0):
    return rng(seed).standard_normal(shape).astype(F32)


def check(op, operands, outputs=1, dynamic=(0,), opset=3, rtol=1e-4, atol=1e-5, of=0, **attributes):
    """One node; the first dimension of the operands in `dynamic` has no size until the run. Outputs from `of` on are compared."""
    names = [f"x{i}" for i in range(len(operands))]
    ports = []
    for i, operand in enumerate(operands):
        kind = TensorProto.STRING if operand.dtype == object else helper.np_dtype_to_tensor_dtype(operand.dtype)
        ports.append(helper.make_tensor_value_info(names[i], kind, [f"x{i}_{k}" if i in dynamic and k == 0 else size
                                                                    for k, size in enumerate(operand.shape)]))
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph([node], "one", ports, [onnx.ValueInfoProto(name=name) for name in results])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    wanted = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, dict(zip(names, operands)))
    compiled = tensmith.compile(model, threads=1)
    for got, expected in list(zip(compiled.run(*operands), wanted))[of:]:
        got, expected = numpy.asarray(got), numpy.asarray(expected)
        assert got.shape == expected.shape
        if expected.dtype.kind in "OUS":
            assert got.astype(str).tolist() == expected.astype(str).tolist()
        else:
            assert got.dtype == expected.dtype
            numpy.testing.assert_allclose(got, expected, rtol=rtol, atol=atol)
    return compiled


def random_forest(trees, depth, features, targets, seed=0, held="target", positive=False, ids=None, modes=("BRANCH_LEQ",)):
    """The attributes of random trees, none deeper than `depth`; leaves weigh each target that `ids` lists."""
    draw = rng(seed)
    columns = {name: [] for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")}
    leaves = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}

    def node(tree, left):
        number = sum(1 for t in columns["treeids"] if t == tree)
        at = len(columns["treeids"])
        is_leaf = left == 0 or (left < depth and draw.random() < 0.2)
        row = (tree, number, int(draw.integers(features)), float(draw.standard_normal()) * 0.7,
               "LEAF" if is_leaf else modes[int(draw.integers(len(modes)))], 0, 0)
        for name, value in zip(columns, row):
            columns[name].append(value)
        if is_leaf:
            for target in range(targets) if ids is None else ids:
                weight = draw.random() / trees if positive else draw.standard_normal()
                for name, value in zip(leaves, (tree, number, target, float(weight))):
                    leaves[name].append(value)
            return number
        columns["truenodeids"][at] = node(tree, left - 1)
        columns["falsenodeids"][at] = node(tree, left - 1)
        return number

    for tree in range(trees):
        node(tree, depth)
    return {**{f"nodes_{name}": values for name, values in columns.items()}, **{f"{held}_{name}": values for name, values in leaves.items()}}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("targets", [1, 3])
def test_forests_of_regressors(transform, targets):
    if targets == 1 and transform in TRANSFORMS[1:4]:
        pytest.skip("ONNX Runtime leaves a single score as it is")
    x = normal(37, 5)
    for aggregate in ("SUM", "AVERAGE", "MIN", "MAX"):
        positive = transform == "PROBIT"
        forest = random_forest(7, 5, 5, targets, positive=positive)
        check("TreeEnsembleRegressor", [x], n_targets=targets, aggregate_function=aggregate, post_transform=transform,
              base_values=[0.01 * i for i in range(targets)], **forest, rtol=1e-3)


@pytest.mark.parametrize("modes", [("BRANCH_LT",), ("BRANCH_GTE",), ("BRANCH_GT",), ("BRANCH_LEQ", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")])
def test_forests_with_other_tests(modes):
    x = rng(5).integers(-2, 3, (50, 4)).astype(F32)
    x[::7, 1] = numpy.nan
    forest = random_forest(5, 6, 4, 2, modes=modes)
    forest["nodes_values"] = [float(round(value * 2)) for value in forest["nodes_values"]]
    count = len(forest["nodes_values"])
    check("TreeEnsembleRegressor", [x], n_targets=2, **forest)
    check("TreeEnsembleRegressor", [x], n_targets=2, nodes_missing_value_tracks_true=[i % 2 for i in range(count)], **forest)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("names", ["numbers", "strings"])
def test_forests_of_classifiers(transform, names):
    x = normal(41, 4)
    labels = {"classlabels_int64s": [7, 3, 5, 1]} if names == "numbers" else {"classlabels_strings": ["d", "b", "c", "a"]}
    forest = random_forest(6, 5, 4, 4, held="class", positive=transform == "PROBIT")
    check("TreeEnsembleClassifier", [x], 2, post_transform=transform, **labels, **forest, rtol=1e-3, atol=1e-4)
    check("TreeEnsembleClassifier", [x], 2, post_transform=transform, base_values=[0.1, 0.2, 0.15, 0.05], **labels, **forest, rtol=1e-3,
          atol=1e-4)
    check("TreeEnsembleClassifier", [x.astype(numpy.float64)], 2, post_transform=transform, **labels, **forest, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("transform", TRANSFORMS[:-1])  # ONNX Runtime's second PROBIT of two is what was there before
@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("ids", [[0], [1]])
def test_forests_of_two_classes(transform, positive, ids):
    x = normal(41, 4)
    forest = random_forest(6, 5, 4, 2, held="class", positive=positive, ids=ids)
    check("TreeEnsembleClassifier", [x], 2, post_transform=transform, classlabels_int64s=[0, 1], **forest, rtol=1e-3)
    check("TreeEnsembleClassifier", [x], 2, post_transform=transform, classlabels_strings=["no", "yes"], base_values=[0.1], **forest,
          rtol=1e-3)


@pytest.mark.parametrize("transform", TRANSFORMS[:-1])
def test_forests_of_two_classes_that_both_have_weights(transform):
    """The label is that of the larger score; ONNX Runtime looks at the second alone."""
    forest = random_forest(6, 5, 4, 2, held="class")
    check("TreeEnsembleClassifier", [normal(41, 4)], 2, post_transform=transform, classlabels_int64s=[0, 1], of=1, **forest, rtol=1e-3)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("classes", [2, 4])
def test_linear_classifiers(transform, classes):
    scale = 0.1 if transform == "PROBIT" else 1
    x = abs(normal(23, 3)) * scale
    rows = 1 if classes == 2 else classes
    for labels in ({"classlabels_ints": list(range(3, 3 + classes))}, {"classlabels_strings": [f"c{i}" for i in range(classes)]}):
        if classes == 2 and transform == "PROBIT":
            continue  # as above
        check("LinearClassifier", [x], 2, coefficients=(abs(normal(rows * 3, seed=1)) + 0.5).tolist(), intercepts=[0.05] * rows,
              post_transform=transform, rtol=1e-3, atol=1e-4, **labels)
    check("LinearRegressor", [x], coefficients=(abs(normal(6, seed=1)) + 0.5).tolist(), targets=2, intercepts=[0.0, 0.1],
          post_transform=transform, rtol=1e-3, atol=1e-4)


KERNELS = [("LINEAR", None), ("POLY", [0.5, 0.2, 3.0]), ("RBF", [0.3, 0.0, 0.0]), ("SIGMOID", [0.2, 0.1, 0.0])]


@pytest.mark.parametrize("kernel,parameters", KERNELS)
def test_support_vector_regressors(kernel, parameters):
    extra = {"kernel_params": parameters} if parameters else {"kernel_params": [0.0, 0.0, 0.0]}
    attributes = dict(kernel_type=kernel, n_supports=6, support_vectors=normal(24, seed=1).tolist(),
                      coefficients=normal(6, seed=2).tolist(), rho=[0.3], **extra)
    check("SVMRegressor", [normal(19, 4)], **attributes, rtol=1e-3)
    check("SVMRegressor", [normal(19, 4)], one_class=1, **attributes)


@pytest.mark.parametrize("kernel,parameters", KERNELS)
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("probabilities", [False, True])
def test_support_vector_classifiers(kernel, parameters, classes, probabilities):
    per_class, pairs = [3, 2, 4, 1][:classes], classes * (classes - 1) // 2
    vectors = sum(per_class)
    extra = {"kernel_params": parameters or [0.0, 0.0, 0.0]}
    if probabilities:
        extra.update(prob_a=(-abs(normal(pairs, seed=4)) - 0.5).tolist(), prob_b=(normal(pairs, seed=5) * 0.1).tolist())
    for labels in ({"classlabels_ints": [4, 2, 8, 6][:classes]}, {"classlabels_strings": ["p", "q", "r", "s"][:classes]}):
        check("SVMClassifier", [normal(29, 4)], 2, kernel_type=kernel, vectors_per_class=per_class,
              support_vectors=normal(vectors * 4, seed=1).tolist(), coefficients=normal(vectors * (classes - 1), seed=2).tolist(),
              rho=normal(pairs, seed=3).tolist(), rtol=2e-3, atol=1e-3, **labels, **extra)


def test_categories():
    words = numpy.array([["a", "?"], ["c", "b"]], object)
    check("OneHotEncoder", [words], cats_strings=["a", "b", "c"])
    check("OneHotEncoder", [numpy.array([[3, 9], [1, 2]])], cats_int64s=[1, 2, 3])
    check("OneHotEncoder", [numpy.array([3.0, 1.0], F32)], cats_int64s=[1, 2, 3])
    check("CategoryMapper", [words], cats_strings=["a", "b", "c"], cats_int64s=[5, 6, 7], default_int64=-3)
    check("CategoryMapper", [numpy.array([[5, 0], [7, 6]])], cats_strings=["a", "b", "c"], cats_int64s=[5, 6, 7], default_string="none")
    check("FeatureVectorizer", [normal(4, 2), normal(4, 3, seed=1)], dynamic=(0, 1), inputdimensions=[2, 3])
