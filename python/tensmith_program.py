"""The `tensmith` program of a wheel: starts the one that lies in the package, without importing the package."""

import os
import pathlib
import sys


def main():
    program = pathlib.Path(__file__).parent / "tensmith/bin/tensmith"
    os.execv(program, ["tensmith", *sys.argv[1:]])
