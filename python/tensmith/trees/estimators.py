"""Estimators by scikit-learn's conventions: `fit`, `predict`, `get_params`; they can be cloned, searched over, calibrated and pickled.

With scikit-learn installed they are its estimators, and data is checked by it. Without, `_Estimator` below stands in for its base.
"""

import inspect
import warnings

import numpy

from .data import Matrix, check_names, names_of, rows_of
from .learning import parameters, train
from .losses import is_loss

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
    from sklearn.utils.validation import _check_sample_weight as check_weights
except ImportError:
    validate_data = None

    class BaseEstimator:
        """Parameters are what `__init__` takes."""

        @classmethod
        def _names(cls):
            return sorted(set(inspect.signature(cls.__init__).parameters) - {"self"})

        def get_params(self, deep=True):
            return {name: getattr(self, name) for name in self._names()}

        def set_params(self, **params):
            for name, value in params.items():
                if name not in self._names():
                    raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(self._names())}")
                setattr(self, name, value)
            return self

    class ClassifierMixin:
        def score(self, X, y, sample_weight=None):
            """The share of right answers."""
            return float(numpy.average(self.predict(X) == numpy.asarray(y), weights=sample_weight))

    class RegressorMixin:
        def score(self, X, y, sample_weight=None):
            """The coefficient of determination."""
            y = numpy.asarray(y, float)
            mean = numpy.average(y, weights=sample_weight)
            left = numpy.average((y - self.predict(X)) ** 2, weights=sample_weight)
            return float(1 - left / numpy.average((y - mean) ** 2, weights=sample_weight))


def _has_own_types(data):
    """Data frames and tables with columns of categories, which scikit-learn's checks would take apart."""
    if hasattr(data, "column_names") and hasattr(data, "schema"):
        return True
    return hasattr(data, "dtypes") and hasattr(data, "columns") and any(str(type_) == "category" for type_ in data.dtypes)


def _are_counts(weights):
    """Whether rows can be repeated in the place of weights: by convention both give the same model, which weighted gradients in f32
    do to the last bit but one."""
    weights = numpy.asarray(weights)
    return len(weights) > 0 and weights.sum() <= 1 << 16 and weights.max() > 1 and (weights == numpy.floor(weights)).all()


class _Trees(BaseEstimator):
    """What the three have in common. `objective` is a name, or a loss of your own as `train` takes it. `other` is a dictionary of
    further parameters, as `train` takes them."""

    def __init__(self, n_estimators=100, *, objective=None, learning_rate=0.3, max_depth=6, max_leaves=0, growth="depth", method="hist",
                 max_bins=256, reg_lambda=1.0, reg_alpha=0.0, gamma=0.0, min_child_weight=1.0, subsample=1.0, colsample_bytree=1.0,
                 monotone=None, interactions=None, categorical_features=None, early_stopping_rounds=None, eval_metric=None,
                 importance_type="gain", random_state=None, n_jobs=None, verbose=False, other=None):  # fmt: skip
        self.n_estimators = n_estimators
        self.objective = objective
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.max_leaves = max_leaves
        self.growth = growth
        self.method = method
        self.max_bins = max_bins
        self.reg_lambda = reg_lambda
        self.reg_alpha = reg_alpha
        self.gamma = gamma
        self.min_child_weight = min_child_weight
        self.subsample = subsample
        self.colsample_bytree = colsample_bytree
        self.monotone = monotone
        self.interactions = interactions
        self.categorical_features = categorical_features
        self.early_stopping_rounds = early_stopping_rounds
        self.eval_metric = eval_metric
        self.importance_type = importance_type
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.other = other

    _names_of_parameters = {"n_estimators": "rounds", "reg_lambda": "lambda", "reg_alpha": "alpha", "colsample_bytree": "columns_by_tree"}
    _not_of_training = {"objective", "categorical_features", "early_stopping_rounds", "eval_metric", "importance_type", "random_state",
                        "n_jobs", "verbose", "other"}  # fmt: skip

    def _parameters(self, objective):
        given = {
            self._names_of_parameters.get(name, name): value
            for name, value in self.get_params(deep=False).items()
            if name not in self._not_of_training and value is not None
        }
        given["objective"] = self.objective or objective
        if is_loss(self.objective):  # of rows whose labels and predictions are those of the default
            given |= {"objective": objective, "loss": self.objective}
        if given["objective"] == "softmax":
            given["classes"] = len(self.classes_)
        given["threads"] = self.n_jobs if self.n_jobs and self.n_jobs > 0 else 0
        if self.eval_metric is not None:
            given["metrics"] = [self.eval_metric] if isinstance(self.eval_metric, str) else list(self.eval_metric)
        if self.random_state is not None:
            is_number = isinstance(self.random_state, (int, numpy.integer))
            given["seed"] = int(self.random_state) if is_number else int(self.random_state.randint(1 << 31))
        own = {other: name for name, (other, _, _) in parameters().items() if other}
        return given | {own.get(name, name): value for name, value in (self.other or {}).items()}

    def _data(self, X, y=None, reset=False):
        """Checked rows, and labels where there are some."""
        if validate_data is None or _has_own_types(X):
            rows = rows_of(X)
            if reset:
                self.n_features_in_ = rows.columns
                if rows.names:
                    self.feature_names_in_ = numpy.asarray(rows.names, object)
            elif rows.columns != self.n_features_in_:
                raise ValueError(f"X has {rows.columns} features, but {type(self).__name__} is expecting {self.n_features_in_} features as input")
            return (rows, None if y is None else numpy.asarray(y)) if reset else rows
        checks = dict(dtype=numpy.float32, ensure_all_finite="allow-nan", accept_sparse="csr", reset=reset)
        if not reset:
            return rows_of(validate_data(self, X, **checks))
        X, y = validate_data(self, X, y, **checks, multi_output=False, y_numeric=self._y_is_numeric)
        return rows_of(X), y

    _y_is_numeric = True

    def _fit(self, X, labels, weights, objective, rows, eval_set=None, encode=None, **of_matrix):
        named = getattr(self, "feature_names_in_", None)
        if weights is not None:
            weights = check_weights(weights, rows.as_dense() if rows.sparse is None else X) if validate_data and "groups" not in of_matrix else weights
            if "groups" not in of_matrix and (numpy.asarray(weights) == 0).any():
                # A row without weight is none: its values are not where thresholds lie.
                kept = numpy.flatnonzero(weights)
                rows, labels, weights = rows.taken(kept), numpy.asarray(labels)[kept], numpy.asarray(weights)[kept]
            if "groups" not in of_matrix and _are_counts(weights):
                repeated = numpy.repeat(numpy.arange(len(rows)), numpy.asarray(weights, int))
                rows, labels, weights = rows.taken(repeated), numpy.asarray(labels)[repeated], None
        if rows.names is None and named is not None:
            rows.names = [str(name) for name in named]
        matrix = Matrix(rows, labels, weights=weights, categorical=self.categorical_features, **of_matrix)
        evals = []
        for i, (part, target, *rest) in enumerate(eval_set or ()):
            part = self._data(part)
            check_names(names_of(rows), part)
            part.names, part.categories = rows.names, rows.categories
            target = encode(target) if encode else target
            evals.append((Matrix(part, target, **({"groups": rest[0]} if rest else {})), f"validation_{i}"))
        if self.early_stopping_rounds is not None and not evals:
            raise ValueError("early_stopping_rounds needs a validation set: fit(X, y, eval_set=[(X_valid, y_valid)])")
        self.evals_result_ = {}
        self.forest_ = train(self._parameters(objective), matrix, evals=evals, early_stopping_rounds=self.early_stopping_rounds,
                             verbose=self.verbose, results=self.evals_result_)  # fmt: skip
        return self

    def _predicted(self, X):
        self._check_fitted()
        return self.forest_.predict(self._data(X), threads=self.n_jobs if self.n_jobs and self.n_jobs > 0 else 0)

    def _check_fitted(self):
        if validate_data is not None:
            check_is_fitted(self, "forest_")
        elif not hasattr(self, "forest_"):
            raise RuntimeError(f"this {type(self).__name__} is not fitted yet; call fit first")

    def apply(self, X):
        """[rows, trees]: the number of the leaf that each tree sends a row to."""
        self._check_fitted()
        return self.forest_.apply(self._data(X))

    def contributions(self, X):
        """As `Forest.contributions`."""
        self._check_fitted()
        return self.forest_.contributions(self._data(X))

    @property
    def feature_importances_(self):
        """By feature, as `importance_type` says, with the sum 1."""
        self._check_fitted()
        values = numpy.asarray(list(self.forest_._handle.importances(self.importance_type)), float)
        return values / values.sum() if values.sum() > 0 else values

    @property
    def best_iteration_(self):
        self._check_fitted()
        return self.forest_.best_round

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags


class TreesRegressor(RegressorMixin, _Trees):
    """Boosted trees for numbers; the objective is "squared" where none is given."""

    def fit(self, X, y, sample_weight=None, eval_set=None):
        """`eval_set`: pairs (X, y) to validate on after each round."""
        rows, y = self._data(X, y, reset=True)
        return self._fit(X, y, sample_weight, "squared", rows, eval_set)

    def predict(self, X):
        return self._predicted(X)


class TreesClassifier(ClassifierMixin, _Trees):
    """Boosted trees for two classes or more, whose labels may be numbers or names."""

    _y_is_numeric = False

    def fit(self, X, y, sample_weight=None, eval_set=None):
        rows, y = self._data(X, y, reset=True)
        if validate_data is not None:
            check_classification_targets(y)
        y = numpy.asarray(y)
        if y.ndim == 2 and y.shape[1] == 1:
            warnings.warn("a column vector of labels was given where [rows] is expected", stacklevel=2)
            y = y[:, 0]
        self.classes_, numbers = numpy.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"the labels have one class, {self.classes_[0]!r}; a classifier needs two or more")
        objective = "logistic" if len(self.classes_) == 2 else "softmax"
        self._fit(X, numbers, sample_weight, objective, rows, eval_set, self._encode)
        if self.classes_.dtype.kind in "iu":
            self.forest_._handle.classes = [int(label) for label in self.classes_]
        elif all(isinstance(label, str) for label in self.classes_):
            self.forest_._handle.class_names = [str(label) for label in self.classes_]
        return self

    def _encode(self, y):
        numbers = numpy.searchsorted(self.classes_, y)
        numbers[numbers == len(self.classes_)] = 0
        unknown = self.classes_[numbers] != numpy.asarray(y)
        if unknown.any():
            raise ValueError(f"a validation set has the class {numpy.asarray(y)[unknown][0]!r}, which the training data has not; leave it out")
        return numbers

    def predict_proba(self, X):
        result = self._predicted(X)
        return numpy.stack([1 - result, result], axis=1) if result.ndim == 1 else result

    def predict(self, X):
        probabilities = self.predict_proba(X)
        return self.classes_[numpy.argmax(probabilities, axis=1)]

    def decision_function(self, X):
        """Outputs before the transform: [rows] of two classes, [rows, classes] of more."""
        self._check_fitted()
        outputs = self.forest_.outputs(self._data(X))
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs


class TreesRanker(_Trees):
    """Boosted trees that order the rows of a query; LambdaMART ("lambdamart") where no objective is given."""

    def fit(self, X, y, group=None, qid=None, sample_weight=None, eval_set=None):
        """Queries are said by `group`, how many rows each has in order, or by `qid`, the query of each row, in ascending order.

        `eval_set`: triples (X, y, group).
        """
        rows, y = self._data(X, y, reset=True)
        if (group is None) == (qid is None):
            raise ValueError("a ranker needs to know which rows belong together: give either group or qid")
        if qid is not None:
            qid = numpy.asarray(qid)
            if qid.dtype.kind not in "iuf" or len(qid) != len(rows) or (numpy.diff(qid) < 0).any():
                raise ValueError("qid is not one ascending number for each row; sort the rows by query")
            group = numpy.unique(qid, return_counts=True)[1]
        return self._fit(X, y, sample_weight, "lambdamart", rows, eval_set, groups=group)

    def predict(self, X):
        """A score of each row; the rows of a query are to be ordered by it, the greatest first."""
        return self._predicted(X)
