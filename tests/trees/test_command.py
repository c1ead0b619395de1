"""`tensmith trees` as a program: tables in, forests and predictions out, and what it refuses.

Each command's result is held against the Python package's on the same numbers.
"""

import json
import os
import pathlib
import subprocess

import numpy
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENSMITH = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "bin/tensmith"

pytestmark = pytest.mark.skipif(not TENSMITH.exists(), reason="the command line is not built")
trees = pytest.importorskip("tensmith.trees")


def run(*arguments, status=0, cwd=None):
    done = subprocess.run([TENSMITH, "trees", *map(str, arguments)], capture_output=True, text=True, timeout=120, cwd=cwd)
    assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def refused(*arguments, status=1, cwd=None):
    lines = [line for line in run(*arguments, status=status, cwd=cwd).stderr.splitlines() if line.startswith("tensmith: ")]
    assert len(lines) == 1, lines
    return lines[0]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Files of one table: x has missing values, y is a number, kind one of three texts."""
    folder = tmp_path_factory.mktemp("tables")
    draw = numpy.random.default_rng(0)
    x = draw.standard_normal((400, 4)).astype(numpy.float32)
    x[draw.random(x.shape) < 0.1] = numpy.nan
    y = (numpy.nan_to_num(x[:, 0]) * 2 + numpy.nan_to_num(x[:, 1])).astype(numpy.float32)
    kind = numpy.array(["low", "middle", "top"])[numpy.digitize(y, [-1, 1])]

    def write(path, rows):
        lines = ["a,b,c,d,y,kind"]
        for i in rows:
            lines.append(",".join("" if numpy.isnan(value) else repr(float(value)) for value in x[i]) + f",{float(y[i])!r},{kind[i]}")
        path.write_text("\n".join(lines) + "\n")

    write(folder / "train.csv", range(300))
    write(folder / "valid.csv", range(300, 400))
    for name, part in (("numbers.csv", range(300)), ("test.csv", range(300, 400))):
        write(folder / name, part)
        text = (folder / name).read_text().splitlines()
        (folder / name).write_text("\n".join(line.rsplit(",", 1)[0] for line in text) + "\n")
    numpy.savez(folder / "table.npz", x=x[:300], y=y[:300])
    with open(folder / "table.libsvm", "w") as file:
        for i in range(300):
            entries = " ".join(f"{j}:{float(value)!r}" for j, value in enumerate(x[i]) if not numpy.isnan(value))
            file.write(f"{float(y[i])!r} {entries}\n")
    return folder, x, y, kind


def test_train_and_predict_from_each_kind_of_table(table, tmp_path):
    folder, x, y, _ = table
    wanted = trees.train({"max_depth": 3}, trees.Matrix(x[:300], y[:300]), 12).predict(x[300:])
    data = [folder / "numbers.csv", folder / "table.npz", folder / "table.libsvm"]
    try:
        import pyarrow
        import pyarrow.parquet

        columns = {name: x[:300, i] for i, name in enumerate("abcd")} | {"y": y[:300]}
        pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "table.parquet")
        data.append(tmp_path / "table.parquet")
    except ImportError:
        pass
    for path in data:
        out = tmp_path / f"{path.suffix[1:]}.forest"
        run("train", "--data", path, "--max-depth", 3, "--rounds", 12, "-o", out)
        if path.suffix == ".npz":
            numpy.save(tmp_path / "rows.npy", x[300:])
            run("predict", out, tmp_path / "rows.npy", "-o", tmp_path / "y.npy")
            ours = numpy.load(tmp_path / "y.npy")
        elif path.suffix == ".libsvm":
            ours = trees.load(out).predict(x[300:])
        else:
            ours = numpy.array(run("predict", out, folder / "test.csv").stdout.split(), float)
        numpy.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-5, err_msg=path.suffix)


def test_configuration_with_classes_validation_and_early_stopping(table, tmp_path):
    folder, *_ = table
    for name in ("train.csv", "valid.csv"):
        lines = (folder / name).read_text().splitlines()
        kept = [line.split(",") for line in lines]
        (tmp_path / name).write_text("\n".join(",".join(fields[:4] + fields[5:]) for fields in kept) + "\n")
    (tmp_path / "model.toml").write_text("""
[data]
train = "train.csv"
validation = ["valid.csv"]
target = "kind"
[parameters]
objective = "softmax"
eta = 0.5
early_stopping_rounds = 4
rounds = 200
[output]
forest = "model.forest"
metrics = "metrics.jsonl"
""")
    told = run("train", tmp_path / "model.toml", "--max-depth", 3).stdout
    assert "class 2: top" in told and "valid mlogloss" in told and "the best round is" in told
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    forest = trees.load(tmp_path / "model.forest")
    assert forest.best_round == min(lines, key=lambda line: line["valid.mlogloss"])["round"] and len(lines) < 200
    again = run("inspect", tmp_path / "model.forest").stdout
    assert "objective: softmax" in again and f"best round: {forest.best_round}" in again


@pytest.mark.parametrize("classes, objective", [("low middle top", "softmax"), ("low top", "logistic")])
def test_a_target_of_text_is_classified(table, tmp_path, classes, objective):
    """Breaks if classes are taken for amounts where no objective is asked for."""
    folder, *_ = table
    lines = (folder / "train.csv").read_text().splitlines()
    kept = [line for line in lines[1:] if line.rsplit(",", 1)[1] in classes.split()]
    (tmp_path / "kinds.csv").write_text("\n".join([lines[0], *kept]) + "\n")
    for asked in (objective, "squared"):
        more = [] if asked == objective else ["--objective", asked]
        done = run("train", "--data", tmp_path / "kinds.csv", "--target", "kind", "--rounds", 2, "-o", tmp_path / "a.forest", "--quiet", *more)
        assert done.stdout == done.stderr == ""
        assert f"objective: {asked}" in run("inspect", tmp_path / "a.forest").stdout


def test_outputs_are_not_written_over_inputs(table, tmp_path):
    data, forest = tmp_path / "data.csv", tmp_path / "a.forest"
    data.write_text((table[0] / "numbers.csv").read_text())
    before = data.read_bytes()
    for option in ("--output", "--metrics"):
        assert f"is the data itself; give another {option}" in refused("train", "--data", data, option, data)
    run("train", "--data", data, "--rounds", 2, "-o", forest)
    for arguments in (("predict", forest, data, "-o", data), ("predict", forest, data, "-o", forest), ("convert", forest, forest),
                      ("plot", forest, "-o", forest)):  # fmt: skip
        assert "itself; give another" in refused(*arguments)
    assert data.read_bytes() == before


def test_convert_and_plot(table, tmp_path):
    folder, x, *_ = table
    run("train", "--data", folder / "numbers.csv", "--rounds", 5, "-o", tmp_path / "a.forest")
    forest = trees.load(tmp_path / "a.forest")
    for ending in ("json", "ubj", "onnx", "forest"):
        run("convert", tmp_path / "a.forest", tmp_path / f"b.{ending}")
        numpy.testing.assert_allclose(trees.load(tmp_path / f"b.{ending}").predict(x), forest.predict(x), rtol=1e-5, atol=1e-6)
    run("plot", tmp_path / "a.forest", "--tree", 2, "-o", tmp_path / "tree.svg")
    assert (tmp_path / "tree.svg").read_text() == str(forest.plot_tree(2))
    run("plot", tmp_path / "a.forest", "-o", tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().count("<svg") == 2
    assert run("inspect", tmp_path / "a.forest", "--dump").stdout == forest.dump()


def test_refusals_say_where_and_what(table, tmp_path):
    folder, *_ = table
    assert "has no column 'yy'; did you mean 'y'?" in refused("train", "--data", folder / "numbers.csv", "--target", "yy")
    assert "learning_rate is -1" in refused("train", "--data", folder / "numbers.csv", "--learning-rate", "-1", status=2)
    assert "no data to train on" in refused("train", status=2)
    assert "has text" in refused("train", "--data", folder / "train.csv", "--target", "y")
    for text, what in (("a,b,y\n1,2,0\n3,zz,1\n", "column 'b' has text ('zz')"), ("a,a,y\n1,2,0\n3,4,1\n", "has two columns 'a'"),
                       ("a;b;y\n1;2;0\n", "one column alone, 'a;b;y'"), ("a,b,y\n1,2,x\n3,4,x\n", "one class alone in its target, 'x'")):
        (tmp_path / "wrong.csv").write_text(text)
        assert what in refused("train", "--data", tmp_path / "wrong.csv")
    assert "(it has 'a', 'b', 'y')" in refused("train", "--data", tmp_path / "wrong.csv", "--target", "price")
    (tmp_path / "bad.toml").write_text("[data]\ntrain = 'x.csv'\n[parameter]\neta = 1\n")
    assert "bad.toml:3: 'parameter' is none" in refused("train", tmp_path / "bad.toml")
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n3\n")
    assert "row 2 has 1 fields" in refused("train", "--data", tmp_path / "bad.csv")
    (tmp_path / "bad.libsvm").write_text("1 3:1 2:1\n")
    assert "line 1: columns don't ascend" in refused("train", "--data", tmp_path / "bad.libsvm")
    (tmp_path / "kinds.csv").write_text("a,y\n1,one\n2,two\n")
    (tmp_path / "gap.csv").write_text("a,y\n1,one\n2,\n")
    assert "gap.csv: has a row without a target" in refused("train", "--data", tmp_path / "kinds.csv", "--objective", "logistic",
                                                            "--validation", tmp_path / "gap.csv")  # fmt: skip
    (tmp_path / "none.forest").write_bytes(b"tsforest")
    assert "none.forest: is cut off" in refused("inspect", tmp_path / "none.forest")
    run("train", "--data", folder / "numbers.csv", "--rounds", 1, "-o", tmp_path / "a.forest")
    assert "is read, but not written" in refused("convert", tmp_path / "a.forest", tmp_path / "x.txt")


def colours(path, rows, seed):
    """A table with a column of texts, of which `amber` is in no other than seed 2's."""
    draw = numpy.random.default_rng(seed)
    names = ["red", "green", "blue", "7"] + (["amber"] if seed == 2 else [])
    colour, x = draw.choice(names, rows), draw.standard_normal(rows)
    kind = numpy.where(colour == "red", "stop", numpy.where(x > 0, "go", "wait"))
    path.write_text("colour,x,kind\n" + "".join(f"{c},{value!r},{k}\n" for c, value, k in zip(colour, x.tolist(), kind, strict=True)))
    return colour, x, kind


def test_texts_keep_their_numbers_in_files(tmp_path):
    """Fails where a table's own texts are numbered, not by the list of the forest; where a file loses the list or the classes' names."""
    colours(tmp_path / "train.csv", 400, 0)
    common = ["--objective", "softmax", "--rounds", 10, "--max-depth", 3]
    assert "--categorical 'colour'" in refused("train", "--data", tmp_path / "train.csv", *common)
    colour, x, kind = colours(tmp_path / "test.csv", 300, 2)
    lines = (tmp_path / "test.csv").read_text().splitlines()
    kept = [lines[0]] + [line for line in lines[1:] if not line.startswith(("red", "green"))]
    (tmp_path / "some.csv").write_text("\n".join(kept) + "\n")  # in which blue would be the first
    for ending in ("forest", "json", "ubj"):
        forest = tmp_path / f"a.{ending}"
        run("train", "--data", tmp_path / "train.csv", "--categorical", "colour", "--validation", tmp_path / "test.csv", *common, "-o", forest)
        answers = run("predict", forest, tmp_path / "test.csv", "--classes", "--target", "kind").stdout.split()
        known = colour != "amber"
        assert (numpy.array(answers) == kind)[known].mean() > 0.98
        shares = numpy.array([line.split(",") for line in run("predict", forest, tmp_path / "test.csv", "--target", "kind").stdout.split()], float)
        some = numpy.array([line.split(",") for line in run("predict", forest, tmp_path / "some.csv", "--target", "kind").stdout.split()], float)
        numpy.testing.assert_array_equal(some, shares[~numpy.isin(colour, ["red", "green"])])
        loaded = trees.load(forest)
        assert loaded.class_names == ["go", "stop", "wait"]
        assert loaded.levels["colour"] == ["7", "blue", "green", "red"]
        told = run("inspect", forest).stdout
        assert "class 1: stop" in told and "categories of colour: 7, blue, green, red" in told
    assert "is none" in refused("predict", regression(tmp_path), tmp_path / "test.csv", "--classes", status=2)


def regression(folder):
    (folder / "numbers.csv").write_text("a,y\n1,2\n2,3\n")
    run("train", "--data", folder / "numbers.csv", "--rounds", 1, "-o", folder / "numbers.forest")
    return folder / "numbers.forest"


def test_training_goes_on_with_new_texts(tmp_path):
    colours(tmp_path / "first.csv", 300, 0)
    colours(tmp_path / "second.csv", 300, 2)
    common = ["--categorical", "colour", "--objective", "softmax", "--rounds", 4, "-o", tmp_path / "a.forest"]
    run("train", "--data", tmp_path / "first.csv", *common)
    run("train", "--data", tmp_path / "second.csv", "--continue", tmp_path / "a.forest", *common)
    forest = trees.load(tmp_path / "a.forest")
    assert forest.levels["colour"] == ["7", "blue", "green", "red", "amber"] and forest.rounds == 8
    lines = (tmp_path / "second.csv").read_text().splitlines()
    (tmp_path / "other.csv").write_text("\n".join([lines[0], *(line + "!" for line in lines[1:])]) + "\n")
    assert "has the class" in refused("train", "--data", tmp_path / "other.csv", "--continue", tmp_path / "a.forest", *common)


def test_a_killed_training_resumes(table, tmp_path):
    """SIGKILL as soon as a checkpoint is there; the second start ends what the first began."""
    folder, *_ = table
    common = ["train", "--data", folder / "numbers.csv", "--rounds", 40, "--subsample", 0.7, "--threads", 1]
    run(*common, "-o", tmp_path / "whole.forest")
    resumable = [*common, "--checkpoint", tmp_path / "state", "--checkpoint-every", 3, "--resume", "-o", tmp_path / "again.forest"]
    started = subprocess.Popen([TENSMITH, "trees", *map(str, resumable)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (tmp_path / "state").exists() and started.poll() is None:
        pass
    started.kill()
    started.wait()
    run(*resumable)
    assert (tmp_path / "again.forest").read_bytes() == (tmp_path / "whole.forest").read_bytes()
    assert "needs a checkpoint" in refused(*common, "--resume")
    assert "other data or parameters" in refused(*resumable, "--eta", 0.1)
