"""Graphs that take compilers long, written node by node, for bench/compile: many kernels that differ in little, joins of
very many parts, a detector of YOLO's size, and the two networks of an OCR pipeline. Weights are drawn from a seed. Each
function of GRAPHS gives models by name.
"""

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


class Builder:
    """A graph in the making; every operator's method gives the name of its result."""

    def __init__(self, seed=0):
        self.nodes, self.weights, self.random = [], [], numpy.random.default_rng(seed)

    def constant(self, values):
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(numpy.asarray(values), name))
        return name

    def drawn(self, *shape):
        fan = max(1, int(numpy.prod(shape[1:])))
        return self.constant((self.random.standard_normal(shape) / numpy.sqrt(fan)).astype(numpy.float32))

    def op(self, kind, *inputs, **attributes):
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def conv(self, x, inputs, outputs, size=1, stride=1, groups=1, activation="silu"):
        """With a bias, as where a batch normalisation was folded into it."""
        y = self.op("Conv", x, self.drawn(outputs, inputs // groups, size, size), self.drawn(outputs),
                    kernel_shape=[size, size], strides=[stride, stride], pads=[size // 2] * 4, group=groups)
        return self.activate(y, activation)

    def activate(self, x, kind):
        if kind == "silu":
            return self.op("Mul", x, self.op("Sigmoid", x))
        if kind == "hard":
            return self.op("HardSwish", x)
        return self.op("Relu", x) if kind == "relu" else x

    def model(self, inputs, outputs):
        """`inputs`: shapes by name; `outputs`: ranks by name."""
        values = lambda ports, shape: [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape(of)) for name, of in ports.items()]
        graph = helper.make_graph(self.nodes, "graph", values(inputs, list), values(outputs, lambda rank: [None] * rank), self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def scales(count=200):
    """Layers that differ by a number alone: one normalised kernel each."""
    def of(values):
        b = Builder()
        x = "x"
        weight = b.drawn(64, 64)
        for value in values:
            x = b.op("Relu", b.op("Mul", b.op("MatMul", x, weight), b.constant(numpy.float32(value))))
        return b.model({"x": (8, 64)}, {x: 2})

    return {"scales, one": of([1.4] * count), "scales, each its own": of([1.35 + i / (10 * count) for i in range(count)])}


def quantized(count=200):
    """Layers of 8 bits, each with scales and zero points of its own."""
    b = Builder()
    x = "x"
    for layer in range(count):
        scale = b.constant(numpy.float32(0.05 + layer / 1e4))
        zero = b.constant(numpy.uint8(100 + layer % 50))
        x = b.op("DequantizeLinear", b.op("QuantizeLinear", x, scale, zero), scale, zero)
        codes = b.constant(b.random.integers(-127, 128, (64, 64)).astype(numpy.int8))
        weight = b.op("DequantizeLinear", codes, b.constant(numpy.float32(0.0023 + layer / 1e6)), b.constant(numpy.int8(0)))
        x = b.op("Relu", b.op("MatMul", x, weight))
    return {"quantised layers": b.model({"x": (8, 64)}, {x: 2})}


def concatenated(count=1000):
    """One concatenation of many inputs, and one of many values that are computed."""
    b = Builder()
    names = [f"x{i}" for i in range(count)]
    inputs = b.model({name: (4, 3) for name in names}, {b.op("Concat", *names, axis=1): 2})
    b = Builder()
    parts = [b.op("Unsqueeze", b.op("Gather", "x", b.constant(numpy.int64(i)), axis=0), b.constant(numpy.int64([0])))
             for i in range(count)]
    gathered = b.model({"x": (count,)}, {b.op("Concat", *parts, axis=0): 1})
    return {"concatenation of inputs": inputs, "concatenation of gathered": gathered}


def elementwise():
    b = Builder()
    return {"one sum": b.model({"x": (64, 64), "y": (64, 64)}, {b.op("Add", "x", "y"): 2})}


def products(count=2000):
    """A chain of products, each of its own size."""
    b = Builder()
    x, width, known = "x", 32, set()
    for layer in range(count):
        after = width
        while (width, after) in known or after == width:
            after = int(b.random.integers(17, 114))
        known.add((width, after))
        x, width = b.op("MatMul", x, b.drawn(width, after)), after
    return {"products": b.model({"x": (8, 32)}, {x: 2})}


def detector(side=640, width=0.25, depth=0.33, classes=80):
    """YOLOv8's structure at its smallest: cross-stage blocks of two convolutions, a pyramid of pools, features joined up
    and down, a decoupled head with the distribution of each box's sides."""
    b = Builder()
    channels = lambda c: int(c * width)
    deep = lambda n: max(1, round(n * depth))

    def block(x, inputs, outputs, count, residual=True):
        half = outputs // 2
        y = b.conv(x, inputs, outputs)
        parts = [b.op("Slice", y, b.constant(numpy.int64([from_])), b.constant(numpy.int64([to])), b.constant(numpy.int64([1])))
                 for from_, to in ((0, half), (half, outputs))]
        for _ in range(count):
            z = b.conv(b.conv(parts[-1], half, half, 3), half, half, 3)
            parts.append(b.op("Add", parts[-1], z) if residual else z)
        return b.conv(b.op("Concat", *parts, axis=1), half * len(parts), outputs)

    def up(x):
        return b.op("Resize", x, "", b.constant(numpy.float32([1, 1, 2, 2])), mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")

    c = [channels(n) for n in (64, 128, 256, 512, 1024)]
    x = b.conv(b.conv("images", 3, c[0], 3, 2), c[0], c[1], 3, 2)
    p3 = b.conv(block(x, c[1], c[1], deep(3)), c[1], c[2], 3, 2)
    p3 = block(p3, c[2], c[2], deep(6))
    p4 = block(b.conv(p3, c[2], c[3], 3, 2), c[3], c[3], deep(6))
    p5 = block(b.conv(p4, c[3], c[4], 3, 2), c[4], c[4], deep(3))
    pools = [b.conv(p5, c[4], c[4] // 2)]
    for _ in range(3):
        pools.append(b.op("MaxPool", pools[-1], kernel_shape=[5, 5], pads=[2] * 4, strides=[1, 1]))
    p5 = b.conv(b.op("Concat", *pools, axis=1), 2 * c[4], c[4])
    n4 = block(b.op("Concat", up(p5), p4, axis=1), c[4] + c[3], c[3], deep(3), residual=False)
    n3 = block(b.op("Concat", up(n4), p3, axis=1), c[3] + c[2], c[2], deep(3), residual=False)
    n4 = block(b.op("Concat", b.conv(n3, c[2], c[2], 3, 2), n4, axis=1), c[2] + c[3], c[3], deep(3), residual=False)
    n5 = block(b.op("Concat", b.conv(n4, c[3], c[3], 3, 2), p5, axis=1), c[3] + c[4], c[4], deep(3), residual=False)
    heads = []
    for x, inputs in ((n3, c[2]), (n4, c[3]), (n5, c[4])):
        branches = []
        for middle, outputs in ((max(16, c[2] // 4, 64), 64), (max(c[2], min(classes, 100)), classes)):
            y = b.conv(b.conv(x, inputs, middle, 3), middle, middle, 3)
            branches.append(b.conv(y, middle, outputs, activation=None))
        heads.append(b.op("Reshape", b.op("Concat", *branches, axis=1), b.constant(numpy.int64([1, 64 + classes, -1]))))
    joined = b.op("Concat", *heads, axis=2)
    part = lambda from_, to: b.op("Slice", joined, b.constant(numpy.int64([from_])), b.constant(numpy.int64([to])), b.constant(numpy.int64([1])))
    sides = b.op("Transpose", b.op("Reshape", part(0, 64), b.constant(numpy.int64([1, 4, 16, -1]))), perm=[0, 2, 1, 3])
    sides = b.conv(b.op("Softmax", sides, axis=1), 16, 1, activation=None)
    cells = sum((side // stride) ** 2 for stride in (8, 16, 32))
    boxes = b.op("Reshape", sides, b.constant(numpy.int64([1, 4, -1])))
    half = lambda from_: b.op("Slice", boxes, b.constant(numpy.int64([from_])), b.constant(numpy.int64([from_ + 2])), b.constant(numpy.int64([1])))
    anchors = b.constant(b.random.uniform(0, side, (1, 2, cells)).astype(numpy.float32))
    low, high = b.op("Sub", anchors, half(0)), b.op("Add", anchors, half(2))
    middle = b.op("Div", b.op("Add", low, high), b.constant(numpy.float32(2)))
    strides = b.constant(b.random.choice(numpy.float32([8, 16, 32]), (1, cells)))
    boxes = b.op("Mul", b.op("Concat", middle, b.op("Sub", high, low), axis=1), strides)
    y = b.op("Concat", boxes, b.op("Sigmoid", part(64, 64 + classes)), axis=1)
    return {"detector": b.model({"images": (1, 3, side, side)}, {y: 3})}


def inverted(b, x, inputs, middle, outputs, size, stride, squeeze, activation):
    """A block of MobileNetV3."""
    y = b.conv(x, inputs, middle, activation=activation) if middle != inputs else x
    y = b.conv(y, middle, middle, size, stride, groups=middle, activation=activation)
    if squeeze:
        gate = b.op("GlobalAveragePool", y)
        gate = b.conv(b.conv(gate, middle, middle // 4, activation="relu"), middle // 4, middle, activation=None)
        y = b.op("Mul", y, b.op("HardSigmoid", gate, alpha=0.2, beta=0.5))
    y = b.conv(y, middle, outputs, activation=None)
    return b.op("Add", x, y) if inputs == outputs and stride == 1 else y


# Kernel, middle, outputs, squeeze, activation, stride: MobileNetV3-large at half of its width.
BLOCKS = [(3, 8, 8, 0, "relu", 1), (3, 32, 16, 0, "relu", 2), (3, 40, 16, 0, "relu", 1), (5, 40, 24, 1, "relu", 2),
          (5, 64, 24, 1, "relu", 1), (5, 64, 24, 1, "relu", 1), (3, 120, 40, 0, "hard", 2), (3, 104, 40, 0, "hard", 1),
          (3, 96, 40, 0, "hard", 1), (3, 96, 40, 0, "hard", 1), (3, 240, 56, 1, "hard", 1), (3, 336, 56, 1, "hard", 1),
          (5, 336, 80, 1, "hard", 2), (5, 480, 80, 1, "hard", 1), (5, 480, 80, 1, "hard", 1)]


def text_detector(height="h", width="w"):
    """Differentiable binarisation (Liao et al., 2020) on MobileNetV3, as OCR pipelines have it, of any size."""
    b = Builder(1)
    x, inputs, levels = b.conv("image", 3, 8, 3, 2, activation="hard"), 8, []
    for size, middle, outputs, squeeze, activation, stride in BLOCKS:
        if stride == 2 and inputs != 8:
            levels.append((x, inputs))
        x, inputs = inverted(b, x, inputs, middle, outputs, size, stride, squeeze, activation), outputs
    levels.append((b.conv(x, inputs, 480, activation="hard"), 480))
    up = lambda y, scale: b.op("Resize", y, "", b.constant(numpy.float32([1, 1, scale, scale])), mode="nearest",
                               coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    features, above = [], None
    for y, channels in reversed(levels):
        y = b.conv(y, channels, 96, activation=None)
        above = y if above is None else b.op("Add", y, up(above, 2))
        features.append(b.conv(above, 96, 24, 3, activation=None))
    parts = [up(y, 2 ** (len(features) - 1 - i)) if i + 1 < len(features) else y for i, y in enumerate(features)]
    y = b.conv(b.op("Concat", *reversed(parts), axis=1), 24 * len(parts), 24, 3, activation="relu")
    for inputs, outputs, activation in ((24, 24, "relu"), (24, 1, None)):
        y = b.op("ConvTranspose", y, b.drawn(inputs, outputs, 2, 2), b.drawn(outputs), kernel_shape=[2, 2], strides=[2, 2])
        y = b.activate(y, activation)
    return b.model({"image": (1, 3, height, width)}, {b.op("Sigmoid", y): 4})


def recogniser(width="w", letters=6625, depth=2):
    """A convolutional stem and transformer blocks over the columns of a line of text, after SVTR (Du et al., 2022)."""
    b = Builder(2)
    x = b.conv("line", 3, 16, 3, 2, activation="hard")
    inputs = 16
    for outputs, size, stride in ((32, 3, (1, 1)), (64, 3, (2, 1)), (128, 3, (2, 1)), (128, 5, (1, 1)), (128, 5, (1, 1)), (256, 5, (2, 1)), (256, 5, (1, 1))):
        y = b.op("Conv", x, b.drawn(inputs, 1, size, size), b.drawn(inputs), kernel_shape=[size, size], strides=list(stride), pads=[size // 2] * 4, group=inputs)
        x, inputs = b.conv(b.activate(y, "hard"), inputs, outputs, activation="hard"), outputs
    x = b.op("AveragePool", x, kernel_shape=[3, 2], strides=[3, 2])
    x = b.conv(x, 256, 120)
    x = b.op("Transpose", b.op("Squeeze", x, b.constant(numpy.int64([2]))), perm=[0, 2, 1])
    model, heads = 120, 8
    ones = lambda *values: b.constant(numpy.int64(values))

    def normalised(x):
        return b.op("LayerNormalization", x, b.drawn(model), b.drawn(model), axis=-1, epsilon=1e-5)

    def linear(x, inputs, outputs):
        return b.op("Add", b.op("MatMul", x, b.drawn(inputs, outputs)), b.drawn(outputs))

    for _ in range(depth):
        qkv = b.op("Transpose", b.op("Reshape", linear(normalised(x), model, 3 * model), ones(0, -1, 3, heads, model // heads)), perm=[2, 0, 3, 1, 4])
        q, k, v = (b.op("Squeeze", b.op("Slice", qkv, ones(i), ones(i + 1), ones(0)), ones(0)) for i in range(3))
        scores = b.op("Mul", b.op("MatMul", q, b.op("Transpose", k, perm=[0, 1, 3, 2])), b.constant(numpy.float32((model // heads) ** -0.5)))
        mixed = b.op("Transpose", b.op("MatMul", b.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        x = b.op("Add", x, linear(b.op("Reshape", mixed, ones(0, -1, model)), model, model))
        y = linear(normalised(x), model, 2 * model)
        x = b.op("Add", x, linear(b.activate(y, "silu"), 2 * model, model))
    y = b.op("Softmax", linear(normalised(x), model, letters), axis=-1)
    return b.model({"line": (1, 3, 48, width)}, {y: 3})


def ocr():
    return {"OCR: detector": text_detector(), "OCR: recogniser": recogniser()}


def constants():
    """A file of 19 MB that is nearly all weights."""
    b = Builder(3)
    x = "x"
    for inputs, outputs in ((1024, 2048), (2048, 1024), (1024, 512), (512, 64)):
        x = b.op("Relu", b.op("Add", b.op("MatMul", x, b.drawn(inputs, outputs)), b.drawn(outputs)))
    return {"weights": b.model({"x": (16, 1024)}, {x: 2})}


GRAPHS = {"elementwise": elementwise, "scales": scales, "quantized": quantized, "concatenated": concatenated, "products": products,
          "detector": detector, "ocr": ocr, "constants": constants}


def save(folder, names=GRAPHS):
    """The paths of the models, by name."""
    paths = {}
    for name in names:
        for label, model in GRAPHS[name]().items():
            paths[label] = folder / (label.replace(" ", "-").replace(",", "").replace(":", "") + ".onnx")
            onnx.save(model, paths[label])
    return paths
