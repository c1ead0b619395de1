"""Choices for kernels as data: what a module was made by makes it again, and each choice can be asked for."""

import json
import pathlib
import subprocess

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

tensmith = pytest.importorskip("tensmith")
COMMAND = pathlib.Path(tensmith.__file__).resolve().parents[2] / "bin/tensmith"

ROWS, DEPTH, COLUMNS = 37, 1100, 75


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A convolution that minimal filtering is for, a depthwise one, a product with a long sum, a chain behind it, and a loop
    over elements."""
    random = numpy.random.default_rng(11)

    def weights(*shape):
        return (random.standard_normal(shape) / numpy.sqrt(numpy.prod(shape[1:]))).astype("float32")

    constants = {"w": weights(64, 64, 3, 3), "d": weights(64, 1, 3, 3), "m": weights(DEPTH, COLUMNS)}
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], name="wide", pads=[1, 1, 1, 1]),
             helper.make_node("Conv", ["c", "d"], ["y"], name="deep", group=64),
             helper.make_node("MatMul", ["a", "m"], ["p"], name="long"),
             helper.make_node("Tanh", ["p"], ["t"], name="chain"),
             helper.make_node("Transpose", ["t"], ["z"], name="turned"),
             helper.make_node("Tanh", ["a"], ["u"], name="loop")]
    inputs = {"x": (1, 64, 33, 30), "a": (ROWS, DEPTH)}
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
                              [onnx.ValueInfoProto(name=name) for name in "yzu"],
                              [numpy_helper.from_array(value, name) for name, value in constants.items()])
    path = tmp_path_factory.mktemp("schedules") / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path, [random.standard_normal(shape).astype("float32") for shape in inputs.values()]


def chosen(compiled):
    return json.loads(compiled.describe()["metadata"]["schedules"])


def written(path, entries):
    path.write_text(json.dumps({"schedules": entries}))
    return path


def test_what_was_chosen_can_be_asked_for(model, tmp_path):
    """Breaks if the command prints what it does not read, or a choice that was made differs from the one that is told."""
    path, values = model
    texts, results = [], []
    for module in ("first.so", "second.so"):
        command = [COMMAND, "compile", path, "-o", tmp_path / module]
        if texts:
            command += ["--schedules", tmp_path / "schedules.json"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0 and "schedules.json" not in done.stderr, done.stderr
        shown = subprocess.run([COMMAND, "inspect", tmp_path / module, "--chosen-schedules"], capture_output=True, text=True)
        assert shown.returncode == 0, shown.stderr
        # What is asked for is not tried against the bound, and so nothing is refused then.
        entries = json.loads(shown.stdout)["schedules"]
        texts.append([{key: value for key, value in entry.items() if key != "refused"} for entry in entries])
        (tmp_path / "schedules.json").write_text(shown.stdout)
        results.append([numpy.asarray(result) for result in tensmith.load(tmp_path / module).run(*values)])
    assert len(texts[0]) >= 4 and texts[0] == texts[1]
    assert all((a == b).all() for a, b in zip(*results))


def of_kernel(compiled, *beginnings):
    """Of each structure what was decided for the operator, and the point of its kernel, as one."""
    merged = {}
    for entry in chosen(compiled):
        if entry["kernel"].startswith(beginnings):
            merged.setdefault((entry["kernel"], *entry.get("nodes", [])), {}).update(entry)
    return list(merged.values())


WIDE, DEEP, LONG = "conv 1x33x30x64:f32 64x64", "conv 1x33x30x64:f32 64x1x", "matmul 37x1100"


def saved(path, nodes, inputs, constants=()):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
                              [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(v, n) for n, v in dict(constants).items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def spaces_of(path):
    shown = subprocess.run([COMMAND, "inspect", path, "--spaces", "--json"], capture_output=True, text=True, check=True)
    return json.loads(shown.stdout)


@pytest.mark.parametrize("name", ["softmax", "scale", "bias", "relu"])
def test_an_operator_can_be_kept_out_of_the_kernel_that_reads_it(tmp_path, name):
    """Breaks if fusion takes in what a schedule keeps apart, in attention or behind a product, or the choice isn't offered."""
    random = numpy.random.default_rng(3)
    nodes = [helper.make_node("MatMul", ["q", "k"], ["s"], name="scores"), helper.make_node("Mul", ["s", "c"], ["t"], name="scale"),
             helper.make_node("Softmax", ["t"], ["p"], name="softmax", axis=-1), helper.make_node("MatMul", ["p", "v"], ["a"], name="product"),
             helper.make_node("Add", ["a", "b"], ["h"], name="bias"), helper.make_node("Relu", ["h"], ["r"], name="relu"),
             helper.make_node("Neg", ["r"], ["y"], name="last")]
    path = saved(tmp_path / "m.onnx", nodes, {"q": (2, 40, 32), "k": (2, 32, 40), "v": (2, 40, 32)},
                 {"c": numpy.float32(0.2), "b": random.standard_normal(32).astype("float32")})
    values = [random.standard_normal(shape).astype("float32") for shape in ((2, 40, 32), (2, 32, 40), (2, 40, 32))]
    offered = {choice["choice"]: choice["values"] for space in spaces_of(path) for choice in space["choices"] if any(name in node for node in space["nodes"])}
    assert offered["fused"] == [0, 1]
    whole = tensmith.compile(path)
    apart = tensmith.compile(path, schedules=written(tmp_path / "s.json", [{"nodes": [name], "fused": 0}]))
    assert len(apart.describe()["kernels"]) > len(whole.describe()["kernels"])
    for a, b in zip(apart.run(*values), whole.run(*values)):
        assert numpy.abs(a - b).max() <= 1e-5 * numpy.abs(b).max()
    assert any(entry.get("fused") == 0 for entry in chosen(apart)) and not any("fused" in entry for entry in chosen(whole))


@pytest.mark.parametrize("last", [0, 1])
def test_the_order_of_channels_of_pools_can_be_asked_for(tmp_path, last):
    """Breaks if estimates alone decide whether pools without a convolution are turned, or pools of a group differ."""
    nodes = [helper.make_node("MaxPool", ["x"], ["p"], name="first", kernel_shape=[3, 3], strides=[2, 2]),
             helper.make_node("Relu", ["p"], ["r"], name="relu"),
             helper.make_node("AveragePool", ["r"], ["y"], name="second", kernel_shape=[3, 3])]
    path = saved(tmp_path / "m.onnx", nodes, {"x": (1, 24, 33, 31)})
    x = numpy.random.default_rng(5).standard_normal((1, 24, 33, 31)).astype("float32")
    ours = tensmith.compile(path, schedules=written(tmp_path / "s.json", [{"nodes": ["second"], "channels_last": last}]))
    told = [entry["channels_last"] for entry in chosen(ours) if "channels_last" in entry]
    assert told == [last, last]
    turned = any("squares" in kernel["schedule"] or "transpose" in kernel["label"] for kernel in ours.describe()["kernels"])
    assert turned == bool(last)
    [wanted], [got] = tensmith.compile(path).run(x), ours.run(x)
    assert numpy.abs(got - wanted).max() <= 1e-6


@pytest.mark.parametrize("node,kernel,choices,shown", [
    ("wide", WIDE, {"winograd_outputs": 2}, {}),
    ("wide", WIDE, {"winograd_outputs": 6}, {}),
    ("wide", WIDE, {"winograd_outputs": 0, "tile_rows": 3, "panel_vectors": 1, "item_tiles": 5, "item_panels": 2,
                    "rows_apart": 1}, {}),
    ("wide", WIDE, {"winograd_outputs": 0, "tile_rows": 9, "panel_vectors": 3, "item_tiles": 1000, "item_panels": 1,
                    "rows_apart": 0}, {"item_tiles": 110}),
    ("wide", WIDE, {"winograd_outputs": 0, "depth_block": 16, "item_panels": 1}, {}),
    ("wide", WIDE, {"winograd_outputs": 0, "depth_block": 48, "tile_rows": 5, "panel_vectors": 1, "item_tiles": 7}, {}),
    ("deep", DEEP, {"tile_rows": 5, "panel_vectors": 1, "item_tiles": 2}, {}),
    ("long", LONG, {"tile_rows": 1, "depth_block": 48, "panel_vectors": 4}, {}),
    ("long", LONG, {"tile_rows": 16, "depth_block": 4096, "item_tiles": 1}, {"tile_rows": 13}),
    ("loop", "tanh 37x1100", {"item_elements": 5}, {}),
])
def test_each_choice_can_be_asked_for(model, tmp_path, node, kernel, choices, shown):
    """Breaks if a choice is not taken, or gives other results than rounding may."""
    path, values = model
    wanted = tensmith.compile(path).run(*values)
    ours = tensmith.compile(path, schedules=written(tmp_path / "s.json", [{"nodes": [node], **choices}]), threads=2)
    for a, b in zip(ours.run(*values), wanted):
        assert numpy.abs(a - b).max() <= 2e-5 * numpy.abs(b).max()
    [entry] = of_kernel(ours, kernel)
    expected = choices | shown
    assert {key: entry.get(key) for key in expected} == expected


@pytest.mark.parametrize("shape,columns", [((38, 64), 50), ((37, 65), 51), ((3, 7, 33), 20), ((2, 5), 2)])
def test_a_product_by_quarters(tmp_path, shape, columns):
    """Breaks if quarters of odd sizes are not filled up and cut off, rows of a stack are mixed up, or the error is not told."""
    random = numpy.random.default_rng(3)
    x, w = random.standard_normal(shape).astype("float32"), random.standard_normal((shape[-1], columns)).astype("float32")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["p"], name="product"), helper.make_node("Relu", ["p"], ["y"])],
                              "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)], [onnx.ValueInfoProto(name="y")],
                              [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    asked = written(tmp_path / "s.json", [{"nodes": ["product"], "strassen_steps": 1}])
    by_quarters, plain = tensmith.compile(model, schedules=asked), tensmith.compile(model)
    wanted = numpy.maximum(x.astype("float64") @ w, 0)
    result = numpy.asarray(by_quarters.run(x)[0])
    assert result.shape == wanted.shape and numpy.abs(result - wanted).max() <= 1e-5 * numpy.abs(wanted).max()
    [step] = [entry for entry in chosen(by_quarters) if entry.get("strassen_steps")]
    assert 0 < step["error"] < 1e-5
    assert len(of_kernel(by_quarters, "matmul")) > len(of_kernel(plain, "matmul")) and not any(
        entry.get("strassen_steps") for entry in chosen(plain))


def test_later_entries_override_and_the_structure_is_enough(model, tmp_path):
    path, _ = model
    [entry] = of_kernel(tensmith.compile(path), LONG)
    asked = [{"kernel": entry["kernel"], "depth_block": size} for size in (64, 128)]
    [entry] = of_kernel(tensmith.compile(path, schedules=written(tmp_path / "s.json", asked)), LONG)
    assert entry["depth_block"] == 128


def convolution(dilation=1, pads=1, follower="Relu"):
    random = numpy.random.default_rng(3)
    w = random.standard_normal((24, 16, 3, 3)).astype("float32")
    nodes = [helper.make_node("Conv", ["image", "w"], ["c"], name="conv", dilations=[dilation] * 2, pads=[pads] * 4, strides=[2, 2]),
             helper.make_node(follower, ["c"], ["y"], name="after")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("image", TensorProto.FLOAT, ("pictures", 16, 20, 20))],
                              [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(w, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def keys_of(data, **options):
    return {entry["key"] for entry in chosen(tensmith.compile(data, **options)) if "tile_rows" in entry}


def test_keys_are_those_of_what_is_computed(tmp_path):
    """Breaks if kernels that differ in an attribute, in what follows, in the machine or the precision have one key, or the
    same kernel of another model has another: with other names of nodes and sizes, and beside other layers."""
    [key] = keys_of(convolution())
    for other in (convolution(dilation=2, pads=2), convolution(pads=0), convolution(follower="Tanh")):
        assert key not in keys_of(other)
    assert key not in keys_of(convolution(), target="x86-64-v3") and key not in keys_of(convolution(), precision="exact")
    model = onnx.load_from_string(convolution())
    for port in (*model.graph.input, *model.graph.output):
        port.name = {"image": "other", "y": "z"}[port.name]
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    for node in model.graph.node:
        node.name += " of another model"
        node.input[0] = {"image": "other"}.get(node.input[0], node.input[0])
        node.output[0] = {"y": "z"}.get(node.output[0], node.output[0])
    model.graph.node.append(helper.make_node("Softmax", ["z"], ["s"], name="more"))
    model.graph.output.append(onnx.ValueInfoProto(name="s"))
    assert key in keys_of(model.SerializeToString())


def test_keys_of_decisions_know_no_calibration():
    """Breaks if what a calibration notes on a layer is part of its key: a file of one would fit nothing without it."""
    plain, calibrated = ({entry["key"] for entry in chosen(tensmith.compile(convolution(), shapes={"pictures": 1}, **options))}
                         for options in ({}, {"calibrate": "random"}))
    assert plain == calibrated


def test_nodes_with_points_of_their_own(tmp_path):
    """Breaks if what was chosen for two nodes of one key doesn't make the same module again."""
    w = numpy.random.default_rng(1).standard_normal((32, 32)).astype("float32")
    nodes = [helper.make_node("MatMul", ["a", "w"], ["p"], name="one"), helper.make_node("MatMul", ["b", "w"], ["q"], name="two")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(n, TensorProto.FLOAT, ("n", 32)) for n in "ab"],
                              [onnx.ValueInfoProto(name=name) for name in "pq"], [numpy_helper.from_array(w, "w")])
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    asked = [{"nodes": [node], "sizes": [size], "tile_rows": rows} for node, size, rows in (
        ("one", 1, 2), ("one", 16, 3), ("two", 2, 4), ("two", 32, 5), ("two", 64, 7))]
    told = chosen(tensmith.compile(data, schedules=written(tmp_path / "s.json", asked)))
    assert [(entry["nodes"], entry["sizes"], entry["tile_rows"]) for entry in told] == [
        ([f"{entry['nodes'][0]} (MatMul)"], entry["sizes"], entry["tile_rows"]) for entry in asked]
    assert chosen(tensmith.compile(data, schedules=written(tmp_path / "t.json", told))) == told


def test_a_point_is_found_by_its_key(tmp_path):
    """Breaks if a point changes the key that it is found by (its panels are another form of the weights), or fits another key."""
    data = convolution()
    [key] = keys_of(data)
    asked = {"tile_rows": 3, "panel_vectors": 1, "item_tiles": 2}
    path = written(tmp_path / "s.json", [{"key": key, **asked}, {"key": "0" * 16, "tile_rows": 5}])
    (tmp_path / "m.onnx").write_bytes(data)
    made = subprocess.run([COMMAND, "compile", "m.onnx", "-o", "m.so", "--schedules", "s.json"], cwd=tmp_path, capture_output=True,
                          text=True, check=True)
    assert "entry 2 fits no kernel of the model: key 0000000000000000" in made.stderr and "entry 1" not in made.stderr
    compiled = tensmith.load(tmp_path / "m.so")
    [entry] = [entry for entry in chosen(compiled) if "tile_rows" in entry]
    assert entry["key"] == key and {name: entry[name] for name in asked} == asked
    x = numpy.random.default_rng(1).standard_normal((2, 16, 20, 20)).astype("float32")
    wanted = numpy.asarray(tensmith.compile(data).run(x)[0])
    assert numpy.abs(numpy.asarray(compiled.run(x)[0]) - wanted).max() <= 1e-5 * numpy.abs(wanted).max()


def test_points_for_different_sizes(tmp_path):
    """Breaks if a point is taken for all sizes, is not told as it was asked for, or makes results wrong; or if a fifth is taken."""
    data = convolution()
    [key] = keys_of(data)
    asked = [{"key": key, "item_panels": 1}, {"key": key, "sizes": [1], "tile_rows": 3, "item_tiles": 1},
             {"key": key, "sizes": [16], "tile_rows": 8, "item_tiles": 7}]
    compiled = tensmith.compile(data, schedules=written(tmp_path / "s.json", asked))
    told = [entry for entry in chosen(compiled) if entry["key"] == key]
    assert [(entry["sizes"], entry["tile_rows"], entry["item_tiles"], entry["item_panels"]) for entry in told] == [
        ([1], 3, 1, 1), ([16], 8, 7, 1)]
    again = tensmith.compile(data, schedules=written(tmp_path / "s.json", chosen(compiled)))
    assert chosen(again) == chosen(compiled)
    plain = tensmith.compile(data)
    for pictures in (0, 1, 3, 5, 40):
        x = numpy.random.default_rng(pictures).standard_normal((pictures, 16, 20, 20)).astype("float32")
        a, b = (numpy.asarray(model.run(x)[0]) for model in (compiled, plain))
        assert a.shape == b.shape and numpy.abs(a - b).max(initial=0) <= 1e-5 * numpy.abs(b).max(initial=0)
    for sizes, message in (([2], "entry 5: is one more than the 4"), ([0], "entry 1: .*from 1 on"), ("3", "entry 1: .*list of whole")):
        entries = [{"key": key, "sizes": sizes if isinstance(sizes, str) else [size * bool(sizes[0])]} for size in range(1, 6)]
        with pytest.raises(tensmith.Error, match=message):
            tensmith.compile(data, schedules=written(tmp_path / "s.json", entries))


def test_spaces_are_shown(tmp_path):
    """Breaks if the spaces leave out a choice that is told, or a value that the kernel took; or if text and JSON differ."""
    (tmp_path / "m.onnx").write_bytes(convolution())
    shown = subprocess.run([COMMAND, "inspect", "m.onnx", "--spaces"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    done = subprocess.run([COMMAND, "inspect", "m.onnx", "--spaces", "--json"], cwd=tmp_path, capture_output=True, text=True, check=True)
    spaces = {space["key"]: space for space in json.loads(done.stdout)}
    for entry in chosen(tensmith.compile(convolution())):
        values = {choice["choice"]: choice["values"] for choice in spaces[entry["key"]]["choices"]}
        assert set(entry) - {"key", "kernel", "nodes", "error", "refused"} <= set(values)
        for name in ("tile_rows", "panel_vectors", "winograd_outputs"):
            assert name not in entry or entry[name] in values[name]
    assert all(f"{key} {space.get('template', 'decision')}: {space['kernel']}, {space['points']} points" in shown
               for key, space in spaces.items())
    tensmith.compile(convolution()).save(tmp_path / "m.so")
    refused = subprocess.run([COMMAND, "inspect", "m.so", "--spaces"], cwd=tmp_path, capture_output=True, text=True)
    assert refused.returncode == 2


def test_the_error_of_a_transform_is_told(model):
    [entry] = [entry for entry in chosen(tensmith.compile(model[0])) if entry.get("winograd_outputs")]
    assert 1e-8 < entry["error"] <= 1e-5


@pytest.mark.parametrize("text,message", [
    ("{", "s.json"),
    ("[]", "schedules"),
    ('{"schedules": [{"kernel": "matmul", "tile_row": 3}]}', 'entry 1: "tile_row" is no choice; there are key, kernel, nodes, .*tile_rows'),
    ('{"schedules": [{"nodes": ["a"], "tile_rows": 3}, {"nodes": ["long"], "tile_rows": 0}]}', "entry 2: .*from 1 to 16"),
    ('{"schedules": [{"nodes": ["long"], "depth_block": 40}]}', "multiple of 16"),
    ('{"schedules": [{"nodes": ["long"], "tile_rows": 2.5}]}', "whole number"),
    ('{"schedules": [{"nodes": "long", "tile_rows": 2}]}', "list of names"),
    ('{"schedules": [{"tile_rows": 2}]}', "neither"),
])
def test_bad_files_are_refused(model, tmp_path, text, message):
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(tensmith.Error, match=message):
        tensmith.compile(model[0], schedules=tmp_path / "s.json")


def test_no_file_and_entries_for_nothing(model, tmp_path):
    with pytest.raises(tensmith.Error, match="nowhere.json"):
        tensmith.compile(model[0], schedules=tmp_path / "nowhere.json")
    file = written(tmp_path / "s.json", [{"nodes": ["nobody"], "tile_rows": 2}, {"nodes": ["wide"], "winograd_outputs": 4}])
    done = subprocess.run([COMMAND, "compile", model[0], "-o", tmp_path / "m.so", "--schedules", file], capture_output=True, text=True)
    assert done.returncode == 0 and "entry 1 fits no kernel of the model: node nobody" in done.stderr
    assert "entry 2" not in done.stderr


@pytest.mark.parametrize("node,choice,options", [
    ("wide", {"winograd_outputs": 4}, ["--precision", "exact"]),
    ("wide", {"operand_bits": 16}, []),
    ("deep", {"winograd_outputs": 2}, []),
    ("long", {"item_elements": 2}, []),
])
def test_what_no_kernel_takes_is_told(model, tmp_path, node, choice, options):
    file = written(tmp_path / "s.json", [{"nodes": [node], **choice}])
    done = subprocess.run([COMMAND, "compile", model[0], "-o", tmp_path / "m.so", "--schedules", file, *options],
                          capture_output=True, text=True)
    assert done.returncode == 0 and f'entry 1: no kernel that it fits takes "{next(iter(choice))}"' in done.stderr


@pytest.mark.parametrize("text", ["[" * 300_000, '{"schedules": [{"kernel": "a", "error": ' + "[" * 300_000])
def test_deep_files_are_refused(model, tmp_path, text):
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(tensmith.Error, match="nested too deep"):
        tensmith.compile(model[0], schedules=tmp_path / "s.json")


def test_weights_that_are_not_finite_stay_with_the_plain_convolution(tmp_path):
    """Breaks if a tile is taken whose error can't be told; asked for, it is taken, and the description stays JSON."""
    w = numpy.full((64, 64, 3, 3), 0.01, "float32")
    w[0, 0, 0, 0] = numpy.inf
    graph = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["y"], name="c", pads=[1, 1, 1, 1])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 64, 33, 30))],
                              [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(w, "w")])
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    plain = tensmith.compile(data)
    [entry] = of_kernel(plain, "conv")
    assert entry["winograd_outputs"] == 0
    asked = tensmith.compile(data, schedules=written(tmp_path / "s.json", [{"nodes": ["c"], "winograd_outputs": 4}]))
    assert [entry["winograd_outputs"] for entry in of_kernel(asked, "conv")] == [4]


FAR_DEPTH, FAR_COLUMNS = 2501, 771  # of f32, more than a core's cache holds


def far_product(rows):
    random = numpy.random.default_rng(17)
    w = (random.standard_normal((FAR_DEPTH, FAR_COLUMNS)) / FAR_DEPTH ** 0.5).astype("float32")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, FAR_DEPTH])],
                              [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(w, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString(), w


def test_few_rows_pass_weights_as_they_arrive():
    """Breaks if blocks of the depth are lost or counted twice, if the number of threads changes sums, or where only the run
    knows the rows, if it chooses otherwise than the compiler would."""
    w = far_product("rows")[1]
    random = numpy.random.default_rng(18)
    exact = lambda rows, **more: tensmith.compile(far_product(rows)[0], precision="exact", **more)  # "fast" may choose Strassen's
    anyhow = [exact("rows", threads=threads) for threads in (1, 2)]
    for rows in (1, 2, 6, 7, 13, 29, 48, 49, 90, 144, 145, 400):
        x = random.standard_normal((rows, FAR_DEPTH)).astype("float32")
        wanted = numpy.maximum(x.astype("float64") @ w, 0)
        ours = exact(rows)
        results = [numpy.asarray(compiled.run(x)[0]) for compiled in (ours, *anyhow)]
        assert numpy.abs(results[0] - wanted).max() <= 1e-5 * numpy.abs(wanted).max()
        numpy.testing.assert_array_equal(results[1], results[2])
        numpy.testing.assert_allclose(results[1], results[0], rtol=0, atol=1e-5 * numpy.abs(wanted).max())
        [entry] = of_kernel(ours, "matmul")
        tiles = -(-rows // entry["tile_rows"])
        streams = entry.get("depth_block", FAR_DEPTH) < FAR_DEPTH and entry["item_panels"] == 1 and entry["item_tiles"] >= tiles
        assert streams == (1 < tiles <= 24), entry


def prefetches_of(rows, tmp_path, target):
    """How many a kernel of such a product has."""
    (tmp_path / "m.onnx").write_bytes(far_product(rows)[0])
    subprocess.run([COMMAND, "compile", "m.onnx", "-o", "m.so", "--precision", "exact", "--target", target, "--dump-ir", target],
                   cwd=tmp_path, check=True, capture_output=True, timeout=300)
    [text] = [path.read_text() for path in (tmp_path / target).glob("kernel-*.mlir") if "vector" in path.read_text()]
    return text.count("llvm.intr.prefetch")


def test_weights_are_asked_for_before_they_are_multiplied(tmp_path):
    """Results are the same without; breaks if a tile by itself no longer prefetches lines ahead, or several the next panel."""
    assert prefetches_of(1, tmp_path, "icelake-server") > 0
    assert prefetches_of(24, tmp_path, "cooperlake") > 0


@pytest.mark.parametrize("channels, outputs, dilation, sizes", [(1601, 70, 1, (9, 10)), (1600, 130, 5, (8, 13)), (40, 30, 9, (11, 7))])
def test_windows_over_many_channels_and_taps_far_apart(channels, outputs, dilation, sizes):
    """Breaks if parts of a window's sum are lost or counted twice, or a tap is left out that a pixel of the tile reaches."""
    random = numpy.random.default_rng(channels)
    w = (random.standard_normal((outputs, channels, 3, 3)) / (9 * channels) ** 0.5).astype("float32")
    x = random.standard_normal((2, channels, *sizes)).astype("float32")
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[dilation] * 4, dilations=[dilation] * 2)
    padded = numpy.pad(x.astype("float64"), [(0, 0), (0, 0), (dilation, dilation), (dilation, dilation)])
    wanted = sum(numpy.einsum("ncij,oc->noij", padded[:, :, i * dilation:i * dilation + sizes[0], j * dilation:j * dilation + sizes[1]],
                              w[:, :, i, j], optimize=True) for i in range(3) for j in range(3))
    for shape in (x.shape, ("n", channels, "h", "w")):
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                                  [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(w, "w")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
        results = [numpy.asarray(tensmith.compile(model, threads=threads, precision="exact").run(x)[0]) for threads in (1, 2)]
        numpy.testing.assert_array_equal(*results)
        assert numpy.abs(results[0] - wanted).max() <= 1e-5 * numpy.abs(wanted).max()


def stages(layers, channels, size):
    """Convolutions behind one another, all of the same sizes."""
    random, nodes, weights, x = numpy.random.default_rng(layers), [], [], "x"
    for layer in range(layers):
        values = random.standard_normal((channels, channels, 3, 3)) / numpy.sqrt(9 * channels)
        weights.append(numpy_helper.from_array(values.astype("float32"), f"w{layer}"))
        nodes += [helper.make_node("Conv", [x, f"w{layer}"], [f"c{layer}"], name=f"c{layer}", pads=[1] * 4),
                  helper.make_node("Relu", [f"c{layer}"], [f"r{layer}"])]
        x = f"r{layer}"
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, channels, size, size))],
                              [onnx.ValueInfoProto(name=x)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


BUDGET = 56 << 20  # and a third of the constants


def added(tiles, plain):
    return sum(plain * ((tile + 2) ** 2 / 9 - 1) for tile in tiles if tile)


def tiles_of(compiled, layers):
    tiles = [entry["winograd_outputs"] for entry in of_kernel(compiled, "conv") if "winograd_outputs" in entry for _ in entry.get("nodes", range(layers))]
    assert len(tiles) == layers
    return tiles


@pytest.mark.parametrize("layers,channels,size", [(2, 512, 28), (5, 512, 28), (5, 1024, 14)])
def test_weights_of_transforms_keep_to_a_budget(layers, channels, size):
    """Breaks if frequencies take more memory than they may, or much less; of the last model not even the smallest for each layer."""
    plain = channels * channels * 9 * 4
    allowed = layers * plain / 3 + BUDGET
    tiles = tiles_of(tensmith.compile(stages(layers, channels, size)), layers)
    assert 0 < added(tiles, plain) <= allowed
    assert (min(tiles) == 0) == (added([2] * layers, plain) > allowed)
    # Those of one step more: all, or too many.
    least = min(tiles)
    larger = {0: 2, 2: 4}.get(least)
    assert larger is None or added(tiles, plain) + added([larger], plain) - added([least], plain) > allowed


def test_tiles_that_are_asked_for_are_beyond_the_budget(tmp_path):
    layers, channels = 3, 512
    asked = written(tmp_path / "s.json", [{"nodes": [f"c{layer}" for layer in range(layers)], "winograd_outputs": 6}])
    tiles = tiles_of(tensmith.compile(stages(layers, channels, 14), schedules=asked), layers)
    assert tiles == [6] * layers and added(tiles, channels * channels * 9 * 4) > layers * channels * channels * 12 + BUDGET


def last_stage(pictures):
    """A picture of three channels becomes 512 of a 64th of its height and width, by one convolution, and goes through three layers."""
    random = numpy.random.default_rng(0)
    weights = [onnx.numpy_helper.from_array((random.normal(size=(512, 3, 64, 64)) / 60).astype(numpy.float32), "w")]
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], strides=[64, 64], name="first")]
    for layer in range(3):
        weights.append(onnx.numpy_helper.from_array((random.normal(size=(512, 512, 3, 3)) / 70).astype(numpy.float32), f"w{layer}"))
        nodes += [helper.make_node("Conv", [f"r{layer - 1}" if layer else "y", f"w{layer}"], [f"c{layer}"], pads=[1, 1, 1, 1], name=f"c{layer}"),
                  helper.make_node("Relu", [f"c{layer}"], [f"r{layer}"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, *pictures])],
                              [onnx.ValueInfoProto(name="r2")], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def test_tiles_of_open_pictures_suit_small_ones(tmp_path):
    """Breaks if pictures of 96 pixels, whose last images are of one or two, read the frequencies of tiles that only large ones gain by."""
    tiles = {}
    for pictures in (("height", "width"), (640, 640)):
        (tmp_path / "m.onnx").write_bytes(last_stage(pictures))
        subprocess.run([COMMAND, "compile", tmp_path / "m.onnx", "--target", "aarch64:neoverse-n1", "-o", tmp_path / "m.so"], check=True)
        told = subprocess.run([COMMAND, "inspect", tmp_path / "m.so", "--chosen-schedules"], capture_output=True, text=True, check=True).stdout
        tiles[pictures] = [entry["winograd_outputs"] for entry in json.loads(told)["schedules"] if "winograd_outputs" in entry]
    assert max(tiles["height", "width"]) < min(tiles[640, 640])
