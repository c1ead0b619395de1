"""Converted functions whose tensors have other sizes in each call: one conversion for all, and the program's results."""

import numpy
import pytest

tnp = pytest.importorskip("tensmith.numpy")
import random_sizes  # noqa: E402
from random_functions import described  # noqa: E402
from speculated import Plain  # noqa: E402

import tensmith as ts  # noqa: E402
from tensmith import nn, optim  # noqa: E402
from tensmith.functions import open_sizes  # noqa: E402


@pytest.fixture(autouse=True)
def evaluated(monkeypatch):
    monkeypatch.setenv("TENSMITH_EAGER_KERNELS", "off")


def tensor(*shape, seed=0):
    return tnp.asarray(numpy.random.RandomState(seed).randn(*shape).astype("float32"))


def compared(program, calls, state=dict):
    """The counts of a function that gives what its program gives, call by call."""
    function, ours, theirs = ts.function(program), Plain(count=0, **state()), Plain(count=0, **state())
    for arguments in calls:
        found, expected = (described([each(s, *arguments), s.__dict__]) for each, s in ((function, ours), (program, theirs)))
        assert found == expected, (arguments, function.explain())
    return function, function.statistics()


def rows(lengths, width=3):
    return [(tensor(n, width, seed=i),) for i, n in enumerate(lengths)]


LENGTHS = [5, 6, 7, 8, 1, 2, 11, 3, 4, 30, 9, 1, 10, 5, 12, 13]


def sums(s, x):
    s.count += 1
    return tnp.sum(x * s.count, axis=0)


def test_a_thousand_alternations_of_lengths_convert_three_times():
    # Breaks if a size stays an assumption: each length is a conversion until there are as many as may be. Sizes of 1 have their own.
    draw = numpy.random.RandomState(1)
    _, counts = compared(sums, rows(draw.randint(1, 40, 1000)))
    assert counts["conversions"] <= 3 and counts["compilations"] <= 3 and counts["converted"] >= 990, counts


def cut(s, x):
    s.count += 1
    return tnp.sum(x[:4]), tnp.sum(x[..., 2:6, :]), tnp.max(x[1]), x[:4].shape[0]


def cut_again(s, x):
    s.count += 1
    return tnp.sum(x * 2), x[1:][:4].shape[0]


def remainder(s, x):
    s.count += 1
    return x + tnp.full((3,), x.shape[0] % 2, dtype=tnp.float32)


def smaller(s, x):
    s.count += 1
    return x + tnp.full((3,), min(x.shape[0], 8), dtype=tnp.float32)


def even(s, x):
    s.count += 1
    return x + tnp.full((3,), x.shape[0] // 2 * 2, dtype=tnp.float32)


def line(s, x):
    s.count += 1
    return x + tnp.full((3,), 3 * x.shape[0] - 2, dtype=tnp.float32) * float(x.shape[0] ** 2 % 8)


def padded(s, x):
    s.count += 1
    return tnp.mean(tnp.concat([x, tnp.zeros((-x.shape[0] % 2, 3), dtype=tnp.float32)]), axis=0)


def chosen_by_remainder(s, x):
    s.count += 1
    return x * [1.0, 2.0][x.shape[0] % 2]


EVEN_AND_ODD = [4, 6, 8, 10, 5, 7, 2, 3, 9, 12, 13, 2, 3, 17, 8, 20, 1]


@pytest.mark.parametrize("program", [remainder, smaller, even, line, padded, chosen_by_remainder])
def test_numbers_that_are_computed_of_sizes_are_this_calls(program):
    # Breaks if the library is given a number of a size that is the same for all primes, and another one for this call.
    compared(program, rows(EVEN_AND_ODD))


def test_a_number_of_the_size_that_a_call_looks_up_by_is_its_own():
    # Breaks if what is assumed of such a number is what it is of the primes: then no entry holds for the call that it was made for.
    function, counts = compared(chosen_by_remainder, rows([4, 6, 8, 10, 12, 5, 7, 9, 11] * 4))
    assert counts["converted"] >= 12, counts
    assert all(entry.runs for entry in function._entries), function.explain()


def without_the_last_two(s, x):
    s.count += 1
    return tnp.sum(x[:-2], axis=0)


def test_a_size_that_leaves_nothing_is_no_reason_to_close_others():
    # Breaks if a call whose tensor is too short for what is cut makes all sizes assumptions.
    _, counts = compared(without_the_last_two, rows([5, 8, 3, 3, *range(9, 40)], width=4))
    assert counts["conversions"] <= 5, counts


CUTS = [slice(None, -2), slice(None, -3), slice(1, -1), slice(1, -2), slice(2, -2), slice(None, 8), slice(-3, 2), slice(5, None, -1), slice(-2, None, -1)]


@pytest.mark.parametrize("reduced", [tnp.sum, tnp.max])
@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_what_is_left_of_an_open_size_is_what_the_index_says(cut, reduced):
    # Breaks if a size that is cut to nothing, to one row or to less is taken for one that is not. Of nothing there is no largest: both say so.
    def program(s, x):
        s.count += 1
        return reduced(x[cut], axis=0)

    function, ours, theirs = ts.function(program), Plain(count=0), Plain(count=0)
    for arguments in rows(EVEN_AND_ODD):
        found, expected = (outcome(each, s, *arguments) for each, s in ((function, ours), (program, theirs)))
        assert found == expected, (arguments[0].shape, function.explain())


def test_what_a_loop_cuts_of_an_open_size_is_what_the_index_says():
    # Breaks if only what is cut outside of the graph's loops has to have two rows.
    def program(s, x):
        s.count += 1
        total = tnp.zeros((3,), dtype=tnp.float32)
        for _ in range(x.shape[0]):
            x = tnp.tanh(x)
            total = total + tnp.max(x[:-2], axis=0)
        return total

    function, ours, theirs = ts.function(program), Plain(count=0), Plain(count=0)
    for arguments in rows(EVEN_AND_ODD):
        assert outcome(function, ours, *arguments) == outcome(program, theirs, *arguments), (arguments[0].shape, function.explain())


def outcome(program, *arguments):
    try:
        return described([program(*arguments)])
    except ValueError as error:
        return str(error)


def parts(s, x):
    s.count += 1
    return tnp.sum(x) * (2 if len(tnp.unstack(x)) > 8 else 1)


def differences(s, x):
    s.count += 1
    return tnp.sum(tnp.diff(x, axis=0, n=3))


@pytest.mark.parametrize("program", [cut, cut_again, parts, differences])
def test_what_is_cut_of_an_open_size_is_there(program):
    # Breaks if a slice that ends within a long tensor, and behind a short one, is that of the long one.
    compared(program, rows([9, 8, 7, 5, 3, 12, 4, 6, 5, 3, 3, 8, 4, 5, 2, 2, 2]))


def test_sizes_are_open_once_a_tensor_was_too_short():
    # Breaks if sizes are never open again once a call had fewer rows than it cuts.
    _, counts = compared(cut, rows([9, 8, 7, 3, 10, 11, 12, 13, 14, 15, 16], 2))
    assert counts["conversions"] == 3, counts


def corrected(s, x):
    s.count += 1
    return tnp.var(x, axis=0, correction=4)


def test_a_size_without_a_constant_is_none_below_zero():
    # Breaks if n - 4 is asked for where the program takes 0 for it.
    def finite(s, x):
        return tnp.isfinite(corrected(s, x))

    compared(finite, rows([9, 8, 7, 3, 4, 3, 2, 5, 3]))


def greatest(s, x):
    s.count += 1
    return tnp.max(x, axis=0)


def test_a_size_of_nothing_is_not_open():
    # Breaks if an open size may be 0: what the program raises then would be a number.
    function, _ = compared(greatest, rows(LENGTHS))
    with pytest.raises(ValueError):
        function(Plain(count=0), tensor(0, 3))


def made_of_sizes(s, x):
    n = x.shape[0]
    s.count += n
    hidden, places = tnp.zeros((n, 3), dtype=tnp.float32) + 2, tnp.arange(n, dtype=tnp.float32)
    same = x.shape == hidden.shape and x.shape != (n, 4)
    return tnp.mean(x) + tnp.var(x, axis=0), tnp.sum((x + hidden).T @ x) / n, x[:, 0] * places, tnp.reshape(x * 1.5, (3, n, 1)), n, len(x), same, x.shape


def test_what_the_library_makes_of_sizes_is_made_again():
    # Breaks if a mean's count, a tensor of a size's zeros, or places are those of the call that was recorded.
    _, counts = compared(made_of_sizes, rows(LENGTHS))
    assert counts["conversions"] <= 4 and counts["converted"] >= 10, counts


def from_the_end(s, x):
    s.count += 1
    return tnp.sum(x[-2:] * 2), tnp.flip(x)[0] * 2, x[:, -2:] + 1, x[-1] * 2, x[:, 1][-2] * 3, (x + 1)[..., -1, :] * 2, x[x.shape[0] - 1, 0] * 2, tnp.sum(x) / x.size, x.size


def test_rows_from_the_end_of_an_open_size():
    # Breaks if the last row is that of the call that was recorded, or the number of elements is none that differs.
    _, counts = compared(from_the_end, rows([n for n in LENGTHS if n > 1]))
    assert counts["conversions"] <= 3 and counts["converted"] >= 10, counts


def branches(s, x):
    s.count += 1
    if x.shape[0] > 6:
        s.count += 10
        return tnp.sum(x * 2)
    return tnp.sum(x) + (3 if len(x) == 4 else 0)


def test_what_a_size_decides_is_an_assumption():
    # Breaks if truths of sizes are not checked, or are those of the sizes that a call is recorded with again.
    _, counts = compared(branches, rows(LENGTHS * 2))
    assert counts["converted"] >= 20, counts


def test_sizes_are_open_once_a_size_has_decided_otherwise():
    # Breaks if sizes are never open again once a call went another way than one of large sizes.
    _, counts = compared(branches, rows([6, 5, 4, 2, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]))
    assert counts["conversions"] <= 4, counts


def unrolled(s, x):
    s.count += 1
    return [x[i] * i for i in range(x.shape[0])]


def shifted(s, x):
    s.count += 1
    return tnp.sum(x[1:] - x[:-1]), x[1:].shape[0] > 5


def strided(s, x):
    s.count += 1
    return x[::2] * 2


def spaced(s, x):
    s.count += 1
    return x * tnp.linspace(0.0, 1.0, x.shape[0], dtype=tnp.float32)[:, None]


def keyed(s, x):
    s.count += 1
    return {x.shape[0]: tnp.sum(x)}, f"{x.shape[0]} rows"


@pytest.mark.parametrize("program", [unrolled, shifted, strided, spaced, keyed])
def test_sizes_that_are_used_in_other_ways_stay_assumptions(program):
    # Breaks if what two recordings have made of sizes is not compared: what depends on a size is then that of a recording.
    function, counts = compared(program, rows([5, 6, 7, 8, 5, 6, 7, 8, 9, 9, 9]))
    assert counts["converted"] >= 4 and "sizes are not open" in function.explain(), function.explain()


def looked_up(s, places):
    s.count += 1
    return tnp.sum(s.table[places], axis=1)


def test_stand_ins_are_hardly_larger_than_what_they_stand_for():
    # Breaks if a call is recorded again with sizes beyond those of all tensors: a batch of a large vocabulary's size.
    made, take = [], open_sizes.OpenSizes.given

    def given(opening, x, axes):
        made.append(take(opening, x, axes).shape)
        return take(opening, x, axes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_sizes.OpenSizes, "given", given)
        compared(looked_up, [(tnp.asarray([i % 7 for i in range(n)]),) for n in (5, 6, 7, 8, 9)], lambda: {"table": tensor(2000, 3)})
    assert made and max(shape[0] for shape in made) < 20, made


def together(s, x, y):
    s.count += 1
    return tnp.sum(x * 2, axis=0), x.shape[0] * 100 + y.shape[0]


def test_sizes_that_are_equal_by_chance_are_told_apart():
    # Breaks if sizes that were equal when a call was recorded are taken to be equal.
    pairs = [(2, 3), (4, 4), (5, 5), (6, 6), (7, 9), (8, 5), (3, 3), (9, 4), (5, 6), (6, 6)]
    _, counts = compared(together, [(tensor(a, 3, seed=a), tensor(b, 3, seed=b)) for a, b in pairs * 2])
    assert counts["conversions"] <= 4 and counts["converted"] >= 12, counts


def product(s, x):
    s.count += 1
    return x @ s.weight, x.shape[0] == s.weight.shape[0]


def test_a_size_that_is_another_one_by_chance():
    # Breaks if sizes are never open again once a call had one that was also another's.
    _, counts = compared(product, rows([7, 5, 6, 3, 7, 8, 9, 10, 3, 11, 12]), lambda: {"weight": tensor(3, 3)})
    assert counts["converted"] >= 5 and counts["conversions"] <= 4, counts


def written(s, x, y):
    s.count += 1
    x[:, 0] = y[:, 1] * 2
    x += 1
    return tnp.max(x)


def test_tensors_of_open_sizes_are_written():
    calls = [(n, i) for i, n in enumerate(LENGTHS)]
    function, found = ts.function(written), []
    for way in (function, written):
        s, told = Plain(count=0), []
        for n, seed in calls:
            x, y = tensor(n, 3, seed=seed), tensor(n, 2, seed=seed + 1)
            told.append(described([way(s, x, y), x, s.count]))
        found.append(told)
    assert found[0] == found[1]
    assert function.statistics()["conversions"] <= 4, function.explain()


def stopped(s, x):
    for _ in range(3):
        s.optimiser.zero_grad()
        with ts.record():
            loss = tnp.mean((x @ s.weight) ** 2.0)
        if float(loss) < s.limit:
            break
        loss.backward()
        s.optimiser.step()
    return float(loss)


def test_sizes_are_open_beside_branches_that_are_none_of_the_graph_s():
    # Breaks if a branch that can't be the graph's, in the call that opens sizes, keeps them assumptions.
    function, found = ts.function(stopped), []
    for way in (function, stopped):
        weight = tensor(3, 2)
        weight.requires_grad = True
        s = Plain(weight=weight, optimiser=optim.SGD([weight], lr=0.01), limit=1e-6)
        losses = []
        for i, n in enumerate([n for n in LENGTHS * 2 if n > 1]):
            losses.append(way(s, tensor(n, 3, seed=i) * (1e-6 if i > 3 and i % 2 else 1.0)))
        found.append(losses)
    assert numpy.allclose(found[0], found[1], 1e-4)
    counts = function.statistics()
    assert counts["conversions"] <= 6 and counts["converted"] >= 20, function.explain()


def recurrent(s, x):
    state = tnp.zeros((4,), dtype=tnp.float32)
    for row in x:
        state = tnp.tanh(row @ s.weight + state * 0.5)
    return state


def by_places(s, x):
    state = tnp.zeros((4,), dtype=tnp.float32)
    for i in range(x.shape[0]):
        state = tnp.tanh(x[i] @ s.weight + state * 0.5)
    return state


@pytest.mark.parametrize("program", [recurrent, by_places])
def test_a_loop_over_an_open_size_is_the_graph_s(program):
    # Breaks if a loop by a size is unrolled, so that each length is a conversion.
    function = ts.function(program)
    s = Plain(weight=tensor(3, 4))
    for (x,) in rows(LENGTHS):
        assert numpy.allclose(function(s, x).numpy(), program(s, x).numpy(), 1e-5, 1e-6)
    counts = function.statistics()
    assert counts["conversions"] <= 4 and counts["converted"] >= 10, function.explain()


def trained(s, x, wanted):
    s.optimiser.zero_grad()
    with ts.record():
        loss = nn.functional.cross_entropy(s.model(x), wanted)
    loss.backward()
    s.optimiser.step()
    return loss


def test_training_with_dropout_on_batches_of_any_size():
    # Breaks if random numbers have the sizes of the call that was recorded, or gradients of a mean its count.
    function, found = ts.function(trained), []
    for way in (function, trained):
        nn.manual_seed(3)
        model = nn.Sequential(nn.Linear(5, 8), nn.LayerNorm(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))
        s = Plain(model=model, optimiser=optim.Adam(model.parameters(), lr=0.01))
        found.append([float(way(s, tensor(n, 5, seed=i), tnp.asarray([0, 1, 2] * n)[:n])) for i, n in enumerate(LENGTHS)])
    assert numpy.allclose(found[0], found[1], 1e-4)
    assert function.statistics()["conversions"] <= 4, function.explain()


@pytest.mark.parametrize("seed", range(0, 60, 5))
def test_random_programs_of_open_sizes_do_the_same(seed):
    random_sizes.compare(seed)


def test_random_programs_have_open_sizes():
    """Programs whose sizes stay assumptions would agree as well."""
    functions = [random_sizes.compare(seed, 8) for seed in range(4)]
    assert any("any size" in each.explain() for each in functions)
