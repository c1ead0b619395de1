"""Memory of bound symbols over that of one tensor for each node's results, and of several sizes in one pool over the largest alone.

    python bench/symbols/measure.py [--json bench/results/symbols.json]

Bytes, which do not depend on the machine's load. Chen et al. (2015, section 5) have the same figures of MXNet for its networks.
"""

import argparse
import json
import pathlib

import numpy

from tensmith import nn, symbol

BUCKETS = (8, 16, 24, 32, 40)


def mlp():
    x = symbol.Variable("x")
    for _ in range(4):
        x = symbol.relu(symbol.Linear(x, 1024))
    return x, (784,)


def alexnet():
    x = symbol.Variable("x")
    for channels, size, stride, pool in ((64, 11, 4, True), (192, 5, 1, True), (384, 3, 1, False), (256, 3, 1, False), (256, 3, 1, True)):
        x = symbol.relu(symbol.Conv2d(x, channels, size, stride=stride, padding=size // 2))
        x = symbol.max_pool2d(x, 3, 2) if pool else x
    return x, (3, 128, 128)


def vgg11():
    x = symbol.Variable("x")
    for channels, pool in ((64, True), (128, True), (256, False), (256, True), (512, False), (512, True), (512, False), (512, True)):
        x = symbol.relu(symbol.Conv2d(x, channels, 3, padding=1))
        x = symbol.max_pool2d(x, 2) if pool else x
    return x, (3, 128, 128)


def inception():
    x = symbol.relu(symbol.BatchNorm2d(symbol.Conv2d(symbol.Variable("x"), 64, 3, padding=1)))
    for channels in (32, 48, 64):
        paths = [symbol.Conv2d(x, channels, 1), symbol.Conv2d(symbol.relu(symbol.Conv2d(x, channels, 1)), channels, 3, padding=1),
                 symbol.Conv2d(symbol.relu(symbol.Conv2d(x, channels // 2, 1)), channels, 5, padding=2)]  # fmt: skip
        x = symbol.max_pool2d(symbol.relu(symbol.BatchNorm2d(symbol.concat(paths, axis=1))), 2)
    return x, (3, 64, 64)


def resnet():
    x = symbol.relu(symbol.BatchNorm2d(symbol.Conv2d(symbol.Variable("x"), 32, 3, padding=1)))
    for channels, stride in ((32, 1), (32, 1), (64, 2), (64, 1), (128, 2), (128, 1)):
        y = symbol.relu(symbol.BatchNorm2d(symbol.Conv2d(x, channels, 3, stride=stride, padding=1)))
        y = symbol.BatchNorm2d(symbol.Conv2d(y, channels, 3, padding=1))
        x = symbol.relu(y + (x if stride == 1 else symbol.Conv2d(x, channels, 1, stride=stride)))
    return x, (3, 64, 64)


NETWORKS = {"MLP": mlp, "AlexNet": alexnet, "VGG-11": vgg11, "Inception": inception, "ResNet": resnet}


def bound(make, rows, shared=None):
    nn.manual_seed(0)
    features, shape = make()
    loss = symbol.cross_entropy(symbol.Linear(symbol.Flatten(features), 10, name="logits"), symbol.Variable("label"), name="loss")
    return loss.bind(x=(rows, *shape), label=((rows,), "int64"), shared=shared)


def run(executor, is_train):
    x = executor.arguments["x"]
    batch = {"x": numpy.random.default_rng(0).standard_normal(x.shape, dtype="float32"), "label": numpy.zeros(x.shape[0], "int64")}
    (loss,) = executor.forward(is_train=is_train, **batch)
    if is_train:
        executor.backward()
    loss.item() if not is_train else executor.outputs[0].item()


def pool_of(make, rows, is_train):
    executor = bound(make, rows)
    run(executor, is_train)
    memory = executor.memory()
    return memory["pool"], memory["training" if is_train else "inference"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--json", type=pathlib.Path)
    given = parser.parse_args()
    rows = []
    for name in given.networks.split(","):
        row = {"network": name}
        for way in ("inference", "training"):
            row[way], row[f"naive {way}"] = pool_of(NETWORKS[name], BUCKETS[-1], way == "training")
        first = bound(NETWORKS[name], BUCKETS[0])
        for executor in [first, *(bound(NETWORKS[name], size, first) for size in BUCKETS[1:])]:
            run(executor, True)
        row["buckets"] = first.memory()["pool"]
        rows.append(row)
        print(name, ", ".join(f"{way} {row[way] / row[f'naive {way}']:.2f}" for way in ("inference", "training")), f"buckets {row['buckets'] / row['training']:.3f}", flush=True)
    if given.json:
        given.json.write_text(json.dumps({"batch": BUCKETS[-1], "buckets": BUCKETS, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
