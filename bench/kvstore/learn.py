"""A worker of bench/kvstore: learns Fashion-MNIST by dense layers, and says the share of test pictures that it gets right.

    learn.py KIND EPOCHS BATCH SEED         # KIND: local, sync or stale; each worker takes its part of every batch
"""

import gzip
import pathlib
import sys

import numpy
import tensmith.numpy as tnp
from tensmith import nn, optim

import tensmith as ts

DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")


def read(name, header):
    return numpy.frombuffer(gzip.decompress((DATA / f"{name}-ubyte.gz").read_bytes()), dtype=numpy.uint8, offset=header)


def pictures(part):
    return (read(f"{part}-images-idx3", 16).reshape(-1, 784) / 255).astype("float32"), read(f"{part}-labels-idx1", 8).astype("int64")


def accuracy(model, x, labels):
    found = numpy.concatenate([tnp.argmax(model(tnp.asarray(x[i : i + 1000])), axis=1).numpy() for i in range(0, len(x), 1000)])
    return float((found == labels).mean())


def main():
    kind, epochs, size, seed = sys.argv[1], *map(int, sys.argv[2:])
    nn.manual_seed(seed)
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    x, labels = pictures("train")
    with ts.KVStore(kind) as store:
        trainer = store.attach(optim.SGD(model.parameters(), lr=0.1))
        own = slice(store.rank * size // store.workers, (store.rank + 1) * size // store.workers)
        for epoch in range(epochs):
            order = numpy.random.default_rng([seed, epoch]).permutation(len(x))
            for begin in range(0, len(x) - size + 1, size):
                chosen = order[begin : begin + size][own]
                trainer.zero_grad()
                with ts.record():
                    loss = nn.functional.cross_entropy(model(tnp.asarray(x[chosen])), tnp.asarray(labels[chosen]))
                loss.backward()
                trainer.step()
        store.barrier()
        if store.rank == 0:
            store.pull(trainer.keys, list(model.parameters()))
            print(accuracy(model, *pictures("t10k")), flush=True)


if __name__ == "__main__":
    main()
