"""What packages are made of, without making them: metadata, stubs, licences, what is installed, the release's checks.

`scripts/package` makes and tries the packages themselves.
"""

import ast
import importlib.machinery
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev"))
sys.path.insert(0, str(ROOT / "scripts"))

import third_party  # noqa: E402

FULL, RUNTIME = (tomllib.loads((ROOT / folder / "pyproject.toml").read_text()) for folder in (".", "python/runtime"))
SYSTEM = re.compile(r"lib(c|m|dl|pthread|stdc\+\+|gcc_s|resolv)\.so|ld-linux|libtensmith_")
NOT_SHIPPED = re.compile(r"lib(LLVM|MLIR)|libmpi|libarrow|libparquet|libtiff|libdnnl|libopenblas|libcpp-httplib")  # see THIRD-PARTY.md, "Not in them"


# Breaks if one of the projects goes its own way, or a wheel would contain less than the other needs.
def test_the_two_wheels_agree():
    assert FULL["build-system"] == RUNTIME["build-system"]
    for key in ("requires-python", "dependencies", "license", "license-files", "dynamic"):
        assert FULL["project"][key] == RUNTIME["project"][key], key
    defines = [project["tool"]["scikit-build"]["cmake"]["define"] for project in (FULL, RUNTIME)]
    assert [define.pop("TENSMITH_WHEEL") for define in defines] == ["full", "runtime"]
    assert defines[0] == defines[1]


# Breaks if wheels are compiled by other flags than what is tested.
def test_wheels_are_made_of_what_is_tested():
    import json

    presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
    dev = next(preset for preset in presets if preset["name"] == "dev")["cacheVariables"]
    define = FULL["tool"]["scikit-build"]["cmake"]["define"]
    assert {key: define[key] for key in dev if "FLAGS" in key} == {key: value for key, value in dev.items() if "FLAGS" in key}
    assert FULL["tool"]["scikit-build"]["cmake"]["build-type"] == dev["CMAKE_BUILD_TYPE"]


# Breaks if a name of the metadata leads nowhere: then torch finds no backend, or `tensmith` isn't there.
def test_entry_points_lead_somewhere():
    pytest.importorskip("tensmith")
    for entry in FULL["project"]["scripts"].values():
        module, function = entry.split(":")
        assert function in {node.name for node in ast.parse((ROOT / "python" / f"{module}.py").read_text()).body if isinstance(node, ast.FunctionDef)}
    module, function = FULL["project"]["entry-points"]["torch_dynamo_backends"]["tensmith"].split(":")
    package = ROOT / "python" / module.replace(".", "/")
    sources = list(package.glob("*.py")) if package.is_dir() else [package.with_suffix(".py")]
    assert any(re.search(rf"\b{function}\b", source.read_text()) for source in sources)


# Breaks if an extension gets a function that its stub doesn't say, or says what is no Python.
@pytest.mark.parametrize("module", ["_tensmith", "_trees", "_eager", "_language", "_tune"])
def test_stubs_say_what_there_is(module):
    tensmith = pytest.importorskip("tensmith")
    stub = BUILD / "python/tensmith" / f"{module}.pyi"
    tree = ast.parse(stub.read_text())
    said = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    said |= {target.id for node in tree.body if isinstance(node, ast.Assign) for target in node.targets}
    said |= {node.target.id for node in tree.body if isinstance(node, ast.AnnAssign)}
    there = {name for name in dir(__import__(f"{tensmith.__name__}.{module}", fromlist=["x"])) if not name.startswith("_")}
    assert there and there <= said, there - said


def linked_libraries(file):
    text = subprocess.run(["readelf", "-d", file], check=True, capture_output=True, text=True).stdout
    return [name for name in re.findall(r"\(NEEDED\).*\[(.+)\]", text) if not SYSTEM.match(name) and not NOT_SHIPPED.match(name)]


# Breaks if something is linked that no row of licences/THIRD-PARTY.md names.
@pytest.mark.skipif(not shutil.which("dpkg") or not shutil.which("readelf"), reason="there is no dpkg or readelf")
def test_every_library_inside_has_a_licence():
    files = [*BUILD.glob("lib/*.so"), BUILD / "bin/tensmith", *BUILD.glob("python/tensmith/*.so")]
    libraries = {name for file in files for name in linked_libraries(file.resolve())}
    assert libraries >= {"libz.so.1", "libzstd.so.1"}
    third_party.shipped_libraries(libraries)
    for _, _, source in third_party.rows():
        assert len(third_party.text_of(source)) > 200, source


# Breaks if a library that is new to the build is in no table: headers leave no trace in what is linked.
def test_every_package_of_the_build_is_in_the_table():
    listed = re.split("\n# ", (ROOT / "scripts/packages.debian").read_text())
    used = {line for part in listed if part.startswith(("libraries", "picture")) for line in part.splitlines()[1:]}
    table = third_party.TABLE.read_text()
    words = {name: name.removesuffix("-dev").removesuffix("1g").removeprefix("lib").rstrip("0123456789").split("-")[0] for name in used}
    names = {"tomlplusplus": "toml++", "cli": "CLI11", "nlohmann": "JSON for Modern", "openjp": "OpenJPEG", "protobuf": "Protocol Buffers",
             "zstd": "Zstandard", "z": "zlib", "tiff": "LibTIFF", "flatbuffers": "FlatBuffers"}  # fmt: skip
    assert used and not [name for name, word in words.items() if names.get(word, word).lower() not in table.lower()]


# Breaks if tokenizers ask for more of ICU's data than wheels have.
@pytest.mark.skipif(not list(BUILD.glob("icu/libicudata.so.*")), reason="ICU's data is not cut (libicu-dev, icu-devtools)")
def test_a_part_of_icu_does_for_tokenizers():
    pytest.importorskip("tensmith")
    inside = BUILD.resolve() / "icu"
    assert next(inside.glob("libicudata.so.*")).stat().st_size < 1_000_000
    environment = os.environ | {"LD_LIBRARY_PATH": str(inside)}
    unicode = BUILD / "lib/libtensmith_unicode.so"
    listed = subprocess.run(["ldd", unicode], check=True, capture_output=True, text=True, env=environment).stdout
    assert f"=> {inside}/libicudata" in listed, listed
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", ROOT / "tests/generation/test_tokenizers.py"], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout[-2000:]


# Breaks if what a program needs that only runs modules isn't in the components that Debian's packages take it from.
@pytest.mark.skipif(not shutil.which("cmake") or not shutil.which("pkg-config"), reason="there is no cmake or pkg-config")
def test_what_is_installed_is_found(tmp_path):
    for component in ("runtime", "runtime-dev", "compiler-dev"):
        subprocess.run(["cmake", "--install", BUILD, "--prefix", tmp_path, "--component", component], check=True, capture_output=True)
    folder = next(tmp_path.rglob("pkgconfig"))
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "tensmith-runtime"], check=True, capture_output=True, text=True,
                           env=os.environ | {"PKG_CONFIG_PATH": str(folder)}).stdout.split()  # fmt: skip
    include = next(flag[2:] for flag in flags if flag.startswith("-I"))
    assert (pathlib.Path(include) / "tensmith/tensmith.h").exists()
    library = pathlib.Path(next(flag[2:] for flag in flags if flag.startswith("-L")))
    assert (library / "libtensmith_runtime.so").resolve().exists()
    assert "-ltensmith_runtime" in flags


class Release:
    """A repository with what scripts/release looks at."""

    def __init__(self, folder, changes="## 1.2.3, 2026-01-02\n\n- Something.\n\n## 1.2.2, 2025-01-01\n\n- Older.\n"):
        self.folder = folder
        (folder / "scripts").mkdir()
        shutil.copy(ROOT / "scripts/release", folder / "scripts/release")
        (folder / "CMakeLists.txt").write_text("project(tensmith VERSION 1.2.3 LANGUAGES C)\n")
        (folder / "CHANGELOG.md").write_text(changes)
        self.git("init", "-q")
        self.git("add", ".")
        self.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "all")

    def git(self, *words):
        subprocess.run(["git", *words], cwd=self.folder, check=True)

    def __call__(self, *words):
        done = subprocess.run([self.folder / "scripts/release", *words], capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else done.stderr


# Breaks if a release is made of a tree that isn't committed, twice, or without notes.
def test_a_release_is_checked(tmp_path):
    release = Release(tmp_path)
    assert release("--notes").strip() == "- Something."
    assert release("--check").startswith("scripts/package all, then the tag v1.2.3 at ")
    (tmp_path / "new").touch()
    assert "not committed" in release("--check")
    (tmp_path / "new").unlink()
    release.git("tag", "v1.2.3")
    assert "is a tag already" in release("--check")
    assert "there is no argument" in release("--nonsense")


# Breaks if a section that is longer than a pipe holds is taken for none.
def test_long_notes_are_found(tmp_path):
    assert Release(tmp_path, "## 1.2.3, 2025-01-01\n\n" + "- Something.\n" * 20000)("--check").startswith("scripts/package all")


@pytest.mark.parametrize("changes, refusal", [("## 1.2.2, 2025-01-01\n\n- Older.\n", "has no section"), ("## 1.2.3, soon\n\n- New.\n", "has no date")])
def test_a_release_needs_its_notes(tmp_path, changes, refusal):
    assert refusal in Release(tmp_path, changes)("--check")


@pytest.fixture
def packaging(tmp_path, monkeypatch):
    """scripts/package with a folder of wheels, and a bare system of Python 3.11 that notes what is put into it and run."""
    loader = importlib.machinery.SourceFileLoader("packaging_script", str(ROOT / "scripts/package"))
    script = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(script)
    script.put, script.ran = [], []

    class Bare:
        def __init__(self, base):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def put(self, source, target):
            script.put.append(target)

        def run(self, *command, **options):
            script.ran.append(command)
            return subprocess.CompletedProcess(command, 0, stdout="3 11 2\n")

    for name, value in {"DIST": tmp_path / "dist", "WORK": tmp_path / "work", "BareRoot": Bare, "base": lambda folder: folder, "tools_of": pathlib.Path,
                        "run": lambda *command, **_: script.ran.append(command), "try_wheels": lambda python: None, "try_debs": lambda: None}.items():  # fmt: skip
        monkeypatch.setattr(script, name, value)
    script.DIST.mkdir()
    for tag in ("cp310-cp310", "cp312-abi3"):
        (script.DIST / f"tensmith-1.0-{tag}-x.whl").touch()
    return script


# Breaks if the quickstart is tried with a wheel for this machine's Python, which the bare system's refuses.
def test_the_quickstart_takes_the_wheel_of_the_bare_system(packaging):
    (packaging.DIST / "tensmith-1.0-cp311-cp311-x.whl").touch()
    packaging.try_parts(None, [])
    assert [target for target in packaging.put if target.endswith(".whl")] == ["/house/tensmith-1.0-cp311-cp311-x.whl"]
    download = next(command for command in packaging.ran if "download" in command)
    assert download[download.index("--python-version") + 1] == "3.11"
    assert packaging.ran[-1][-1] == "--installed"


# Breaks if `scripts/package all --python` of another version fails at its end, or the quickstart by name is left out in silence.
def test_the_quickstart_is_left_out_where_its_wheel_is_not_built(packaging, capsys):
    packaging.try_parts(None, [])
    assert "the quickstart is left out: dist/ has no wheel tensmith for Python 3.11; run scripts/package wheels" in capsys.readouterr().out
    with pytest.raises(packaging.NoWheel):
        packaging.try_parts("quickstart", [])
    assert not packaging.put
