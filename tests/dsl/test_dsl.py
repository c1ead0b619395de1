"""The language inside C++ (tensmith/dsl.hpp): what it prints, compiles and trains, and the mistakes that C++ finds."""

import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess

import numpy
import pytest

tensmith = pytest.importorskip("tensmith")
ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = pathlib.Path(tensmith.__file__).resolve().parents[2] / "bin/tensmith"
COMPILER = next((path for name in ("clang++-19", "clang++", "g++", "c++") if (path := shutil.which(name))), None)

pytestmark = pytest.mark.skipif(not COMPILER, reason="there is no C++ compiler")

BEFORE = """#include <tensmith/dsl.hpp>
using namespace tensmith::dsl;
void stage(Program &program) {
  auto w = program.parameter<float, 4, 3>("w");
  auto bias = program.parameter<float, 3>("bias");
  program.main([&](Tensor<float, "n", 4> x, Tensor<float, "m", 4> y, Tensor<int64_t, "n"> k, Tensor<float> s, Tensor<float, 6> v) {
"""
AFTER = """
    return x;
  });
}
"""
MISTAKES = {
    "product of other sizes": ("matmul(w, x);", "summed over differs"),
    "product with a scalar": ("matmul(x, s);", "summed over differs"),
    "product with a vector of another size": ("matmul(x, v);", "summed over differs"),
    "product of other types": ("matmul(cast<double>(x), w);", "different element types"),
    "sum of other sizes": ("x + w;", "don't broadcast"),
    "sum of other names": ("x + y;", "don't broadcast"),
    "bias of another size": ("x + bias;", "don't broadcast"),
    "sum of other types": ("k + s;", "different element types"),
    "comparison of other sizes": ("x < y;", "don't broadcast"),
    "arithmetic on booleans": ("auto b = s < 1.0; b + b;", "invalid operands|no match|no viable"),
    "exponential of integers": ("exp(k);", "no matching function"),
    "rectified booleans": ("relu(s < 1.0);", "no matching function"),
    "transposed vector": ("transpose(v);", "no matrix"),
    "sum over a dimension that is not there": ("sum<2>(x);", "no such dimension"),
    "softmax over a dimension that is not there": ("softmax<1>(v);", "no such dimension"),
    "reshape to other elements": ("reshape<4, 2>(v);", "different numbers of elements"),
    "broadcast to fewer": ("broadcast<3>(v);", "does not broadcast"),
    "slice outside": ("slice<0, 4, 3>(v);", "outside of the dimension"),
    "slice of a dimension that is not there": ("slice<1, 0, 1>(v);", "no such dimension"),
    "concatenation of other sizes": ("concat<0>(w, program.parameter<float, 4, 4>(\"u\"));", "another dimension"),
    "concatenation along an open size": ("concat<0>(x, y);", "not known"),
    "concatenation of other types": ("concat<0>(v, cast<double>(v));", "different element types"),
    "choice by numbers": ("where(x, x, x);", "no boolean"),
    "choice of other sizes": ("where(x < 1.0, x, y);", "don't broadcast"),
    "branch by a tensor": ("branch(v < 1.0, [&] { return s; }, [&] { return s; });", "no single boolean"),
    "branch to other types": ("branch(s < 1.0, [&] { return s; }, [&] { return v; });", "give different types"),
    "loop that changes its type": ("loop(v, [&](auto) { return s < 1.0; }, [&](auto) { return s; });", "another type than the state"),
    "loop without a condition": ("loop(v, [&](auto a) { return a; }, [&](auto a) { return a; });", "no single boolean"),
    "parameter of an open size": ("program.parameter<float, \"n\", 3>(\"u\");", "dimensions are numbers"),
    "tensor of text": ("Tensor<char, 3> *t = nullptr; (void)t;", "constraints not satisfied|constraint"),
    "argument of another type": ("auto f = program.function(\"f\", [&](Tensor<float, 6> a) { return a; }); f(x);", "another type than the function"),
    "too many arguments": ("auto f = program.function(\"f\", [&](Tensor<float, 6> a) { return a; }); f(v, v);", "another number of arguments"),
    "negative size": ("Tensor<float, -1> *t = nullptr; (void)t;", "constant expression|not a constant"),
    "long name of a size": ("Tensor<float, \"a_name_that_is_far_too_long\"> *t = nullptr; (void)t;", "at most 23 characters"),
}  # fmt: skip


def compiled(folder, text, *options):
    source = folder / f"{abs(hash(text))}.cpp"
    source.write_text(text)
    command = [COMPILER, "-std=c++20", "-I", ROOT / "include", source, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_mistakes_are_errors_of_cpp(tmp_path):
    """Breaks if C++ takes what can't be computed, or says something else."""
    assert len(MISTAKES) >= 30
    right = "matmul(x, w) + bias; softmax<1>(x); branch(s < 1.0, [&] { return s; }, [&] { return s * 2.0; });"
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        runs = {name: pool.submit(compiled, tmp_path, BEFORE + code + AFTER, "-fsyntax-only")
                for name, (code, _) in {**MISTAKES, "": (right, "")}.items()}  # fmt: skip
    done = {name: run.result() for name, run in runs.items()}
    assert done[""].returncode == 0, done[""].stderr
    for name, (_, message) in MISTAKES.items():
        assert done[name].returncode != 0, name
        assert re.search(message, done[name].stderr), f"{name}: {done[name].stderr[:3000]}"


STAGED = r"""#include <tensmith/dsl.hpp>
#include <iostream>
using namespace tensmith::dsl;
template <class F> void expect(F stage) {
  try {
    stage();
    std::cout << "nothing\n";
  } catch (const std::logic_error &error) {
    std::cout << error.what() << "\n";
  }
}
int main() {
  expect([] {
    Program program;
    program.main([&](Tensor<float> s) {
      std::vector<Tensor<float>> kept;
      branch(s < 1.0, [&] { kept.push_back(exp(s)); return s; }, [&] { return s; });
      return exp(kept[0]);
    });
  });
  expect([] {
    Program one, other;
    auto w = one.parameter<float, 3>("w");
    other.main([&](Tensor<float, 3> x) { return where(x < 1.0, x, w); });
  });
  expect([] {
    Program program;
    program.parameter<float, 3>("w");
    program.parameter<float, 3>("w");
  });
  expect([] {
    Program program;
    auto w = program.parameter<float, 3>("w");
    exp(w);
  });
}
"""


@pytest.fixture(scope="module")
def library():
    return pathlib.Path(tensmith.__file__).resolve().parents[2] / "lib"


def run_staged(folder, text, library):
    program = folder / "staged"
    done = compiled(folder, text, "-o", program, "-L", library, "-ltensmith_compiler", f"-Wl,-rpath,{library}")
    assert done.returncode == 0, done.stderr
    return subprocess.run([program], capture_output=True, text=True, check=True, timeout=300).stdout


def test_staging_says_where(tmp_path, library):
    """Breaks if a mistake that only staging finds is recorded, or is told without the line of C++."""
    lines = run_staged(tmp_path, STAGED, library).splitlines()
    wanted = ["block that has ended", "another program", "has a 'w' already", "within a function"]
    assert len(lines) == len(wanted)
    for line, message in zip(lines, wanted):
        assert re.search(r"\.cpp:\d+: ", line) and message in line, line


CONTROL = r"""#include <tensmith/dsl.hpp>
#include <iostream>
using namespace tensmith::dsl;
int main() {
  Program program;
  program.main([&](Tensor<float, 2, 3> x, Tensor<float> limit) {
    auto twice = x;
    for (int i = 0; i < 2; ++i)
      twice = twice + x / 2.0;
    auto chosen = branch(limit > 3.0, [&] { return twice * 2.0; }, [&] { return -twice; });
    auto [sum, steps] = loop(std::tuple(x, limit * 0.0), [&](auto s) { return std::get<1>(s) < limit; },
                             [&](auto s) { return std::tuple(std::get<0>(s) + chosen, std::get<1>(s) + 1.0); });
    return std::tuple(sum, steps, transpose(reshape<3, 2>(max<0>(concat<0>(x, twice)) + slice<1, 1, 1>(x))));
  });
  std::cout << program.text();
}
"""


def test_control_stands_in_the_program(tmp_path, library):
    """Breaks if a loop loses what it uses from around it, a branch is taken while staging, or a host loop isn't unrolled."""
    text = run_staged(tmp_path, CONTROL, library)
    assert text.count("/ 2.0") == 2 and "if " in text and text.count("fn ") == 2
    path = tmp_path / "control.tsm"
    path.write_text(text)
    model = tensmith.compile(path)
    x = numpy.arange(6, dtype="float32").reshape(2, 3)
    for limit in (2.0, 4.5):
        chosen = 4 * x if limit > 3 else -2 * x
        steps = int(numpy.ceil(limit))
        got = [numpy.asarray(value) for value in model(x, numpy.float32(limit))]
        assert numpy.allclose(got[0], x + steps * chosen) and got[1] == steps
        joined = numpy.concatenate([x, 2 * x]).max(axis=0) + x[:, 1:2]
        assert numpy.allclose(got[2], joined.reshape(3, 2).T)


def example(name, folder):
    text = subprocess.run([COMMAND.parent / f"dsl_{name}"], capture_output=True, text=True,
                          check=True, timeout=60).stdout  # fmt: skip
    path = folder / f"{name}.tsm"
    path.write_text(text)
    return path


def test_the_lstm_runs_over_any_length(tmp_path):
    """Breaks if the example doesn't compile, or computes something else than the equations of an LSTM."""
    path = example("lstm", tmp_path)
    model = tensmith.compile(path)
    rng = numpy.random.default_rng(0)
    hidden, cell = (rng.standard_normal((1, 32)).astype("float32") for _ in range(2))
    items = [rng.standard_normal((1, 24)).astype("float32") for _ in range(5)]
    state = model(hidden, cell, [])
    assert all(numpy.array_equal(numpy.asarray(a), b) for a, b in zip(state, (hidden, cell)))
    whole = [numpy.asarray(value) for value in model(hidden, cell, items)]
    for item in items:
        state = model(*state, [item])
    assert all(numpy.allclose(a, numpy.asarray(b), atol=1e-6) for a, b in zip(whole, state))


def test_the_classifier_trains(tmp_path):
    """Breaks if a staged program has no parameters, its gradients aren't the language's, or its loss doesn't fall."""
    path = example("classifier", tmp_path)
    formatted = subprocess.run([COMMAND, "format", "-"], input=path.read_text(), capture_output=True, text=True, check=True)
    assert formatted.stdout
    rng = numpy.random.default_rng(1)
    pictures = rng.standard_normal((64, 784)).astype("float32")
    labels = rng.integers(0, 10, 64)
    step = tensmith.train_step(path, optimiser="adam", learning_rate=1e-2, shapes={"batch": [64]})
    losses = [float(step(picture=pictures, target=labels)["loss"]) for _ in range(30)]
    assert losses[-1] < losses[0] / 4
