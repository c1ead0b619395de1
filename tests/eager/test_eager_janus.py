"""JANUS's eleven programs (bench/janus) under `ts.function`: each step gives the loss that the program gives, and most steps are converted."""

import pathlib
import sys

import pytest

ts = pytest.importorskip("tensmith")
pytest.importorskip("tensmith.numpy")
sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench/janus"))
import programs_of_janus  # noqa: E402

from tensmith import _eager  # noqa: E402
from tensmith.numpy.dtypes import Tensor  # noqa: E402
from tensmith.recorded import program_of  # noqa: E402

STEPS = 4
# Programs over data structures whose form is another one in each step: once two have differed, a conversion for all.
UNROLLED = ("TreeRNN", "TreeLSTM")
ACTING = ("A3C", "PPO")


@pytest.fixture(autouse=True)
def evaluated(monkeypatch):
    monkeypatch.setenv("TENSMITH_EAGER_KERNELS", "off")


def losses(name, convert):
    """The function, its losses, and the probabilities by which a program that acts has chosen."""
    told = []

    def kept(function):
        made = convert(function)
        if function.__name__ != "probability":
            return made

        def probability(*given):
            told.append(made(*given))
            return told[-1]

        return probability

    ts.nn.manual_seed(3)
    function, step = programs_of_janus.PROGRAMS[name](kept, 1)
    return function, [float(step(number)) for number in range(STEPS)], told


@pytest.mark.parametrize("name", programs_of_janus.PROGRAMS)
def test_a_program_of_janus(name):
    # Breaks if a policy that is asked is converted to another: the second way plays the games of the first, whatever its own chooses.
    _, expected, chosen = losses(name, lambda function: function)
    function, found, told = losses(name, ts.function)
    assert told == pytest.approx(chosen, rel=1e-5)
    assert bool(told) == (name in ACTING)
    assert found == pytest.approx(expected, rel=1e-5), function.explain()
    counts = function.statistics()
    assert counts["converted"] >= (1 if name in UNROLLED else STEPS - 2), function.explain()
    assert name not in UNROLLED or "not the graph's" not in function.explain(), function.explain()


def traced(function):
    """What a tracer makes of a function: the operations of its first call, of the tensors that it is given, whatever else it reads, writes and decides."""
    kept = []

    def call(*arguments):
        tensors = [x for x in arguments if isinstance(x, Tensor)]
        if kept:
            text, inputs, places, types = kept[0]
            given = [x if place is None else tensors[place] for x, place in zip(inputs, places)]
            return program_of(text).run(given, types)[0]
        tape, watched = _eager.tape(False), [_eager.copy(x) for x in tensors]
        tape.begin()
        try:
            for x in watched:
                tape.watch(x, True)
            rest = iter(watched)
            result = function(*(next(rest) if isinstance(x, Tensor) else x for x in arguments))
            told = result if isinstance(result, Tensor) else ts.numpy.asarray(result)
            text, inputs, types = tape.program([tape.read(told)])
        finally:
            tape.end()
        places = [next((i for i, x in enumerate(watched) if x.shares_memory(each)), None) for each in inputs]
        kept.append((text, inputs, places, types))
        return result

    return call


@pytest.mark.parametrize("name", ["LSTM", "TreeRNN", "TreeLSTM", "A3C", "PPO", "GAN"])
def test_tracing_alone_is_wrong(name):
    # Breaks if a program would need neither assumptions nor what is written back: then it would say nothing of them.
    def convert(function):
        return function if function.__name__ == "probability" else traced(function)

    _, expected, _ = losses(name, lambda function: function)
    _, found, _ = losses(name, convert)
    assert found[0] == pytest.approx(expected[0], rel=1e-5)
    assert found != pytest.approx(expected, rel=1e-3)
