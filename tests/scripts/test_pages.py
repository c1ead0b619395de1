"""The pages: what they show is typed and compared, their commands run, no link is dead, and they build as a site."""

import importlib.util
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev"))
TENSMITH = BUILD / "bin/tensmith"
PAGES = [path for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("bindings/*/README.md"), *ROOT.glob("examples/*/README.md")]]
needs_program = pytest.mark.skipif(not TENSMITH.exists(), reason="the command line is not built")
LINK = re.compile(r"(?<!!)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")


# ---- Links ----


def without_code(text):
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(page):
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_link_is_dead(page):
    for link in LINK.findall(without_code(page.read_text())):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        made = re.match(r"(?:\.\./)?reference/(python|c|cpp|commands)\.md$", path)  # by scripts/pages
        assert made or target.exists(), link
        assert not anchor or made or anchor in anchors(target), link


def test_a_site_is_made_of_the_pages(tmp_path):
    for module in ("mkdocs", "material", "tensmith"):
        pytest.importorskip(module)
    done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", tmp_path / "site"], cwd=ROOT, capture_output=True,
                          text=True, timeout=300, env=os.environ | {"NO_MKDOCS_2_WARNING": "1", "TENSMITH_BUILD": str(BUILD)})  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "site"
    for page, words in {"python": ["tensmith.from_torch", "Model.run"], "c": ["ts_session_run", "Versioning", "ts_builder_op"], "cpp": ["class Session"],
                        "commands": ["tensmith bench", "--html"]}.items():  # fmt: skip
        text = (site / f"reference/{page}.html").read_text()
        assert all(word in re.sub(r"<[^>]*>", "", text) for word in words), page
    outside = {address for page in site.rglob("*.html") for address in re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?:[^"]*)', page.read_text())}
    assert not outside, outside


# ---- What the reference is made of ----


def load_reference():
    spec = importlib.util.spec_from_file_location("reference", ROOT / "scripts/pages/reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Breaks when the generator loses declarations of a header, which it finds without a parser of C.
def test_the_reference_of_c_has_every_function():
    page = load_reference().c()
    for name in ("tensmith", "compiler", "builder"):
        header = re.sub(r"/\*.*?\*/", "", (ROOT / f"include/tensmith/{name}.h").read_text(), flags=re.DOTALL)
        functions = re.findall(r"\b(ts_\w+)\(", header)
        assert len(functions) > 5
        blocks = "".join(re.findall(r"^```c\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
        assert not [function for function in functions if f"{function}(" not in blocks]


def test_the_page_of_the_environment_has_every_variable():
    folders = ("base", "cache", "client", "compiler", "files", "frontends", "libraries", "reference", "runtime", "tools", "train", "trees", "python/tensmith")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in (".cpp", ".h", ".py") and "test" not in path.parts]
    read = {name for path in sources for name in re.findall(r'(?:getenv\(|environ\.get\(|environ\[)"(TENSMITH_\w+)"', path.read_text())}
    page = (ROOT / "docs/environment.md").read_text()
    assert len(read) > 2 and not [name for name in read if f"`{name}`" not in page]


# ---- What pages show ----


def typed(page):
    return subprocess.run([sys.executable, ROOT / "scripts/quickstart", "--page", page, "--build", BUILD], capture_output=True, text=True, timeout=600)


needs_build = pytest.mark.skipif(not all(map(shutil.which, ("cmake", "cc", "c++", "pkg-config"))) or not (BUILD / "python").is_dir(),
                                 reason="there is no compiler, cmake or pkg-config, or the build is a sanitizer's")  # fmt: skip


@needs_program
@needs_build
@pytest.mark.parametrize("page", ["quickstart.md", "embed.md"])
def test_pages_show_what_is_typed(page):
    pytest.importorskip("tensmith")
    done = typed(ROOT / "docs" / page)
    assert done.returncode == 0 and re.search(r"^[1-9]\d* commands did what the page says$", done.stdout, re.MULTILINE), done.stdout + done.stderr


@needs_program
@needs_build
@pytest.mark.parametrize("block", ["$ echo 1.25\n1.26\n", "$ false\n", "$ echo one\ntwo\n"])
def test_a_page_that_shows_something_else_fails(tmp_path, block):
    (tmp_path / "page.md").write_text(f"```console\n$ echo 1.2501\n1.25\n```\n\n```console\n{block}```\n")
    assert typed(tmp_path / "page.md").returncode == 1


# ---- Commands of the pages on tasks ----


def network(size, quantised=False):
    random = numpy.random.default_rng(1)
    filters, nodes = random.standard_normal((8, 3, 3, 3)).astype("float32"), []
    constants, source, weights = {"w": filters}, "image", "w"
    if quantised:
        constants = {"w": (filters * 40).clip(-127, 127).astype("int8"), "s": numpy.float32(1 / 40), "z": numpy.int8(0)}
        nodes = [helper.make_node("QuantizeLinear", ["image", "s", "z"], ["q"]), helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
                 helper.make_node("DequantizeLinear", ["w", "s", "z"], ["v"])]  # fmt: skip
        source, weights = "d", "v"
    nodes += [helper.make_node("Conv", [source, weights], ["c"], "c", pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["y"], "y")]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size[0], channels, *size[1:]]) for name, channels in (("image", 3), ("y", 8))]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [numpy_helper.from_array(value, name) for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def commands(page):
    for block in re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.MULTILINE | re.DOTALL):
        yield from re.findall(r"^tensmith (\w[^#\n]*?) *(?:#.*)?$", block, re.MULTILINE)


@needs_program
@pytest.mark.parametrize("page", ["deploy.md", "open-sizes.md", "quantisation.md", "profile.md"])
def test_commands_of_a_page_run(tmp_path, page):
    size = ["batch", "h", "w"] if page == "open-sizes.md" else [1, 32, 32]
    onnx.save(network(size), tmp_path / "model.onnx")
    onnx.save(network([1, 32, 32], quantised=True), tmp_path / "model-int8.onnx")
    numpy.save(tmp_path / "image.npy", numpy.zeros((1, 3, 32, 32), "float32"))
    numpy.savez(tmp_path / "samples.npz", image=numpy.random.default_rng(2).random((4, 3, 32, 32), "float32"))
    for name in ("model", "before", "after"):
        subprocess.run([TENSMITH, "compile", "model.onnx", "-o", f"{name}.so"], cwd=tmp_path, check=True, capture_output=True)
    found = list(commands(page))
    assert len(found) > 1
    for command in found:
        short = ["--runs", "3"] if command.startswith("bench") else []
        done = subprocess.run([TENSMITH, *shlex.split(command), *short], cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0 or (command.startswith("compare") and done.returncode == 1 and "differ" in done.stdout + done.stderr), (command, done.stdout, done.stderr)
