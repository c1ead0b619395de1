"""Finds operators that have a kernel where sizes are known, and go to the reference evaluator where they are open.

    PYTHONPATH=build/dev/python python tests/forms/slower.py                # the standard's tests, each compiled four times
    ... slower.py -k resize --sizes unnamed                                 # some of them; symbols: each dimension has its own name
    ... slower.py --every 10                                                # each tenth

Dimensions of one size have one name, as exporters give them. Operands are all inputs, or parameters but for the first: a shape or a scale that is an input is the run's to know in both forms. A
line names the test, its form and the operators that are evaluated by reference in that form alone. What known.py says of it is not
counted. The exit status is 1 where a line is printed.
"""

import argparse
import collections
import os
import pathlib
import re
import sys
import warnings

sys.path.insert(0, os.fspath(pathlib.Path(__file__).resolve().parent))

import cases  # noqa: E402
import forms  # noqa: E402
import known  # noqa: E402
import onnx  # noqa: E402


SIZES = ("shape", "size")  # what computes sizes alone


def is_large(value):
    """Whether the run tells its size; what has a few elements whatever the sizes are is a size itself, or an attribute."""
    return value is not None and any(isinstance(dim, str) for dim in value.get("dims", ()))


def name_sizes(data):
    """The model with names in the place of the inputs' sizes, of which equal ones have the same; a 1 stays."""
    model = onnx.load_from_string(data)
    stored = {initialiser.name for initialiser in model.graph.initializer}
    for port in model.graph.input:
        for dim in port.type.tensor_type.shape.dim if port.name not in stored else ():
            if dim.dim_value > 1:
                dim.dim_param = f"size_{dim.dim_value}"
    forms.replace_outputs(model.graph, [port.name for port in model.graph.output])
    return model.SerializeToString()


def routines(case, form, is_named=False):
    """How often each operator is evaluated by reference, and how often on what is large; None where the form is refused, which
    check.py looks at."""
    import tensmith

    data, _ = forms.build(case, form)
    data = name_sizes(data) if is_named else data
    try:
        plan = tensmith.compile(data, threads=1).describe()
    except tensmith.Error:
        return None
    steps = [step for function in plan["functions"] for step in function["instructions"] if step["opcode"] == "routine"]
    large = [step for step in steps if any(map(is_large, step["operands"] + step["results"]))]
    return tuple(collections.Counter(step["label"] for step in each if step["label"] not in SIZES) for each in (steps, large))


def slower(case, sizes="names"):
    """(form, operators) of each form of the case whose open sizes cost a kernel."""
    for operands in ("inputs", "parameters"):
        known_form = forms.Form(operands=operands)
        form = known_form if sizes == "names" else forms.dataclasses.replace(known_form, sizes=sizes)
        if forms.refusal(case, form):
            continue
        before, after = routines(case, known_form), routines(case, form, is_named=sizes == "names")
        if before is not None and after is not None and (more := after[1] - before[0]):
            yield form, sorted(more)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", default="", help="only tests whose name has this part")
    parser.add_argument("--without", default="expanded|cast", help="but none of those whose name matches this")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--sizes", choices=("names", "symbols", "unnamed"), default="names")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = [case for case in cases.standard_cases() if arguments.k in case.name and not re.search(arguments.without, case.name)]
    chosen = chosen[arguments.first :: arguments.every]
    counts = collections.Counter()
    for case in chosen:
        for form, operators in slower(case, arguments.sizes):
            if why := known.slow(case.name, operators):
                counts[f"known: {why}"] += 1
                continue
            counts[", ".join(operators)] += 1
            print(f"{case.name} {form}: {', '.join(operators)}", flush=True)
    print(f"{len(chosen)} tests", *(f"{count:5} {what}" for what, count in counts.most_common()), sep="\n")
    sys.exit(any(not what.startswith("known: ") for what in counts))


if __name__ == "__main__":
    main()
