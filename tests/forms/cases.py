"""Where cases come from: the standard's own tests, operators at the ends of their arguments, earlier opsets, what users of other
engines reported, and operands that the standard's tests were not made for."""

import importlib
import pathlib

import extremes
import forms
import judge
import mutations
import onnx
import opsets
import situations


def suite_cases():
    """The tests of onnx.backend.test, each with the first of its sets of data."""
    for _, name, folder, in_memory, rtol, atol in judge.SUITE.cases():
        model = in_memory[0] if in_memory else (pathlib.Path(folder) / "model.onnx").read_bytes()
        graph = onnx.load_from_string(model).graph
        stored = {initialiser.name for initialiser in graph.initializer}
        inputs = [port for port in graph.input if port.name not in stored]
        sets = in_memory[1] if in_memory else judge.SUITE.data_sets(graph, inputs, folder)
        values, expected = next(iter(sets))
        yield forms.Case(name, model, list(values), [forms.as_value(value) for value in expected], rtol, atol)


def standard_cases(modules=None):
    """Those tests that the package makes in memory, what `opset` cases are written from. `modules`: only those of these files."""
    from onnx.backend.test.case import node

    if modules is None:
        node.collect_testcases()
    for module in modules or ():
        importlib.import_module(f"{node.__name__}.{module}")
    for case in node._NodeTestCases:
        values, expected = case.data_sets[0]
        yield forms.Case(case.name, case.model.SerializeToString(), list(values), [forms.as_value(value) for value in expected], case.rtol, case.atol)


FAMILIES = {
    "suite": suite_cases,
    "extremes": extremes.extreme_cases,
    "opsets": lambda: opsets.opset_cases(standard_cases(), each=2),
    "situations": situations.situation_cases,
    "mutated": lambda: mutations.mutated_cases(suite_cases()),
}
