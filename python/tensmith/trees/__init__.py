"""Gradient-boosted trees: trained, explained, saved and compiled.

    import tensmith.trees as trees
    data = trees.Matrix(x, labels=y)
    forest = trees.train({"objective": "logistic", "max_depth": 6}, data, rounds=100)
    forest.predict(x)
    forest.save("model.forest")      # or .json, .ubj (XGBoost's), .onnx

`TreesClassifier`, `TreesRegressor` and `TreesRanker` follow scikit-learn's conventions, and work without it, too.
"""

from .data import Matrix
from .estimators import TreesClassifier, TreesRanker, TreesRegressor
from .forest import CompiledForest, Drawing, Forest, load
from .learning import parameters, train
from .losses import loss_derivatives

__all__ = [
    "CompiledForest", "Drawing", "Forest", "Matrix", "TreesClassifier", "TreesRanker", "TreesRegressor", "load",
    "loss_derivatives", "parameters", "train",
]  # fmt: skip
