"""One meaning in every form: a small draw of what tests/forms/check.py runs by the thousands; see there for one case alone.

Breaks when a way through the compiler (open sizes, folded constants, no fusion, a loop's body, a derivative, ...) gives another
result than the standard's tests expect, refuses what another way takes, or when a fault that tests/forms/known.py lists is mended.
"""

import dataclasses
import itertools
import os
import pathlib
import random
import sys

import numpy
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("tensmith")
from onnx.reference import ReferenceEvaluator  # noqa: E402

sys.path.insert(0, os.fspath(pathlib.Path(__file__).resolve().parents[1] / "forms"))

import cases  # noqa: E402
import check  # noqa: E402
import extremes  # noqa: E402
import forms  # noqa: E402
import known  # noqa: E402
import mutations  # noqa: E402
import opsets  # noqa: E402
import situations  # noqa: E402
import slower  # noqa: E402

# Modules of the package's tests; the whole takes longer to make than to run.
MODULES = ("clip", "concat", "gather", "mod", "pad", "prelu", "reducemax", "slice", "softmax", "split", "squeeze", "topk", "where")
# Tests of operators that are written out by their sizes, and of definitions that compute with them, by their modules.
OPEN = {
    "linear_attention": "linear_attention_(linear|gated_per_head_decay|gated_delta_gqa|prefill_with_past|linear_expanded)",
    "flexattention": "flexattention(|_gqa|_diff_head_sizes)",
    "attention": "attention_(4d_scaled|3d_gqa_scaled)_expanded",
    "rotaryembedding": "rotary_embedding(|_3d_input|_interleaved|_with_rotary_dim)",
    "causal_conv_with_state": "causal_conv_with_state_(basic|with_bias_and_past_state|silu_fp16|short_input_no_past_state)",
    "col2im": "col2im(|_pads|_5d)",
    "unsqueeze": "unsqueeze_(axis_0|negative_axes|unsorted_axes)",
    "convtranspose": "convtranspose_autopad_same",
}
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the package's tests, when they are made
check.SECONDS_FOR_A_FORM = 600  # a busy machine is no failure
PAIRS = list(forms.pairwise_forms(1))


@pytest.fixture(scope="module")
def everything():
    return list(cases.standard_cases((*MODULES, *OPEN)))


@pytest.fixture(scope="module")
def standard(everything):
    return [case for case in everything if not known.re.search("attention|expanded", case.name)]


def failures(family, drawn, each, seed):
    """What goes wrong with `each` forms of each case; no two seeds draw the same."""
    draw = random.Random(seed)
    tasks = [(place, form) for place in range(len(drawn)) for form in draw.sample(PAIRS, each)]
    results = list(check.run_all(drawn, tasks, 1))
    assert sum(verdict == "agrees" for _, _, verdict, _ in results) > len(results) // 3
    return [check.line_of(family, case, form, verdict, message) for case, form, verdict, message in results
            if known.wrong(case.name, form, verdict)]  # fmt: skip


def test_any_two_levels_meet_in_a_form():
    met = {pair for form in PAIRS for pair in itertools.combinations(forms.dataclasses.asdict(form).items(), 2)}
    for a, b in itertools.combinations(forms.FACTORS, 2):
        for x, y in itertools.product(forms.FACTORS[a], forms.FACTORS[b]):
            if forms.possible(forms.Form(**{a: x, b: y})) and (x, y) != (getattr(forms.PLAIN, a), getattr(forms.PLAIN, b)):
                assert ((a, x), (b, y)) in met, f"no form has {a} {x} with {b} {y}"


@pytest.mark.parametrize("place", ["plain", "function", "loop", "steps", "last", "branch"])
def test_a_form_does_not_change_what_a_model_means(standard, place):
    """The judge itself evaluates the models of the forms: a mistake of theirs is none of the compiler's."""
    case = next(case for case in standard if case.name == "test_clip_example")
    data, feeds = forms.build(case, forms.Form(place=place, operands="parameters"))
    result = ReferenceEvaluator(forms.onnx.load_from_string(data)).run(None, feeds)[-1]
    for value in result if place in ("loop", "steps") else [result]:
        numpy.testing.assert_array_equal(value, case.expected[0])


def test_a_run_goes_on_where_it_ended(standard):
    tasks = [(place, form) for place in range(3) for form in (forms.PLAIN, forms.Form(way="exact"))]
    done = [[standard[0].name, str(forms.PLAIN), "agrees", ""], ["another", str(forms.PLAIN), "agrees", ""]]
    rest, kept = check.remaining(standard, tasks, done)
    assert rest == tasks[1:] and kept == [tuple(done[0])]


def test_parts_of_the_suite_come_together(tmp_path, monkeypatch):
    """Fails where the table has a test twice, or loses what an earlier call has found."""
    page = tmp_path / "page.md"
    page.write_text(f"before\n{check.BEGIN}\nold\n{check.END}\nbehind\n")
    monkeypatch.setattr(check, "PAGE", page)
    monkeypatch.setattr(check, "RESULTS", tmp_path / "forms.json")
    check.keep(0, 2, 9, {"form": {"agrees": 2, **dict.fromkeys(check.VERDICTS[1:], 0)}})
    for differing in (1, 3):  # the second call is of the same tests
        counts = {"form": {"agrees": 5, "differs": differing, **dict.fromkeys(check.VERDICTS[2:], 0)}}
        check.write(check.keep(2, 5, 9, counts), 9)
    assert "7 of 9 tests" in page.read_text() and "| form | 10 | 7 | 3 | 0 |" in page.read_text() and "old" not in page.read_text()
    with pytest.raises(SystemExit, match="from 1 on twice"):
        check.keep(1, 3, 9, counts)


def test_the_standards_tests(standard):
    drawn = random.Random(2).sample(standard, 50)
    assert not (wrong := failures("suite", drawn, 3, 2)), "\n".join(wrong)


@pytest.mark.parametrize("names", OPEN.values(), ids=OPEN)
def test_what_compiles_with_known_sizes_compiles_with_open_ones(everything, names):
    drawn = [case for case in everything if known.re.fullmatch(f"test_({names})", case.name)]
    assert drawn
    tasks = [(place, forms.Form(sizes, way=way)) for place in range(len(drawn)) for sizes, way in (("symbols", "fast"), ("unnamed", "unfused"))]
    for case, form, verdict, message in check.run_all(drawn, tasks, 1):
        assert verdict == "agrees", check.line_of("suite", case, form, verdict, message)


def test_open_sizes_cost_no_kernel(everything):
    """Fails where an operator goes to the reference evaluator because a size is open, such as heads that share keys."""
    drawn = [case for case in everything if not known.re.search("expanded", case.name)]
    drawn = random.Random(5).sample(drawn, 10) + [case for case in drawn if known.re.fullmatch("test_attention_4d_(gqa|scaled)", case.name)]
    found = [(case.name, str(form), operators) for case in drawn for form, operators in slower.slower(case) if not known.slow(case.name, operators)]
    assert not found


@pytest.mark.parametrize("family", [extremes.unary_cases, extremes.binary_cases, extremes.reduction_cases, extremes.limited_cases, extremes.cast_cases],
                         ids=lambda family: family.__name__)  # fmt: skip
def test_extreme_arguments(family):
    drawn = random.Random(3).sample(list(family()), 15)
    assert not (wrong := failures("extremes", drawn, 3, 3)), "\n".join(wrong)


def test_earlier_opsets(standard):
    drawn = list(opsets.opset_cases(standard))
    assert len(drawn) > 25
    assert not (wrong := failures("opsets", drawn, 2, 4)), "\n".join(wrong)


# Situations that a form once got wrong: types of sequences by an axis from the end, lists whose length is open, names of sizes that
# were made up twice, states of a loop that grow or are broadcast with slices under differentiation, sizes that only folding tells, and
# lengths of a spectrum that only the run tells.
FOUND = {
    "split_to_sequence_odd": "known/inputs/fast/plain/1",
    "split_to_sequence_without_axis": "symbols/inputs/unfused/plain/1",
    "slice_of_nothing": "unnamed/inputs/unfused/plain/1",
    "resize_antialias": "known/inputs/fast/grad/1",
    "loop_that_grows_and_squares": "symbols/inputs/exact/grad/2",
    "loop_of_a_state_and_slices_longer": "known/inputs/fast/grad/1",
    "positions_by_interpolation": "known/folded/fast/plain/1",
    "dft_inverse_length": "known/inputs/fast/grad/1",
    "size_of_a_quotient_below_zero": "symbols/inputs/fast/plain/1",
    "size_of_a_remainder_below_zero": "symbols/inputs/fast/plain/1",
    "size_of_a_cast_quotient_below_zero": "known/inputs/fast/plain/1",
    "resized_by_a_quotient_of_sizes": "known/inputs/fast/branch/1",
    "half_means_of_large": "known/inputs/fast/plain/1",
    "half_norms_of_large": "symbols/inputs/exact/plain/1",
    "half_product_of_large_that_is_scaled": "known/inputs/unfused/plain/1",
    "half_product_of_large_that_something_is_taken_from": "known/inputs/unfused/plain/1",
}
# The same of operands that no test has: parameters that contradict each other, more valid keys than there are, more sizes than
# dimensions.
MUTATED = {
    "test_batchnorm_epsilon_training_mode": "unnamed/parameters/exact/plain/1",
    "test_attention_4d_causal_nonpad_batch_prefill": "known/inputs/unfused/plain/1",
    "test_resize_tf_crop_and_resize_extrapolation_value": "known/folded/unfused/loop/1",
}


def test_what_users_of_other_engines_reported():
    made = {case.name.removeprefix("situation_"): case for case in situations.situation_cases()}
    drawn = random.Random(6).sample(list(made.values()), 40)
    assert not (wrong := failures("situations", drawn, 1, 6)), "\n".join(wrong)
    for name, form in FOUND.items():
        for case, each, verdict, message in check.run_all([made[name]], [(0, forms.Form.parse(form))], 1):
            assert verdict == "agrees", check.line_of("situations", case, each, verdict, message)


def test_operands_that_no_test_was_made_for(standard):
    plain = [dataclasses.replace(form, place="plain") for form in PAIRS]
    drawn = list(mutations.mutated_cases(random.Random(7).sample(standard, 25)))
    tasks = [(place, random.Random(place).choice(plain)) for place in range(len(drawn))]
    named = {case.name: case for case in cases.standard_cases(("batch_normalization", "attention", "resize"))}
    for name, form in MUTATED.items():
        drawn.extend(mutations.mutated_cases([named[name]]))
        tasks.append((len(drawn) - 1, forms.Form.parse(form)))
    for case, form, verdict, message in check.run_all(drawn, tasks, 1):
        assert verdict in ("agrees", "none"), check.line_of("mutated", case, form, verdict, message)


def test_what_is_known_to_fail_fails():
    """So that an entry goes when its fault does, whatever the draws above have taken."""
    found = {case.name: case for case in extremes.extreme_cases()}
    for pattern, form, why, *_ in known.KNOWN:
        names = [name for name in found if known.re.fullmatch(pattern, name)]
        fitting = [each for each in [*forms.single_forms(), *PAIRS] if known.re.fullmatch(form, str(each))]
        for case, _, verdict, _ in check.run_all([found[name] for name in names[:1]], [(0, fitting[0])] if names else [], 1):
            assert verdict != "agrees", f"{case.name} passes as {fitting[0]}, but known.py lists it: {why}"
