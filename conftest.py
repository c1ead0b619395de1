"""pytest's part of `./test -R REGEX`: of all test suites, only the cases whose name matches are run."""

import re


def pytest_addoption(parser):
    parser.addoption("--matching", metavar="REGEX", help="run the tests whose identifier contains a match")


def pytest_collection_modifyitems(config, items):
    pattern = config.getoption("--matching")
    if pattern:
        kept = [item for item in items if re.search(pattern, item.nodeid)]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept
