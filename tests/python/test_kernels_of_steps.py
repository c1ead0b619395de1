"""Which kernels a step of training is made of: what several read is made once, and what is made of the same elements is made together."""

import numpy
import pytest

ts = pytest.importorskip("tensmith")

MODEL = """import "tensmith/dense.tsm"

let first = dense_weights(32, 64)
let second = dense_weights(64, 8)

fn main(x: f32[16, 32]) = dense(tanh(dense(x, first)), second)
"""

# How many of a parameter's states are one kernel's: the parameter and what the optimiser keeps of it.
TOGETHER = {"momentum": 2, "nesterov": 2, "rmsprop": 2, "adagrad": 2, "adam": 3, "adamw": 3}


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.tsm"
    path.write_text(MODEL)
    return path


@pytest.mark.parametrize("clip_norm", [0.0, 1.0])
@pytest.mark.parametrize("optimiser", TOGETHER)
def test_states_of_a_parameter_are_one_kernels(model, optimiser, clip_norm):
    """They are updated where they are. What a product gives to one reader alone stays the product's, as the gradient that momentum reads."""
    step = ts.train_step(model, optimiser=optimiser, learning_rate=0.01, clip_norm=clip_norm)
    described = step.describe()
    kernels = [each for each in described["functions"][0]["instructions"] if each["opcode"] == "kernel"]
    together = [len(each["results"]) for each in kernels if "sub" in each["label"].split("+") and len(each["results"]) > 1]
    is_left = optimiser == "momentum" and not clip_norm
    assert together == [TOGETHER[optimiser]] * (2 if is_left else 4)
    assert all(state["in_place"] for state in described["states"])


def test_a_matrix_that_is_read_twice_is_laid_out_once(tmp_path):
    path = tmp_path / "model.tsm"
    path.write_text("fn main(x: f32[4, 32], w: f32[32, 48]) = matmul(x, w) + matmul(tanh(x), w)\n")
    compiled = ts.compile(path, target="x86-64-v3")  # whose products pack so small a matrix
    assert sum(kernel["uses"] for kernel in compiled.describe()["kernels"] if kernel["label"] == "pack") == 1
    draw = numpy.random.RandomState(0)
    x, w = draw.randn(4, 32).astype("float32"), draw.randn(32, 48).astype("float32")
    assert numpy.allclose(compiled(x=x, w=w), x @ w + numpy.tanh(x) @ w, rtol=1e-4, atol=1e-4)
