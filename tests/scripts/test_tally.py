"""scripts/tally loses no failure: not one of a test, nor one of a runner that died, nor a run in which nothing ran."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PASS = '<testcase name="a"/>'
FAIL = '<testcase name="b"><failure message="m">the reason</failure></testcase>'
SKIP = '''<testcase name="c" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/><system-out>A.cpp:5: Skipped
no such device
</system-out></testcase>'''
NOT_BUILT = '<testcase name="d" status="notrun"><skipped message="Unable to find executable"/></testcase>'


def tally(folder, statuses=None, **suites):
    for name, cases in suites.items():
        (folder / f"{name}.xml").write_text(f"<testsuite>{''.join(cases)}</testsuite>")
    for name, status in (statuses or {}).items():
        (folder / f"{name}.status").write_text(f"{status}\n")
    done = subprocess.run([sys.executable, ROOT / "scripts/tally", folder], capture_output=True, text=True)
    return done.returncode, done.stdout.splitlines()


def test_adds_up_all_runners(tmp_path):
    status, lines = tally(tmp_path, unit=[PASS, PASS], pytest=[PASS, SKIP])
    assert (status, lines[-1]) == (0, "3 passed, 0 failed")
    assert "skipped: c: no such device" in lines


def test_a_failure_is_shown_and_fails(tmp_path):
    status, lines = tally(tmp_path, {"unit": 8}, unit=[PASS, FAIL])
    assert (status, lines[-1]) == (1, "1 passed, 1 failed")
    assert "the reason" in lines


def test_a_program_that_was_not_built_fails(tmp_path):
    status, lines = tally(tmp_path, unit=[PASS, NOT_BUILT])
    assert (status, lines[-1]) == (1, "1 passed, 1 failed")


def test_a_runner_that_died_is_a_failure(tmp_path):
    status, lines = tally(tmp_path, {"lit": 2, "unit": 0}, unit=[PASS])
    assert (status, lines[-1]) == (1, "1 passed, 1 failed")


def test_a_suite_that_collects_nothing_is_not_a_failure(tmp_path):
    status, lines = tally(tmp_path, {"pytest": 5}, unit=[PASS])
    assert (status, lines[-1]) == (0, "1 passed, 0 failed")


def test_nothing_ran_fails(tmp_path):
    status, lines = tally(tmp_path, {"pytest": 5})
    assert (status, lines[-1]) == (1, "0 passed, 0 failed")
