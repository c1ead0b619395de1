#!/usr/bin/env python3
"""Trains the network that make_model.py makes, from Python: on arrays, until validation gets no better.

The settings are fashion.toml's but for the data, of which a tenth is kept apart, and the learning rate, which stays as it is:
nobody knows when the end will be. Run it again with --resume to go on.
"""

import argparse
import gzip
import pathlib
import struct

import numpy

import tensmith

FOLDER = pathlib.Path(__file__).resolve().parent


def read_idx(path):
    """An IDX file of bytes, packed: two zeros, the type 8, the number of dimensions, the dimensions, the bytes."""
    file = gzip.decompress(path.read_bytes())
    rank = file[3]
    return numpy.frombuffer(file, numpy.uint8, offset=4 + 4 * rank).reshape(struct.unpack_from(f">{rank}I", file, 4))


class NoBetter:
    """A callback that ends the run when the validation's loss has not fallen for so many epochs."""

    def __init__(self, patience):
        self.patience, self.best, self.at = patience, float("inf"), 0

    def __call__(self, metric):
        if metric["kind"] != "validation":
            return True
        print(f"epoch {metric['epoch']:.0f}: loss {metric['loss']:.4f}, accuracy {metric['accuracy']:.2%}")
        if metric["loss"] < self.best:
            self.best, self.at = metric["loss"], metric["epoch"]
        return metric["epoch"] < self.at + self.patience


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--output", default="fashion-run")
    parser.add_argument("--epochs", type=int, default=20, help="at most")
    parser.add_argument("--patience", type=int, default=2, help="epochs that may be no better")
    parser.add_argument("--resume", action="store_true")
    given = parser.parse_args()
    images, labels, test_images, test_labels = (
        read_idx(given.data / f"{part}.gz")
        for part in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"))
    trained = tensmith.train(FOLDER / "fashion.toml", (images, labels), validation=0.1, epochs=given.epochs,
                             schedule="constant", learning_rate=0.01, callback=NoBetter(given.patience), output=given.output, resume=given.resume)
    answers = trained.model(test_images[:, None].astype(numpy.float32) / 255).argmax(1)
    print(f"{trained.step} steps; right of {len(answers)} test pictures: {(answers == test_labels).mean():.2%}; {trained.module}")


if __name__ == "__main__":
    main()
