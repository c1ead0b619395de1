"""Ensembles of trees: each way of following them, on random forests, against the reference evaluation and ONNX Runtime.

How trees are followed depends on the rows of a run (whole groups of sixteen rows, and the rows that are left), on the number of
trees (groups of sixteen, and those left) and on their depth (up to eight as complete trees, by steps or by masks; above ten by lists of
512 ways): all of these are chosen here.
"""

import json

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

tensmith = pytest.importorskip("tensmith")
onnxruntime = pytest.importorskip("onnxruntime")

ROWS = [0, 1, 7, 16, 17, 32, 45, 64, 130]
SCHEDULES = ("trees", "complete trees")
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def grow(draw, trees, depth, leaf=0.2):
    """Of each tree, its nodes: (left, right) or None of a leaf; by number, the root first."""
    for _ in range(trees):
        nodes, level = [None], [0]
        for _ in range(depth):
            below = []
            for node in level:
                if node == level[0] or draw.random() > leaf:
                    nodes[node] = (len(nodes), len(nodes) + 1)
                    below += nodes[node]
                    nodes += [None, None]
            level = below if len(below) < 64 else below[:64]
        yield nodes


def values(draw, modes):
    """Thresholds that rows are often equal to, where it matters."""
    return float(draw.integers(-2, 3)) if len(modes) > 1 else float(numpy.float32(draw.standard_normal()))


def by_name(draw, trees, depth, features, targets, modes=MODES[:1], held="target", spread=False, missing=None):
    """Attributes of the operators that name their nodes; leaves hold their tree's target, or several where `spread`."""
    rows, leaves = [], []
    for tree, nodes in enumerate(grow(draw, trees, depth)):
        for number, children in enumerate(nodes):
            mode = modes[int(draw.integers(len(modes)))] if children else "LEAF"
            track = 0 if missing is None else 1 if missing == "all" else int(draw.integers(2))
            rows.append((tree, number, int(draw.integers(features)), values(draw, modes), mode, *(children or (0, 0)), track))
            for target in range(targets) if spread else [tree % targets]:
                if not children and (not spread or draw.random() < 0.7):
                    leaves.append((tree, number, target, float(numpy.float32(draw.standard_normal()))))
    names = ["treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids", "missing_value_tracks_true"]
    attributes = {f"nodes_{name}": list(column) for name, column in zip(names, zip(*rows))}
    if missing is None:
        del attributes["nodes_missing_value_tracks_true"]
    return attributes | {f"{held}_{n}": list(c) for n, c in zip(["treeids", "nodeids", "ids", "weights"], zip(*leaves))}


def model_of(op, outputs, kind, features, opset=3, **attributes):
    names = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, ["x"], names, name="forest", domain="ai.onnx.ml", **attributes)
    ports = [helper.make_tensor_value_info("x", kind, ["rows", features])]
    graph = helper.make_graph([node], "trees", ports, [onnx.ValueInfoProto(name=name) for name in names])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def data(draw, rows, features, dtype, modes=MODES[:1], missing=None):
    x = draw.standard_normal((rows, features)) if len(modes) == 1 else draw.integers(-2, 3, (rows, features))
    x = x.astype(dtype)
    if missing is not None:
        x[draw.random(x.shape) < 0.2] = numpy.nan
    x[draw.random(x.shape) < 0.02] = -numpy.inf
    return x


def agree(model, draw, features, dtype, rows=ROWS, modes=MODES[:1], missing=None, onnx_runtime=True, packed=True):
    """Compiled, with one and two threads, as evaluated by reference and, unless it has no kernel, as in ONNX Runtime."""
    compiled = [tensmith.compile(model, threads=threads) for threads in (1, 2)]
    reference = tensmith.compile(model, reference=True)
    theirs = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]) if onnx_runtime else None
    labels = {kernel["label"] for kernel in compiled[0].describe()["kernels"] if kernel.get("schedule") in SCHEDULES} if packed else None
    assert labels is None or labels
    for count in rows:
        x = data(draw, count, features, dtype, modes, missing)
        wanted = [reference.run(x)] + ([theirs.run(None, {"x": x})] if theirs and count else [])
        results = [each.run(x) for each in compiled]
        for got, same in zip(*results):
            assert got.tobytes() == same.tobytes()
        for expected in wanted:
            for got, want in zip(results[0], expected):
                assert got.shape == want.shape and got.dtype == want.dtype
                numpy.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.DOUBLE])
@pytest.mark.parametrize("trees,depth", [(1, 0), (1, 1), (3, 4), (16, 6), (35, 10), (19, 11), (5, 23)])
def test_regressors(kind, trees, depth):
    draw = numpy.random.default_rng(trees)
    for targets, spread, aggregate in [(1, False, "SUM"), (1, False, "MIN"), (3, False, "SUM"), (3, True, "SUM"), (2, True, "MAX"), (2, True, "AVERAGE")]:
        attributes = by_name(draw, trees, depth, 7, targets, spread=spread)
        model = model_of("TreeEnsembleRegressor", 1, kind, 7, n_targets=targets, aggregate_function=aggregate, **attributes)
        rows = ROWS if targets == 1 else [5, 43]
        # ONNX Runtime gives 0 for a target without a tree, where the standard's tables give the type's limit.
        theirs = aggregate in ("SUM", "AVERAGE") or targets == 1
        agree(model, draw, 7, helper.tensor_dtype_to_np_dtype(kind), rows, onnx_runtime=theirs and kind == TensorProto.FLOAT)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.DOUBLE])
def test_lists_of_ways(kind):
    """Several lists for a row, a few trees of each row, and large blocks; most ways are short, one in a tree is long."""
    draw = numpy.random.default_rng(1)
    attributes = by_name(draw, 1100, 13, 5, 3)
    attributes["nodes_values"] = [-2.0 if draw.random() < 0.5 else value for value in attributes["nodes_values"]]
    model = model_of("TreeEnsembleRegressor", 1, kind, 5, n_targets=3, **attributes)
    agree(model, draw, 5, helper.tensor_dtype_to_np_dtype(kind), [1, 2, 33], onnx_runtime=kind == TensorProto.FLOAT)
    attributes = by_name(draw, 3, 13, 5, 1)
    model = model_of("TreeEnsembleRegressor", 1, kind, 5, n_targets=1, **attributes)
    agree(model, draw, 5, helper.tensor_dtype_to_np_dtype(kind), [2051], onnx_runtime=kind == TensorProto.FLOAT)


def test_many_features_beside_many_nodes():
    """Numbers of features take 15 bits of a word: too few are left to number all nodes, but not those of a tree."""
    draw = numpy.random.default_rng(2)
    attributes = by_name(draw, 3000, 4, 1, 1)
    features = len(attributes["nodes_featureids"])
    assert features > 1 << 15
    attributes["nodes_featureids"] = list(range(features))
    agree(model_of("TreeEnsembleRegressor", 1, TensorProto.FLOAT, features, n_targets=1, **attributes), draw, features, numpy.float32, [1, 17])


@pytest.mark.parametrize("missing", [None, "some", "all"])
@pytest.mark.parametrize("modes", [[mode] for mode in MODES] + [MODES[:4], MODES[1:3], MODES])
def test_all_tests_and_missing_values(modes, missing):
    draw = numpy.random.default_rng(len(modes))
    for trees, depth in [(4, 5), (17, 12)]:
        attributes = by_name(draw, trees, depth, 4, 2, modes=modes, missing=missing)
        model = model_of("TreeEnsembleRegressor", 1, TensorProto.FLOAT, 4, n_targets=2, **attributes)
        agree(model, draw, 4, numpy.float32, [1, 9, 40], modes, missing)
        agree(model, draw, 4, numpy.float32, [17], modes + ["equal numbers"], missing)


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_classifiers(classes, transform):
    draw = numpy.random.default_rng(classes)
    for spread in (False, True):
        attributes = by_name(draw, 10, 5, 6, classes, held="class", spread=spread or classes == 2)
        model = model_of("TreeEnsembleClassifier", 2, TensorProto.FLOAT, 6, classlabels_int64s=list(range(classes)),
                         post_transform=transform, **attributes)  # fmt: skip
        agree(model, draw, 6, numpy.float32, [1, 8, 33], onnx_runtime=classes > 2)


def ensemble(draw, trees, depth, features, targets, kind, modes=range(6), members=0):
    """Attributes of TreeEnsemble: nodes by number, leaves apart."""
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    columns = {name: [] for name in ("featureids", "modes", "splits", "truenodeids", "trueleafs", "falsenodeids", "falseleafs", "missing_value_tracks_true")}
    roots, sets, leaves = [], [], 0
    for nodes in grow(draw, trees, max(depth, 1)):
        places = {number: len(columns["modes"]) + i for i, number in enumerate(n for n, children in enumerate(nodes) if children)}
        leaf_places = {number: leaves + i for i, number in enumerate(n for n, children in enumerate(nodes) if not children)}
        leaves += len(leaf_places)
        roots.append(places[0])
        for number in places:
            mode = int(draw.choice(list(modes)))
            if members and draw.random() < 0.3:
                mode = 6
                sets += [*draw.choice(numpy.arange(-2.0, 3.0), int(draw.integers(members + 1)), replace=False), numpy.nan]
            row = [int(draw.integers(features)), mode, float(draw.integers(-2, 3))]
            for child in nodes[number]:
                row += [places.get(child, leaf_places.get(child)), int(child in leaf_places)]
            for name, value in zip(columns, row + [int(draw.integers(2))]):
                columns[name].append(value)
    attributes = {f"nodes_{name}": column for name, column in columns.items() if name not in ("modes", "splits")}
    attributes["nodes_modes"] = numpy_helper.from_array(numpy.array(columns["modes"], numpy.uint8))
    attributes["nodes_splits"] = numpy_helper.from_array(numpy.array(columns["splits"], dtype))
    attributes["leaf_targetids"] = [int(t) for t in draw.integers(targets, size=leaves)]
    attributes["leaf_weights"] = numpy_helper.from_array(draw.integers(-8, 9, leaves).astype(dtype) / dtype.type(4))
    if members:
        attributes["membership_values"] = numpy_helper.from_array(numpy.array(sets, dtype))
    return dict(tree_roots=roots, n_targets=targets, **attributes)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16])
@pytest.mark.parametrize("members", [0, 3])
def test_ensembles_of_opset_5(kind, members):
    draw = numpy.random.default_rng(members)
    for trees, depth in [(1, 2), (6, 5), (11, 12)]:
        for aggregate in range(4):
            model = model_of("TreeEnsemble", 1, kind, 5, opset=5, aggregate_function=aggregate,
                             **ensemble(draw, trees, depth, 5, 2, kind, members=members))  # fmt: skip
            onnx_runtime = kind == TensorProto.FLOAT and not members and aggregate < 2
            agree(model, draw, 5, helper.tensor_dtype_to_np_dtype(kind), [1, 12, 33], MODES, "some", onnx_runtime, packed=not members)


def test_a_row_does_not_depend_on_its_batch():
    draw = numpy.random.default_rng(0)
    model = model_of("TreeEnsembleRegressor", 1, TensorProto.FLOAT, 9, n_targets=1, **by_name(draw, 37, 6, 9, 1))
    compiled = tensmith.compile(model)
    x = data(draw, 75, 9, numpy.float32)
    whole = compiled(x)
    many = numpy.tile(x, (28, 1))  # enough for blocks of another size
    assert compiled(many).tobytes() == numpy.tile(whole, (28, 1)).tobytes()
    for size in (1, 3, 16, 33):
        assert numpy.concatenate([compiled(x[at : at + size]) for at in range(0, 75, size)]).tobytes() == whole.tobytes()


@pytest.mark.parametrize("target,features,modes,missing", [("host", 2, ["BRANCH_LT"], "some"), ("x86-64-v3", 30, ["BRANCH_LEQ"], None)])
def test_ways_of_following_trees_give_the_same_bits(target, features, modes, missing, tmp_path):
    """Complete trees, of more and of fewer thresholds a feature than 8 bits number, by steps, by masks and by ways."""
    draw = numpy.random.default_rng(features)
    for depth, targets in [(6, 1), (3, 2)]:
        attributes = by_name(draw, 70, depth, features, targets, modes=modes, missing=missing)
        model = model_of("TreeEnsembleRegressor", 1, TensorProto.FLOAT, features, n_targets=targets, **attributes)
        x = data(draw, 131, features, numpy.float32, missing=missing)
        x[:40, 0] = draw.choice(attributes["nodes_values"], 40)
        wanted = tensmith.compile(model, reference=True)(x)
        plain = tensmith.compile(model, target=target)
        (kernel,) = [kernel for kernel in plain.describe()["kernels"] if kernel.get("schedule") in SCHEDULES]
        assert kernel["schedule"] == "complete trees"
        numpy.testing.assert_allclose(plain(x), wanted, rtol=1e-5, atol=1e-5)
        for choice in [{"complete_trees": 0}, {"masked_rows": 1, "block_rows": 96}, {"masked_rows": 64}, {"masked_rows": 64, "looked_up": 0}]:
            path = tmp_path / "schedules.json"
            path.write_text(json.dumps({"schedules": [{"nodes": ["forest"], **choice}]}))
            assert tensmith.compile(model, target=target, schedules=path)(x).tobytes() == plain(x).tobytes(), choice


@pytest.mark.parametrize("target", ["host", "host,-avx512vbmi"])
@pytest.mark.parametrize("depth,features,thresholds", [(1, 5, 3), (5, 30, 200), (6, 40, 8), (6, 28, 255), (6, 3, 900), (7, 100, 40), (8, 12, 255)])
def test_nodes_that_are_looked_up(depth, features, thresholds, target):
    """Breaks if a row's ranks, more or fewer registers of them, a deep tree's words, or a level of a search tree are read at the wrong
    place. By bytes and by 16-bit numbers, where the machine has such look-ups."""
    draw = numpy.random.default_rng(depth)
    attributes = by_name(draw, 150, depth, features, 1, modes=["BRANCH_LT"], missing="some")
    cuts = draw.standard_normal(thresholds).astype(numpy.float32)
    attributes["nodes_values"] = [float(draw.choice(cuts)) for _ in attributes["nodes_values"]]
    module = tensmith.compile(model_of("TreeEnsembleRegressor", 1, TensorProto.FLOAT, features, n_targets=1, **attributes), target=target)
    x = data(draw, 70, features, numpy.float32, missing="some")
    x[:40] = draw.choice(cuts, (40, features))
    x[:20, ::2] = numpy.nan
    whole = module(x)  # by masks, but for the last rows
    assert numpy.concatenate([module(row[None]) for row in x]).tobytes() == whole.tobytes()
    wanted = tensmith.compile(model_of("TreeEnsembleRegressor", 1, TensorProto.FLOAT, features, n_targets=1, **attributes), reference=True)(x)
    numpy.testing.assert_allclose(whole, wanted, rtol=1e-4, atol=1e-4)


# Breaks if a feature has more thresholds than its ranks have numbers.
def test_more_thresholds_of_a_feature_than_16_bits_number():
    draw = numpy.random.default_rng(5)
    attributes = by_name(draw, 260, 8, 1, 1, modes=["BRANCH_LEQ"])
    model = model_of("TreeEnsembleRegressor", 1, TensorProto.FLOAT, 1, n_targets=1, **attributes)
    x = draw.choice(attributes["nodes_values"], (200, 1)).astype(numpy.float32)
    module = tensmith.compile(model)
    assert module(x).tobytes() == numpy.concatenate([module(row[None]) for row in x]).tobytes()


def test_a_feature_that_x_does_not_have():
    draw = numpy.random.default_rng(0)
    attributes = by_name(draw, 3, 4, 9, 1)
    with pytest.raises(tensmith.Error, match="forest.*feature"):
        tensmith.compile(model_of("TreeEnsembleRegressor", 1, TensorProto.FLOAT, None, n_targets=1, **attributes))(numpy.zeros((2, 4), numpy.float32))


def test_numbers_at_the_edge():
    """Thresholds and features at infinities, zeros of both signs and next to one another."""
    for modes in ([mode] for mode in MODES[:4]):
        draw = numpy.random.default_rng(3)
        numbers = [0.0, -0.0, 1e-45, -1e-45, 1.0, float(numpy.nextafter(numpy.float32(1), numpy.float32(2))), numpy.inf, -numpy.inf, 3.4e38]
        attributes = by_name(draw, 40, 3, 2, 1, modes=modes + MODES[:2])
        attributes["nodes_values"] = [float(numpy.float32(numbers[int(i)])) for i in draw.integers(len(numbers), size=len(attributes["nodes_values"]))]
        model = model_of("TreeEnsembleRegressor", 1, TensorProto.FLOAT, 2, n_targets=1, **attributes)
        x = numpy.array([[a, b] for a in numbers + [numpy.nan] for b in numbers + [numpy.nan]], numpy.float32)
        wanted = onnxruntime.InferenceSession(model).run(None, {"x": x})[0]
        for reference in (False, True):
            numpy.testing.assert_allclose(tensmith.compile(model, reference=reference)(x), wanted, rtol=1e-5, atol=1e-5)


WILD = """
func.func @main(%x: tensor<3x4xf32>, %columns: tensor<2xi32>, %nodes: tensor<3x2xi32>, %trees: tensor<1x2xi32>) -> tensor<3x1xf32> {{
  %none = graph.none : none
  {begin}
  %y = graph.tree_ensemble {operands} {{targets = 1 : i64, column_bits = 2 : i64, depth = {depth} : i64}} :
    (tensor<3x4xf32>, tensor<2xi32>, tensor<3x2xi32>, tensor<1x2xi32>, none) -> tensor<3x1xf32>
  {end}
}}
"""
IN_A_KERNEL = (
    """%z = graph.kernel %x, %columns, %nodes, %trees {label = "wild", kind = "trees"} :
    (tensor<3x4xf32>, tensor<2xi32>, tensor<3x2xi32>, tensor<1x2xi32>) -> tensor<3x1xf32> {
    ^bb0(%a: tensor<3x4xf32>, %b: tensor<2xi32>, %c: tensor<3x2xi32>, %d: tensor<1x2xi32>):
    %no = graph.none : none""",
    """graph.yield %y : tensor<3x1xf32>
  }
  return %z : tensor<3x1xf32>""",
)


@pytest.mark.parametrize("in_a_kernel", [False, True])
def test_a_forest_that_only_the_run_knows(in_a_kernel, tmp_path):
    """It may lead anywhere, so no compiled code follows it."""
    begin, end = IN_A_KERNEL if in_a_kernel else ("", "return %y : tensor<3x1xf32>")
    operands = "%a, %b, %c, %d, %no" if in_a_kernel else "%x, %columns, %nodes, %trees, %none"
    path = tmp_path / "wild.mlir"
    path.write_text(WILD.format(begin=begin, end=end, operands=operands, depth=3))
    compiled = tensmith.compile(path)
    assert not any(kernel.get("schedule") in SCHEDULES for kernel in compiled.describe()["kernels"])
    x, columns, trees = numpy.zeros((3, 4), numpy.float32), numpy.array([0, 3], numpy.int32), numpy.zeros((1, 2), numpy.int32)
    number = numpy.array([0.5, 10, 20], numpy.float32).view(numpy.int32)

    def nodes(*words):
        return numpy.stack([number, [ahead << 4 | column for ahead, column in words]], 1).astype(numpy.int32)

    assert compiled(x, columns, nodes((1, 1), (0, 2), (0, 2)), trees).tolist() == [[10.0]] * 3
    for words in [((2, 1), (0, 2), (0, 2)), ((1 << 20, 1), (0, 2), (0, 2)), ((1, 1), (5, 0), (0, 2)), ((1, 3), (0, 2), (0, 2))]:
        x[:] = 1 if words[0][0] == 2 else 0
        with pytest.raises(tensmith.Error):
            compiled(x, columns, nodes(*words), trees)
    with pytest.raises(tensmith.Error):
        compiled(x, numpy.array([0, 4], numpy.int32), nodes((1, 1), (0, 2), (0, 2)), trees)
