"""What holds for the whole command line: help, versions, messages, exit statuses, completions, manual pages, doctor.

Completions are asked of bash itself, and pages are formatted by groff, where these are installed.
"""

import json
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess

import pytest

from test_cli import ROOT, TENSMITH, model, module, pytestmark, refused, tensmith, weights, x  # noqa: F401 (fixtures)

COMMANDS = ["bench", "cache", "compare", "compile", "completions", "doctor", "export", "format", "generate", "help", "inspect", "machine",
            "man", "quantize", "run", "serve", "train", "trees", "tune", "tuned", "version"]  # fmt: skip
PAGE = ROOT / "docs/command-line.md"


# ---- Help and versions


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command(command):
    """Breaks if a command has no help, no example, or none of the options that all have."""
    said = tensmith("help", command).stdout
    assert f"tensmith {command}" in said.split("Usage")[1].splitlines()[0]
    assert f"tensmith {command}" in said.split("Example")[1]
    assert "--quiet" in said and "--verbose" in said
    assert tensmith(command, "--help").stdout.split() == said.split()


def test_help_of_a_command_within_another():
    said = tensmith("help", "cache", "prune").stdout
    assert "tensmith cache prune" in said and "--limit" in said and "tensmith run" not in said


def test_help_of_the_program_lists_every_command():
    said = tensmith("help").stdout
    assert said.split() == tensmith("--help").stdout.split()
    assert set(re.findall(r"^  ([a-z]+) ", said.split("Subcommands:")[1].split("Examples")[0], re.M)) == set(COMMANDS)


def test_versions():
    facts = json.loads(tensmith("version", "--json").stdout)
    assert facts["version"] == facts["runtime"] == facts["compiler"]["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", facts["version"]) and facts["compiler"]["llvm"].startswith("19.")
    assert re.fullmatch(r"\d+\.\d+", facts["compiler"]["module_format"]) and pathlib.Path(facts["compiler"]["path"]).exists()
    text = tensmith("version").stdout
    assert text.startswith(f"tensmith {facts['version']}\n") and facts["compiler"]["llvm"] in text
    assert tensmith("--version").stdout.split() == tensmith("-V").stdout.split() == ["tensmith", facts["version"]]


# ---- What is not meant


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["cmpile"], "did you mean 'compile'?"),
        (["help", "cmpile"], "did you mean 'compile'?"),
        (["cache", "lst"], "did you mean 'list'?"),
        (["cache"], "say which: list, verify, prune"),
        (["run", "m.so", "--thread", "1"], "did you mean '--threads'?"),
        (["run", "m.so", "--precision", "bf61"], "did you mean 'bf16'?"),
        (["completions", "bsh"], "did you mean 'bash'?"),
        (["completions"], "SHELL is required"),
        (["run"], "FILE is required"),
    ],
)
def test_suggestions(arguments, message):
    assert message in refused(*arguments, status=2)


def test_american_spellings(model, tmp_path):
    """Of an option, of a section, of a setting in one; and of an option whose spelling here is American."""
    options = lambda spelled: refused("train", model, f"--{spelled}", "sgd", "--data", tmp_path / "none.npz")
    assert options("optimizer") == options("optimiser") and "none.npz" in options("optimizer")
    (tmp_path / "run.toml").write_text(f'model = "{model}"\n[optimizer]\nname = "sgdd"\n')
    assert "run.toml:3: name " in refused("train", tmp_path / "run.toml")
    tensmith("compile", model, "-o", tmp_path / "m.so", "--optimise", "0")


# ---- Messages


def test_quiet_says_nothing(model, tmp_path):
    """Breaks if a note, a warning, progress or a summary is said in spite of it; wherever the option stands."""
    for arguments in (["--quiet", "run", model, "--shape", "batch=2"], ["run", model, "--shape", "batch=2", "-q"]):
        done = tensmith(*arguments)
        assert not done.stderr and "y: f32 2x4" in done.stdout
    assert not tensmith("compile", model, "-o", tmp_path / "m.so", "-q").stdout
    assert "none.onnx" in refused("run", tmp_path / "none.onnx", "-q")


def test_verbose_says_what_is_done(model, tmp_path):
    environment = {**os.environ, "TENSMITH_CACHE": str(tmp_path / "cache")}
    first = tensmith("run", model, "--input", "x=1x3xf32=ones", "-v", env=environment)
    again = tensmith("-v", "run", model, "--input", "x=1x3xf32=ones", env=environment)
    assert "is not in the cache, and is compiled" in first.stderr and re.search(r"\d\.\d\d s  \w", first.stderr)
    assert "is taken from the cache" in again.stderr and first.stdout == again.stdout


def test_options_that_come_too_late_for_a_module(model, tmp_path):
    """Breaks if a module is run as if it followed an option that it can't."""
    tensmith("compile", model, "-o", tmp_path / "m.so")
    run = lambda *more: tensmith("run", tmp_path / "m.so", "--input", "x=1x3xf32=ones", *more).stderr
    assert "m.so is a module, which is compiled already: --no-cache, --precision are not heeded" in run("--precision", "exact", "--no-cache")
    assert not run("--time-limit", "60", "--memory-limit", "1GB")


BUSY = """
import sys
import numpy, onnx
from onnx import TensorProto, helper, numpy_helper
nodes, last = [], "x"
for i in range(60):
    nodes.append(helper.make_node("MatMul", [last, "w"], [f"a{i}"]))
    nodes.append(helper.make_node("Relu", [f"a{i}"], [f"y{i}"]))
    last = f"y{i}"
port = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [512, 512])
w = numpy_helper.from_array(numpy.zeros((512, 512), numpy.float32), "w")
graph = helper.make_graph(nodes, "g", [port("x")], [port(last)], [w])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), sys.argv[1])
"""


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    """A module that can be measured for as long as the test wants."""
    folder = tmp_path_factory.mktemp("busy")
    exec(compile(BUSY.replace("sys.argv[1]", repr(str(folder / "m.onnx"))), "busy", "exec"), {})
    tensmith("compile", folder / "m.onnx", "-o", folder / "m.so", "-q")
    return folder / "m.so"


def until_drawn(command):
    """What is said on a terminal until a line of progress is drawn; the program is ended then."""
    master, slave = pty.openpty()
    child = subprocess.Popen([TENSMITH, *map(str, command)], stdout=subprocess.DEVNULL, stderr=slave)
    os.close(slave)
    said = b""
    try:
        while b"\rmeasuring" not in said:
            said += os.read(master, 4096)
    except OSError:  # it has ended
        pass
    child.kill()
    child.wait(60)
    os.close(master)
    return said.decode()


def test_one_line_of_progress_on_a_terminal(busy):
    said = until_drawn(["bench", busy, "--runs", 10**9])
    assert re.search(r"\rmeasuring .*m\.so", said), said


def test_no_progress_in_a_pipe(busy):
    """Ends by itself after as many runs as take two seconds: a line would have been drawn after one."""
    said = tensmith("bench", busy).stderr
    assert all(line.startswith("tensmith: note: ") for line in said.splitlines()), said


# ---- Exit statuses


def exit_statuses():
    """The table of the page."""
    return dict(re.findall(r"^\| (\d+) \| (.+?) \|$", PAGE.read_text(), re.M))


def test_the_page_and_the_help_have_one_table():
    of_help = dict(re.findall(r"^  (\d+) +(.+)$", tensmith("--help").stdout.split("Exit status")[1], re.M))
    assert of_help == exit_statuses() and {"0", "1", "2", "130", "143", "141"} == set(of_help)


@pytest.mark.parametrize(
    "status, arguments",
    [
        (0, ["inspect", "{module}"]),
        (1, ["inspect", "{module}.none"]),
        (1, ["compare", "{module}", "{model}", "--reference", "--tolerance", "0", "--input", "x=1x4xf32=ones"]),
        (2, ["inspect"]),
        (2, ["inspect", "{module}", "--none"]),
        (2, ["run", "{module}", "--input", "x=nothing"]),
    ],
)
def test_exit_statuses(model, module, status, arguments):
    tensmith(*[argument.format(model=model, module=module) for argument in arguments], status=status)


# ---- Completions and manual pages

bash = pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")


def completed(*words, folder="."):
    """What bash offers for the last word."""
    script = f"""source <("{TENSMITH}" completions bash)
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tensmith; printf '%s\\n' "${{COMPREPLY[@]}}" """
    done = subprocess.run(["bash", "--norc", "-c", script, "-", "tensmith", *words], capture_output=True, text=True, timeout=60,
                          cwd=folder)  # fmt: skip
    assert done.returncode == 0 and not done.stderr, done
    return done.stdout.split()


@bash
def test_bash_completes(tmp_path):
    (tmp_path / "model.onnx").touch()
    (tmp_path / "models").mkdir()
    assert completed("com") == ["compile", "compare", "completions"] or set(completed("com")) == {"compile", "compare", "completions"}
    assert completed("run", "--preci") == ["--precision"]
    assert completed("run", "--precision", "") == ["fast", "exact", "bf16"]
    assert completed("cache", "v") == ["verify"]
    assert set(completed("cache", "prune", "--")) >= {"--limit", "--all", "--json"}
    assert completed("completions", "") == ["bash", "zsh", "fish"]
    assert set(completed("compile", "mod", folder=tmp_path)) == {"model.onnx", "models"}
    assert completed("run", "x.so", "--output", "mod", folder=tmp_path) == ["models"]
    assert completed("run", "--top", "") == []
    assert completed("--q") == ["--quiet"]


@bash
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_have_every_option(shell):
    """Breaks if a script is not made of the tree that the help is made of; its own shell reads it, where it is installed."""
    script = tensmith("completions", shell).stdout
    for command in COMMANDS:
        for option in re.findall(r"^ +(?:-\w,)?--([a-z-]+)", tensmith("help", command).stdout, re.M):
            assert (f"-l {option}" if shell == "fish" else f"--{option}") in script, (command, option)
    if shutil.which(shell):
        subprocess.run([shell, "-n", "/dev/stdin"], input=script, text=True, check=True, timeout=60)


def test_manual_pages(tmp_path):
    """A page for each command, and no macro that groff warns of."""
    tensmith("man", "--output", tmp_path / "man")
    pages = sorted(tmp_path.glob("man/*.1"))
    assert {page.stem for page in pages} == {"tensmith"} | {f"tensmith-{command}" for command in COMMANDS}
    for page in pages:
        for section in ("NAME", "SYNOPSIS", "OPTIONS", "EXIT STATUS", "SEE ALSO"):
            assert f".SH {section}\n" in page.read_text()
    assert (tmp_path / "man/tensmith-cache.1").read_text() == tensmith("man", "cache").stdout
    assert "\\-\\-limit" in tensmith("man", "cache").stdout
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-ww", "-z", *pages], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 and not done.stderr, done.stderr


def test_a_page_is_asked_for_by_an_unknown_name():
    assert "did you mean 'bench'?" in refused("man", "bnch", status=2)


# ---- Doctor


def doctor(status=0, **environment):
    found = json.loads(tensmith("doctor", "--json", status=status, env={**os.environ, **environment}).stdout)
    return {finding["name"]: finding for finding in found["findings"]}, found["problems"]


def test_doctor_finds_what_is_here(tmp_path):
    found, problems = doctor(TENSMITH_CACHE=str(tmp_path / "cache"))
    assert problems == 0
    assert found["LLVM"]["value"].startswith("19.") and "libtensmith_compiler" in found["compiler"]["value"]
    assert found["features"]["value"] and re.match(r"\d+ for this process", found["CPUs"]["value"])
    assert found["measured limits"]["level"] == "note" and "tensmith machine" in found["measured limits"]["advice"]
    assert str(tmp_path / "cache") in found["cache"]["value"] and found["TENSMITH_CACHE"]["level"] == "fine"
    assert not (tmp_path / "cache").exists()  # nothing is changed
    assert all(finding.get("advice") for finding in found.values() if finding["level"] != "fine")


def test_doctor_finds_problems(tmp_path):
    (tmp_path / "cache").mkdir(mode=0o777)
    (tmp_path / "cache").chmod(0o777)
    found, problems = doctor(status=1, TENSMITH_CACHE=str(tmp_path / "cache"), TMPDIR=str(tmp_path / "none"), TENSMITH_CASH="1")
    assert found["cache"]["level"] == found["temporary files"]["level"] == "problem" and problems == 2
    assert "did you mean 'TENSMITH_CACHE'?" in found["TENSMITH_CASH"]["advice"]
    text = tensmith("doctor", status=1, env={**os.environ, "TMPDIR": str(tmp_path / "none")}).stdout
    assert "! temporary files" in text and "TMPDIR" in text


def test_an_interrupted_run_has_its_own_status():
    """The statuses of signals in the table are those that a shell gives."""
    assert {str(128 + signal.SIGINT), str(128 + signal.SIGTERM), str(128 + signal.SIGPIPE)} <= set(exit_statuses())
