"""Networks whose sizes are open, as exporters write them, for bench/open: made of ONNX nodes, with seeded weights.

Batch normalisation is folded into its convolution, as exports for inference have it. Sizes of upsampled features are taken
from the skip connection by Shape, Slice and Concat where the original does so. `NETWORKS` has for each the function that makes it and
ten sizes of its inputs.
"""

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


class Graph:
    """Nodes under construction; a method for each layer gives the name of its result."""

    def __init__(self, seed=0):
        self.nodes, self.constants, self.random, self.names = [], {}, numpy.random.default_rng(seed), 0

    def op(self, kind, *inputs, outputs=1, **attributes):
        self.names += 1
        names = [f"{kind.lower()}_{self.names}" + (f"_{i}" if i else "") for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, name=names[0], **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, value):
        name = f"c{len(self.constants)}"
        self.constants[name] = numpy_helper.from_array(numpy.asarray(value), name)
        return name

    def weight(self, *shape, gain=1.0):
        """So that what passes through keeps its size."""
        deviation = gain * (2 / max(numpy.prod(shape[1:]), 1)) ** 0.5
        return self.constant((self.random.standard_normal(shape) * deviation).astype(numpy.float32))

    def vector(self, size):
        return self.constant((self.random.standard_normal(size) * 0.1).astype(numpy.float32))

    def ints(self, *values):
        return self.constant(numpy.array(values, numpy.int64))

    def conv(self, x, inputs, outputs, size=3, stride=1, group=1, dilation=1, act="Relu"):
        pad = (size - 1) // 2 * dilation
        weight = self.weight(outputs, inputs // group, size, size)
        x = self.op("Conv", x, weight, self.vector(outputs), kernel_shape=[size, size], strides=[stride, stride], group=group,
                    dilations=[dilation, dilation], pads=[pad] * 4)
        return self.act(x, act)

    def act(self, x, kind):
        if kind == "Silu":
            return self.op("Mul", x, self.op("Sigmoid", x))
        return self.op(kind, x) if kind else x

    def linear(self, x, inputs, outputs, act=None):
        product = self.op("MatMul", x, self.weight(inputs, outputs, gain=0.7 * (outputs / inputs) ** 0.5))
        return self.act(self.op("Add", product, self.vector(outputs)), act)

    def norm(self, x, width):
        return self.op("LayerNormalization", x, self.constant(numpy.ones(width, numpy.float32)), self.vector(width), axis=-1)

    def twice(self, x):
        """Upsampled, each element to four."""
        scales = self.constant(numpy.array([1, 1, 2, 2], numpy.float32))
        return self.op("Resize", x, "", scales, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")

    def resized_like(self, x, like, mode="linear"):
        """To the height and width of another, as exporters write interpolation to a size."""
        channels = self.op("Slice", self.op("Shape", x), self.ints(0), self.ints(2), self.ints(0))
        image = self.op("Slice", self.op("Shape", like), self.ints(2), self.ints(4), self.ints(0))
        sizes = self.op("Concat", channels, image, axis=0)
        return self.op("Resize", x, "", "", sizes, mode=mode, coordinate_transformation_mode="half_pixel")

    def attention(self, x, memory, width, heads):
        """Of x over memory, both [N, length, width]: no size is named but by Shape."""
        def split(y, source, permutation):
            shape = self.op("Shape", source)
            both = self.op("Slice", shape, self.ints(0), self.ints(2), self.ints(0))
            to = self.op("Concat", both, self.ints(heads, width // heads), axis=0)
            return self.op("Transpose", self.op("Reshape", y, to), perm=permutation)

        query = split(self.linear(x, width, width), x, [0, 2, 1, 3])
        key = split(self.linear(memory, width, width), memory, [0, 2, 3, 1])
        value = split(self.linear(memory, width, width), memory, [0, 2, 1, 3])
        scale = self.constant(numpy.float32((width // heads) ** -0.5))
        weights = self.op("Softmax", self.op("Mul", self.op("MatMul", query, key), scale), axis=-1)
        mixed = self.op("Transpose", self.op("MatMul", weights, value), perm=[0, 2, 1, 3])
        return self.linear(self.op("Reshape", mixed, self.op("Shape", x)), width, width)

    def model(self, inputs, outputs):
        kinds = {"float": TensorProto.FLOAT, "ids": TensorProto.INT64}
        given = [helper.make_tensor_value_info(name, kinds[kind], shape) for name, kind, shape in inputs]
        graph = helper.make_graph(self.nodes, "network", given,
                                  [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
                                  list(self.constants.values()))
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


IMAGE = [("image", "float", ["batch", 3, "height", "width"])]


def squeezed(g, x, channels):
    """Squeeze and excitation."""
    pooled = g.op("GlobalAveragePool", x)
    gate = g.conv(g.conv(pooled, channels, channels // 4, 1), channels // 4, channels, 1, act="HardSigmoid")
    return g.op("Mul", x, gate)


def mobile_stages(g, x, strides_of_height_only=False):
    """MobileNetV3 (large), half as wide: the features at the end of each stage, and their channels."""
    rows = [(8, 8, 3, 1, 0, "Relu"), (32, 16, 3, 2, 0, "Relu"), (48, 16, 3, 1, 0, "Relu"), (48, 24, 5, 2, 1, "Relu"),
            (64, 24, 5, 1, 1, "Relu"), (64, 24, 5, 1, 1, "Relu"), (120, 40, 3, 2, 0, "HardSwish"), (104, 40, 3, 1, 0, "HardSwish"),
            (240, 56, 3, 1, 1, "HardSwish"), (336, 56, 3, 1, 1, "HardSwish"), (336, 80, 5, 2, 1, "HardSwish"),
            (480, 80, 5, 1, 1, "HardSwish"), (480, 80, 5, 1, 1, "HardSwish")]
    x, channels, features = g.conv(x, 3, 8, 3, 2, act="HardSwish"), 8, []
    for hidden, outputs, size, stride, squeeze, act in rows:
        if stride == 2:
            features.append((x, channels))
        steps = [stride, 1] if strides_of_height_only else [stride, stride]
        y = g.conv(x, channels, hidden, 1, act=act)
        pad = (size - 1) // 2
        y = g.op("Conv", y, g.weight(hidden, 1, size, size), g.vector(hidden), kernel_shape=[size, size], strides=steps, group=hidden, pads=[pad] * 4)
        y = g.act(y, act)
        y = squeezed(g, y, hidden) if squeeze else y
        y = g.conv(y, hidden, outputs, 1, act=None)
        x = g.op("Add", x, y) if stride == 1 and channels == outputs else y
        channels = outputs
    return features[1:] + [(x, channels)]


def ocr_detector():
    """Liao et al., "Real-time scene text detection with differentiable binarization", 2020, on MobileNetV3."""
    g = Graph(1)
    width, lateral, fused = 96, [], []
    features = mobile_stages(g, "image")
    lateral = [g.conv(x, channels, width, 1, act=None) for x, channels in features]
    top = lateral[-1]
    merged = [top]
    for feature in reversed(lateral[:-1]):
        top = g.op("Add", feature, g.twice(top))
        merged.append(top)
    for number, feature in enumerate(merged):
        y = g.conv(feature, width, width // 4, 3, act=None)
        for _ in range(len(merged) - 1 - number):
            y = g.twice(y)
        fused.append(y)
    x = g.op("Concat", *fused, axis=1)
    x = g.conv(x, width, width // 4, 3)
    for outputs, act in ((width // 4, "Relu"), (1, "Sigmoid")):
        x = g.op("ConvTranspose", x, g.weight(width // 4, outputs, 2, 2), g.vector(outputs), kernel_shape=[2, 2], strides=[2, 2])
        x = g.act(x, act)
    return g.model(IMAGE, [x])


def ocr_recogniser():
    """Shi et al., "An end-to-end trainable neural network for image-based sequence recognition", 2017: lines 48 pixels high."""
    g = Graph(2)
    (x, channels) = mobile_stages(g, "image", strides_of_height_only=True)[-1]
    x = g.conv(x, channels, 480, 1, act="HardSwish")
    x = g.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = g.op("Transpose", g.op("Squeeze", x, g.ints(2)), perm=[2, 0, 1])
    inputs, hidden = 480, 48
    for _ in range(2):
        weights = g.weight(2, 4 * hidden, inputs), g.weight(2, 4 * hidden, hidden), g.constant(numpy.zeros((2, 8 * hidden), numpy.float32))
        y = g.op("LSTM", x, *weights, hidden_size=hidden, direction="bidirectional", outputs=1)
        x = g.op("Reshape", g.op("Transpose", y, perm=[0, 2, 1, 3]), g.ints(0, 0, -1))
        inputs = 2 * hidden
    scores = g.linear(g.op("Transpose", x, perm=[1, 0, 2]), inputs, 6625)
    return g.model([("image", "float", ["batch", 3, 48, "width"])], [g.op("Softmax", scores, axis=-1)])


def detector():
    """One stage, cross-stage blocks with SiLU, pools of several sizes, features joined up and down."""
    g = Graph(3)

    def stage(x, inputs, outputs, depth):
        half = outputs // 2
        y, around = g.conv(x, inputs, half, 1, act="Silu"), g.conv(x, inputs, half, 1, act="Silu")
        for _ in range(depth):
            y = g.op("Add", y, g.conv(g.conv(y, half, half, 1, act="Silu"), half, half, 3, act="Silu"))
        return g.conv(g.op("Concat", y, around, axis=1), outputs, outputs, 1, act="Silu")

    widths = (16, 32, 64, 128, 256)
    x, levels = g.conv("image", 3, 16, 3, 2, act="Silu"), []
    for inputs, outputs, depth in zip(widths, widths[1:], (1, 2, 3, 1)):
        x = stage(g.conv(x, inputs, outputs, 3, 2, act="Silu"), outputs, outputs, depth)
        levels.append((x, outputs))
    pools = [g.conv(x, 256, 128, 1, act="Silu")]
    for _ in range(3):
        pools.append(g.op("MaxPool", pools[-1], kernel_shape=[5, 5], strides=[1, 1], pads=[2, 2, 2, 2]))
    top, channels = g.conv(g.op("Concat", *pools, axis=1), 512, 256, 1, act="Silu"), 256
    outputs = [(top, channels)]
    for level, width in reversed(levels[1:-1]):
        up = g.op("Resize", top, "", g.constant(numpy.array([1, 1, 2, 2], numpy.float32)), mode="nearest")
        top = stage(g.op("Concat", up, level, axis=1), channels + width, width, 1)
        channels = width
        outputs.append((top, channels))
    flat = [g.op("Reshape", g.conv(x, width, 85, 1, act=None), g.ints(0, 85, -1)) for x, width in outputs]
    return g.model(IMAGE, [g.op("Sigmoid", g.op("Concat", *flat, axis=2))])


def unet():
    """Ronneberger et al., 2015, with padding and transposed convolutions."""
    g = Graph(4)
    double = lambda x, a, b: g.conv(g.conv(x, a, b), b, b)
    x, channels, skipped = "image", 3, []
    for width in (32, 64, 128):
        skipped.append((double(x, channels, width), width))
        x, channels = g.op("MaxPool", skipped[-1][0], kernel_shape=[2, 2], strides=[2, 2]), width
    x = double(x, 128, 256)
    channels = 256
    for skip, width in reversed(skipped):
        x = g.op("ConvTranspose", x, g.weight(channels, width, 2, 2), g.vector(width), kernel_shape=[2, 2], strides=[2, 2])
        x, channels = double(g.op("Concat", skip, x, axis=1), 2 * width, width), width
    return g.model(IMAGE, [g.conv(x, 32, 2, 1, act=None)])


def segmentation():
    """Chen et al., "Rethinking atrous convolution", 2017, on residual blocks; scores as large as the image."""
    g = Graph(5)

    def block(x, inputs, outputs, stride, dilation):
        y = g.conv(g.conv(x, inputs, outputs, 3, stride, dilation=dilation), outputs, outputs, 3, dilation=dilation, act=None)
        if stride > 1 or inputs != outputs:
            x = g.conv(x, inputs, outputs, 1, stride, act=None)
        return g.op("Relu", g.op("Add", x, y))

    x = g.op("MaxPool", g.conv("image", 3, 32, 7, 2), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 32
    for width, stride, dilation in ((32, 1, 1), (32, 1, 1), (64, 2, 1), (64, 1, 1), (128, 1, 2), (128, 1, 2), (256, 1, 4)):
        x, channels = block(x, channels, width, stride, dilation), width
    parts = [g.conv(x, 256, 64, 1), *(g.conv(x, 256, 64, 3, dilation=rate) for rate in (6, 12))]
    parts.append(g.resized_like(g.conv(g.op("GlobalAveragePool", x), 256, 64, 1), x))
    scores = g.conv(g.conv(g.op("Concat", *parts, axis=1), 256, 64, 1), 64, 21, 1, act=None)
    return g.model(IMAGE, [g.resized_like(scores, "image")])


def conformer():
    """Gulati et al., 2020: four blocks of 144 behind convolutions that shorten the spectrum to a quarter."""
    g = Graph(6)
    width, heads, size = 144, 4, 31

    def half_feed(x):
        return g.op("Add", x, g.op("Mul", g.linear(g.linear(g.norm(x, width), width, 4 * width, "Silu"), 4 * width, width),
                                   g.constant(numpy.float32(0.5))))

    def convolved(x):
        y = g.op("Transpose", g.norm(x, width), perm=[0, 2, 1])
        y = g.op("Conv", y, g.weight(2 * width, width, 1), g.vector(2 * width), kernel_shape=[1])
        value, gate = g.op("Split", y, g.ints(width, width), axis=1, outputs=2)
        y = g.op("Mul", value, g.op("Sigmoid", gate))
        y = g.op("Conv", y, g.weight(width, 1, size), g.vector(width), kernel_shape=[size], group=width, pads=[size // 2] * 2)
        y = g.op("Conv", g.act(y, "Silu"), g.weight(width, width, 1), g.vector(width), kernel_shape=[1])
        return g.op("Add", x, g.op("Transpose", y, perm=[0, 2, 1]))

    x = g.op("Unsqueeze", "spectrum", g.ints(1))
    x = g.conv(g.conv(x, 1, width, 3, 2), width, width, 3, 2)  # [N, width, length / 4, 20]
    x = g.op("Reshape", g.op("Transpose", x, perm=[0, 2, 1, 3]), g.ints(0, 0, 20 * width))
    x = g.linear(x, 20 * width, width)
    for _ in range(4):
        x = half_feed(x)
        normed = g.norm(x, width)
        x = g.op("Add", x, g.attention(normed, normed, width, heads))
        x = g.norm(half_feed(convolved(x)), width)
    return g.model([("spectrum", "float", ["batch", "length", 80])], [g.linear(x, width, 256)])


def encoder_decoder():
    """Vaswani et al., 2017: three layers of 256 each, over two lengths."""
    g = Graph(7)
    width, heads, words = 256, 4, 4096
    embed = lambda ids: g.op("Gather", g.weight(words, width, gain=8.0), ids)
    feed = lambda x: g.op("Add", x, g.linear(g.linear(g.norm(x, width), width, 4 * width, "Relu"), 4 * width, width))

    def attend(x, memory=None):
        normed = g.norm(x, width)
        return g.op("Add", x, g.attention(normed, memory or normed, width, heads))

    memory, x = embed("source"), embed("target")
    for _ in range(3):
        memory = feed(attend(memory))
    memory = g.norm(memory, width)
    for _ in range(3):
        x = feed(attend(attend(x), memory))
    return g.model([("source", "ids", ["batch", "source_length"]), ("target", "ids", ["batch", "target_length"])],
                   [g.linear(g.norm(x, width), width, words)])


def images(*sizes):
    return [{"batch": 1, "height": height, "width": width} for height, width in sizes]


IMAGES = images((224, 224), (256, 320), (320, 256), (320, 320), (320, 480), (384, 384), (416, 416), (480, 640), (512, 512), (640, 640))
SMALL = images((64, 64), (96, 128), (128, 128), (160, 160), (192, 256), (224, 224), (256, 256), (320, 256), (384, 384), (480, 320))
NETWORKS = {
    "detector": (detector, IMAGES),
    "ocr_detector": (ocr_detector, images((320, 320), (352, 640), (480, 640), (640, 480), (640, 640), (736, 736), (736, 960), (960, 736), (960, 960),
                                          (1280, 736))),
    "ocr_recogniser": (ocr_recogniser, [{"batch": batch, "width": width} for batch, width in
                                        ((1, 80), (1, 160), (1, 320), (1, 480), (1, 640), (2, 320), (4, 320), (6, 160), (6, 320), (6, 480))]),
    "unet": (unet, SMALL),
    "segmentation": (segmentation, IMAGES),
    "conformer": (conformer, [{"batch": 1, "length": length} for length in (50, 100, 161, 200, 300, 400, 507, 800, 1000, 1600)]),
    "encoder_decoder": (encoder_decoder, [{"batch": 1, "source_length": a, "target_length": b} for a, b in
                                          ((1, 1), (5, 3), (16, 16), (24, 17), (32, 1), (48, 40), (64, 64), (96, 77), (128, 128), (256, 200))]),
}


def write(name, path):
    onnx.save(NETWORKS[name][0](), path)
