"""A graph that was built in Python, compiled: with the options of `tensmith.compile` that have to do with a graph."""

import contextlib
import os
import tempfile

from . import Error, _KeptModel, _settings, _tensmith

_DEFAULTS = {"shapes": None, "target": None, "cache_dir": None, "dump_ir": None, "reference": False, "precision": "fast",
             "fuse": True, "overridable": (), "derivatives": ()}  # fmt: skip
_OPTIONS = {"target", "cache_dir", "dump_ir", "reference", "precision", "fuse", "schedules", "libraries", "device", "fast_math", "debug_info",
            "casts"}


def settings_of(options):
    """Those of `tensmith.compile`, of which the sizes are the graph's own."""
    if unknown := options.keys() - _OPTIONS:
        raise Error(f"there is no option {', '.join(map(repr, sorted(unknown)))}; options are those of tensmith.compile, and threads")
    return _settings(**_DEFAULTS | options)


@contextlib.contextmanager
def _file_of(builder, settings):
    """The path of the compiled module, while it is used."""
    with tempfile.TemporaryDirectory(prefix="tensmith-") as folder:
        path = os.path.join(folder, "module.so")
        builder.compile(path, settings)
        yield path


def compiled(builder, settings, threads):
    """The graph as a Model. Through a file, so that weights are mapped and not held twice."""
    with _file_of(builder, settings) as path:
        return _KeptModel(_tensmith.load(path, threads, 0, 0), open(path, "rb"))


def bytes_of(builder, settings):
    """The graph as a module's bytes."""
    with _file_of(builder, settings) as path, open(path, "rb") as file:
        return file.read()
