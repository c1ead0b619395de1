#!/usr/bin/env python3
"""All small modules of the tests by torch.compile with every size open from the start: answers and gradients are eager's to 1e-4.

What pytest runs of open sizes are kinds (test_torch_sizes.py); this is all of it, some minutes. By scripts/torch-tests' Python, with the build's package on PYTHONPATH:

    python tests/torch/dynamic.py                      all
    python tests/torch/dynamic.py everyday unet        of those files, or of those names
"""

import sys
import warnings

import test_everyday_modules
import test_methods
import test_networks
import test_rarer_modules
import torch
from modules import close, gradients_of

import tensmith.torch

SETS = {"everyday": test_everyday_modules.CASES, "rarer": test_rarer_modules.CASES, "networks": test_networks.NETWORKS, "methods": test_methods.METHODS}


def made(make):
    torch.manual_seed(0)
    return make()


def tried(make, tolerance):
    """None where all is as eager's, else what isn't."""
    torch._dynamo.reset()
    (net, *inputs), (other, *_) = made(make), made(make)
    try:
        given = gradients_of(net, torch.compile(net, backend=tensmith.torch.backend, dynamic=True), inputs)
        close(given, gradients_of(other, other, inputs), tolerance)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:600]


def main(names):
    warnings.filterwarnings("ignore", message="PyTorch runs operators")
    if hasattr(torch._dynamo.config, "allow_rnn"):
        torch._dynamo.config.allow_rnn = True  # nn.LSTM and its kin are else left to eager
    count, failed = 0, 0
    for kind, cases in SETS.items():
        for name, make in cases.items():
            if names and kind not in names and name not in names:
                continue
            why = tried(make, test_everyday_modules.TOLERANCES.get(name, 1e-4) if kind == "everyday" else 1e-4)
            count, failed = count + 1, failed + (why is not None)
            print(f"{kind}: {name}: {why or 'ok'}", flush=True)
    print(f"{count - failed} of {count} agree")
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
