"""Numbers of places in types that can't hold or tell all of them, and doubles in half precision, against NumPy."""

import numpy as np
import pytest
import tensmith as ts


@pytest.fixture
def program(tmp_path):
    def build(text):
        path = tmp_path / "program.tsm"
        path.write_text(text)
        return ts.compile(path, threads=1)

    return build


# Breaks when a sum of a row's elements whose number is asked for takes numbers that lie between two, or wraps them.
@pytest.mark.parametrize("kind, rows, classes", [("f32", 400, 300), ("u8", 400, 300), ("i8", 5, 300), ("i32", 400, 300), ("f32", 1, 1), ("i64", 5, 7)])
def test_sums_of_what_has_a_number(program, kind, rows, classes):
    model = program(f"""fn main(x: f32[{rows}, {classes}], t: {kind}[{rows}, 1]) = {{
  let i: {kind}[{rows}, {classes}] = iota(axis = 1);
  (reduce_sum(where(equal(i, t), x, 0.0), axes = [1], keepdims = true))
}}""")
    dtype = {"f32": np.float32, "u8": np.uint8, "i8": np.int8, "i32": np.int32, "i64": np.int64}[kind]
    draw = np.random.default_rng(rows)
    x = draw.normal(size=(rows, classes)).astype(np.float32)
    t = draw.integers(-5, classes + 5, (rows, 1)).astype(dtype)
    if kind == "f32":
        t[::2] += 0.5
    places = np.arange(classes).astype(dtype)
    np.testing.assert_allclose(model(x, t), np.where(places == t, x, 0).sum(1, keepdims=True), rtol=1e-6, atol=1e-7)


# Breaks when lanes are added to a number of 16 bits that was rounded before: from 32768 on f16 has multiples of 32 alone.
@pytest.mark.parametrize("kind, size", [("f16", 50003), ("bf16", 10001), ("f32", 70001), ("f64", 1001), ("i16", 40001)])
def test_places_as_numbers(program, kind, size):
    model = program(f"""fn main(x: f32[n, {size}]) = {{
  let i: {kind}[n, {size}] = iota(axis = 1);
  let wide: f32[n, {size}] = cast(i, to = f32);
  (x + wide)
}}""")
    x = np.zeros((3, size), np.float32)
    exact = np.arange(size)
    if kind == "bf16":
        bits = exact.astype(np.float32).view(np.uint32)
        wanted = ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    else:
        wanted = exact.astype({"f16": np.float16, "f32": np.float32, "f64": np.float64, "i16": np.int16}[kind]).astype(np.float32)
    np.testing.assert_array_equal(model(x), np.broadcast_to(wanted, x.shape))


# Breaks when a double that lies beside the middle of two numbers of 16 bits is rounded to that middle first.
def test_doubles_are_rounded_to_half_once(program):
    model = program("fn main(x: f64[n]) = cast(x, to = f16)\n")
    draw = np.random.default_rng(5)
    middle = draw.integers(0x0001, 0x7BFF, 2000).astype(np.uint16)
    middle = (middle.view(np.float16).astype(np.float64) + (middle + 1).view(np.float16).astype(np.float64)) / 2
    x = np.concatenate([middle, *(middle * (1 + sign * 2.0**-k) for k in (40, 30, 51) for sign in (1, -1)), [-3101.0000000028203, np.inf, -0.0]])
    x[::3] *= -1
    np.testing.assert_array_equal(model(x), x.astype(np.float16))
