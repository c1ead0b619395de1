"""A run of training from Python: `tensmith.train`.

It is the run of the command line, in this process. What can be set is one table of the library's, of which the signature and
the documentation are made here.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _tensmith
from .inputs import known_names

if TYPE_CHECKING:
    from . import Model

_TABLE = {entry["option"].replace("-", "_"): entry for entry in json.loads(_tensmith.training_settings())}


class Trained:
    """What `train` gives: a model that has been trained, and how that went.

    history: a dict for each line of metrics.jsonl, those of before a run went on among them: kind ("train",
        "validation", "test"), step, epoch, loss, seconds, and accuracy, samples_per_second, where there are such.
    state: arrays by name: the model's weights and running statistics as they are in the step, the optimiser's slots as
        "slot.weight", averages as "ema.weight", and "step".
    folder, onnx, program, module, checkpoint: paths: of the run, of the trained model as ONNX (None of a program that ONNX has
        no operators for), as a program (None of an ONNX model) and compiled, of the last checkpoint (None if none was written).
    step: how many were made; stopped: whether the callback has ended the run.

    Of several processes only the first has the history and, where the optimiser's state is shared out, all of the state.
    """

    def __init__(self, result: dict[str, Any]) -> None:
        self.history = [json.loads(line) for line in result["history"]]
        self.state = result["state"]
        self.folder = result["folder"]
        of_kind = lambda name: path if os.path.exists(path := os.path.join(self.folder, name)) else None
        self.onnx, self.program = of_kind("model.onnx"), of_kind("model.tsm")
        self.module = os.path.join(self.folder, "model.so")
        self.checkpoint = result["checkpoint"] or None
        self.step = result["step"]
        self.stopped = result["stopped"]
        self._model = None

    @property
    def model(self) -> Model:
        """The trained model, as `tensmith.load` gives it."""
        if self._model is None:
            from . import load

            self._model = load(self.module)
        return self._model

    def __repr__(self) -> str:
        last = {metric["kind"]: metric["loss"] for metric in self.history if metric["loss"] is not None}
        losses = "".join(f", {kind} loss {loss:.4g}" for kind, loss in last.items())
        return f"<tensmith.Trained in {self.folder}: {self.step} steps{losses}>"

    def _repr_html_(self) -> str | None:
        """The curves, in a notebook."""
        from .display import page_of

        return page_of(os.path.join(self.folder, "curves.html"))


def _plain(value):
    """What JSON has no word for: paths, and NumPy's numbers and arrays."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no value of a setting")


def _finite(value):
    """What JSON has no number for is refused as the text that it is."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _is_path(value):
    return isinstance(value, (str, os.PathLike))


def _samples(name, given):
    """Paths as they are, and arrays as pairs of a name and an array."""
    if given is None or _is_path(given):
        return given, None
    if isinstance(given, dict):
        return None, [(str(key), array) for key, array in given.items()]
    if not isinstance(given, (list, tuple)):
        raise TypeError(f"{name} is a path or several, a pair of arrays (inputs, targets), or a dict of arrays by name, "
                        f"not {type(given).__name__}")  # fmt: skip
    if all(_is_path(part) for part in given):
        return list(given), None
    return None, [("", array) for array in given]


def train(
    model: Any, data: Any = None, *, callback: Callable[[dict[str, Any]], Any] | None = None,
    progress: bool | None = None, **settings: Any,
) -> Trained:  # fmt: skip
    settings = known_names(settings, _TABLE)
    for name in settings:
        if name not in _TABLE:
            raise TypeError(f"train: there is no setting '{name}'{_tensmith.suggestion(name, list(_TABLE))}; "
                            "see help(tensmith.train)")  # fmt: skip
    if not _is_path(model):
        raise TypeError(f"train: the model is the path of an ONNX file, or of a configuration (.toml), not {type(model).__name__}")
    data, arrays = _samples("data", data)
    settings["test"], test_arrays = _samples("test", settings.get("test"))
    settings |= {"model": model, "data": data if arrays is None else ["data"]}
    given = {_TABLE[name]["option"]: _finite(value) for name, value in settings.items() if value is not None}
    if progress is None:
        progress = os.isatty(2)
    told = None if callback is None else lambda line: callback(json.loads(line))
    result = _tensmith.train(json.dumps(given, default=_plain), arrays, test_arrays, told, bool(progress))
    return Trained(result)


def _documentation():
    lines = [
        'Trains a model and gives it back: `tensmith train`, in this process. The run, its folder and its settings are those of',
        "the command line, to the same bits.",
        "",
        '    trained = ts.train("model.onnx", (images, labels), test=(more, theirs), epochs=5, learning_rate=0.01)',
        "    trained.history[-1]              # {'kind': 'test', 'loss': 0.31, 'accuracy': 0.89, ...}",
        "    scores = trained.model(images)",
        "",
        "model: an ONNX file, or a configuration in TOML, whose settings those that are given here count more than.",
        "data, test: NumPy arrays (or others with __dlpack__), samples first: a pair (inputs, targets), or a dict of arrays by the",
        "    names of the model's inputs, with the target as the one that `target` names, or as 'target', 'label' or 'y'; or",
        "    paths, as the command line takes them.",
        "callback: called with a dict for each line that metrics.jsonl gets; if it returns False, the run ends there: with a",
        "    checkpoint, from which resume=True goes on, and with the model as trained so far. An exception ends it, too.",
        "progress: True, what goes on is said on standard error, as the command does; False, nothing; None, where that is a",
        "    terminal.",
        "",
        "Gives a `Trained`: history, state, model, paths. Ctrl-C ends a run after the step, with a checkpoint, and is a",
        "KeyboardInterrupt. What fails is a `tensmith.Error` with the command's message; the last good checkpoint stands.",
        "",
        "Settings, by the names that the command line has:",
    ]  # fmt: skip
    section = None
    for name, entry in _TABLE.items():
        if name in ("model", "data", "test"):
            continue
        if entry["section"] != section:
            section = entry["section"]
            lines.append("" if not section else f"\n[{section}]")
        lines += textwrap.wrap(f"{name}: {entry['help']}", 118, subsequent_indent="    ")
    return "\n".join(lines)


def _signature():
    kinds = inspect.Parameter
    own = [kinds("model", kinds.POSITIONAL_OR_KEYWORD), kinds("data", kinds.POSITIONAL_OR_KEYWORD, default=None),
           kinds("test", kinds.KEYWORD_ONLY, default=None)]  # fmt: skip
    settings = [kinds(name, kinds.KEYWORD_ONLY, default=entry["default"])
                for name, entry in _TABLE.items() if name not in ("model", "data", "test")]  # fmt: skip
    told = [kinds(name, kinds.KEYWORD_ONLY, default=None) for name in ("callback", "progress")]
    return inspect.Signature(own + settings + told)


train.__doc__ = _documentation()
train.__signature__ = _signature()
