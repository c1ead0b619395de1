"""Builds examples/plugin against an installed package, as whoever writes a plug-in does, whole or without some lines."""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")).resolve()
EXAMPLE = ROOT / "examples/plugin"
FOLDER = BUILD / "plugin-test"


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600, **options)
    assert done.returncode == 0, f"{command}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def build():
    for component in ("runtime", "runtime-dev", "plugin"):
        run("cmake", "--install", BUILD, "--prefix", FOLDER / "prefix", "--component", component)
    launcher = f"{ROOT}/cmake/cached-compile;{FOLDER / 'build'}"
    run("cmake", "-S", EXAMPLE, "-B", FOLDER / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={FOLDER / 'prefix'}",
        "-DCMAKE_C_COMPILER=clang-19", "-DCMAKE_CXX_COMPILER=clang++-19",
        "-DCMAKE_MODULE_LINKER_FLAGS=-fuse-ld=lld-19", f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}")  # fmt: skip
    run("ninja", "-C", FOLDER / "build")


def without(line, folder, *more):
    """The example's library, but for these lines of Plugin.cpp: compiled as the build compiled that file, linked with the rest."""
    text = (EXAMPLE / "Plugin.cpp").read_text()
    for one in (line, *more):
        assert text.count(one) == 1, one
        text = text.replace(one, "")
    (folder / "Plugin.cpp").write_text(text)
    commands = run("ninja", "-C", FOLDER / "build", "-t", "commands", "example.so").splitlines()
    compiling = next(line for line in commands if " -c " in line and line.endswith("Plugin.cpp"))
    linking = next(line for line in commands if "-o example.so" in line)
    object_ = "CMakeFiles/example.dir/Plugin.cpp.o"
    for command in (compiling.replace(f"{EXAMPLE}/Plugin.cpp", f"{folder}/Plugin.cpp").replace(f"-o {object_}", f"-o {folder}/Plugin.o"),
                    linking.replace(object_, f"{folder}/Plugin.o").replace("-o example.so", f"-o {folder}/example.so")):  # fmt: skip
        run("sh", "-c", command, cwd=FOLDER / "build")
    return folder / "example.so"


def python(code, *arguments):
    """What a process of its own prints as JSON: plug-ins stay loaded."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(BUILD / "python"), str(ROOT / "tests/plugin")])}
    return json.loads(run(sys.executable, "-c", code, *arguments, env=environment))
