"""Training that is killed, again and again, ends with the forest of training that never was.

The program below kills itself without a warning (SIGKILL) in rounds that are drawn; each start goes on from the checkpoint. It runs
without the packages that tests compare with.
"""

import os
import pathlib
import subprocess
import sys

import numpy
import pytest

trees = pytest.importorskip("tensmith.trees")

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev"))
SPARED = 100  # no round

PROGRAM = """
import os, signal, sys
import numpy
import tensmith.trees as trees

folder, kill, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
draw = numpy.random.default_rng(5)
x = draw.normal(size=(900, 6)).astype("float32")
x[draw.random(x.shape) < 0.2] = numpy.nan
y = (numpy.nan_to_num(x[:, 0]) * numpy.nan_to_num(x[:, 1]) > 0).astype("float32")
parameters = {"objective": "logistic", "max_depth": 4, "subsample": 0.7, "columns_by_level": 0.6, "threads": 1,
              "checkpoint": folder + "/state", "checkpoint_every": 3, "resume": True}
parameters |= {"dart": {"booster": "dart", "drop_rate": 0.3}, "approx": {"method": "approx"}, "blocks": {"blocks": folder}}[kind]

def die(number, metrics):
    if number == kill:
        os.kill(os.getpid(), signal.SIGKILL)

results = {}
forest = trees.train(parameters, trees.Matrix(x[:700], y[:700]), 20, evals=[(trees.Matrix(x[700:], y[700:]), "valid")],
                     early_stopping_rounds=12, callbacks=[die], results=results)
forest.save(folder + "/trained.forest")
print(len(results["valid"]["logloss"]), forest.rounds)
"""


def start(folder, kill, kind):
    paths = os.pathsep.join([str(BUILD / "python"), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-c", PROGRAM, str(folder), str(kill), kind]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ | {"PYTHONPATH": paths})


@pytest.mark.parametrize("kind", ["dart", "approx", "blocks"])
def test_killed_at_any_round_it_resumes(tmp_path, kind):
    """Fails where the forest differs by a bit, or the metrics of rounds before the kill are not told again."""
    for folder in ("whole", "killed"):
        (tmp_path / folder).mkdir()
    whole = start(tmp_path / "whole", SPARED, kind)
    assert whole.returncode == 0, whole.stderr
    draw = numpy.random.default_rng([7, len(kind)])
    for kill in sorted(draw.choice(12, 2, replace=False)):
        done = start(tmp_path / "killed", kill, kind)
        assert done.returncode == -9, (done.returncode, done.stderr)
    done = start(tmp_path / "killed", SPARED, kind)
    assert done.returncode == 0, done.stderr
    assert done.stdout == whole.stdout
    assert (tmp_path / "killed/trained.forest").read_bytes() == (tmp_path / "whole/trained.forest").read_bytes()
