"""tensmith.ort beside onnxruntime: what a program sees of a session must not tell which of the two it is.

Each case runs on both. Failures are compared by the exception's class and, where a program may read it, by its text.
"""

import json
import pathlib
import subprocess
import sys
import threading

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tensmith.ort

onnxruntime = pytest.importorskip("onnxruntime")
ENGINES = [onnxruntime, tensmith.ort]

F32, I64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
port = helper.make_tensor_value_info


def model(inputs, outputs, nodes, initializers=(), **more):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, **more)
    return made.SerializeToString()


SUM = model(
    [port("x", F32, ["n", 3]), port("y", F32, ["n", 3])],
    [port("z", F32, ["n", 3]), port("r", F32, ["n", None])],
    [helper.make_node("Add", ["x", "y"], ["z"], "add"), helper.make_node("Relu", ["z"], ["r"], "relu")],
    producer_name="test", domain="d", doc_string="says so", model_version=3,
)  # fmt: skip
TEXTS = model([port("t", STRING, ["n"])], [port("u", STRING, ["n"])], [helper.make_node("Identity", ["t"], ["u"])])
DEFAULTED = model(
    [port("x", F32, ["n", 3]), port("w", F32, [3])], [port("z", F32, ["n", 3])],
    [helper.make_node("Mul", ["x", "w"], ["z"])], [numpy_helper.from_array(numpy.float32([1, 2, 3]), "w")],
)  # fmt: skip
RESHAPE = model(
    [port("x", F32, ["n", "m"]), port("s", I64, [1])], [port("z", F32, None)],
    [helper.make_node("Reshape", ["x", "s"], ["z"], "reshape")],
)  # fmt: skip
SCALAR = model([port("x", F32, ["n"]), port("c", F32, [])], [port("z", F32, ["n"])], [helper.make_node("Mul", ["x", "c"], ["z"])])
SEQUENCE = model(
    [helper.make_tensor_sequence_value_info("q", F32, None)], [port("z", F32, None)],
    [helper.make_node("ConcatFromSequence", ["q"], ["z"], axis=0)],
)  # fmt: skip
CHAIN = model(
    [port("x", F32, ["n", 3])], [port("y", F32, ["n", 3])],
    [helper.make_node("Add", ["x", "x"], ["a"]), helper.make_node("Relu", ["a"], ["r"]), helper.make_node("Neg", ["r"], ["y"])],
)  # fmt: skip
OPEN = model([port("x", F32, ["?", "?"])], [port("z", F32, None)], [helper.make_node("Transpose", ["x"], ["z"])])

X = numpy.float32([[1, -2, 3], [4, 5, -6]])
Y = numpy.float32([[1, 1, 1], [2, 2, 2]])


@pytest.fixture(scope="module")
def sessions():
    made = {}

    def of(engine, data):
        if (engine, data) not in made:
            made[engine, data] = engine.InferenceSession(data, providers=["CPUExecutionProvider"])
        return made[engine, data]

    return of


def outcome(work):
    """What it gives, or how it fails."""
    try:
        return "gives", work()
    except Exception as error:  # noqa: BLE001
        return "fails", error


def both(sessions, data, work):
    """The result of the two, equal."""
    (how, theirs), (also, ours) = (outcome(lambda: work(engine, sessions(engine, data))) for engine in ENGINES)
    assert how == also, (theirs, ours)
    if how == "fails":
        assert type(ours).__name__ == type(theirs).__name__, (theirs, ours)
        return ours, theirs
    for a, b in zip(ours, theirs):
        if isinstance(b, numpy.ndarray):
            assert a.dtype == b.dtype and a.shape == b.shape
            numpy.testing.assert_array_equal(a, b)
        else:
            assert a == b
    return ours, theirs


RUNS = {
    "all": (SUM, None, {"x": X, "y": Y}),
    "none named": (SUM, [], {"x": X, "y": Y}),
    "one": (SUM, ["r"], {"x": X, "y": Y}),
    "twice, in another order": (SUM, ["r", "z", "r"], {"y": Y, "x": X}),
    "a tuple of names": (SUM, ("z",), {"x": X, "y": Y}),
    "no rows": (SUM, None, {"x": X[:0], "y": Y[:0]}),
    "not contiguous": (SUM, None, {"x": X.T.copy().T, "y": Y[:, ::-1]}),
    "lists": (SUM, None, {"x": X.tolist(), "y": [[1, 2, 3], [4, 5, 6]]}),
    "a list of arrays": (SUM, None, {"x": [X[0], X[1]], "y": Y}),
    "texts": (TEXTS, None, {"t": numpy.array(["a", "bé", ""])}),
    "texts as objects": (TEXTS, None, {"t": numpy.array(["a", 3], dtype=object)}),
    "a list of texts": (TEXTS, None, {"t": ["a", "b"]}),
    "default": (DEFAULTED, None, {"x": X}),
    "default overridden": (DEFAULTED, None, {"x": X, "w": numpy.float32([5, 6, 7])}),
    "scalar": (SCALAR, None, {"x": X[0], "c": numpy.float32(2).reshape(())}),
    "vector of one for a scalar": (SCALAR, None, {"x": X[0], "c": numpy.float32([2])}),
    "sequence": (SEQUENCE, None, {"q": [X, Y, X[:1]]}),
    "sizes without a name differ": (OPEN, None, {"x": X}),
}


@pytest.mark.parametrize("name", RUNS)
def test_runs(sessions, name):
    data, names, feeds = RUNS[name]
    both(sessions, data, lambda engine, session: session.run(names, feeds))


def test_numbers_of_the_other_byte_order(sessions):
    """ONNX Runtime reads the bytes as they lie; the numbers are meant."""
    session = sessions(ENGINES[1], SUM)
    assert (session.run(None, {"x": X.astype(">f4"), "y": Y})[0] == session.run(None, {"x": X, "y": Y})[0]).all()


REFUSED = {
    "missing": (SUM, None, {"x": X}, True),
    "unknown input": (SUM, None, {"x": X, "y": Y, "q": X}, True),
    "unknown output": (SUM, ["q"], {"x": X, "y": Y}, True),
    "a text for a list of names": (SUM, "z", {"x": X, "y": Y}, False),
    "double for float": (SUM, None, {"x": X.astype(float), "y": Y}, True),
    "integers for float": (SUM, None, {"x": X.astype(int), "y": Y}, True),
    "texts for float": (SUM, None, {"x": numpy.array([["a", "b", "c"]]), "y": Y}, True),
    "rank": (SUM, None, {"x": X[None], "y": Y}, True),
    "size": (SUM, None, {"x": X[:, :2], "y": Y}, True),
    "a number for a tensor": (SUM, None, {"x": 1.0, "y": Y}, True),
    "a NumPy number for a tensor": (SUM, None, {"x": numpy.float32(1), "y": Y}, True),
    "a tuple for a tensor": (SUM, None, {"x": tuple(X.tolist()), "y": Y}, True),
    "a ragged list": (SUM, None, {"x": [[1, 2], [3]], "y": Y}, True),
    "a list of texts for float": (SUM, None, {"x": [["a"]], "y": Y}, True),
    "None": (SUM, None, {"x": None, "y": Y}, False),
    "feeds that are no dictionary": (SUM, None, [X, Y], True),
    "a tensor for a sequence": (SEQUENCE, None, {"q": X}, False),
    "a sequence of another type": (SEQUENCE, None, {"q": [X.astype(float)]}, False),
    "a shape that does not fit": (RESHAPE, None, {"x": X, "s": numpy.int64([7])}, False),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(sessions, name):
    data, names, feeds, same_text = REFUSED[name]
    ours, theirs = both(sessions, data, lambda engine, session: session.run(names, feeds))
    assert isinstance(ours, Exception)
    if same_text:
        assert str(ours) == str(theirs)
    else:
        assert str(ours)[:25] == str(theirs)[:25] or not str(theirs).startswith("[ONNXRuntimeError]")


def described(arguments):
    return [(argument.name, argument.type, argument.shape) for argument in arguments]


@pytest.mark.parametrize("data", [SUM, TEXTS, DEFAULTED, RESHAPE, SCALAR, SEQUENCE, OPEN])
def test_signature(sessions, data):
    theirs, ours = (sessions(engine, data) for engine in ENGINES)
    assert described(ours.get_inputs()) == described(theirs.get_inputs())
    assert described(ours.get_overridable_initializers()) == described(theirs.get_overridable_initializers())
    assert [output.name for output in ours.get_outputs()] == [output.name for output in theirs.get_outputs()]
    assert [output.type for output in ours.get_outputs()] == [output.type for output in theirs.get_outputs()]
    assert str(ours.get_inputs()[0]) == str(theirs.get_inputs()[0])


def test_metadata(sessions):
    theirs, ours = (sessions(engine, SUM).get_modelmeta() for engine in ENGINES)
    for name in [name for name in dir(theirs) if name[0] != "_"]:
        assert getattr(ours, name) == getattr(theirs, name)


def broken(kind, tmp_path):
    (tmp_path / "no.onnx").write_bytes(b"hello")
    relu = [helper.make_node("Relu", ["x"], ["z"])]
    return {
        "no such file": str(tmp_path / "missing.onnx"),
        "a path object": tmp_path / "missing.onnx",
        "no model": str(tmp_path / "no.onnx"),
        "no bytes of a model": b"hello",
        "an unknown operator": model([port("x", F32, ["n"])], [port("z", F32, ["n"])], [helper.make_node("Nope", ["x"], ["z"])]),
        "too few operands": model([port("x", F32, ["n"])], [port("z", F32, ["n"])], [helper.make_node("Add", ["x"], ["z"])]),
        "neither path nor bytes": 3,
        "options of another type": (model([port("x", F32, ["n"])], [port("z", F32, ["n"])], relu), 3),
    }[kind]  # fmt: skip


@pytest.mark.parametrize("kind, error", [
    ("no such file", "NoSuchFile"), ("a path object", "NoSuchFile"), ("no model", "InvalidProtobuf"),
    ("no bytes of a model", "InvalidProtobuf"), ("an unknown operator", None), ("too few operands", "InvalidGraph"),
    ("neither path nor bytes", "TypeError"), ("options of another type", "TypeError"),
])  # fmt: skip
def test_a_bad_model(kind, error, tmp_path):
    arguments = broken(kind, tmp_path)
    for engine in ENGINES:
        with pytest.raises(Exception) as raised:
            engine.InferenceSession(*(arguments if isinstance(arguments, tuple) else (arguments,)))
        names = {error} if error else {"InvalidGraph", "NotImplemented"}  # Tensmith: whatever it lacks is not implemented
        assert type(raised.value).__name__ in names, raised.value


def test_exceptions_are_found_where_onnxruntime_has_them():
    from onnxruntime.capi import onnxruntime_pybind11_state as theirs

    ours = tensmith.ort.capi.onnxruntime_pybind11_state
    for name in ("Fail", "InvalidArgument", "NoSuchFile", "InvalidProtobuf", "InvalidGraph", "NotImplemented", "RuntimeException"):
        assert issubclass(getattr(ours, name), Exception) and getattr(ours, name).__bases__ is not getattr(theirs, name).__bases__


def test_providers_are_normalised_as_onnxruntime_does(sessions):
    for engine in ENGINES:
        session = sessions(engine, SUM)
        assert session.get_providers() == ["CPUExecutionProvider"]
        assert session.get_provider_options() == {"CPUExecutionProvider": {}}
        with pytest.warns(UserWarning, match="'CUDAExecutionProvider' is not in available provider names"):
            session = engine.InferenceSession(SUM, providers=["CUDAExecutionProvider", ("CPUExecutionProvider", {"a": 1})])
        assert session.get_providers() == ["CPUExecutionProvider"]
    assert tensmith.ort.get_available_providers() == ["CPUExecutionProvider"] and tensmith.ort.get_device() == "CPU"


OPTIONS = [
    ("intra_op_num_threads", 3), ("inter_op_num_threads", 2), ("log_severity_level", 3), ("log_verbosity_level", 1),
    ("enable_profiling", True), ("enable_cpu_mem_arena", False), ("enable_mem_pattern", False), ("logid", "me"),
    ("profile_file_prefix", "p"), ("use_deterministic_compute", True), ("intra_op_num_threads", "3"), ("logid", 3),
    ("enable_profiling", "yes"), ("graph_optimization_level", 1), ("no_such_option", 1),
]  # fmt: skip


@pytest.mark.parametrize("name, value", OPTIONS)
def test_options_are_typed(name, value):
    def set_and_read(engine):
        options = engine.SessionOptions()
        before = getattr(options, name)
        setattr(options, name, value)
        return before, getattr(options, name)

    theirs, ours = (outcome(lambda: set_and_read(engine)) for engine in ENGINES)
    assert ours == theirs if theirs[0] == "gives" else type(ours[1]) is type(theirs[1])


def test_options_of_onnxruntime_are_all_there():
    for name in ("SessionOptions", "RunOptions"):
        theirs, ours = getattr(onnxruntime, name)(), getattr(tensmith.ort, name)()
        for option in [option for option in dir(theirs) if option[0] != "_" and not callable(getattr(theirs, option))]:
            value = getattr(ours, option)
            expected = getattr(theirs, option)
            assert int(value) == int(expected) if type(expected).__module__ != "builtins" else value == expected, option


def test_options_that_change_the_module(tmp_path):
    options = tensmith.ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = tensmith.ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_free_dimension_override_by_name("n", 2)
    options.add_session_config_entry("tensmith.precision", "exact")
    options.optimized_model_filepath = tmp_path / "m.so"
    session = tensmith.ort.InferenceSession(CHAIN, options)
    assert session.get_inputs()[0].shape == [2, 3]
    kernels = lambda described: [step for f in described["functions"] for step in f["instructions"] if step["opcode"] == "kernel"]
    apart = tensmith.load(tmp_path / "m.so", threads=1)
    assert len(kernels(apart.describe())) == 3 > len(kernels(tensmith.compile(CHAIN).describe())) == 1
    with pytest.raises(Exception, match="index: 0 Got: 3 Expected: 2"):
        session.run(None, {"x": numpy.zeros((3, 3), numpy.float32)})
    numpy.testing.assert_array_equal(session.run(None, {"x": X})[0], -numpy.maximum(X + X, 0))


def test_configuration_entries():
    for engine in ENGINES:
        options = engine.SessionOptions()
        options.add_session_config_entry("a", "b")
        assert options.get_session_config_entry("a") == "b"
        with pytest.raises(RuntimeError, match="does not have configuration with key: c"):
            options.get_session_config_entry("c")
        with pytest.raises(TypeError):
            options.add_session_config_entry("a", 1)


def test_a_run_that_is_terminated(sessions):
    def run(engine, session):
        options = engine.RunOptions()
        options.terminate = True
        return session.run(None, {"x": X, "y": Y}, options)

    ours, theirs = both(sessions, SUM, run)
    assert str(ours) == str(theirs)


def test_ort_values(sessions):
    def run(engine, session):
        x = engine.OrtValue.ortvalue_from_numpy(X)
        about = [x.shape(), x.data_type(), x.element_type(), x.device_name(), x.is_tensor(), x.has_value(), x.tensor_size_in_bytes()]
        z = session.run_with_ort_values(["z"], {"x": x, "y": engine.OrtValue.ortvalue_from_numpy(Y)})[0]
        return [*about, z.numpy(), session.run(["r"], {"x": x, "y": Y})[0]]

    both(sessions, SUM, run)


def test_io_binding(sessions):
    def run(engine, session):
        binding = session.io_binding()
        binding.bind_cpu_input("x", X)
        binding.bind_input("y", "cpu", 0, numpy.float32, list(Y.shape), Y.ctypes.data)
        kept = engine.OrtValue.ortvalue_from_numpy(numpy.zeros((2, 3), numpy.float32))
        binding.bind_ortvalue_output("z", kept)
        binding.bind_output("r")
        session.run_with_iobinding(binding)
        return [*binding.copy_outputs_to_cpu(), kept.numpy()]

    both(sessions, SUM, run)


def test_profiling_writes_a_trace(tmp_path):
    options = tensmith.ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "trace")
    session = tensmith.ort.InferenceSession(SUM, options)
    session.run(None, {"x": X, "y": Y})
    events = json.loads(pathlib.Path(session.end_profiling()).read_text())
    assert [event["name"] for event in events] == ["model_loading", "session_initialization", "model_run"]
    assert all(event["dur"] > 0 for event in events)


def test_threads_share_a_session(sessions):
    session = sessions(tensmith.ort, SUM)
    wrong = []

    def work(seed):
        random = numpy.random.default_rng(seed)
        for _ in range(50):
            x = random.standard_normal((random.integers(1, 9), 3), dtype=numpy.float32)
            if not numpy.array_equal(session.run(["z"], {"x": x, "y": x})[0], x + x):
                wrong.append(x.shape)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_async(sessions):
    called, results = threading.Event(), []
    session = sessions(tensmith.ort, SUM)
    session.run_async(["z"], {"x": X, "y": Y}, lambda *arguments: (results.append(arguments), called.set()), 7)
    assert called.wait(60)
    numpy.testing.assert_array_equal(results[0][0][0], X + Y)
    assert results[0][1:] == (7, "")


PROGRAM = """
import tensmith.ort
tensmith.ort.install()
import onnxruntime as ort
from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
import sys
try:
    InferenceSession(sys.argv[1]).run(None, {"nope": None, "x": None, "y": None})
except InvalidArgument as error:
    print(ort.__name__, type(error).__module__, error)
"""


# A program that knows onnxruntime alone, in a process of its own: it must get all of it from here.
def test_install(tmp_path):
    (tmp_path / "m.onnx").write_bytes(SUM)
    folder = pathlib.Path(tensmith.__file__).parents[1]
    command = f"import sys; sys.path.insert(0, {str(folder)!r})\n{PROGRAM}"
    done = subprocess.run([sys.executable, "-c", command, tmp_path / "m.onnx"], capture_output=True, text=True)
    assert done.stdout.startswith("tensmith.ort tensmith.ort.errors [ONNXRuntimeError] : 2 : INVALID_ARGUMENT"), done


def test_install_refuses_when_it_is_too_late():
    with pytest.raises(ImportError, match="imported already"):
        tensmith.ort.install()
