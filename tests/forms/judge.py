"""Whether a case in a form gives what it shall: what the standard expects, and what the other forms give.

`verdict` is one of: agrees; differs; refused: the compiler or the run says it can't; none: the case has no such form.
"""

import dataclasses
import importlib.machinery
import importlib.util
import pathlib

import forms
import mutations
import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]


def script(path):
    """A script of the checkout as a module."""
    name = path.replace("/", "_").replace("-", "_")
    loader = importlib.machinery.SourceFileLoader(name, str(ROOT / path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


SUITE = script("scripts/onnx-suite")
# What a derivative is refused with that there is none of: no fault of the form.
NO_DERIVATIVE = ("has no derivative", "no derivative", "not differentiable", "does not depend")


def same_bits(got, wanted):
    got, wanted = numpy.asarray(got), numpy.asarray(wanted)
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return False
    if got.dtype.kind in "OUS":
        return got.tolist() == wanted.tolist()
    if got.dtype.kind != "f":
        return got.tobytes() == wanted.tobytes()
    nans = numpy.isnan(got)
    return (nans == numpy.isnan(wanted)).all() and numpy.where(nans, 0, got).tobytes() == numpy.where(nans, 0, wanted).tobytes()


def check_values(case, results):
    for port, values, expected in zip(case.graph.output, results, case.expected, strict=True):
        for value in values:
            SUITE.compare(value, expected, case.rtol, case.atol, port.name)


def check_derivative(case, form, results, gradients):
    """Under `exact` the values have the bits that they have without a derivative, and the gradients are those of the reference."""
    if form.way == "exact":
        plain, _ = forms.run(case, forms.dataclasses.replace(form, place="plain"))
        for port, (value,), (other,) in zip(case.graph.output, results, plain, strict=True):
            if isinstance(value, numpy.ndarray) and not same_bits(value, other):
                raise AssertionError(f"output {port.name}: other bits than without a derivative")
    if form.way != "reference":
        _, wanted = forms.run(case, forms.dataclasses.replace(form, way="reference"))
        for name, gradient in gradients.items():
            half = gradient.dtype == numpy.float16
            got, other = gradient.astype(float), wanted[name].astype(float)
            largest = numpy.abs(other[numpy.isfinite(other)]).max(initial=0)
            numpy.testing.assert_allclose(got, other, rtol=2e-2 if half else 1e-3, atol=(1e-2 if half else 1e-4) * largest + 1e-7,
                                          err_msg=f"gradient of {name}")  # fmt: skip


def outcome(case, form, compiled):
    """The results in the form, or what it is refused with; `compiled` keeps models for the next mutation."""
    import tensmith

    data, feeds = forms.build(case, form)
    key = data, form.way, form.threads
    try:
        if key not in compiled:
            compiled[key] = tensmith.compile(data, **forms.SETTINGS[form.way], threads=form.threads)
        results = compiled[key].run(**{name: forms.as_value(value) for name, value in feeds.items()})
        return [numpy.array(result) if isinstance(result, numpy.ndarray) else result for result in results]
    except tensmith.Error as error:
        return " ".join(str(error).split())


def mutations_agree(case, form):
    """Whether the form computes what the reference computes of each mutation, and refuses what it refuses."""
    if form.place in ("program", "grad"):
        return "none", "mutations are of plain values"
    compiled = {}
    for each in case.mutations():
        wanted = outcome(each, dataclasses.replace(form, way="reference"), compiled)
        got = outcome(each, form, compiled)
        fed = {port.name: (value.shape, value.tolist() if value.size < 9 else "...")
               for port, value in zip(each.ports, each.values) if isinstance(value, numpy.ndarray)}  # fmt: skip
        if isinstance(wanted, str) != isinstance(got, str):
            said = f"the reference says {wanted}" if isinstance(wanted, str) else f"the reference computes, the form says {got}"
            return "differs", f"{said}; fed {fed}"[:600]
        if isinstance(wanted, str):
            continue
        try:
            for number, (ours, theirs) in enumerate(zip(got, wanted, strict=True)):
                SUITE.compare(ours, theirs, *mutations.tolerances(case, theirs), f"number {number}")
        except AssertionError as error:
            return "differs", f"{' '.join(str(error).split())[:300]}; fed {fed}"[:600]
    return "agrees", ""


def judge(case, form):
    """(verdict, message) of a case in a form."""
    import tensmith

    if why := forms.refusal(case, form):
        return "none", why
    if isinstance(case, mutations.Mutated):
        return mutations_agree(case, form)
    try:
        results, gradients = forms.run(case, form)
        check_values(case, results)
        if form.place == "grad":
            check_derivative(case, form, results, gradients)
    except tensmith.Error as error:
        message = " ".join(str(error).split())
        if form.place == "grad" and any(part in message for part in NO_DERIVATIVE):
            return "none", message[:300]
        return "refused", message[:300]
    except AssertionError as error:
        return "differs", " ".join(str(error).split())[:300]
    return "agrees", ""
