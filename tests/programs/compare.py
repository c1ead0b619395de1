"""Runs programs from PyPI on ONNX Runtime and on Tensmith, and compares what they answer: `compare.py [PROGRAM...]`.

Started by scripts/programs in the environment that it makes. Exit status 1 and a line for each difference where there are
any. Times are of the whole program's second turn, preparation of its input included; both engines take turns.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
PROGRAMS = ("rapidocr", "magika", "silero", "silero-sequence")
# Of a probability, in what rounding makes of it: magika's network subtracts squares of sums that nearly cancel.
TOLERANCE = 5e-4


def answers(program, engine, folder):
    done = subprocess.run([sys.executable, HERE / "answers.py", program, engine, folder], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{program} on {engine} ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
    found = json.loads((pathlib.Path(folder) / f"{program}-{engine}.json").read_text())
    expected = "tensmith" if engine == "tensmith" else "onnxruntime"
    if found["engine"].split(".")[0] != expected:
        sys.exit(f"{program} on {engine} was run by {found['engine']}")
    return found


def differences(place, ours, theirs):
    """Texts; numbers with a fraction are compared within the tolerance, and the largest distance is recorded."""
    if isinstance(ours, float) and isinstance(theirs, float):
        return [] if abs(ours - theirs) <= TOLERANCE else [f"{place}: {ours} and not {theirs}"]
    if type(ours) is not type(theirs):
        return [f"{place}: {ours!r} and not {theirs!r}"]
    if isinstance(ours, dict):
        if ours.keys() != theirs.keys():
            return [f"{place}: {sorted(ours)} and not {sorted(theirs)}"]
        return [text for key in ours for text in differences(f"{place}: {key}", ours[key], theirs[key])]
    if isinstance(ours, list):
        if len(ours) != len(theirs):
            return [f"{place}: {len(ours)} and not {len(theirs)}"]
        return [text for i, pair in enumerate(zip(ours, theirs)) for text in differences(f"{place} {i}", *pair)]
    return [] if ours == theirs else [f"{place}: {ours!r} and not {theirs!r}"]


def farthest(ours, theirs):
    """The largest distance between two numbers in the same place."""
    if isinstance(ours, float):
        return abs(ours - theirs)
    pairs = [(ours[key], theirs[key]) for key in ours] if isinstance(ours, dict) else list(zip(ours, theirs)) if isinstance(ours, list) else []
    return max((farthest(*pair) for pair in pairs), default=0.0)


def main():
    programs = sys.argv[1:] or PROGRAMS
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for program in programs:
            if program not in PROGRAMS:
                sys.exit(f"there is no program '{program}'; there are {', '.join(PROGRAMS)}")
            theirs, ours = (answers(program, engine, folder) for engine in ("onnxruntime", "tensmith"))
            wrong = differences(program, ours["answers"], theirs["answers"])
            failed |= bool(wrong)
            for line in wrong:
                print(line)
            distance = "" if wrong else f", numbers within {farthest(ours['answers'], theirs['answers']):.1e}"
            print(
                f"{program}: {len(ours['answers'])} inputs, {len(wrong)} differences{distance}; seconds: Tensmith "
                f"{ours['seconds']['second']:.2f} (first {ours['seconds']['first']:.2f}), ONNX Runtime "
                f"{theirs['seconds']['second']:.2f} (first {theirs['seconds']['first']:.2f})",
                flush=True,
            )
    sys.exit(failed)


main()
