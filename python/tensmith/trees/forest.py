"""A forest: what training gives and files hold, as a Python object."""

import html
import os

import numpy

from .. import _trees
from .data import check_levels, check_names, levels_of_names, rows_of


def load(path):
    """A forest from a file of ours, of XGBoost's (JSON, UBJSON), LightGBM's (text), or an ONNX model of trees."""
    return Forest.load(path)


class Drawing:
    """A picture in SVG, or a page in HTML; notebooks show it."""

    def __init__(self, text):
        self.text = text

    def save(self, path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.text)

    def __str__(self):
        return self.text

    def _repr_html_(self):
        return self.text if self.text.startswith("<svg") else f'<iframe srcdoc="{html.escape(self.text)}" width="100%" height="600"></iframe>'


class Forest:
    """Trees whose leaves sum up to outputs; made by `train` and `load`. Can be pickled.

    Data is what `Matrix` takes. `rounds` limits predictions to the first so many rounds; None is all, or those up to the best
    one where training stopped early. `threads` 0: as many as there are CPUs.

    Columns of tables must have the names that the training data's had, in their order; arrays go by places. Columns of categories must list
    the categories that the training data's did. Files hold lists of texts and of numbers; of others, such as dates, only training and pickles
    know.
    """

    def __init__(self, handle, levels=None):
        self._handle = handle
        self._levels = levels or [listed and levels_of_names(*listed) for listed in handle.levels]  # of Rows
        self._predictors = {}

    @classmethod
    def load(cls, path):
        return cls(_trees.Forest.load(os.fspath(path)))

    @classmethod
    def from_bytes(cls, contents):
        """From a file's contents, of any format that `load` knows."""
        return cls(_trees.Forest.parse(bytes(contents)))

    def save(self, path, format=None):
        """`format`: "forest", "json" or "ubj" (XGBoost's), "onnx"; None: as the path ends."""
        self._handle.save(os.fspath(path), format)

    def to_bytes(self, format="forest"):
        return self._handle.format(format)

    def to_onnx(self, results="task"):
        """The bytes of an ONNX model. `results`: "task" (predictions; of a classifier label and probabilities), "predictions", or
        "outputs", before the transform."""
        if results not in ("task", "predictions", "outputs"):
            raise ValueError(f"results is {results!r}; task, predictions or outputs is expected")
        return self._handle.to_onnx(results)

    def compile(self, threads=0, **options):
        """A module that predicts by native code for this machine; `options` as of `tensmith.compile`."""
        import tensmith

        return CompiledForest(tensmith.compile(self.to_onnx("predictions"), threads=threads, **options), self)

    def __getstate__(self):
        return self.to_bytes(), self._levels

    def __setstate__(self, state):
        contents, levels = state
        self.__init__(_trees.Forest.parse(contents), levels)

    objective = property(lambda self: self._handle.objective)
    channels = property(lambda self: self._handle.channels)
    feature_names = property(lambda self: self._handle.names)
    classes = property(lambda self: self._handle.classes)
    class_names = property(lambda self: self._handle.class_names, doc="of a target of text, by class; else empty")
    levels = property(lambda self: dict(zip(self.feature_names, self._levels, strict=True)),
                      doc="by feature: what its categories are, in the order of their numbers; None: numbers, or not known")  # fmt: skip
    base_scores = property(lambda self: self._handle.base_scores)
    best_round = property(lambda self: None if self._handle.best_round < 0 else self._handle.best_round)
    rounds = property(lambda self: self._handle.trees // self.channels)

    def __len__(self):
        return self._handle.trees

    def __repr__(self):
        return f"<Forest: {len(self)} trees, {self._handle.features} features, {self.objective}>"

    def _predictor(self, rounds):
        if rounds is not None and rounds < 1:
            raise ValueError(f"rounds is {rounds}; a number from 1 on is expected, or None for all that count")
        trees = self._handle.counted(rounds or 0)
        predictor = self._predictors.get(trees)
        if predictor is None:  # another thread may take the place of what is kept, but not of what is given back
            predictor = _trees.Predictor(self._handle, trees)
            self._predictors = {trees: predictor}
        return predictor

    def _rows(self, data):
        rows = rows_of(data)
        if rows.columns == self._handle.features:
            check_names(self.feature_names, rows)
        check_levels(self._levels, rows)
        if rows.columns != self._handle.features and (rows.dense is not None or rows.columns > self._handle.features):
            raise ValueError(f"the data has {rows.columns} features, but the forest was trained on {self._handle.features}")
        return rows

    def outputs(self, data, rounds=None, threads=0):
        """[rows, channels], before the transform."""
        rows, predictor = self._rows(data), self._predictor(rounds)
        if rows.dense is not None:
            return predictor.outputs(rows.dense, threads)
        return predictor.sparse_outputs(*rows.sparse, rows.columns, threads)

    def predict(self, data, rounds=None, threads=0):
        """[rows], or [rows, channels] of several classes: numbers, of two classes the probability of the second."""
        result = self.outputs(data, rounds, threads)
        _trees.transform(self.objective, result)
        return result[:, 0] if result.shape[1] == 1 else result

    def apply(self, data, rounds=None, threads=0):
        """[rows, trees]: the number of the leaf that each tree sends a row to."""
        rows, predictor = self._rows(data), self._predictor(rounds)
        if rows.dense is not None:
            return predictor.leaves(rows.dense, threads)
        return predictor.sparse_leaves(*rows.sparse, rows.columns, threads)

    def contributions(self, data, rounds=None, threads=0):
        """[rows, features + 1], of several channels [rows, channels, features + 1]: what each feature adds to the output, exactly
        (TreeSHAP); the last is what a row of unknown features gets. They sum up to `outputs`."""
        result = self._handle.contributions(self._rows(data).as_dense(), self._handle.counted(rounds or 0), threads)
        return result[:, 0] if result.shape[1] == 1 else result

    def importances(self, kind="gain"):
        """By feature's name. `kind`: "gain" and "cover" (means over its splits), "total_gain", "total_cover", "weight" (how many)."""
        return dict(zip(self.feature_names, self._handle.importances(kind).tolist(), strict=True))

    def tree(self, number):
        """Its nodes as arrays by name: feature (-1: a leaf), threshold, left, right, missing_left, value, gain, cover, categories."""
        return self._handle.tree(number)

    def dump(self):
        """All trees as text, a node a line."""
        return self._handle.dump()

    def plot_tree(self, number=0):
        return Drawing(self._handle.tree_svg(number))

    def plot_importances(self, kind="gain", most=20):
        return Drawing(self._handle.importance_svg(kind, most))

    def page(self, tree=0, kind="gain"):
        """A page of HTML: importances, and a tree."""
        return Drawing(self._handle.page(tree, kind))


class CompiledForest:
    """A forest as a compiled module; made by `Forest.compile`. `model` runs, saves and describes it."""

    def __init__(self, model, forest):
        self.model = model
        self._forest = forest

    def predict(self, data):
        """As `Forest.predict`."""
        result = numpy.asarray(self.model.run(self._forest._rows(data).as_dense())[0])
        return result[:, 0] if result.shape[1] == 1 else result

    def save(self, path):
        self.model.save(path)
