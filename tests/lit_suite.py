# How lit runs the compiler's text tests: every `.mlir` file of the source tree is one, wherever it stands, and every `.schedule`
# file, of a nest.
#
# Loaded by the lit.site.cfg.py of a build: `.venv/bin/lit build/dev/tests`, or with --filter REGEX. It is not called
# lit.cfg.py, which lit would take for a suite inside the suite.
# A test's RUN lines may call the build's programs (tensmith, tensmith-opt, random-graphs) and LLVM's (FileCheck, not, split-file) by
# name. Features that a test can ask for with REQUIRES: the machine's instruction sets (avx2, avx512f, ...), and `asan` or
# `tsan` where the build has that sanitizer.
import os
import platform

import lit.formats

config.name = "tensmith"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".schedule"]
config.excludes = ["build", ".git", ".venv", ".cache", "dist", "Inputs", "templates"]
config.test_source_root = config.tensmith_source
config.test_exec_root = os.path.join(config.tensmith_binary, "lit")

programs = [os.path.join(config.tensmith_binary, folder) for folder in ("bin", "test")] + [config.llvm_bin]
config.environment["PATH"] = os.pathsep.join(programs + [os.environ["PATH"]])


def instruction_sets():
    """The flags that the kernel lists for the first processor."""
    try:
        with open("/proc/cpuinfo") as cpuinfo:
            lines = cpuinfo.read().splitlines()
    except OSError:
        return []
    flags = [line.partition(":")[2].split() for line in lines if line.startswith(("flags", "Features"))]
    return flags[0] if flags else []


config.available_features.add(platform.machine())
config.available_features.update(instruction_sets())
if "address" in config.sanitizers:
    config.available_features.add("asan")
if "thread" in config.sanitizers:
    config.available_features.add("tsan")
