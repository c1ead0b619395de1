"""Compiled programs by their structure: in this process, and in the cache of modules for the next one."""

import functools
import hashlib
import os
import pathlib
import threading

from .. import _eager, _tensmith, formulas, lowerings
from ..lowered import bytes_of, settings_of
from ..stablehlo import graph
from . import lowering, recomputed, texts
from .lowering import graph_of, has_derivative, has_loop
from .texts import encoded, with_fixed_sizes

_lock = threading.Lock()
_programs = {}  # by text and device
_counts = {"compiled": 0, "loaded": 0, "runs": 0}


class Program:
    """Called with its inputs and its results' types, a list or `ResultTypes`; the results are there when the engine has computed them."""

    def __init__(self, compiled, text):
        self.compiled, self._text = compiled, encoded(text)
        compiled.source = self._text
        compiled.text = self._text  # where a program is a step of another
        compiled.derives = has_derivative(text)
        compiled.repeats = has_loop(text)

    def run(self, inputs, types, *is_awaited):
        """Untold to tapes. is_awaited: whether to wait for the results, whose failure is raised here then."""
        _counts["runs"] += 1
        return self.compiled.run(inputs, types, *is_awaited)

    def __call__(self, inputs, types):
        results = self.run(inputs, types)
        for tape in _eager.recording():
            if any(tape.is_active(x) or x.requires_grad for x in inputs):
                self._tell(tape, inputs, results, types)
        return results

    def _tell(self, tape, inputs, results, types):
        """The run is a step of a tape that records."""
        types = types.types if isinstance(types, _eager.ResultTypes) else types
        first = tape.add("program", with_fixed_sizes({"text": self._text}), [tape.read(x) for x in inputs], types)
        for i, result in enumerate(results):
            tape.bind(result, first + i)


def program_of(text, device=""):
    """The program of a tape's text, on a device or the host; compiled where nobody has asked for it before."""
    program = _programs.get((text, device))
    if program is None:
        with _lock:
            program = _programs.get((text, device))
            if program is None:
                program = _programs[text, device] = Program(_load(text, device), text)
    return program


@functools.cache
def _rules():
    """Of what makes a graph of a text, as a part of the key: a module that older rules made of the same text is not taken."""
    files = [module.__file__ for module in (lowering, lowerings, recomputed, texts, formulas, graph)]
    return hashlib.sha256(b"".join(pathlib.Path(file).read_bytes() for file in files)).digest()


def compiled_on(text, device):
    """What a program's text is, in base64, on a device, where its inputs and results lie. Called where inputs of a run do."""
    return program_of(texts.decoded(text), device).compiled


def _load(text, device):
    # Without kernels each operator of the graph is evaluated, as each operation of eager tensors is then.
    settings = settings_of({"reference": os.environ.get("TENSMITH_EAGER_KERNELS") == "off", "device": device or None})
    settings.resident = bool(device)
    kept = _tensmith.KeptModules("recorded program", text.encode() + _rules(), settings)
    if found := kept.find():
        descriptor, size, _ = found
        try:
            module = _eager.load_file(f"/proc/self/fd/{descriptor}", size, device)
            _counts["loaded"] += 1
            return module
        except RuntimeError:  # of another version, or for another machine
            pass
        finally:
            os.close(descriptor)
    module = bytes_of(graph_of(text).builder, settings)
    kept.keep(module, "")
    _counts["compiled"] += 1
    return _eager.load_bytes(module, device)


def statistics():
    """How many programs were compiled, loaded from the cache, and run."""
    return dict(_counts)
