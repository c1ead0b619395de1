"""Rows of features from what data comes in: NumPy arrays, SciPy's sparse matrices, pandas' data frames, Arrow's tables.

All become f32, dense with NaN for what is missing, or sparse with what is missing left out. Neither pandas nor SciPy nor Arrow is
imported here: an object is known by what it has. Columns of categories (pandas' `category`, Arrow's dictionaries) become their
numbers in the order in which the column's type lists them.
"""

import collections
import dataclasses
import numbers

import numpy

from .. import _trees


@dataclasses.dataclass
class Rows:
    """Rows as the library takes them: `dense`, or the three arrays of compressed sparse rows."""

    dense: numpy.ndarray | None
    sparse: tuple | None  # begins, columns, values
    columns: int
    names: list | None = None
    categories: list | None = None  # by column; 0: numbers
    levels: list | None = None  # by column: what its type lists as categories; None: numbers

    def __len__(self):
        return len(self.dense) if self.dense is not None else len(self.sparse[0]) - 1

    def taken(self, chosen):
        """The rows of those numbers."""
        if self.dense is not None:
            return dataclasses.replace(self, dense=numpy.ascontiguousarray(self.dense[chosen]))
        begins, columns, values = self.sparse
        counts = numpy.diff(begins)[chosen]
        new = numpy.concatenate([[0], numpy.cumsum(counts)]).astype(numpy.int64)
        entries = numpy.repeat(begins[:-1][chosen] - new[:-1], counts) + numpy.arange(new[-1])
        return dataclasses.replace(self, sparse=(new, columns[entries], values[entries]))

    def as_dense(self):
        if self.dense is not None:
            return self.dense
        begins, columns, values = self.sparse
        result = numpy.full((len(self), self.columns), numpy.nan, numpy.float32)
        result[numpy.repeat(numpy.arange(len(self)), numpy.diff(begins)), columns] = values
        return result


def rows_of(data, missing=numpy.nan):
    """`missing`: the number that stands for a missing value beside NaN."""
    if isinstance(data, Rows):
        return data
    if isinstance(data, Matrix):
        return data.rows_
    if hasattr(data, "tocsr"):
        return _of_sparse(data, missing)
    if hasattr(data, "dtypes") and hasattr(data, "columns"):
        return _of_frame(data, missing)
    if hasattr(data, "column_names") and hasattr(data, "schema"):
        return _of_arrow(data, missing)
    return Rows(_floats(data, missing), None, numpy.shape(data)[-1] if numpy.ndim(data) == 2 else 0)


def _floats(data, missing):
    array = numpy.asarray(data)
    if array.ndim != 2:
        raise ValueError(f"the data has {array.ndim} dimensions; rows and features are expected, as x.reshape(-1, 1) gives them")
    if array.dtype.kind not in "fiub" and array.dtype != object:
        raise ValueError(f"the data is of {array.dtype}; numbers are expected")
    with numpy.errstate(over="ignore"):
        result = numpy.ascontiguousarray(array, numpy.float32)
    if missing is not None and not numpy.isnan(missing):
        result = numpy.where(array == missing, numpy.float32("nan"), result)
    return result


def _of_sparse(data, missing):
    csr = data.tocsr()
    if not csr.has_sorted_indices or not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    if csr.shape[1] > numpy.iinfo(numpy.int32).max:
        raise ValueError(f"the matrix has {csr.shape[1]} columns; at most 2^31 - 1 are possible")
    values = numpy.ascontiguousarray(csr.data, numpy.float32)
    if missing is not None and not numpy.isnan(missing):
        values = numpy.where(csr.data == missing, numpy.float32("nan"), values)
    arrays = numpy.ascontiguousarray(csr.indptr, numpy.int64), numpy.ascontiguousarray(csr.indices, numpy.int32), values
    return Rows(None, arrays, csr.shape[1])


def _joined(columns, names, missing):
    dense = numpy.empty((len(columns[0][0]) if columns else 0, len(columns)), numpy.float32)
    for i, (values, levels) in enumerate(columns):
        dense[:, i] = values
        if levels is None and missing is not None and not numpy.isnan(missing):  # a category's number is none of the data's
            dense[values == missing, i] = numpy.nan
    levels = [levels for _, levels in columns]
    counts = [0 if listed is None else max(len(listed), 1) for listed in levels]
    return Rows(dense, None, len(columns), [str(name) for name in names], counts, levels)


def _refuse_twice(names):
    twice = next((name for name, times in collections.Counter(filter(None, names)).items() if times > 1), None)
    if twice is not None:
        raise ValueError(f"two features are called '{twice}'; give each a name of its own")


def _refuse_times(type_):
    """Dates and durations are counts of nanoseconds or days, of which f32 keeps seven digits."""
    if getattr(type_, "kind", None) in ("m", "M"):
        raise TypeError


def _of_frame(frame, missing):
    columns = []
    _refuse_twice([str(name) for name in frame.columns])
    for name, type_ in zip(frame.columns, frame.dtypes, strict=True):
        column = frame[name]
        if hasattr(column, "to_numpy") and hasattr(column, "cat") and str(type_) == "category":
            codes = column.cat.codes.to_numpy()
            columns.append((numpy.where(codes < 0, numpy.nan, codes), list(column.cat.categories)))
            continue
        try:
            _refuse_times(type_)
            values = column.to_numpy(dtype=numpy.float32, na_value=numpy.nan)
        except (TypeError, ValueError):
            raise ValueError(f"column '{name}' is of {type_}; make it numbers, or a category: frame['{name}'].astype('category')") from None
        columns.append((values, None))
    return _joined(columns, frame.columns, missing)


def _of_arrow(table, missing):
    columns = []
    for name, field in zip(table.column_names, table.schema, strict=True):
        column = table.column(name)
        column = column.combine_chunks() if hasattr(column, "combine_chunks") else column
        if hasattr(field.type, "index_type"):
            column = column.unify_dictionaries() if hasattr(column, "unify_dictionaries") else column
            chunk = column.chunk(0) if hasattr(column, "chunk") else column
            codes = chunk.indices.to_numpy(zero_copy_only=False).astype(numpy.float32)
            columns.append((codes, chunk.dictionary.to_pylist()))
            continue
        try:
            values = numpy.asarray(column.to_numpy(zero_copy_only=False) if not hasattr(column, "chunk") else column.to_numpy())
            _refuse_times(values.dtype)
            columns.append((values.astype(numpy.float32), None))
        except (TypeError, ValueError):
            raise ValueError(f"column '{name}' is of {field.type}; cast it to numbers, or encode it as a dictionary") from None
    return _joined(columns, table.column_names, missing)


def names_of(rows):
    """Features without names are called as files call them."""
    return rows.names or [f"f{number}" for number in range(rows.columns)]


def check_names(trained, rows):
    """Features are known by their places, so a table whose columns have other names, or another order, would be misread.

    trained: the names that training has seen; those of `names_of`, and LightGBM's, are of data without names, which any name may follow."""
    for number, (known, given) in enumerate(zip(trained, rows.names or [], strict=False)):
        if known not in (given, f"f{number}", f"Column_{number}"):
            raise ValueError(f"column {number} is '{given}', and was '{known}' in the training data; give the columns in its order: "
                             f"frame[forest.feature_names]; or their values alone, frame.to_numpy(), which are taken by their places")  # fmt: skip


def check_levels(trained, rows):
    """Categories are numbered in the order of their lists: with another list a number would stand for another category."""
    for i, (known, given) in enumerate(zip(trained or [], rows.levels or [], strict=False)):
        if known is not None and given is not None and known != given:
            name = rows.names[i]
            raise ValueError(f"column '{name}' lists other categories than the training data: {given[:5]} ..., not {known[:5]} ...; give it "
                             f"the same list: frame['{name}'].cat.set_categories(training['{name}'].cat.categories)")  # fmt: skip


def names_of_levels(listed):
    """A list of categories as files hold it: (kind, texts), where the kind is 0 of texts, 1 of whole numbers, 2 of fractions. What is
    none of these, such as dates, has no names."""
    if not listed:
        return 0, []
    if all(isinstance(level, str) for level in listed):
        return 0, [str(level) for level in listed]
    if all(isinstance(level, (numbers.Integral, numpy.bool_)) for level in listed):
        return 1, [str(int(level)) for level in listed]
    if all(isinstance(level, (float, numpy.floating)) for level in listed):
        return 2, [repr(float(level)) for level in listed]
    return 0, []


def levels_of_names(kind, texts):
    return [(str, int, float)[kind](text) for text in texts]


def vector(values, what, rows, type_=numpy.float32):
    """A vector of one number a row."""
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    array = numpy.asarray(values)
    if array.ndim == 2 and 1 in array.shape:
        array = array.reshape(-1)
    if array.ndim != 1 or (rows is not None and len(array) != rows):
        raise ValueError(f"{what} has the shape {array.shape}; a number for each of {rows} rows is expected")
    return numpy.ascontiguousarray(array, type_)


class Matrix:
    """Rows to train or validate on, and what is known of them.

    data: rows and features: a NumPy array, a SciPy sparse matrix, a pandas data frame, or an Arrow table.
    labels, weights: a number a row; of ranking there may be a weight a group.
    groups: of ranking: how many rows each query has, in order.
    base_margins: [rows] or [rows, channels]: where boosting starts.
    names: of features; data frames and tables have their own.
    categorical: numbers or names of the features that are categories, whole numbers from 0 on. None: as the data's types say.
    missing: the number that stands for a missing value beside NaN.
    """

    def __init__(self, data, labels=None, *, weights=None, groups=None, base_margins=None, names=None, categorical=None, missing=numpy.nan):
        self.rows_ = rows = rows_of(data, missing)
        count = len(rows)
        if rows.dense is not None:
            self._matrix = _trees.Matrix.dense(rows.dense)
        else:
            self._matrix = _trees.Matrix.sparse(*rows.sparse, rows.columns)
        if names is not None:
            if len(names) != rows.columns:
                raise ValueError(f"{len(names)} names are given for {rows.columns} features")
            rows.names = [str(name) for name in names]
        _refuse_twice(rows.names or [])
        if categorical is not None:
            rows.categories = _categories(rows, categorical)
        features = []
        if rows.names or rows.categories and any(rows.categories):
            counts = rows.categories or [0] * rows.columns
            names = [names_of_levels(listed) if count else (0, []) for listed, count in zip(rows.levels or [None] * rows.columns, counts, strict=True)]
            features = [(name, count, *of) for name, count, of in zip(rows.names or [""] * rows.columns, counts, names, strict=True)]
        labels = None if labels is None else vector(labels, "labels", count)
        weights = None if weights is None else vector(weights, "weights", None)
        groups = None if groups is None else vector(groups, "groups", None, numpy.int64)
        if base_margins is not None:
            base_margins = numpy.ascontiguousarray(base_margins, numpy.float32).reshape(-1)
        self._matrix.describe(labels, weights, groups, base_margins, features)
        self.labels = labels

    @property
    def shape(self):
        return len(self.rows_), self.rows_.columns


def _categories(rows, categorical):
    """How many categories each feature has: the greatest of the column and one."""
    result = [0] * rows.columns
    for chosen in categorical:
        if isinstance(chosen, str):
            if not rows.names or chosen not in rows.names:
                raise ValueError(f"there is no feature '{chosen}'")
            chosen = rows.names.index(chosen)
        if not 0 <= chosen < rows.columns:
            raise ValueError(f"there is no feature {chosen}; there are {rows.columns}")
        if rows.dense is not None:
            column = rows.dense[:, chosen]
        else:
            column = rows.sparse[2][rows.sparse[1] == chosen]
        column = column[~numpy.isnan(column)]
        result[chosen] = int(column.max()) + 1 if len(column) and 0 <= column.max() < 1 << 24 else 1
    return result
