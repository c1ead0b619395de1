"""Derivatives of eager programs against differences and closed forms: views, writes in place, control flow, and derivatives of derivatives.

A value that a tape takes for another one (a stale view, an input that was written over, a branch of another run) changes a gradient.
"""

import gc
import weakref

import numpy
import pytest

tnp = pytest.importorskip("tensmith.numpy")
import tensmith as ts  # noqa: E402
from random_recorded import differences, is_close, program  # noqa: E402
from tensmith.recorded import statistics  # noqa: E402


@pytest.mark.parametrize("seed", range(14))
def test_random_programs_have_the_derivatives_that_differences_tell(seed, monkeypatch):
    if seed > 2:  # the graph is the same with kernels and without, which take longer to make
        monkeypatch.setenv("TENSMITH_EAGER_KERNELS", "off")
    function, arguments = program(1000 + seed)
    gradients = ts.grad(function, (0, 1))(*[tnp.asarray(each) for each in arguments])
    for number, gradient in enumerate(gradients):
        assert is_close(gradient.numpy(), differences(function, arguments, number))


def test_second_call_compiles_nothing_at_other_sizes():
    def function(x, w):
        return tnp.sum(tnp.tanh(x @ w)[1:] ** 2)

    def call(rows, columns):
        return ts.grad(function)(tnp.ones((rows, 5)), tnp.ones((5, columns)) / 7)

    call(3, 4)
    before = statistics()["compiled"] + statistics()["loaded"]
    assert call(8, 2).shape == (8, 5) and call(9, 11).shape == (9, 5)
    assert statistics()["compiled"] + statistics()["loaded"] == before


def test_numbers_that_change_compile_nothing():
    x = tnp.asarray([1.0, 2.0])
    ts.grad(lambda x: tnp.sum(x * 0.3))(x)
    before = statistics()["compiled"] + statistics()["loaded"]
    assert ts.grad(lambda x: tnp.sum(x * 0.7))(x).tolist() == [0.7, 0.7]
    assert statistics()["compiled"] + statistics()["loaded"] == before


def test_derivatives_of_derivatives():
    x = tnp.asarray([1.0, 2.0, 3.0])
    assert ts.grad(ts.grad(ts.grad(lambda x: x**4.0)))(2.0).item() == 48
    assert ts.hessian(lambda x: tnp.sum(x**3.0) + x[0] * x[1])(x).tolist() == [[6, 1, 0], [1, 12, 0], [0, 0, 18]]
    assert ts.hvp(lambda x: tnp.sum(x**3.0), (x,), (tnp.asarray([1.0, 0.0, 2.0]),)).tolist() == [6, 0, 36]
    # What a function has of its argument by another name is a constant to it.
    assert ts.grad(lambda y: tnp.sum(ts.grad(lambda x: tnp.sum(x * x * y))(y)))(x).tolist() == [4, 8, 12]


def test_forward_and_backward_agree():
    a, b = tnp.asarray([[1.0, 2.0], [3.0, 4.0]]), tnp.asarray([0.5, -1.0])
    result, tangent = ts.jvp(lambda a, b: tnp.sin(a) @ b, (a, b), (tnp.ones((2, 2)), tnp.zeros(2)))
    assert numpy.allclose(tangent.numpy(), numpy.cos(a.numpy()) @ b.numpy())
    same, pull = ts.vjp(lambda a, b: tnp.sin(a) @ b, a, b)
    assert same.tolist() == result.tolist()
    for cotangent in (tnp.asarray([1.0, 0.0]), tnp.asarray([0.0, 2.0])):  # as often as one likes
        by_a, by_b = pull(cotangent)
        assert numpy.allclose(by_a.numpy(), numpy.cos(a.numpy()) * numpy.outer(cotangent.numpy(), b.numpy()))
        assert numpy.allclose(by_b.numpy(), numpy.sin(a.numpy()).T @ cotangent.numpy())


def test_nested_arguments_and_other_results():
    value, gradients = ts.value_and_grad(lambda p, s: (p["w"] * p["b"][0] * s, "more"), has_aux=True)({"w": 2.0, "b": (3.0,)}, 5)
    assert value[0].item() == 30 and value[1] == "more"
    assert gradients["w"].item() == 15 and gradients["b"][0].item() == 10


def test_the_tape_adds_gradients_up():
    w = tnp.asarray([1.0, 2.0])
    w.requires_grad = True
    for count in (1, 2):
        with ts.record():
            loss = tnp.sum(w * w)
        loss.backward()
        assert w.grad.tolist() == [2 * count, 4 * count]
    with ts.record():  # a penalty on a gradient
        slope = ts.grad(lambda x: tnp.sum(x**3.0 * w))(tnp.asarray([1.0, 2.0]))
        loss = tnp.sum(slope * slope)
    w.grad = None
    loss.backward()
    assert w.grad.tolist() == [18, 576]


def test_what_is_written_over_after_it_was_read_counts_as_it_was():
    w, x = tnp.asarray([1.0, 2.0]), tnp.asarray([3.0, 4.0])
    w.requires_grad = True
    with ts.record():
        loss = tnp.sum(w * x)
        x[...] = 0
    x += 7
    w -= 1
    loss.backward()
    assert w.grad.tolist() == [3, 4]


def test_views_of_before_the_recording_see_what_is_written():
    buffer = tnp.zeros((2, 3))
    column = buffer[:, 1]

    def function(x):
        buffer[...] = x
        column[...] = column * 10
        return tnp.sum(buffer * buffer)

    x = tnp.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert ts.grad(function)(x).tolist() == [[2, 400, 6], [8, 1000, 12]]


def test_sorted_elements_keep_their_derivatives():
    x = tnp.asarray([3.0, 1.0, 2.0])
    weights = tnp.asarray([1.0, 10.0, 100.0])
    assert ts.grad(lambda x: tnp.sum(tnp.sort(x) * weights))(x).tolist() == [100, 1, 10]


def test_kinks_are_those_of_the_page():
    assert ts.grad(lambda x: tnp.sum(tnp.maximum(x, 0.0)))(tnp.asarray([-1.0, 0.0, 2.0])).tolist() == [0, 0, 1]


@pytest.mark.parametrize("call, error, words", [
    (lambda x: ts.grad(lambda x: tnp.sum(tnp.linalg.svdvals(x[None] * x[:, None])))(x), ts.Error, "'svd' has no graph"),
    (lambda x: ts.grad(lambda x: x * 2)(x), ValueError, "one number, not a tensor of shape \\(3,\\)"),
    (lambda x: ts.grad(lambda x: 5.0)(x), ValueError, "one number, not float"),
    (lambda x: ts.grad(tnp.sum)(tnp.asarray([1, 2])), TypeError, "argument 0 has one of int64"),
    (lambda x: ts.grad(tnp.sum, 3)(x), ValueError, "there is no argument 3"),
    (lambda x: ts.grad(lambda x: tnp.sum(tnp.real(tnp.astype(x, tnp.complex128))))(x), TypeError, "complex numbers have no derivative"),
    (lambda x: (x * 1).backward(), RuntimeError, "not computed within"),
    (lambda x: setattr(x[1:], "requires_grad", True), ValueError, "a view has the gradient of the tensor that it is of"),
])  # fmt: skip
def test_what_has_no_derivative_says_why(call, error, words):
    with pytest.raises(error, match=words):
        call(tnp.asarray([1.0, 2.0, 3.0]))


def test_a_tape_is_given_back_after_its_derivatives():
    w = tnp.asarray([1.0])
    w.requires_grad = True
    with ts.record() as tape:
        loss = tnp.sum(w * w)
    loss.backward(retain=True)
    loss.backward()
    assert w.grad.tolist() == [4]
    with pytest.raises(RuntimeError, match="retain=True"):
        loss.backward()
    kept = weakref.ref(w)
    del w, tape, loss
    gc.collect()
    assert kept() is None


def test_a_broadcast_is_not_written():
    view = tnp.broadcast_to(tnp.zeros(1), (3,))
    for write in (lambda: view.__setitem__(0, 1.0), lambda: view.__iadd__(1.0), lambda: view.__setitem__(tnp.asarray([0, 1]), 1.0)):
        with pytest.raises(ValueError, match="a broadcast, several of whose elements are one place; assign to a copy"):
            write()


def test_derivatives_for_each_example():
    """Within a compiled loop, and of one."""
    x, w = tnp.asarray([[0.5, 1.5], [1.0, -2.0], [0.1, 0.2]]), tnp.asarray([2.0, -1.0])

    def loss(w, row):
        return tnp.sum(tnp.sin(w * row) * row)

    each = ts.vmap(ts.grad(loss), in_axes=(None, 0))(w, x)
    wanted = numpy.stack([ts.grad(loss)(w, x[i]).numpy() for i in range(3)])
    assert numpy.allclose(each, wanted, rtol=1e-12)
    assert numpy.allclose(ts.vmap(ts.grad(loss, 1), in_axes=(None, 0))(w, x), [ts.grad(loss, 1)(w, x[i]).numpy() for i in range(3)], rtol=1e-12)
    assert numpy.allclose(ts.vmap(lambda row: ts.jvp(loss, (w, row), (w, row))[1])(x), [float(ts.jvp(loss, (w, x[i]), (w, x[i]))[1]) for i in range(3)], rtol=1e-12)

    def norms(map_):
        return lambda w: tnp.sum(map_(lambda row: tnp.sum(ts.grad(loss)(w, row) ** 2)))

    looped = ts.grad(norms(lambda f: ts.vmap(f)(x)))(w)
    assert numpy.allclose(looped, ts.grad(norms(lambda f: tnp.stack([f(x[i]) for i in range(3)])))(w), rtol=1e-10)


def test_descent_in_a_compiled_loop():
    """Each turn takes a gradient; the whole has a gradient by the rate."""
    rows = tnp.asarray(numpy.random.RandomState(0).randn(5, 3))

    def last(rate):
        def turn(carried, each):
            (w,) = carried
            slope = ts.grad(lambda w: tnp.sum((w * each[0] - 1.0) ** 2))(w)
            return [w - rate * slope], [tnp.sum(slope)]

        (w,), slopes = ts.scan(turn, [tnp.ones(3)], [rows])
        return w, slopes[0]

    w, given = tnp.ones(3), rows.numpy()
    for i in range(5):
        w = w - 0.1 * ts.grad(lambda w: tnp.sum((w * rows[i] - 1.0) ** 2))(w)
    assert numpy.allclose(last(0.1)[0], w, rtol=1e-12) and last(0.1)[1].shape == (5,)

    def descent(rate):
        w = numpy.ones(3)
        for row in given:
            w = w - rate * 2 * (w * row - 1) * row
        return w.sum()

    slope = ts.grad(lambda rate: tnp.sum(last(rate)[0]))(tnp.asarray(0.1))
    assert abs(float(slope) - (descent(0.1 + 1e-6) - descent(0.1 - 1e-6)) / 2e-6) < 1e-5


def test_derivatives_of_loops_within_loops():
    x = tnp.asarray([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])

    def last(x):
        return ts.scan(lambda carried, rows: ([tnp.tanh(carried[0] * rows[0] + x[1])], []), [x[1]], [x])[0][0]

    assert numpy.allclose(ts.vmap(ts.grad(lambda x: tnp.sum(ts.vmap(lambda y: y * y)(x))))(x), 2 * x.numpy())
    wanted = [ts.grad(last)(x[i]).numpy() for i in range(2)]
    assert numpy.allclose(ts.vmap(ts.grad(last))(x), wanted)
    assert numpy.allclose(ts.scan(lambda carried, rows: ([carried[0] + ts.grad(last)(rows[0])], []), [tnp.zeros(3)], [x])[0][0], sum(wanted))
    assert numpy.allclose(ts.vmap(ts.hessian(last))(x), [ts.hessian(last)(x[i]).numpy() for i in range(2)])
    assert numpy.allclose(ts.vmap(ts.grad(ts.checkpoint(last)))(x), wanted)
