"""What the examples share: a program is compiled beside its weights, run, and compared with NumPy."""

import argparse
import pathlib
import shutil
import tempfile

import numpy as np
import tensmith as ts


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    shifted = np.exp(x - x.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def draw(rng, *shape):
    """Weights of a size that keeps what passes through them near 1."""
    return (rng.standard_normal(shape) / np.sqrt(shape[-2] if len(shape) > 1 else 10)).astype(np.float32)


def compile_here(folder, name, values, **options):
    """The program in `folder`, beside its weights."""
    folder = pathlib.Path(folder)
    for key, value in values.items():
        np.save(folder / f"{name}.{key}.npy", value)
    program = folder / f"{name}.tsm"
    shutil.copyfile(pathlib.Path(__file__).with_name(f"{name}.tsm"), program)
    return ts.compile(program, **{"threads": 1, **options})


def random_tree(rng, leaves, size):
    """Nested pairs of arrays."""
    if leaves == 1:
        return rng.standard_normal((1, size)).astype(np.float32)
    left = int(rng.integers(1, leaves))
    return random_tree(rng, left, size), random_tree(rng, leaves - left, size)


def value_of(model, tree):
    if isinstance(tree, tuple):
        return model.constructors["Node"](value_of(model, tree[0]), value_of(model, tree[1]))
    return model.constructors["Leaf"](tree)


def run(description, largest_difference, count=50):
    """The command line of an example: how far it is from NumPy over so many inputs, drawn at random."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=count, help="inputs to draw")
    with tempfile.TemporaryDirectory() as folder:
        worst = largest_difference(parser.parse_args().count, folder)
    print(f"largest difference to NumPy: {worst:.2e}")
    return 0 if worst < 1e-5 else 1
