#!/usr/bin/env python3
"""Tuners that are killed at moments drawn at random, and one that goes on from what they left.

    tests/tune/kills.py MODEL --count 20

After each kill the database is whole, holds every trial that was seen in it before, with its repetitions, and the next tuner measures
none of them again. The runner's times are planted (planted_runner.py), so that nothing but the moments is left to chance.
"""

import argparse
import contextlib
import os
import pathlib
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev"))
TENSMITH = BUILD / "bin/tensmith"
RUNNER = f"{sys.executable} {ROOT}/tests/tune/planted_runner.py {BUILD}/lib/tensmith-measure"


def rows(database):
    """Of each trial its kernel and choices, outcome and repetitions; none where nothing was written yet."""
    if not database.exists():
        return {}
    with contextlib.closing(sqlite3.connect(database, timeout=30)) as connection:
        if not connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'trial'").fetchone()[0]:
            return {}
        trials = connection.execute("SELECT id, kernel, choices, outcome FROM trial ORDER BY id").fetchall()
        times = lambda trial: tuple(connection.execute("SELECT seconds FROM repetition WHERE trial = ? ORDER BY rowid", (trial,)))
        return {(kernel, choices): (outcome, times(trial)) for trial, kernel, choices, outcome in trials}


def start(model, database):
    words = ["tune", model, "--trials", 5000, "--batch", 2, "--database", database, "--json", database.parent / "report.json", "--runner", RUNNER]
    return subprocess.Popen([TENSMITH, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_for(database, trials, process):
    """A tuner that makes no trials in five minutes never will."""
    for _ in range(6000):
        if len(rows(database)) >= trials:
            return
        assert process.poll() is None, "the tuner ended by itself"
        time.sleep(0.05)
    process.kill()
    raise AssertionError(f"there are no {trials} trials in {database.name} after five minutes")


def check_whole(database, before):
    with contextlib.closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        measured = connection.execute("SELECT count(*) FROM trial").fetchone()
        distinct = connection.execute("SELECT count(*) FROM (SELECT DISTINCT kernel, choices FROM trial)").fetchone()
        lost = connection.execute("SELECT count(*) FROM repetition WHERE trial NOT IN (SELECT id FROM trial)").fetchone()[0]
    assert measured == distinct and lost == 0
    now = rows(database)
    # What a trial had then it has still, and no tuner measured it again.
    assert all(now.get(name) == trial for name, trial in before.items())


def kill_and_resume(model, database, count, seed):
    """The trials of all runs."""
    draw = random.Random(seed)
    for _ in range(count):
        before = rows(database)
        process = start(model, database)
        # Some die before they have measured anything, the others within a batch.
        wait_for(database, len(before) + draw.choice((0, 1, 2, 3)), process)
        time.sleep(draw.uniform(0, 0.3))
        seen = rows(database)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if database.exists():
            check_whole(database, before | seen)
    process = start(model, database)
    wait_for(database, len(rows(database)) + 1, process)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=300) == 0
    return rows(database)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trials = kill_and_resume(options.model, pathlib.Path(folder) / "tuned.sqlite", options.count, options.seed)
    print(f"killed {options.count} times; {len(trials)} trials, none lost and none twice")


if __name__ == "__main__":
    main()
