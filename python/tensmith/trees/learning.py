"""Training by a dictionary of parameters."""

import json
import math

from .. import _trees
from .data import Matrix, check_levels, check_names, names_of
from .forest import Forest
from .losses import compile_loss


def parameters():
    """All parameters: by name, XGBoost's name for it (or None), the default, and a help."""
    return {name: (other or None, json.loads(default), help_) for name, other, default, help_ in _trees.parameter_names()}


def _plain(value):
    """NumPy's numbers and arrays as JSON has them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return value


def _number_features(given, names):
    """Constraints may say features by their names; the library counts them."""

    def number_of(feature):
        if not isinstance(feature, str):
            if feature not in range(len(names)):
                raise ValueError(f"a constraint is for the feature {feature}, and the training data has {len(names)}")
            return feature
        if feature not in names:
            raise ValueError(f"a constraint names the feature '{feature}', which the training data has not")
        return names.index(feature)

    for word in {"monotone", "monotone_constraints"} & set(given):
        if isinstance(given[word], dict):
            directions = {number_of(feature): _plain(direction) for feature, direction in given[word].items()}
            if len(directions) < len(given[word]):
                raise ValueError(f"{word} gives a feature two directions, by its name and by its number")
            given[word] = [directions.get(number, 0) for number in range(len(names))]
    for word in {"interactions", "interaction_constraints"} & set(given):
        if isinstance(given[word], list):
            given[word] = [[number_of(feature) for feature in part] if isinstance(part, list) else part for part in given[word]]


def train(params, matrix, rounds=None, *, evals=(), early_stopping_rounds=None, callbacks=(), loss=None, continued=None, together=False,
          verbose=False, results=None):  # fmt: skip
    """Trains a forest.

    params: a dictionary; our names and XGBoost's are both taken (`parameters()` lists them). "objective", or "loss" beside it, may
        be a loss of your own, which is differentiated twice and compiled: a function of (output, label) written with NumPy's
        functions, "file.tsm:function", or a program's text with a function `loss`. "monotone" may be a dictionary by features' names,
        and "interactions" lists of names.
    matrix: a `Matrix` with labels.
    rounds: of boosting; None: as the parameters say.
    evals: pairs (matrix, name): metrics are computed after each round.
    early_stopping_rounds: training ends where the last metric of the last of `evals` has not become better for so many rounds.
    callbacks: called after each round with its number and {set: {metric: value}}; one that returns False ends training.
    loss: `loss(outputs, labels, weights)` gives (gradients, Hessians) in place of the objective's, for derivatives by hand.
    continued: a forest to go on from.
    together: the processes that mpirun has started train one forest; each gives some of the rows.
    verbose: prints each round's metrics; a number: those of every so many rounds.
    results: a dictionary that is filled with {set: {metric: [values]}}.
    """
    params = dict(params)
    module = None
    for name in ("objective", "loss"):
        if callable(params.get(name)):
            channels = int(params.get("classes", params.get("num_class", 0)) or 1)
            module = compile_loss(params.pop(name), channels)
    given = {name: _plain(value) for name, value in params.items() if value is not None}
    for name, value in given.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{name} is {value}; a finite number is expected")
    if rounds is not None:
        given["rounds"] = int(rounds)
    if early_stopping_rounds is not None:
        given["early_stopping_rounds"] = int(early_stopping_rounds)
    sets = [(name, part) if isinstance(name, str) else (part, name) for part, name in evals]
    for part in [matrix] + [part for _, part in sets]:
        if not isinstance(part, Matrix):
            raise TypeError(f"{type(part).__name__} stands where a Matrix is expected: trees.Matrix(x, labels=y)")
    names = names_of(matrix.rows_)
    _number_features(given, names)
    for _, part in sets:
        check_names(names, part.rows_)
        check_levels(matrix.rows_.levels, part.rows_)
    if continued is not None:
        check_names(continued.feature_names, matrix.rows_)
        check_levels(continued._levels, matrix.rows_)

    def watch(number, metrics, _seconds):
        by_set = {}
        for name, metric, value in metrics:
            by_set.setdefault(name, {})[metric] = value
            if results is not None:
                results.setdefault(name, {}).setdefault(metric, []).append(value)
        if verbose and number % int(verbose) == 0:
            print(f"[{number}]", *(f"{name}-{metric} {value:.6g}" for name, metric, value in metrics), flush=True)
        goes_on = [callback(number, by_set) for callback in callbacks]
        return all(answer is not False for answer in goes_on)

    validation = [(name, part._matrix) for name, part in sets]
    handle = _trees.train(json.dumps(given), matrix._matrix, validation, continued._handle if continued else None, watch, loss,
                           together=bool(together), loss_module=module)
    return Forest(handle, matrix.rows_.levels)
