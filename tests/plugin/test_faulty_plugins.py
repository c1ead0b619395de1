"""What is said of a plug-in's mistakes: an error that names what made it, and no crash, no wrong result and no hang."""

import fcntl
import os
import subprocess

import numpy
import pytest
from example_build import BUILD, FOLDER, ROOT, run
from onnx import TensorProto, helper

TENSMITH = BUILD / "bin/tensmith"


@pytest.fixture(scope="session")
def faulty(plugin):
    """The library, built against the package that the example's was installed with. Test processes wait for the one that builds it."""
    folder = FOLDER / "faulty"
    with open(FOLDER / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run("cmake", "-S", ROOT / "tests/plugin/faulty", "-B", folder, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={FOLDER / 'prefix'}",
            "-DCMAKE_C_COMPILER=clang-19", "-DCMAKE_CXX_COMPILER=clang++-19", "-DCMAKE_MODULE_LINKER_FLAGS=-fuse-ld=lld-19",
            f"-DCMAKE_CXX_COMPILER_LAUNCHER={ROOT}/cmake/cached-compile;{folder}")  # fmt: skip
        run("ninja", "-C", folder)
    return folder / "faulty.so"


def tensmith(folder, library, operator, mistake="", fault="", kind=TensorProto.FLOAT, options=()):
    """A run of (2 w x, or the mistake) + w through the operator, of x = 1, w = 3: what it ended with, what it gave, and what it said."""
    value = [helper.make_tensor_value_info(name, kind, ["n", 4] if name == "x" else None) for name in "xy"]
    nodes = [helper.make_node("Mul", ["x", "w"], ["a"]), helper.make_node(operator, ["a"], ["b"], name="mine", domain="faulty", mistake=mistake),
             helper.make_node("Add", ["b", "w"], ["y"])]  # fmt: skip
    graph = helper.make_graph(nodes, "g", value[:1], value[1:], [helper.make_tensor("w", kind, [4], [3] * 4)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("faulty", 1)]
    (folder / "m.onnx").write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
    numpy.save(folder / "x.npy", numpy.ones((2, 4), helper.tensor_dtype_to_np_dtype(kind)))
    done = subprocess.run([TENSMITH, "run", folder / "m.onnx", "--no-cache", "--plugin", library, "--input", f"x={folder / 'x.npy'}", "--output", folder / "out", *options],
                          capture_output=True, text=True, timeout=120, env={**os.environ, "FAULT": fault})  # fmt: skip
    result = numpy.load(folder / "out/y.npy") if done.returncode == 0 else None
    return done.returncode, result, done.stdout + done.stderr


def expect_refused(words, *arguments, **named):
    status, _, said = tensmith(*arguments, **named)
    assert status == 1 and all(word in said for word in words), f"{status}: {said}"


@pytest.mark.parametrize("operator", ["Scalar", "Element", "Whole"])
def test_without_a_mistake_it_works(tmp_path, faulty, operator):
    status, result, said = tensmith(tmp_path, faulty, operator)
    assert status == 0, said
    numpy.testing.assert_array_equal(result, numpy.full((2, 4), 9, "f"))


@pytest.mark.parametrize("operator, mistake, words", [
    ("Scalar", "truth", ["the code of 'faulty.scalar' gives", "i1"]), ("Element", "truth", ["the code of 'faulty.element' gives", "i1"]),
    ("Scalar", "wide", ["the code of 'faulty.scalar' gives", "f64"]), ("Element", "wide", ["the code of 'faulty.element' gives", "f64"]),
    ("Element", "rank", ["the code of 'faulty.element' reads operand 0 at 1 indices, and it has 2 dimensions"]),
    ("Whole", "itself", ["'faulty.whole' has become more than 1000 parts"]), ("Whole", "itself twice", ["'faulty.whole' has become more than 1000 parts"]),
    ("Scalar", "no type", ["the shape function of 'faulty.scalar' gives 0 types, and it has 1 results"]),
    ("Scalar", "two types", ["the shape function of 'faulty.scalar' gives 2 types"]),
    ("Scalar", "refused in silence", ["the shape function of 'faulty.scalar' refuses the operands"]),
    ("Scalar", "reference", ["the reference of 'faulty.scalar' threw: out of luck"]), ("Scalar", "thrown", ["the reference of 'faulty.scalar' threw"]),
])  # fmt: skip
def test_an_operator_s_mistake_is_named(tmp_path, faulty, operator, mistake, words):
    expect_refused(words, tmp_path, faulty, operator, mistake)


def test_functions_that_kernels_do_not_have_are_left_to_the_reference(tmp_path, faulty):
    """Breaks if an elementary function of f64, which no kernel computes, fails the compilation."""
    status, result, said = tensmith(tmp_path, faulty, "Scalar", "function", kind=TensorProto.DOUBLE)
    assert status == 0 and "needs its plug-in where it runs" in said, said
    numpy.testing.assert_array_equal(result, numpy.full((2, 4), 9.0))  # which knows nothing of the mistake


@pytest.mark.parametrize("fault, words", [
    ("throws", ["its registration threw: out of luck"]),
    ("no reference", ["the operator 'faulty.", "has no reference"]),
    ("misspelt reference", ["the reference 'faulty.skalar' is of an operator that there isn't"]),
    ("empty reference", ["the reference of 'graph_of_none' has no function"]),
    ("misspelt gradient", ["the gradient 'faulty.skalar' is of an operator that there isn't"]),
    ("empty gradient", ["the gradient of 'faulty.scalar' has no function"]),
    ("misspelt name", ["the name 'faulty:Skalar' is of an operator that there isn't, 'faulty.skalar'"]),
    ("empty rewrite", ["the rewrite of 'faulty-none' has no function"]),
    ("host", ["the target 'host' has a name of CPUs"]), ("family", ["the target 'aarch64' has a name of CPUs"]),
    ("cpu", ["the target 'znver3' has a name of CPUs"]), ("colon", ["the target 'a:b' can't be named"]),
    ("unopened target", ["the target 'shut' has no function that opens its machines"]),
])  # fmt: skip
def test_rows_that_can_not_be_are_refused_as_they_are_loaded(tmp_path, faulty, fault, words):
    expect_refused([str(faulty), *words], tmp_path, faulty, "Scalar", fault=fault)


@pytest.mark.parametrize("fault, words", [("rewrite throws", ["rewrite 'faulty-throws' threw: out of luck"]),
                                          ("rewrite mistypes", ["rewrite 'faulty-mistypes' leaves a graph that isn't valid"])])  # fmt: skip
def test_a_rewrite_s_mistake_is_named(tmp_path, faulty, fault, words):
    expect_refused(words, tmp_path, faulty, "Scalar", fault=fault)


def test_a_target_that_gives_no_machine_is_named(tmp_path, faulty):
    expect_refused(["machine 'none:x': the target 'none' gave none"], tmp_path, faulty, "Scalar", fault="no target", options=("--target", "none:x"))


def test_a_shape_function_that_is_not_there_is_named(tmp_path, faulty):
    """Breaks if the name is told as the linker writes it."""
    source = (ROOT / "tests/plugin/faulty/Faulty.cpp").read_text()
    begin = source.index("LogicalResult ScalarOp::inferResults")
    (tmp_path / "Faulty.cpp").write_text(source[:begin] + source[source.index("LogicalResult ElementOp::inferResults"):])
    commands = run("ninja", "-C", faulty.parent, "-t", "commands", "faulty.so").splitlines()
    compiling = next(line for line in commands if " -c " in line and line.endswith("Faulty.cpp"))
    linking = next(line for line in commands if "-o faulty.so" in line)
    object_ = "CMakeFiles/faulty.dir/Faulty.cpp.o"
    for command in (compiling.replace(f"{ROOT}/tests/plugin/faulty/Faulty.cpp", f"{tmp_path}/Faulty.cpp").replace(f"-o {object_}", f"-o {tmp_path}/F.o"),
                    linking.replace(object_, f"{tmp_path}/F.o").replace("-o faulty.so", f"-o {tmp_path}/faulty.so")):  # fmt: skip
        run("sh", "-c", command, cwd=faulty.parent)
    expect_refused(["faulty::ScalarOp::inferResults", "defined nowhere"], tmp_path, tmp_path / "faulty.so", "Scalar")
