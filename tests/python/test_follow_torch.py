"""Networks of the sizes that are raced, and a TreeLSTM: the gradients of all parameters are PyTorch's to 1e-4 of each one's
largest, and the losses of a hundred steps follow. bench/follow has the networks, and tells the same against double precision.
Skipped where PyTorch is missing."""

import pathlib
import runpy

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch, which bench/requirements.txt does not bring")

FOLLOW = runpy.run_path(str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "follow"), run_name="follow")


@pytest.fixture(scope="module", params=FOLLOW["NETWORKS"])
def network(request, tmp_path_factory):
    return request.param, FOLLOW["network"](request.param, tmp_path_factory.mktemp(request.param))


def test_gradients_of_all_parameters(network):
    """A rectifier's input that rounding takes across zero makes gradients jump, in PyTorch's f32 as well: of such networks a
    batch without one is looked for, of the others each agrees."""
    name, net = network
    of, found = net.our_gradients(), []
    for batch in net.batches:
        theirs = net.their_gradients(net.net, batch)
        assert all(np.abs(gradient).max() > 0 for gradient in theirs.values())
        found.append(FOLLOW["farthest"](of(batch), theirs))
    assert (min if name == "resnet18" else max)(found) < 1e-4


# As parts of the first loss. Over steps of batch normalisation of few samples a rounding grows, and with rectifiers it takes
# values across zero: PyTorch's f32 is as far from its double precision (docs/training.md).
TOLERANCES = {"resnet18": 5e-2, "resnet18_smooth": 1e-2}


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_a_hundred_steps_follow(network, optimiser):
    name, net = network
    found = FOLLOW["losses"](net, optimiser, FOLLOW["RATES"][optimiser][name], 100, double=False)
    first, ours = found["theirs"][0], np.array(found["ours"])
    assert ours[-10:].mean() < 0.97 * ours[:10].mean()  # else nothing would be followed
    np.testing.assert_allclose(ours, found["theirs"], rtol=0, atol=TOLERANCES.get(name, 1e-4) * first)
