#!/usr/bin/env python3
"""Leaves out each requirement of sizes that operators have, one after the other, and sees that random graphs fail without it.

    tests/random/requirements.py                    # all of them; a few minutes on two cores
    tests/random/requirements.py -k "slice reads"   # those whose message holds this
    tests/random/requirements.py -k "negative dimension" --operators pad   # by graphs of these alone
    tests/random/requirements.py --draw 8           # so many of them, which --first decides
    tests/random/requirements.py --count 2000       # graphs before a requirement counts as one that nothing finds out
    tests/random/requirements.py --json FILE        # what was found of each, beside what the file has of others

Graphs are drawn until one fails that doesn't with the requirement: compiled code computes something where the reference
refuses, or reads outside of an operand, or is not compiled because nothing proves what it relies on, or the record takes
known sizes that the reference refuses. They are graphs of one operator that the requirement may be of and what follows it,
at sizes half of which are made to break that requirement (BrokenSizes.h); a refusal that only says that a size can't be
computed finds it out, too, since it is none of a requirement.
The exit status is 1 where a requirement can be left out and no graph fails.
"""

import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
GRAPH = FOLDER.parents[1] / "compiler/graph"
PROGRAM = pathlib.Path(os.environ.get("TENSMITH_BUILD", FOLDER.parents[1] / "build/dev")) / "test/random-graphs"
NOTHING_TO_DRAW = 3  # the exit status where no operator has a recipe
MOST_OF_THEIR_OWN = 8  # graphs that fail with the requirement, too

CALL = re.compile(r"(?<!::)\b(require(?:Equal|OneOr|Multiple|AtMost|Broadcast|Bias|Count)?|Pair)\s*[({]")
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
LITERALS = re.compile(r'(?:"(?:[^"\\]|\\.)*"\s*)+')
BIAS = "bias and output channels"
# What the messages of a call hold besides its own words.
BEHIND = {"requireEqual": " differ", "requireCount": " differ", "requireOneOr": " differ", "requireMultiple": " is no multiple", "Pair": " differ"}


def arguments(text, start):
    """What stands between the bracket before `start` and the one that closes it."""
    depth, place = 1, start
    while depth:
        literal = LITERAL.match(text, place)
        if literal:
            place = literal.end()
            continue
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(text[place], 0)
        place += 1
    return text[start : place - 1]


def mnemonics(folder):
    """Operators by the names of their classes."""
    found = {}
    for path in sorted(folder.glob("*.td")):
        found.update(re.findall(r'^def Graph_(\w+Op) : \w+<"(\w+)"', path.read_text(), re.MULTILINE))
    return found


def operators_of(text, place, names):
    """Those whose shape functions a call may be of: the one that it stands in, or of a function that several share all that follow
    in the file and call it, by themselves, by another such function or as a macro writes them down."""
    heads = list(re.finditer(r"^(?:static )?[\w:<>]+ (?:(\w+Op)::inferResults|(\w+))\(", text, re.MULTILINE))
    own = max((i for i, head in enumerate(heads) if head.start() < place), default=None)
    if own is None:
        return []
    callers, found = [heads[own].group(2)], [heads[own].group(1)]
    for head, following in zip(heads[own + 1 :], [*heads[own + 2 :], None]):
        body = text[head.start() : following.start() if following else len(text)]
        if any(name and re.search(rf"\b{name}\(", body[head.end() - head.start() :]) for name in callers):
            callers.append(head.group(2))
            found.append(head.group(1))
    found.extend(made.group(1) for made in re.finditer(r"^[A-Z]+\((\w+Op), (\w+)\)$", text, re.MULTILINE) if made.group(2) in callers)
    return [names[name] for name in found if name in names]


def requirements(folder):
    """The messages of all that shape functions require of sizes, as they stand in the code, so that a new one is among them, each with
    the operators that it may be of; none where it may be of any. Of one that is put together it is the longest part; one whose words are an argument has them from
    a Pair or requireBroadcast."""
    found, names = {}, mnemonics(folder)
    for path in sorted(folder.glob("*.cpp")):
        text = re.sub(r"//.*", "", path.read_text())
        constants = {name: "".join(LITERAL.findall(value)) for name, value in re.findall(r"char (k\w+Message)\[\] =([^;]*);", text)}
        for call in CALL.finditer(text):
            kind, inside = call.group(1), arguments(text, call.end())
            runs = ["".join(LITERAL.findall(run)) for run in LITERALS.findall(inside)]
            words = max((re.sub(r"^\(\w+\) ?", "", run) for run in runs), key=len, default="")
            words = words or next((value for name, value in constants.items() if name in inside), "")
            if kind == "requireBroadcast" and words:
                message = f"the dimensions of '{words}' and of x differ"
            elif kind == "requireBias":
                message = f"{BIAS} differ"
            elif (kind == "requireOneOr" and words.startswith("the dimensions of '")) or words == BIAS:
                continue  # requireBroadcast's own, which its callers name, and requireBias's
            elif words and not re.fullmatch(r"[\w ]* differ: \{a\} and \{b\}| is no multiple of ", words):
                ends = inside.rstrip().endswith(f'{words}"')  # where it is the last part, too
                message = words.strip(": ") + (BEHIND.get(kind, "") if ends else "")
            else:
                continue
            found.setdefault(message, []).append(operators_of(text, call.start(), names))
    return {text: sorted({name for of in calls for name in of}) if all(calls) else [] for text, calls in found.items()}


def draw(text, of, first, count, folder, unchecked):
    """The exit status of graphs of these operators, and the seed and the words of the first that fails."""
    command = [PROGRAM, "--open", "8", "--first", first, "--count", count, "--check-bounds", "--to-first", "--no-reduce", "--out", folder]
    # Of any operator: each in its turn, since graphs of many are slow and have few of the one.
    of = of or sorted(set(mnemonics(GRAPH).values()))
    command += ["--breaking", text, *(["--unchecked", text] if unchecked else []), "--operators", ",".join(of)]
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    lines = [re.match(r"seed (\d+) ((?!not evaluated).*)", line) for line in result.stdout.splitlines()]
    found = next((line for line in lines if line), None)
    return result.returncode, found and int(found.group(1)), found and found.group(2)


def leave_out(text, of, options, folder):
    """What comes of leaving out the requirement: the seed of a graph that fails for that alone, and how it does."""
    first, last = options.first, options.first + options.count
    for _ in range(MOST_OF_THEIR_OWN):
        status, seed, words = draw(text, of, first, last - first, folder, unchecked=True)
        if status == NOTHING_TO_DRAW:
            return {"found": f"random graphs have no {' or '.join(of)}"}
        if seed is None:
            break
        if draw(text, of, seed, 1, folder, unchecked=False)[1] is None:
            return {"seed": seed, "found": words}
        first = seed + 1
        if first >= last:
            break
    return {"found": "no graph fails"}


def keep(path, results, stated):
    """Writes what was found, beside what the file has of other requirements that are still stated."""
    found = {result["requirement"]: result for result in json.loads(path.read_text())} if path.exists() else {}
    found.update((result["requirement"], result) for result in results)
    path.write_text(json.dumps([found[text] for text in stated if text in found], indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", default="", metavar="TEXT", help="those whose message holds this")
    parser.add_argument("--list", action="store_true", help="only print them")
    parser.add_argument("--count", type=int, default=1000, help="graphs to draw at most for each (default: 1000)")
    parser.add_argument("--first", type=int, default=1, help="seed of the first (default: 1)")
    parser.add_argument("--operators", help="draw these, as pad,conv, in place of those that a requirement may be of")
    parser.add_argument("--draw", type=int, metavar="N", help="only so many, drawn by the seed")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="where what was found of each goes, beside what is there of others")
    options = parser.parse_args()
    named = options.operators.split(",") if options.operators else None
    chosen = {text: named or of for text, of in requirements(GRAPH).items() if options.k in text}
    if options.draw is not None:
        chosen = dict(random.Random(options.first).sample(sorted(chosen.items()), min(options.draw, len(chosen))))
    if options.list:
        print(*(f"{text} ({', '.join(of) or 'any operator'})" for text, of in chosen.items()), sep="\n")
        return
    if not chosen:
        sys.exit(f"no requirement's message holds {options.k!r}")
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for text, of in chosen.items():
            results.append({"requirement": text, "operators": of, **leave_out(text, of, options, folder)})
            print(f"{len(results)}/{len(chosen)} {text}: {results[-1].get('seed', '')} {results[-1]['found']}", flush=True)
    if options.json:
        keep(options.json, results, requirements(GRAPH))
    missed = sum("seed" in result for result in results)
    print(f"{missed} of {len(results)} are missed where they are left out")
    sys.exit(missed < len(results))


if __name__ == "__main__":
    main()
