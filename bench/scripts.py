"""The commands of this folder as modules, for one another."""

import importlib.machinery
import importlib.util
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent


def script(name):
    """bench/NAME as a module; `race` also finds the Python that has the engines."""
    loader = importlib.machinery.SourceFileLoader(name, str(FOLDER / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module
