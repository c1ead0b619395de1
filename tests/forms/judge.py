"""Whether a case in a form gives what it shall: what the standard expects, and what the other forms give.

`verdict` is one of: agrees; differs; refused: the compiler or the run says it can't; none: the case has no such form.
"""

import importlib.machinery
import importlib.util
import pathlib

import numpy

import forms

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


def judge(case, form):
    """(verdict, message) of a case in a form."""
    import tensmith

    if why := forms.refusal(case, form):
        return "none", why
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
