"""Situations of control flow: loops, scans, branches, sequences and optionals; see situations.py."""

import numpy
from situations import f32, i64, scalar, situation

# Loops, scans, sequences, optionals.
situation(
    "loop_scan_of_no_trips",
    (
        "(int64 n, float[2,3] x) => (float[?,?,?] y, float[?,?] f) { t = Constant<value = bool {1}>() f, y = Loop(n, t, "
        "x) <body = b (int64 i, bool c, float[2,3] s) => (bool c2, float[2,3] s2, float[2,3] o) { c2 = Identity(c) s2 = "
        "Add(s, s) o = Neg(s) }> }"
    ),
    {"n": i64(0).reshape(()), "x": f32(2, 3)},
    expected=lambda f: [f32(0, 2, 3), f["x"]],
)
situation(
    "loop_ends_by_its_condition",
    (
        "(float[2] x) => (float[?,?] y, float[?] f) { m = Constant<value = int64 {100}>() t = Constant<value = bool "
        "{1}>() f, y = Loop(m, t, x) <body = b (int64 i, bool c, float[2] s) => (bool c2, float[2] s2, float[2] o) { k = "
        "Constant<value = int64 {3}>() c2 = Less(i, k) one = Constant<value = float {1}>() s2 = Add(s, one) o = Mul(s, s) "
        "}> }"
    ),
    {"x": f32(2)},
    expected=lambda f: [numpy.stack([(f["x"] + numpy.float32(i)) ** 2 for i in range(4)]), f["x"] + 4],
)
situation(
    "loop_without_a_limit",
    (
        "(float x) => (float f) { t = Constant<value = bool {1}>() f = Loop(, t, x) <body = b (int64 i, bool c, float s) "
        "=> (bool c2, float s2) { k = Constant<value = float {100}>() two = Constant<value = float {2}>() s2 = Mul(s, "
        "two) c2 = Less(s2, k) }> }"
    ),
    {"x": scalar(3)},
    expected=lambda f: [scalar(192)],
)
situation(
    "loop_that_grows_a_tensor",
    (
        "(int64 n, float[1,2] x) => (float[?,?] f) { t = Constant<value = bool {1}>() f = Loop(n, t, x) <body = b (int64 "
        "i, bool c, float[k,2] s) => (bool c2, float[l,2] s2) { c2 = Identity(c) s2 = Concat<axis=0>(s, x) }> }"
    ),
    {"n": i64(3).reshape(()), "x": f32(1, 2)},
    expected=lambda f: [numpy.tile(f["x"], (4, 1))],
)
situation(
    "loop_that_grows_and_squares",
    (
        "(int64 n, float[1,2] x) => (float[?,?] f, float[?] y) { t = Constant<value = bool {1}>() f, y = Loop(n, t, x) <body = b"
        " (int64 i, bool c, float[k,2] s) => (bool c2, float[l,2] s2, float o) { c2 = Identity(c) q = Mul(s, s)"
        " o = ReduceSum<keepdims=0>(q) s2 = Concat<axis=0>(q, x) }> }"
    ),
    {"n": i64(3).reshape(()), "x": f32(1, 2) / 5},
    expected=lambda f: [
        numpy.concatenate([f["x"] ** p for p in (8, 4, 2, 1)]),
        numpy.array([sum((f["x"].astype("f8") ** p).sum() for p in ps) for ps in ((2,), (4, 2), (8, 4, 2))], "f4"),
    ],
)
situation(
    "loop_of_a_sequence",
    (
        "(int64 n, float[2] x) => (float[?] y, int64 c) { t = Constant<value = bool {1}>() e = SequenceEmpty() f = "
        "Loop(n, t, e) <body = b (int64 i, bool c, seq(float[?]) s) => (bool c2, seq(float[?]) s2) { c2 = Identity(c) k = "
        "Cast<to=1>(i) z = Mul(x, k) s2 = SequenceInsert(s, z) }> y = ConcatFromSequence<axis=0>(f) c = SequenceLength(f) "
        "}"
    ),
    {"n": i64(3).reshape(()), "x": f32(2)},
    expected=lambda f: [numpy.concatenate([f["x"] * i for i in range(3)]), i64(3).reshape(())],
)
situation(
    "loop_whose_slices_vary",
    (
        "(float[5,2] x) => (float[?,?] y) { u = Constant<value = int64[1] {2}>() n = Constant<value = int64 {5}>() t = "
        "Constant<value = bool {1}>() y = Loop(n, t) <body = b (int64 i, bool c) => (bool c2, float[2] o) { c2 = "
        "Identity(c) one = Constant<value = int64[1] {0}>() j = Unsqueeze(i, one) k = Add(j, u) r = Slice(x, j, k) s = "
        "ReduceSum<keepdims=0>(r, one) o = Neg(s) }> }"
    ),
    {"x": f32(5, 2)},
    expected=lambda f: [numpy.stack([-f["x"][i : i + 2].sum(0) for i in range(5)])],
)
situation(
    "scan_backwards",
    (
        "(float[2] s, float[4,2] x) => (float[?] f, float[?,?] y) { f, y = Scan<num_scan_inputs=1, "
        "scan_input_directions=[1], scan_output_directions=[1], body = b (float[2] a, float[2] b1) => (float[2] a2, "
        "float[2] o) { a2 = Add(a, b1) o = Mul(a, b1) }>(s, x) }"
    ),
    {"s": f32(2), "x": f32(4, 2)},
    "ort",
)
situation(
    "scan_along_axis_1",
    (
        "(float[3] s, float[3,4] x) => (float[?] f, float[?,?] y) { f, y = Scan<num_scan_inputs=1, scan_input_axes=[-1], "
        "scan_output_axes=[-1], body = b (float[3] a, float[3] b1) => (float[3] a2, float[3] o) { a2 = Add(a, b1) o = "
        "Identity(a2) }>(s, x) }"
    ),
    {"s": f32(3), "x": f32(3, 4)},
    "ort",
)
situation(
    "if_of_other_shapes",
    (
        "(bool c, float[2,3] x) => (float y) { y = If(c) <then_branch = t () => (float[3] a) { z = Constant<value = "
        "int64[1] {0}>() a = ReduceSum<keepdims=0>(x, z) }, else_branch = e () => (float[2,3] b) { b = Neg(x) }> }"
    ),
    {"c": numpy.array(True), "x": f32(2, 3)},
)
situation(
    "if_of_other_ranks_squeeze",
    (
        "(float[1,3] x) => (float y) { s = Shape<start=0, end=1>(x) one = Constant<value = int64[1] {1}>() c = Equal(s, "
        "one) y = If(c) <then_branch = t () => (float[3] a) { z = Constant<value = int64[1] {0}>() a = Squeeze(x, z) }, "
        "else_branch = e () => (float[?,3] b) { b = Identity(x) }> }"
    ),
    {"x": f32(1, 3)},
)
situation(
    "sequence_negative_position",
    ("(float[2] x, float[3] z) => (float[?] y) { s = SequenceConstruct(x, z) i = Constant<value = int64 {-1}>() y = " "SequenceAt(s, i) }"),
    {"x": f32(2), "z": f32(3) + 1},
)
situation(
    "sequence_erased_and_joined",
    (
        "(float[2] x, float[2] z) => (float[?,?] y) { s = SequenceConstruct(x, z, x) i = Constant<value = int64 {-2}>() r "
        "= SequenceErase(s, i) y = ConcatFromSequence<axis=-1, new_axis=1>(r) }"
    ),
    {"x": f32(2), "z": f32(2) + 1},
)
situation(
    "split_to_sequence_odd",
    (
        "(float[2,5] x) => (float[?,?] y, int64 n) { l = Constant<value = int64 {2}>() s = SplitToSequence<axis=-1>(x, l) "
        "i = Constant<value = int64 {-1}>() y = SequenceAt(s, i) n = SequenceLength(s) }"
    ),
    {"x": f32(2, 5)},
)
situation(
    "split_to_sequence_without_axis",
    ("(float[2,3] x) => (float[?] y) { s = SplitToSequence<axis=-1, keepdims=0>(x) i = Constant<value = int64 {1}>() y " "= SequenceAt(s, i) }"),
    {"x": f32(2, 3)},
)
situation(
    "optional_has_an_element",
    "(float[2] x) => (bool y, float[?] z) { o = Optional(x) y = OptionalHasElement(o) z = OptionalGetElement(o) }",
    {"x": f32(2)},
    expected=lambda f: [numpy.array(True), f["x"]],
)
situation(
    "sequence_map",
    (
        "(float[2] x, float[3] z) => (float[?] y) { s = SequenceConstruct(x, z) m = SequenceMap(s, x) <body = b (float[?] "
        "a, float[2] k) => (float[?] o) { one = Constant<value = int64[1] {0}>() q = ReduceSum<keepdims=1>(k, one) o = "
        "Mul(a, q) }> i = Constant<value = int64 {1}>() y = SequenceAt(m, i) }"
    ),
    {"x": f32(2), "z": f32(3)},
)
