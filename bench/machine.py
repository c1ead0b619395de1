"""The limits of this machine, by which kernels are chosen and judged: measured before anything else is."""

import json
import os
import pathlib
import platform
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]


def program():
    """The command line of this checkout's build, or of $TENSMITH_BUILD."""
    path = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "bin/tensmith"
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there; ./run builds it")
    return path


def processor():
    """Its name, where the system tells it; else the architecture's."""
    path = pathlib.Path("/proc/cpuinfo")
    names = [line.partition(":")[2].strip() for line in path.read_text().splitlines() if line.startswith("model name")] if path.exists() else []
    return names[0] if names else platform.machine()


def measure_machine(say, is_patient=True):
    """The limits, measured where they never were, and once more where what is kept can't be this machine's and there is patience for it."""
    limits = _limits()
    if limits.get("doubt") and is_patient:
        say(f"measuring this machine again: {limits['doubt']}")
        limits = _limits("--again")
    if limits.get("doubt"):
        say(f"warning: {limits['doubt']}")
    return limits


def _limits(*arguments):
    done = subprocess.run([program(), "machine", "--json", *arguments], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise RuntimeError("'tensmith machine' failed")
    return json.loads(done.stdout)["limits"]
