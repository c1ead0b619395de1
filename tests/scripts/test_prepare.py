"""scripts/prepare.sh tells what is missing and how to get it instead of failing halfway, and does nothing twice."""

import os
import pathlib
import pty
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
INSTALLED = 'dpkg-query() { printf "ii  cmake\\nii  python3-dev:amd64\\nrc  ccache\\n"; }'
NOT_ROOT = "id() { echo 1000; }; sudo() { return 1; }"
ROOT_OFFLINE = "id() { echo 0; }; apt-get() { return 100; }"


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/packages.debian").write_text("# tools\ncmake\nccache # a comment\n\nninja-build\npython3-dev\n")
    return tmp_path


def bash(tree, script):
    prelude = f"set -euo pipefail; root={tree}; source {ROOT}/scripts/prepare.sh; "
    return subprocess.run(["bash", "-c", prelude + script], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          env={**os.environ, "TENSMITH_PRESET": "dev"})


def test_missing_packages_are_those_not_installed_or_removed_again(tree):
    assert bash(tree, f"{INSTALLED}; missing_packages").stdout.split() == ["ccache", "ninja-build"]


def test_what_tests_need_is_not_asked_for_by_others(tree):
    (tree / "scripts/packages.debian").write_text("ninja-build\n# What follows is for ./test alone.\nqemu-user\n")
    assert bash(tree, f"{INSTALLED}; missing_packages").stdout.split() == ["ninja-build"]
    assert bash(tree, f"{INSTALLED}; with_tests=yes; missing_packages").stdout.split() == ["ninja-build", "qemu-user"]


@pytest.mark.parametrize("situation", [NOT_ROOT, ROOT_OFFLINE])
def test_says_how_to_install_what_it_cannot(tree, situation):
    done = bash(tree, f"{INSTALLED}; {situation}; install_packages")
    assert done.returncode == 1
    assert "apt-get install -y --no-install-recommends ccache ninja-build\n" in done.stderr
    assert done.stdout == ""


def test_asks_for_nothing_when_all_is_there(tree):
    (tree / "scripts/packages.debian").write_text("cmake\n")
    done = bash(tree, f"{INSTALLED}; {NOT_ROOT}; apt-get() {{ echo called; }}; install_packages")
    assert (done.returncode, done.stdout) == (0, "")


def test_a_step_runs_again_only_when_its_key_changes(tree):
    step = "stamped $root/build/.step key{} echo ran"
    said = [bash(tree, step.format(key)).stdout for key in (1, 1, 2)]
    assert said == ["ran\n", "", "ran\n"]


def test_a_step_that_fails_runs_again(tree):
    step = "stamped $root/build/.step key {}"
    assert bash(tree, step.format("false")).returncode != 0
    assert bash(tree, step.format("echo ran")).stdout == "ran\n"


@pytest.mark.parametrize("path,matters", [
    ("base/A.cpp", True), ("python/tensmith/__init__.py", True), ("build/dev/x.o", False), ("docs/a.md", False),
])
def test_only_sources_newer_than_the_last_build_matter(tree, path, matters):
    (tree / path).parent.mkdir(parents=True)
    (tree / path).write_text("old")
    question = "changed_since $root/../stamp && echo yes || echo no"
    stamp = tree.parent / "stamp"
    past = time.time() - 100
    for entry in [*tree.rglob("*")]:
        os.utime(entry, (past, past))
    stamp.write_text(f"{tree}\n")
    assert bash(tree, question).stdout == "no\n"
    future = time.time() + 100
    os.utime(tree / path, (future, future))
    assert bash(tree, question).stdout == ("yes\n" if matters else "no\n")


def test_a_moved_checkout_is_built_afresh(tree):
    (tree.parent / "stamp").write_text("/where/it/was\n")
    assert bash(tree, "changed_since $root/../stamp && echo yes || echo no").stdout == "yes\n"


def test_jobs_fit_into_memory(tree):
    cpus = "nproc() { echo 64; }; "
    assert bash(tree, cpus + "awk() { echo 5; }; parallel_jobs").stdout == "5\n"
    assert bash(tree, cpus + "awk() { echo 0; }; parallel_jobs").stdout == "1\n"
    assert bash(tree, cpus + "awk() { echo 99; }; parallel_jobs").stdout == "64\n"


def on_a_terminal(tree, answer, **environment):
    """Whether confirm() goes on, and what it says, where somebody types the answer."""
    master, slave = pty.openpty()
    script = f"root={tree}; source {ROOT}/scripts/prepare.sh; confirm 'These are installed now:' 'cmake ninja-build'"
    child = subprocess.Popen(["bash", "-c", script], stdin=slave, stdout=slave, stderr=slave,
                             env={**{name: os.environ[name] for name in os.environ if name not in ("CI", "TENSMITH_YES")}, **environment})  # fmt: skip
    os.close(slave)
    os.write(master, answer.encode())
    said = b""
    try:
        while part := os.read(master, 4096):
            said += part
    except OSError:  # the other side is closed
        pass
    os.close(master)
    return child.wait(60) == 0, said.decode()


@pytest.mark.parametrize("answer, goes_on", [("\n", True), ("y\n", True), ("Yes\n", True), ("n\n", False), ("what?\n", False)])
def test_somebody_on_a_terminal_is_asked(tree, answer, goes_on):
    went_on, said = on_a_terminal(tree, answer)
    assert went_on == goes_on and "cmake ninja-build" in said and "Go on?" in said


@pytest.mark.parametrize("environment", [{"CI": "true"}, {"TENSMITH_YES": "1"}])
def test_nobody_is_asked_who_has_answered(tree, environment):
    went_on, said = on_a_terminal(tree, "", **environment)
    assert went_on and "cmake ninja-build" in said and "Go on?" not in said


def test_nobody_is_asked_in_a_pipe_but_it_is_said_what_is_installed(tree):
    """Before it is done: breaks if the list comes only with a failure."""
    done = bash(tree, f"{INSTALLED}; id() {{ echo 0; }}; apt-get() {{ echo apt-get >&2; }}; install_packages")
    assert done.returncode == 0 and "Go on?" not in done.stderr
    assert done.stderr.index("  ccache ninja-build") < done.stderr.index("apt-get")
