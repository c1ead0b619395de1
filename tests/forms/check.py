"""Runs the standard's tests, extreme arguments and earlier opsets in the forms of forms.py, and compares with what is expected.

    PYTHONPATH=build/dev/python python tests/forms/check.py                      # each test in the forms that differ in one factor
    ... check.py --pairs 8 --seed 3                                              # in 8 drawn of those in which any two levels meet
    ... check.py --family extremes --pairs 4               # or opsets, situations, mutated; suite is the default
    ... check.py --case test_clip --form symbols/inputs/exact/loop/2                 # one by itself, as a failure's line says
    ... check.py --first 100 --count 50 --jobs 2 --json counts.json
    ... check.py --jobs 2 --json counts.json --resume --write                    # what an earlier call has not done; all in about an hour

A form is sizes/operands/way/place/threads. A process runs one test after the other; one that dies is the failure of the test and
the form that it had in hand. What known.py lists must fail, and nothing else may. --write keeps what came of these tests of the suite, in
the forms that differ in one factor, in bench/results/forms.json, beside what is there of others (those from another --first), and puts the
table of all into docs/onnx.md.
"""

import argparse
import collections
import json
import multiprocessing.connection
import os
import pathlib
import random
import sys
import time

sys.path.insert(0, os.fspath(pathlib.Path(__file__).resolve().parent))

import cases  # noqa: E402
import forms  # noqa: E402
import known  # noqa: E402

# What a form may take: of a processor, so that other work beside it makes no difference, and of the clock, for one that waits for ever.
SECONDS_OF_PROCESSOR = 120
SECONDS_OF_CLOCK = 1800


def work(all_cases, connection):
    import warnings

    import judge

    warnings.simplefilter("ignore")
    while (task := connection.recv()) is not None:
        place, form = task
        try:
            connection.send(judge.judge(all_cases[place], form))
        except Exception as error:
            connection.send(("broken", f"{type(error).__name__}: {error}"[:300]))


def processor_seconds(process):
    """What the process has taken so far, in seconds (proc(5): user and system time, fields 14 and 15, in ticks)."""
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Worker:
    """A process that does one task at a time, and is started anew when one ends it."""

    def __init__(self, all_cases):
        self.all_cases = all_cases
        self.start()

    def start(self):
        self.connection, other = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=work, args=(self.all_cases, other), daemon=True)
        self.process.start()
        other.close()

    def begin(self, task):
        self.task, self.since, self.spent = task, time.monotonic(), processor_seconds(self.process.pid)
        self.connection.send(task)

    def overdue(self):
        spent = processor_seconds(self.process.pid) - self.spent
        return spent > SECONDS_OF_PROCESSOR or time.monotonic() - self.since > SECONDS_OF_CLOCK

    def result(self):
        """The task's verdict and message once there is one."""
        try:
            if self.connection.poll(0):
                return self.connection.recv()
            if not self.overdue():
                return None
            self.process.kill()
            found = ("hung", f"took over {SECONDS_OF_PROCESSOR} s of a processor, or {SECONDS_OF_CLOCK} s in all")
        except (EOFError, OSError):
            self.process.join()
            found = ("crashed", f"exit status {self.process.exitcode}")
        self.process.join()
        self.start()
        return found


def run_all(all_cases, tasks, jobs):
    """(case, form, verdict, message) of each task, as they come in."""
    workers = [Worker(all_cases) for _ in range(min(jobs, max(1, len(tasks))))]
    waiting = collections.deque(tasks)
    busy = set()
    while waiting or busy:
        for worker in workers:
            if worker not in busy and waiting:
                worker.begin(waiting.popleft())
                busy.add(worker)
        multiprocessing.connection.wait([worker.connection for worker in busy], 1)
        for worker in list(busy):
            task = worker.task
            if found := worker.result():
                busy.discard(worker)
                yield all_cases[task[0]], task[1], *found
    for worker in workers:
        worker.connection.send(None)


def forms_of(place, arguments):
    if arguments.form:
        return [forms.Form.parse(text) for text in arguments.form]
    if not arguments.pairs:
        return list(forms.single_forms())
    covering = list(forms.pairwise_forms(arguments.seed))
    return random.Random(f"{arguments.seed} {place}").sample(covering, min(arguments.pairs, len(covering)))


def remaining(all_cases, tasks, results):
    """Those of the tasks of which there is no result, and the results of the others."""
    asked = {(all_cases[place].name, str(form)): (place, form) for place, form in tasks}
    kept = [tuple(result) for result in results if tuple(result[:2]) in asked]
    for name, form, *_ in kept:
        asked.pop((name, form), None)
    return list(asked.values()), kept


VERDICTS = ("agrees", "differs", "refused", "broken", "crashed", "hung")
BEGIN, END = "<!-- forms: begin (made by tests/forms/check.py --write) -->", "<!-- forms: end -->"


def table(counts):
    """A row for each form: of how many tests it is one, and what came of them."""
    yield "| form: sizes/operands/way/place/threads | tests | " + " | ".join(VERDICTS) + " |"
    yield "|---" * (len(VERDICTS) + 2) + "|"
    for form, count in counts.items():
        total = sum(count[verdict] for verdict in VERDICTS)
        yield f"| {form} | {total:,} | " + " | ".join(str(count[verdict]) for verdict in VERDICTS) + " |"


PAGE, RESULTS = (pathlib.Path(__file__).resolve().parents[2] / path for path in ("docs/onnx.md", "bench/results/forms.json"))


def keep(first, tests, total, counts):
    """What came of the tests from `first` on, beside the parts of the suite that are kept already; all of them. Parts do not overlap."""
    parts = json.loads(RESULTS.read_text())["parts"] if RESULTS.exists() else []
    own = {"first": first, "tests": tests, "forms": {form: {v: count[v] for v in VERDICTS if count[v]} for form, count in counts.items()}}
    parts = sorted([part for part in parts if part["first"] != first] + [own], key=lambda part: part["first"])
    for one, other in zip(parts, parts[1:]):
        if one["first"] + one["tests"] > other["first"]:
            raise SystemExit(f"{RESULTS.name} would have tests from {other['first']} on twice: give --count")
    RESULTS.write_text(json.dumps({"total": total, "parts": parts}, indent=1) + "\n")
    return parts


def write(parts, total):
    """Puts the table of all parts between its marks in docs/onnx.md."""
    counts = collections.defaultdict(collections.Counter)
    for part in parts:
        for form, count in part["forms"].items():
            counts[form].update(count)
    before, rest = PAGE.read_text().split(BEGIN)
    lines = [f"{sum(part['tests'] for part in parts):,} of {total:,} tests, in an order that is shuffled:", "", *table(counts)]
    PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{rest.split(END)[1]}")


def line_of(family, case, form, verdict, message):
    """How to run the failure alone, and what it said."""
    expected = known.reason(case.name, form)
    said = f"passes, but known.py lists it: {expected[0]}" if verdict == "agrees" else f"{verdict}: {message}"
    return f"--family {family} --case {case.name} --form {form}   {said}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", default="", help="only cases whose name has this part")
    parser.add_argument("--family", choices=cases.FAMILIES, default="suite")
    parser.add_argument("--case", help="only the case of this name")
    parser.add_argument("--form", action="append", help="this form alone (repeatable)")
    parser.add_argument("--pairs", type=int, default=0, help="forms a case, drawn from those in which any two levels meet")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="of the cases, in a shuffled order that is always the same")
    parser.add_argument("--count", type=int)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", help="a file for all results")
    parser.add_argument("--resume", action="store_true", help="keep what the file of --json holds, and do the rest")
    parser.add_argument("--write", action="store_true", help="into bench/results/forms.json, and the table of all into docs/onnx.md")
    arguments = parser.parse_args()
    if arguments.resume and not arguments.json:
        parser.error("--resume needs --json")
    if arguments.write and (arguments.family != "suite" or arguments.k or arguments.case or arguments.form or arguments.pairs):
        parser.error("--write is of the suite, in the forms that differ in one factor")

    all_cases = [case for case in cases.FAMILIES[arguments.family]() if arguments.k in case.name]
    all_cases = [case for case in all_cases if arguments.case in (None, case.name)]
    random.Random(0).shuffle(all_cases)
    last = None if arguments.count is None else arguments.first + arguments.count
    places = range(len(all_cases))[arguments.first:last]
    tasks = [(place, form) for place in places for form in forms_of(place, arguments)]
    counts, kept, failures = collections.defaultdict(collections.Counter), [], 0
    if arguments.resume and pathlib.Path(arguments.json).exists():
        tasks, kept = remaining(all_cases, tasks, json.loads(pathlib.Path(arguments.json).read_text()))
        for name, form, verdict, _ in kept:
            counts[form][verdict] += 1
            failures += known.wrong(name, form, verdict)
    start = time.monotonic()
    for done, (case, form, verdict, message) in enumerate(run_all(all_cases, tasks, arguments.jobs), 1):
        counts[str(form)][verdict] += 1
        kept.append((case.name, str(form), verdict, message))
        if known.wrong(case.name, form, verdict):
            failures += 1
            print(line_of(arguments.family, case, form, verdict, message), flush=True)
        if done % 500 == 0:
            print(f"{done} of {len(tasks)}, {failures} failures, in {time.monotonic() - start:.0f} s", flush=True)
            if arguments.json:
                pathlib.Path(arguments.json).write_text(json.dumps(kept))
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(kept))
    lines = list(table(counts))
    print(*lines, f"{len(kept)} runs, {failures} failures", sep="\n")
    if arguments.write:
        write(keep(arguments.first, len(places), len(all_cases), counts), len(all_cases))
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
