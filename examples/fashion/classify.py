#!/usr/bin/env python3
"""Classifies pictures of clothes with a trained network, compiled to native code.

Prints each picture's name, the likeliest classes with their probabilities, the time per picture, and what was compiled.
"""

import argparse
import pathlib
import sys
import time

import numpy
from PIL import Image

import tensmith

FOLDER = pathlib.Path(__file__).resolve().parent


def load_picture(path):
    """The picture as 1 x 28 x 28 of f32, grey value / 255."""
    with Image.open(path) as picture:
        grey = picture.convert("L").resize((28, 28))
    return numpy.asarray(grey, dtype=numpy.float32)[None] / 255


def softmax(logits):
    powers = numpy.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def time_per_picture(model, image, runs=200):
    """The median over `runs`, in seconds."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        model(image)
        times.append(time.perf_counter() - start)
    return sorted(times)[runs // 2]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pictures", nargs="*", type=pathlib.Path, help="picture files (default: the ten that come along)")
    parser.add_argument("--top", type=int, default=3, help="how many classes to print (default 3)")
    arguments = parser.parse_args()
    pictures = arguments.pictures or sorted((FOLDER / "pictures").glob("*.png"))
    labels = (FOLDER / "labels.txt").read_text().split("\n")

    start = time.perf_counter()
    model = tensmith.compile(FOLDER / "fashion.onnx")
    compiled_in = time.perf_counter() - start

    images = numpy.stack([load_picture(path) for path in pictures])
    probabilities = softmax(model(images))
    for path, row in zip(pictures, probabilities):
        best = numpy.argsort(-row)[:arguments.top]
        print(f"{path.name:<24}" + "  ".join(f"{labels[i]} {row[i]:.1%}" for i in best))

    description = model.describe()
    kernels = description.get("kernels", [])
    print(f"\n{1e3 * time_per_picture(model, images[:1]):.3f} ms per picture on {model.threads} threads; "
          f"compiled in {compiled_in:.2f} s to {len(kernels)} kernels for {description.get('cpu', 'this CPU')}:")
    for kernel in kernels:
        print(f"  {kernel.get('label', kernel)}")


if __name__ == "__main__":
    try:
        main()
    except (tensmith.Error, OSError) as error:
        sys.exit(f"classify: {error}")
