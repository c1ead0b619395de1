"""The bindings of other languages: each one's own tests and example, on the runtime as it is installed.

Cases that the C API has computed (drawn_cases.py) are what their tests compare bits with. That they can fail is tested, too: with
one bit of the results turned over they must. What is built lies in the build folder; nothing is downloaded.
"""

import os
import pathlib
import shutil
import subprocess

import pytest

import drawn_cases as cases

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev"))
BINDINGS = ROOT / "bindings"
SHOWN = ["vectors: f32[4, 12]", "best: i64[4]", "positive: bool[4, 12]", "same: i64[4]"]

pytest.importorskip("tensmith")
if not (BUILD / "python").is_dir():  # a sanitizer's, whose runtime no other language can load
    pytest.skip("the Python package is not built", allow_module_level=True)


def called(*command, status=0, cwd=None, **environment):
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, timeout=900,
                          env=os.environ | {name: str(value) for name, value in environment.items()})  # fmt: skip
    assert (done.returncode == 0) == (status == 0), f"{command}: {done.returncode}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    path = tmp_path_factory.mktemp("installed")
    for component in ("runtime", "runtime-dev"):
        called("cmake", "--install", BUILD, "--component", component, "--prefix", path)
    return path


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    if not (BUILD / "bin/run_case").exists():
        pytest.skip("run_case is not built")
    path = tmp_path_factory.mktemp("cases")
    cases.make_cases(BUILD / "bin/run_case", path)
    return path


@pytest.fixture(scope="module")
def wrong(tmp_path_factory, right):
    path = tmp_path_factory.mktemp("wrong") / "cases"
    shutil.copytree(right, path)
    result = path / "words/output-0.bin"
    content = bytearray(result.read_bytes())
    content[-4] ^= 1  # the last bit of the last element
    result.write_bytes(content)
    return path


def needs(*tools):
    missing = [tool for tool in tools if not shutil.which(tool)]
    return pytest.mark.skipif(bool(missing), reason=f"there is no {', '.join(missing)}")


def try_all(right, wrong, test, example, environment, cwd):
    """Both commands, which the cases' folder is added to."""
    called(*test, cwd=cwd, TENSMITH_CASES=right, **environment)
    called(*test, cwd=cwd, status=1, TENSMITH_CASES=wrong, **environment)
    shown = called(*example, right / "words/module.so", 4, cwd=cwd, **environment).splitlines()
    assert [line.replace(" 12]", ", 12]").replace(",,", ",") for line in shown] == SHOWN
    called(*example, right / "words/case.txt", cwd=cwd, status=1, **environment)


@needs("cargo")
def test_rust(prefix, right, wrong):
    environment = {"TENSMITH_LIB_DIR": prefix / "lib", "CARGO_TARGET_DIR": BUILD / "bindings/rust"}
    cargo = ("cargo", "--offline", "--locked", "-q")
    try_all(right, wrong, (*cargo, "test"), (*cargo, "run", "--example", "run", "--"), environment, BINDINGS / "rust")


@needs("go", "gcc")
def test_go(prefix, right, wrong):
    environment = {"CGO_ENABLED": 1, "CGO_CFLAGS": f"-I{prefix}/include", "CGO_LDFLAGS": f"-L{prefix}/lib -Wl,-rpath,{prefix}/lib",
                   "GOCACHE": BUILD / "bindings/go", "GOPROXY": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false"}  # fmt: skip
    try_all(right, wrong, ("go", "test", "-vet=off", "."), ("go", "run", "./example"), environment, BINDINGS / "go")


@needs("java", "javac", "jar", "cmake")
def test_java(prefix, right, wrong):
    build = BUILD / "bindings/java"
    called("cmake", "-S", BINDINGS / "java", "-B", build, "-G", "Ninja", f"-Dtensmith_DIR={prefix}/lib/cmake/tensmith", CMAKE_PREFIX_PATH=prefix)
    called("cmake", "--build", build)
    java = ("java", "-Xcheck:jni", f"-Djava.library.path={build}", "-cp", f"{build}/tensmith.jar:{build}/tensmith-test.jar")
    try_all(right, wrong, (*java, "CasesTest"), (*java, "Run"), {"LD_LIBRARY_PATH": prefix / "lib"}, BINDINGS / "java")


@needs("node", "cmake")
def test_node(prefix, right, wrong):
    build = BUILD / "bindings/node"
    called("cmake", "-S", BINDINGS / "node", "-B", build, "-G", "Ninja", f"-Dtensmith_DIR={prefix}/lib/cmake/tensmith")
    called("cmake", "--build", build)
    environment = {"TENSMITH_NODE": build / "tensmith.node", "LD_LIBRARY_PATH": prefix / "lib"}
    try_all(right, wrong, ("node", "--test", "test"), ("node", "example.js"), environment, BINDINGS / "node")
