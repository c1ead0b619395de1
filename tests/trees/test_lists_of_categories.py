"""Lists of categories come back from files, by a stand-in for a data frame, so that no other package has to be there."""

import pickle

import numpy
import pytest

trees = pytest.importorskip("tensmith.trees")


class Column:
    def __init__(self, values, levels=None):
        self.values, self.levels = values, levels
        if levels is not None:
            self.cat = self
            self.categories = levels
            self.codes = Column(values)

    def to_numpy(self, dtype=None, na_value=None):
        return numpy.asarray(self.values, dtype)


class Frame:
    """As much of a data frame as is asked of one: columns with types, categories with codes."""

    def __init__(self, **columns):
        self.data = columns
        self.columns = list(columns)
        self.dtypes = ["category" if column.levels is not None else "float64" for column in columns.values()]

    def __getitem__(self, name):
        return self.data[name]


CODES = numpy.arange(120) % 3
LISTS = {"text": ["b", "a", "ü"], "whole": [2001, -3, 7], "fraction": [0.5, 0.1, 3.0], "truth": [False, True]}


def frame_of(levels):
    codes = CODES % len(levels)
    return Frame(kind=Column(codes, levels), size=Column(numpy.linspace(0, 1, len(codes))))


@pytest.mark.parametrize("kind", LISTS)
def test_files_hold_the_list(tmp_path, kind):
    """Fails where a file loses the list, or data with another one is predicted by numbers that mean something else."""
    levels = LISTS[kind]
    y = (CODES % len(levels) == 0).astype("float32")
    forest = trees.train({"min_child_weight": 0}, trees.Matrix(frame_of(levels), y), 5)
    expected = forest.predict(frame_of(levels))
    assert numpy.abs(expected - y).max() < 0.3
    for ending in ("forest", "json", "ubj"):
        forest.save(tmp_path / f"a.{ending}")
        again = trees.load(tmp_path / f"a.{ending}")
        numpy.testing.assert_allclose(again.predict(frame_of(levels)), expected, rtol=1e-6, atol=1e-6)
        if ending == "forest" or kind != "fraction":  # XGBoost has no categories of fractions
            assert again.levels == {"kind": levels, "size": None}
            with pytest.raises(ValueError, match="set_categories"):
                again.predict(frame_of(levels[::-1]))


def test_other_lists_are_known_to_pickles_alone(tmp_path):
    levels = [("a", 1), ("b", 2)]
    forest = trees.train({}, trees.Matrix(frame_of(levels), CODES % 2), 2)
    forest.save(tmp_path / "a.forest")
    assert trees.load(tmp_path / "a.forest").levels["kind"] is None
    assert pickle.loads(pickle.dumps(forest)).levels["kind"] == levels


def test_classes_of_text_are_in_the_file(tmp_path):
    x = numpy.linspace(0, 1, 60, dtype="float32").reshape(-1, 1)
    model = trees.TreesClassifier(3).fit(x, numpy.array(["low", "mid", "top"])[CODES[:60]])
    for ending in ("forest", "json"):
        model.forest_.save(tmp_path / f"a.{ending}")
        assert trees.load(tmp_path / f"a.{ending}").class_names == ["low", "mid", "top"]


def test_training_goes_on_with_the_same_list_alone():
    y = (CODES == 0).astype("float32")
    forest = trees.train({}, trees.Matrix(frame_of(LISTS["text"]), y), 2)
    with pytest.raises(ValueError, match="other categories"):
        trees.train({}, trees.Matrix(frame_of(["ü", "a", "b"]), y), 2, continued=forest)
