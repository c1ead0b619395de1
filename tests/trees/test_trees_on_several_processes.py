"""`mpirun -n N`: training of trees by several processes gives the forest of one, to the bit.

The program below is started as 1, 2 and 3 processes; each takes its share of the rows and writes the trees that it got.
"""

import os
import pathlib
import shutil
import subprocess
import sys

import numpy
import pytest

pytest.importorskip("tensmith")
pytest.importorskip("tensmith._trees")

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev"))
LIBRARY = BUILD / "lib/libtensmith_mpi.so"
pytestmark = [pytest.mark.skipif(not shutil.which("mpirun"), reason="there is no mpirun (Debian: openmpi-bin)"),
              pytest.mark.skipif(not LIBRARY.exists(), reason="built without MPI (Debian: libopenmpi-dev)")]
# As root, and with more processes than cores.
MPI = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

PROGRAM = """
import json, os, sys
import numpy
from tensmith import _trees

rank, size = (int(os.environ.get("OMPI_COMM_WORLD_" + name, default)) for name, default in (("RANK", 0), ("SIZE", 1)))
draw = numpy.random.default_rng(3)
x = draw.normal(size=(3000, 5)).astype(numpy.float32)
x[draw.random(x.shape) < 0.2] = numpy.nan
y = (numpy.nan_to_num(x[:, 0]) * numpy.nan_to_num(x[:, 1]) > 0).astype(numpy.float32)
if sys.argv[2] == "wrong" and rank == 1:
    y[2000] = numpy.nan
begin, end = 3000 * rank // size, 3000 * (rank + 1) // size
matrix = _trees.Matrix.dense(numpy.ascontiguousarray(x[begin:end]))
matrix.describe(numpy.ascontiguousarray(y[begin:end]), None, None, None, [])
method = "hist" if sys.argv[2] == "wrong" else sys.argv[2]
parameters = {"objective": "logistic", "rounds": 8, "max_depth": 4, "subsample": 0.8, "threads": 1, "method": method}
forest = _trees.train(json.dumps(parameters), matrix, together=True)
arrays = {f"{number} {name}": value for number in range(8) for name, value in forest.tree(number).items()
          if name != "categories"}
numpy.savez(f"{sys.argv[1]}/{size}-{rank}.npz", **arrays)
"""


def start(folder, processes, kind):
    alone = [sys.executable, "-c", PROGRAM, str(folder), kind]
    command = alone if processes == 1 else ["mpirun", "-n", str(processes), "--oversubscribe", *alone]
    paths = os.pathsep.join([str(BUILD / "python"), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=MPI | {"PYTHONPATH": paths})


@pytest.mark.parametrize("method, counts", [("hist", (1, 2, 3)), ("approx", (1, 2))])
def test_the_forest_is_that_of_one_process(tmp_path, method, counts):
    for processes in counts:
        done = start(tmp_path, processes, method)
        assert done.returncode == 0, done.stderr
    expected = numpy.load(tmp_path / "1-0.npz")
    assert len(expected["0 feature"]) > 10
    for processes in counts[1:]:
        for rank in range(processes):
            found = numpy.load(tmp_path / f"{processes}-{rank}.npz")
            for name in expected.files:
                numpy.testing.assert_array_equal(found[name], expected[name], err_msg=name)


def test_a_process_that_fails_ends_all(tmp_path):
    done = start(tmp_path, 2, "exact")
    assert done.returncode != 0 and "one process has to hold" in done.stderr
    done = start(tmp_path, 2, "wrong")
    assert done.returncode != 0
    assert "label" in done.stderr and "nan" in done.stderr
