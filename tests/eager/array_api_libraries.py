"""scikit-learn's estimators and SciPy's functions on our tensors, by the array API standard, against the same ones on NumPy's arrays.

    tests/eager/array_api_libraries.py         # needs scikit-learn and SciPy; prints what differs, or how many agree

They find our namespace themselves (array-api-compat, which both have within): nothing here is written for them.
"""

import os
import pathlib
import sys

os.environ["SCIPY_ARRAY_API"] = "1"  # read when SciPy is imported
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, os.environ.get("TENSMITH_BUILD", str(ROOT / "build/dev")) + "/python")

import numpy  # noqa: E402
import scipy.cluster.vq  # noqa: E402
import scipy.fft  # noqa: E402
import scipy.integrate  # noqa: E402
import scipy.signal  # noqa: E402
import scipy.special  # noqa: E402
import scipy.stats  # noqa: E402
from sklearn import config_context, decomposition, discriminant_analysis, linear_model, metrics, mixture, naive_bayes, preprocessing  # noqa: E402
from sklearn.kernel_approximation import Nystroem  # noqa: E402

import tensmith.numpy as tnp  # noqa: E402

DRAW = numpy.random.RandomState(0)
X, Y = DRAW.randn(60, 5), DRAW.randint(0, 2, 60)
X[:, 0] += Y * 2
TARGET, POSITIVE = X @ DRAW.randn(5), numpy.abs(X) + 0.1


def transformed(make, x=X):
    return lambda a: [make().fit(a(x)).transform(a(x))]


def predicted(make, y):
    return lambda a: [make().fit(a(X), a(y)).predict(a(X))]


def of(function, *arguments, **named):
    def call(a):
        result = function(*(a(x) for x in arguments), **named)
        return [result.statistic, result.pvalue] if hasattr(result, "pvalue") else list(result) if isinstance(result, tuple) else [result]

    return call


ESTIMATORS = {
    "MaxAbsScaler": transformed(preprocessing.MaxAbsScaler),
    "MinMaxScaler": transformed(preprocessing.MinMaxScaler),
    "StandardScaler": transformed(preprocessing.StandardScaler),
    "Normalizer": transformed(preprocessing.Normalizer),
    "Binarizer": transformed(preprocessing.Binarizer),
    "KernelCenterer": transformed(preprocessing.KernelCenterer, X @ X.T),
    "PolynomialFeatures": transformed(preprocessing.PolynomialFeatures),
    "PCA": transformed(lambda: decomposition.PCA(n_components=3, svd_solver="full")),
    "PCA by eigenvalues": transformed(lambda: decomposition.PCA(n_components=3, svd_solver="covariance_eigh")),
    "Nystroem": transformed(lambda: Nystroem(n_components=10, random_state=0)),
    "LabelBinarizer": transformed(preprocessing.LabelBinarizer, Y),
    "Ridge": predicted(lambda: linear_model.Ridge(solver="svd"), TARGET),
    "RidgeCV": predicted(linear_model.RidgeCV, TARGET),
    "RidgeClassifier": predicted(lambda: linear_model.RidgeClassifier(solver="svd"), Y),
    "LinearDiscriminantAnalysis": predicted(discriminant_analysis.LinearDiscriminantAnalysis, Y),
    "GaussianNB": predicted(naive_bayes.GaussianNB, Y),
    "GaussianMixture": lambda a: [mixture.GaussianMixture(2, init_params="random", random_state=0).fit(a(X)).predict_proba(a(X))],
    **{name: of(getattr(metrics.pairwise, name), numpy.abs(X), numpy.abs(X)[:9]) for name in ("cosine_similarity", "euclidean_distances", "linear_kernel", "rbf_kernel")},
}
# Of these the result is a float of Python's, whatever array they are given.
SCORES = {
    **{name: of(getattr(metrics, name), TARGET, TARGET * 0.9 + 0.1) for name in ("mean_squared_error", "mean_absolute_error", "r2_score", "explained_variance_score", "max_error")},
    **{name: of(getattr(metrics, name), Y, 1 - Y * (TARGET > 0)) for name in ("accuracy_score", "zero_one_loss", "f1_score", "hamming_loss", "jaccard_score")},
}
FUNCTIONS = {
    **{name: of(getattr(scipy.special, name), POSITIVE / 10) for name in ("gammaln", "erf", "expit", "logit", "i0", "ndtr", "entr", "log_ndtr")},
    **{name: of(getattr(scipy.special, name), X, axis=1) for name in ("logsumexp", "softmax", "log_softmax")},
    **{name: of(getattr(scipy.stats, name), POSITIVE) for name in ("skew", "kurtosis", "gmean", "hmean", "zscore", "variation", "sem", "entropy", "circmean")},
    "moment": of(scipy.stats.moment, X, order=3),
    "ttest_1samp": of(scipy.stats.ttest_1samp, X, popmean=0.1),
    "bartlett": of(scipy.stats.bartlett, X[:, 0], X[:, 1]),
    "pearsonr": of(scipy.stats.pearsonr, X[:, 0], X[:, 1]),
    "zmap": of(scipy.stats.zmap, X, X),
    "fft": of(scipy.fft.fft, X),
    "rfft": of(scipy.fft.rfft, X, axis=0),
    "fftn": of(scipy.fft.fftn, X),
    "trapezoid": of(scipy.integrate.trapezoid, X, axis=0),
    "cumulative_trapezoid": of(scipy.integrate.cumulative_trapezoid, X, axis=0),
    "detrend": of(scipy.signal.detrend, X, axis=0),
    "whiten": of(scipy.cluster.vq.whiten, X),
    "vq": of(scipy.cluster.vq.vq, X, X[:4]),
}


def plain(x):
    return x.numpy() if isinstance(x, tnp.dtypes.Tensor) else numpy.asarray(x)


def differing():
    """What differs, and whose results are not our tensors though they should be, with their names."""
    found = []
    for name, call in {**ESTIMATORS, **SCORES, **FUNCTIONS}.items():
        expected = call(lambda x: x)
        with config_context(array_api_dispatch=True):
            results = call(tnp.asarray)
        wanted = float if name in SCORES else tnp.dtypes.Tensor
        found += [f"{name}: a {type(x).__name__}, not a {wanted.__name__}" for x in results if not isinstance(x, wanted)]
        for x, y in zip(map(plain, results), map(plain, expected), strict=True):
            if x.shape != y.shape or not numpy.allclose(x, y, 1e-6, 1e-7):
                found.append(f"{name}: {x}, not {y}")
    return found


def main():
    found = differing()
    print("\n".join(found))
    print(f"{len(ESTIMATORS) + len(SCORES)} of scikit-learn, {len(FUNCTIONS)} of SciPy; {len(found)} results are others")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
