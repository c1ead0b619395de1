"""Situations of states that change their sizes, sequences and optionals on the way of a derivative, and axes and lengths that only the
run tells; see situations.py."""

import functools

import numpy
from situations import f32, i64, scalar, situation


def number(value):
    return i64(value).reshape(())


TRUE = "t = Constant<value = bool {1}>()"

# Loops and scans whose states or slices have other sizes in each iteration.
situation(
    "loop_that_shrinks_its_state",
    f"(int64 n, float[6,2] x) => (float[?,?] f) {{ {TRUE} f = Loop(n, t, x) <body = b (int64 i, bool c, float[k,2] s) => (bool c2, "
    "float[l,2] s2) { c2 = Identity(c) one = Constant<value = int64[1] {1}>() m = Constant<value = int64[1] {9}>() z = Constant<value = "
    "int64[1] {0}>() r = Slice(s, one, m, z) s2 = Mul(r, r) }> }",
    {"n": number(2), "x": f32(6, 2) / 8},
    expected=lambda f: [f["x"][2:] ** 4],
)
situation(
    "loop_that_shrinks_to_nothing",
    f"(int64 n, float[2,3] x) => (float[?,?] f) {{ {TRUE} f = Loop(n, t, x) <body = b (int64 i, bool c, float[k,3] s) => (bool c2, "
    "float[l,3] s2) { c2 = Identity(c) one = Constant<value = int64[1] {1}>() m = Constant<value = int64[1] {9}>() z = Constant<value = "
    "int64[1] {0}>() s2 = Slice(s, one, m, z) }> }",
    {"n": number(4), "x": f32(2, 3)},
    expected=lambda f: [f32(0, 3)],
)
situation(
    "loop_that_grows_both_ways",
    f"(int64 n, float[1,1] x) => (float[?,?] f) {{ {TRUE} f = Loop(n, t, x) <body = b (int64 i, bool c, float[k,l] s) => (bool c2, "
    "float[m,o] s2) { c2 = Identity(c) two = Constant<value = float {2}>() d = Mul(s, two) w = Concat<axis=0>(s, d) s2 = "
    "Concat<axis=1>(w, w) }> }",
    {"n": number(3), "x": f32(1, 1)},
    expected=lambda f: [numpy.outer([1, 2, 2, 4, 2, 4, 4, 8], numpy.ones(8)).astype("f4") * f["x"]],
)
for _name, _width in (("as_long", 1), ("longer", 2)):
    situation(
        f"loop_of_a_state_and_slices_{_name}",
        f"(int64 n, float[1] x) => (float[?] f) {{ {TRUE} f = Loop(n, t, x) <body = b (int64 i, bool c, float[k] s) => (bool c2, float[l] s2) "
        "{ c2 = Identity(c) w = Constant<value = float[6] {1, 2, 3, 4, 5, 6}>() z = Constant<value = int64[1] {0}>() a = Unsqueeze(i, z) "
        f"d = Constant<value = int64[1] {{{_width}}}>() e = Add(a, d) p = Slice(w, a, e) q = Mul(s, s) s2 = Add(q, p) }}> }}",
        {"n": number(3), "x": f32(1) / 2},
        expected=lambda f, width=_width: [functools.reduce(lambda s, i: s * s + numpy.arange(i + 1, i + 1 + width, dtype="f4"), range(3), f["x"])],
    )
situation(
    "loop_of_states_that_swap_sizes",
    f"(int64 n, float[2] x, float[3] z) => (float[?] f, float[?] g) {{ {TRUE} f, g = Loop(n, t, x, z) <body = b (int64 i, bool c, "
    "float[k] s, float[l] r) => (bool c2, float[l] r2, float[k] s2) { c2 = Identity(c) r2 = Neg(r) s2 = Identity(s) }> }",
    {"n": number(3), "x": f32(2), "z": f32(3) + 1},
    expected=lambda f: [f["z"], -f["x"]],
)
situation(
    "loop_that_joins_what_it_multiplies",
    f"(int64 n, float[2,2] x, float[2,2] w) => (float[?,?] f) {{ {TRUE} f = Loop(n, t, x) <body = b (int64 i, bool c, float[k,2] s) => "
    "(bool c2, float[l,2] s2) { c2 = Identity(c) p = MatMul(s, w) s2 = Concat<axis=0>(p, x) }> }",
    {"n": number(3), "x": f32(2, 2) / 8, "w": f32(2, 2) / 9},
    expected=lambda f: [numpy.concatenate([f["x"] @ numpy.linalg.matrix_power(f["w"], p) for p in (3, 2, 1, 0)])],
)
situation(
    "scan_of_rows_and_columns",
    "(float[3] s, float[4,3] x, float[3,4] z) => (float[?] f, float[?,?] y) { f, y = Scan<num_scan_inputs=2, scan_input_axes=[0, 1], "
    "scan_output_axes=[1], body = b (float[3] a, float[3] p, float[3] q) => (float[3] a2, float[3] o) { m = Mul(p, q) a2 = Add(a, m) o = "
    "Mul(a2, a2) }>(s, x, z) }",
    {"s": f32(3), "x": f32(4, 3) / 4, "z": f32(3, 4) / 3},
    expected=lambda f: [f["s"] + (f["x"] * f["z"].T).sum(0), ((f["s"] + numpy.cumsum(f["x"] * f["z"].T, 0)) ** 2).T],
)
situation(
    "scan_of_no_steps",
    "(float[2] s, float[0,2] x) => (float[?] f, float[?,?] y) { f, y = Scan<num_scan_inputs=1, body = b (float[2] a, float[2] p) => "
    "(float[2] a2, float[2] o) { a2 = Add(a, p) o = Neg(p) }>(s, x) }",
    {"s": f32(2), "x": f32(0, 2)},
    expected=lambda f: [f["s"], f32(0, 2)],
)
situation(
    "scan_within_a_loop",
    f"(int64 n, float[2] s, float[3,2] x) => (float[?] f) {{ {TRUE} f = Loop(n, t, s) <body = b (int64 i, bool c, float[2] a) => (bool "
    "c2, float[2] a2) { c2 = Identity(c) a2, y = Scan<num_scan_inputs=1, body = d (float[2] p, float[2] q) => (float[2] p2, float[2] o) { "
    "p2 = Mul(p, q) o = Neg(p2) }>(a, x) }> }",
    {"n": number(2), "s": f32(2), "x": f32(3, 2) / 6},
    expected=lambda f: [f["s"] * f["x"].prod(0) ** 2],
)
situation(
    "loop_in_a_branch",
    f"(bool u, int64 n, float[2] x) => (float[?] y) {{ y = If(u) <then_branch = th () => (float[2] a) {{ {TRUE} a = Loop(n, t, x) <body = "
    "b (int64 i, bool c, float[2] s) => (bool c2, float[2] s2) { c2 = Identity(c) s2 = Mul(s, x) }> }, else_branch = el () => (float[2] z) "
    "{ z = Neg(x) }> }",
    {"u": numpy.array(True), "n": number(2), "x": f32(2) / 4},
    expected=lambda f: [f["x"] ** 3],
)

# Sequences and optionals.
situation(
    "sequence_of_unequal_parts_joined_back",
    "(float[6,2] x, int64[3] l) => (float[?,?] y) { s = SplitToSequence<axis=0>(x, l) i = Constant<value = int64 {1}>() a = SequenceAt(s, "
    "i) q = SequenceErase(s, i) m = Mul(a, a) r = SequenceInsert(q, m) y = ConcatFromSequence<axis=0>(r) }",
    {"x": f32(6, 2), "l": i64(1, 3, 2)},
    expected=lambda f: [numpy.concatenate([f["x"][:1], f["x"][4:], f["x"][1:4] ** 2])],
)
situation(
    "sequence_taken_from_twice",
    "(float[2] x, float[2] z) => (float[?] y) { s = SequenceConstruct(x, z) i = Constant<value = int64 {0}>() j = Constant<value = int64 "
    "{-1}>() a = SequenceAt(s, i) b = SequenceAt(s, j) c = SequenceAt(s, i) p = Mul(a, b) y = Mul(p, c) }",
    {"x": f32(2), "z": f32(2) + 1},
    expected=lambda f: [f["x"] ** 2 * f["z"]],
)
situation(
    "sequence_at_a_place_of_the_run",
    "(float[2] x, float[2] z, int64 i) => (float[?] y) { s = SequenceConstruct(x, z) a = SequenceAt(s, i) y = Mul(a, x) }",
    {"x": f32(2), "z": f32(2) + 1, "i": number(-1)},
    expected=lambda f: [f["x"] * f["z"]],
)
situation(
    "sequence_carried_by_a_loop_and_summed",
    f"(int64 n, float[2] x) => (float[?] y) {{ {TRUE} e = SequenceConstruct(x) f = Loop(n, t, e) <body = b (int64 i, bool c, "
    "seq(float[?]) s) => (bool c2, seq(float[?]) s2) { c2 = Identity(c) k = Constant<value = int64 {-1}>() a = SequenceAt(s, k) z = Mul(a, "
    "x) s2 = SequenceInsert(s, z) }> y = ConcatFromSequence<axis=0>(f) }",
    {"n": number(3), "x": f32(2) / 3},
    expected=lambda f: [numpy.concatenate([f["x"] ** p for p in (1, 2, 3, 4)])],
)
situation(
    "optional_through_a_branch",
    "(bool u, float[2] x, float[2] z) => (float[?] y) { a = Mul(x, x) o = Optional(a) p = Optional(z) q = If(u) <then_branch = th () => "
    "(optional(float[2]) r) { r = Identity(o) }, else_branch = el () => (optional(float[2]) r2) { r2 = Identity(p) }> y = "
    "OptionalGetElement(q) }",
    {"u": numpy.array(True), "x": f32(2), "z": f32(2)},
    expected=lambda f: [f["x"] ** 2],
    opset=18,
)
situation(
    "sequence_map_of_squares",
    "(float[2] x, float[3] z) => (float[?] y) { s = SequenceConstruct(x, z) m = SequenceMap(s) <body = b (float[?] a) => (float[?] o) { o "
    "= Mul(a, a) }> y = ConcatFromSequence<axis=0>(m) }",
    {"x": f32(2), "z": f32(3) + 1},
    expected=lambda f: [numpy.concatenate([f["x"] ** 2, f["z"] ** 2])],
)

# Axes, lengths and counts that come with the run.
situation(
    "squeeze_axes_at_run_time",
    "(float[1,3,1,2] x, int64[2] a) => (float[?,?] y) { y = Squeeze(x, a) }",
    {"x": f32(1, 3, 1, 2), "a": i64(-2, 0)},
    expected=lambda f: [f["x"].reshape(3, 2)],
)
situation(
    "pad_axes_at_run_time",
    "(float[2,3] x, int64[2] p, float v, int64[1] a) => (float[?,?] y) { y = Pad(x, p, v, a) }",
    {"x": f32(2, 3), "p": i64(2, -1), "v": scalar(7), "a": i64(-1)},
    expected=lambda f: [numpy.pad(f["x"], ((0, 0), (2, 0)), constant_values=7)[:, :-1]],
)
situation(
    "reduce_mean_axes_from_a_shape",
    "(float[2,3,4] x, float[1,2] r) => (float[?] y) { a = Shape(r) m = Constant<value = int64[2] {0, -1}>() b = Mul(a, m) y = "
    "ReduceMean<keepdims=0>(x, b) }",
    {"x": f32(2, 3, 4), "r": f32(1, 2)},
    expected=lambda f: [f["x"].mean((0, 1))],
)
situation(
    "slice_axes_of_a_computed_order",
    "(float[4,5] x, int64[2] s, int64[2] e, int64[2] a) => (float[?,?] y) { m = Constant<value = int64[2] {-1, -1}>() b = Mul(a, m) y = "
    "Slice(x, s, e, b) }",
    {"x": f32(4, 5), "s": i64(1, -3), "e": i64(4, 9), "a": i64(1, 2)},
    expected=lambda f: [f["x"][-3:, 1:4]],
)
situation(
    "range_of_lengths_of_the_run",
    "(float[5] x, int64 n) => (float[?] y) { z = Constant<value = int64 {0}>() d = Constant<value = int64 {2}>() r = Range(z, n, d) y = "
    "Gather(x, r) }",
    {"x": f32(5), "n": number(5)},
    expected=lambda f: [f["x"][::2]],
)
situation(
    "trilu_diagonal_at_run_time",
    "(float[2,3,4] x, int64 k) => (float[?,?,?] y) { y = Trilu<upper=0>(x, k) }",
    {"x": f32(2, 3, 4), "k": number(-1)},
    expected=lambda f: [numpy.tril(f["x"], -1)],
)
situation(
    "slice_backwards_by_wide_steps",
    "(float[3,9] x, int64[1] s, int64[1] e, int64[1] a, int64[1] d) => (float[?,?] y) { r = Slice(x, s, e, a, d) y = Mul(r, r) }",
    {"x": f32(3, 9), "s": i64(-2), "e": i64(-(2**62)), "a": i64(1), "d": i64(-5)},
    expected=lambda f: [f["x"][:, 7::-5] ** 2],
)
