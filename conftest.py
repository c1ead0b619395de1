"""What holds for all test suites.

pytest's part of `./test -R REGEX`: only the cases whose name matches are run. And a part of the project that is missing is a
failure: a test may be skipped for want of another package or machine, never because something of ours was not built.
"""

import re

import pytest

MISSING = re.compile(r"could not import 'tensmith|\b(?:is|are) not built\b")


def pytest_addoption(parser):
    parser.addoption("--matching", metavar="REGEX", help="run the tests whose identifier contains a match")


def pytest_collection_modifyitems(config, items):
    pattern = config.getoption("--matching")
    if pattern:
        kept = [item for item in items if re.search(pattern, item.nodeid)]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


def fail_where_ours_is_missing(report):
    if report.outcome == "skipped" and MISSING.search(str(report.longrepr)):
        report.outcome = "failed"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    return fail_where_ours_is_missing((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    return fail_where_ours_is_missing((yield))
