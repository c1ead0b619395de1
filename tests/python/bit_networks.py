"""A ResNet-18 with weights of 1 bit and activations of 2 in its middle, whose every sum is exact in floats, too.

Scales are powers of two. So what the quantised model says in floats (ONNX Runtime without its optimisations) has no rounding that hangs on an
order: products of bits have to give the very same bits. `test_bit_products.py` has it small, `bench/bits --network` in full.
"""

import numpy

MIDDLE = {"weights": {"bits": 1, "per": "tensor", "power_of_two": True}, "activations": {"bits": 2, "type": "uint", "symmetric": True, "power_of_two": True}}
EDGES = {"bits": 8, "per": "tensor", "power_of_two": True}


def resnet18(random, size=224, widths=(64, 128, 256, 512), classes=10):
    """Its bytes; drawn weights, outputs `features` before the pool and `scores`."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights, nodes = {}, []

    def node(kind, inputs, name, **attributes):
        nodes.append(helper.make_node(kind, inputs, [f"{name}.y"], name=name, **attributes))
        return f"{name}.y"

    def convolution(name, x, inputs, outputs, window, stride):
        weights[f"{name}.w"] = (random.standard_normal((outputs, inputs, window, window)) * numpy.sqrt(2 / (inputs * window**2))).astype(numpy.float32)
        weights[f"{name}.b"] = (random.standard_normal(outputs) * 0.1).astype(numpy.float32)
        return node("Conv", [x, f"{name}.w", f"{name}.b"], name, pads=[window // 2] * 4, strides=[stride] * 2)

    x = node("Relu", [convolution("stem", "image", 3, widths[0], 7, 2)], "stem.relu")
    x, channels = node("MaxPool", [x], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), widths[0]
    for stage, width in enumerate(widths):
        for block in range(2):
            at, stride = f"middle.{stage}.{block}", 2 if stage and not block else 1
            y = node("Relu", [convolution(f"{at}.a", x, channels, width, 3, stride)], f"{at}.relu")
            y = convolution(f"{at}.b", y, width, width, 3, 1)
            if stride != 1 or channels != width:
                x = convolution(f"{at}.down", x, channels, width, 1, stride)
            x, channels = node("Relu", [node("Add", [x, y], f"{at}.sum")], f"{at}.out"), width
    nodes[-1].output[0] = "features"
    flat = node("Flatten", [node("GlobalAveragePool", ["features"], "average")], "flat")
    weights["head.w"] = (random.standard_normal((classes, channels)) * channels**-0.5).astype(numpy.float32)
    nodes.append(helper.make_node("Gemm", [flat, "head.w"], ["scores"], name="head", transB=1))
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "resnet18", [info("image", TensorProto.FLOAT, [1, 3, size, size])],
                              [info(name, TensorProto.FLOAT, None) for name in ("features", "scores")],
                              [numpy_helper.from_array(value, name) for name, value in weights.items()])  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model).SerializeToString()


def quantised(path, to, samples):
    """Writes the quantised model: all layers but the first and the last in few bits."""
    import tensmith

    rules = [{"nodes": ["middle.*"], **MIDDLE}]
    return tensmith.quantize(str(path), str(to), {"image": samples}, weights=EDGES, activations={**EDGES, "per": "tensor"}, rules=rules)


def in_floats(path, image):
    """`features` and `scores` by floats, as the file says them."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, {"image": image})


def in_bits(model):
    """How many of the compiled model's convolutions are products of bits."""
    return sum(kernel["uses"] for kernel in model.describe()["kernels"] if "bit serial" in kernel["schedule"])
