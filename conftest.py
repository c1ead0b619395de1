"""What holds for all test suites.

pytest's part of `./test -R REGEX`: only the cases whose name matches are run. And a part of the project that is missing is a
failure: a test may be skipped for want of another package or machine, never because something of ours was not built. The Python
package may be left out of a build (a sanitizer's), which then has no folder for it.

No test leaves our environment variables otherwise than it found them, nor does the import of its module: what others in the process find would
hang on it. Variables that all are to have are set here.

Each of pytest's processes has a cache in the build folder, and what a test has measured of the machine is forgotten when it ends: by
such figures the compiler would choose other kernels, and what a test finds would hang on which ran before it.
"""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", pathlib.Path(__file__).parent / "build/dev"))
CACHE = pathlib.Path(os.environ.get("TENSMITH_CACHE", BUILD / "cache")) / os.environ.get("PYTEST_XDIST_WORKER", "alone")
os.environ["TENSMITH_CACHE"] = str(CACHE)
os.environ.setdefault("TENSMITH_SEPARATE_DELAYS", "50")  # microseconds; before a device is opened
PACKAGE = re.compile(r"could not import 'tensmith|the Python package is not built")
MISSING = re.compile(r"\b(?:is|are) not built\b")


def pytest_addoption(parser):
    parser.addoption("--matching", metavar="REGEX", help="run the tests whose identifier contains a match")


def pytest_collection_modifyitems(config, items):
    pattern = config.getoption("--matching")
    if pattern:
        kept = [item for item in items if re.search(pattern, item.nodeid)]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


def fail_where_ours_is_missing(report):
    why = str(report.longrepr)
    is_missing = (BUILD / "python").is_dir() if PACKAGE.search(why) else MISSING.search(why)
    if report.outcome == "skipped" and is_missing:
        report.outcome = "failed"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    return fail_where_ours_is_missing((yield))


def settings():
    return {name: value for name, value in os.environ.items() if name.startswith("TENSMITH_")}


def restored(before):
    """Which of our variables have changed, in words; they are as before then."""
    now = settings()
    changed = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    for name in changed:
        if name in before:
            os.environ[name] = before[name]
        else:
            del os.environ[name]
    return f"it leaves {', '.join(changed)} changed for all that comes after it; take monkeypatch.setenv" if changed else ""


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    before = settings()
    report = fail_where_ours_is_missing((yield))
    if changed := restored(before):
        said = f"{collector.nodeid}: {changed}"
        report.longrepr = f"{report.longrepr}\n{said}" if report.failed else said  # an import that fails says why, too
        report.outcome = "failed"
    return report


def forget_the_machine():
    for path in CACHE.glob("machines/*.json"):
        path.unlink(missing_ok=True)


@pytest.fixture(autouse=True)
def by_the_defaults():
    forget_the_machine()
    before = settings()
    yield
    forget_the_machine()
    if changed := restored(before):
        pytest.fail(changed)


@pytest.fixture(scope="session")
def without_libraries(tmp_path_factory):
    """The command in a folder of its own, beside all that it needs but libraries that do operators."""
    root = tmp_path_factory.mktemp("installed")
    for folder in ("bin", "lib"):
        (root / folder).mkdir()
    shutil.copy(BUILD / "bin/tensmith", root / "bin")
    for file in [*(BUILD / "lib").glob("libtensmith_*.so*"), BUILD / "lib/tensmith-measure"]:
        if not any(name in file.name for name in ("onednn", "openblas", "xsmm")):
            shutil.copy(file, root / "lib", follow_symlinks=False)

    def run(*arguments, env=os.environ):
        return subprocess.run([root / "bin/tensmith", *map(str, arguments)], capture_output=True, text=True, timeout=300,
                              env={**env, "LD_LIBRARY_PATH": str(root / "lib")})  # fmt: skip

    run.folder = root
    return run
