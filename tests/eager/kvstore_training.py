"""A worker of test_kvstore.py: trains a small network, alone or by a store, and writes what it has learnt.

    kvstore_training.py OUT [--kind sync|stale|alone] [--steps N] [--dies-at STEP]       # the second worker kills itself once, as long as OUT.died is not there
"""

import argparse
import os
import pathlib
import signal

import numpy
import tensmith.numpy as tnp
from tensmith import nn, optim

import tensmith as ts


def network():
    nn.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))


def batch(step, rank, workers, samples=24):
    x = numpy.random.default_rng(step).normal(size=(samples, 6)).astype("float32")
    own = slice(rank * samples // workers, (rank + 1) * samples // workers)
    return x[own], (2 * x[own, :1] - x[own, 1:2]).astype("float32")


def train(model, trainer, rank, workers, steps, before_step=lambda step: None):
    for step in range(getattr(trainer, "steps", 0), steps):
        x, y = batch(step, rank, workers)
        trainer.zero_grad()
        with ts.record():
            loss = nn.functional.mse_loss(model(tnp.asarray(x)), tnp.asarray(y))
        loss.backward()
        before_step(step)
        trainer.step()
    return float(loss)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--kind", default="sync")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--dies-at", type=int, default=-1)
    given = parser.parse_args()
    model = network()
    if given.kind == "alone":
        train(model, optim.SGD(model.parameters(), lr=0.1, momentum=0.5), 0, 1, given.steps)
        model.save(given.out)
        return
    with ts.KVStore(given.kind) as store:
        mark = given.out.with_suffix(".died")

        def die(step):
            if step == given.dies_at and store.rank == 1 and not mark.exists():
                # Half of the step is pushed already.
                store.push("parameter.0", trainer.param_groups[0]["params"][0].grad)
                store.status()
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)

        trainer = store.attach(optim.SGD(model.parameters(), lr=0.1, momentum=0.5))
        train(model, trainer, store.rank, store.workers, given.steps, die)
        store.barrier()
        if store.rank == 0:
            model.save(given.out)


if __name__ == "__main__":
    main()
