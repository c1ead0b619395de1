"""The values inside of a derivative are those of the compiled model, and the derivative is theirs.

Operators whose derivative goes by what they are made of, at drawn attributes and at known and open sizes. Broken are: an
attribute that the other form doesn't honour; under `exact` the other form in place of the operator, which rounds elsewhere."""

import numpy
import pytest

onnx = pytest.importorskip("onnx")
tensmith = pytest.importorskip("tensmith")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402


class Form:
    """One operator; None among the constants is an absent operand, and `first` those that stand before the inputs."""

    def __init__(self, kind, inputs, constants=(), opset=20, first=(), **attributes):
        self.kind, self.inputs, self.opset, self.attributes = kind, inputs, opset, attributes
        self.first, self.constants = dict(first), dict(constants)

    def model(self, dtype, is_open):
        float_type = helper.np_dtype_to_tensor_dtype(numpy.dtype(dtype))
        values = {**self.first, **self.constants}
        as_own = lambda v: v.astype(dtype) if v.dtype == numpy.float32 and self.kind != "Resize" else v
        names = [*self.first, *self.inputs, *self.constants]
        nodes = [helper.make_node(self.kind, ["" if values.get(n, 0) is None else n for n in names], ["value"], name="node", **self.attributes),
                 helper.make_node("Sin", ["value"], ["sine"]), helper.make_node("Mul", ["sine", "value"], ["product"]),
                 helper.make_node("ReduceSum", ["product"], ["loss"], keepdims=0)]  # fmt: skip
        sizes = lambda n, a: [f"{n}{i}" for i in range(a.ndim)] if is_open and n == "x" else list(a.shape)
        graph = helper.make_graph(
            nodes, "g", [helper.make_tensor_value_info(n, float_type, sizes(n, a)) for n, a in self.inputs.items()],
            [helper.make_tensor_value_info("value", float_type, None), helper.make_tensor_value_info("loss", float_type, [])],
            [numpy_helper.from_array(as_own(numpy.asarray(v)), n) for n, v in values.items() if v is not None])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9).SerializeToString()


def draw(seed):
    """The forms of one seed, an operator each."""
    r = numpy.random.default_rng(seed)
    n = lambda *shape: r.standard_normal(shape)
    pick = lambda *options: options[r.integers(len(options))]
    mode = pick("nearest", "linear", "cubic")
    rounding = {"nearest_mode": pick("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")} if mode == "nearest" else {}
    coordinates = pick("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric")
    scales = pick([1, 1, 1, 2], [1, 1, 3, 2], [1, 1, 0.5, 1.7], [1, 1, 2, 0.6])
    window = {"kernel_shape": [3, 2], "strides": pick([1, 1], [2, 1], [2, 2]), "pads": pick([0] * 4, [1, 0, 1, 1], [1, 1, 0, 0])}
    image = {"x": n(1, 2, 7, 6)}
    yield "resize", Form("Resize", {"x": n(1, 2, 4, 3)}, {"roi": None, "scales": numpy.array(scales, "float32")}, 19, mode=mode,
                         coordinate_transformation_mode=coordinates, **rounding)  # fmt: skip
    yield "resize with antialiasing", Form("Resize", {"x": n(1, 1, 6, 6)}, {"roi": None, "scales": numpy.array([1, 1, 0.5, 0.6], "float32")}, 19,
                                           mode=pick("linear", "cubic"), antialias=1, exclude_outside=pick(0, 1))  # fmt: skip
    yield "max_pool", Form("MaxPool", image, ceil_mode=pick(0, 1), dilations=pick([1, 1], [2, 2]), **window)
    yield "average_pool", Form("AveragePool", image, opset=19, count_include_pad=pick(0, 1), dilations=pick([1, 1], [2, 2]), **window)
    yield "lp_pool", Form("LpPool", image, opset=18, p=pick(1, 2, 3), **window)
    yield "grid_sample", Form("GridSample", {"x": n(1, 2, 5, 4), "grid": 0.8 * n(1, 3, 3, 2)}, mode=pick("linear", "nearest", "cubic"),
                              padding_mode=pick("zeros", "border", "reflection"), align_corners=pick(0, 1))  # fmt: skip
    yield "roi_align", Form("RoiAlign", {"x": n(1, 2, 6, 6), "rois": numpy.array([[0.3, 0.4, 4.2, 4.7]])}, {"images": numpy.array([0])}, 16,
                            output_height=2, output_width=3, sampling_ratio=2, spatial_scale=0.9, mode=pick("avg", "max"),
                            coordinate_transformation_mode=pick("half_pixel", "output_half_pixel"))  # fmt: skip
    yield "pad", Form("Pad", {"x": n(4, 5)}, {"pads": numpy.array(pick([1, 2, 2, 1], [0, 3, 1, 0], [2, 0, 0, 2]))}, 19, mode=pick("reflect", "edge", "wrap", "constant"))
    yield "conv", Form("Conv", {"x": n(1, 4, 7, 7), "w": n(6, 2, 3, 3), "b": n(6)}, group=2, strides=pick([1, 1], [2, 1]),
                       pads=pick([0] * 4, [1, 0, 0, 1]), dilations=pick([1, 1], [1, 2]), kernel_shape=[3, 3])  # fmt: skip
    yield "conv_transpose", Form("ConvTranspose", {"x": n(1, 4, 5, 5), "w": n(4, 3, 3, 3), "b": n(6)}, group=2, strides=pick([1, 1], [2, 2]),
                                 pads=pick([0] * 4, [1, 0, 0, 1]), kernel_shape=[3, 3])  # fmt: skip
    yield "one_hot", Form("OneHot", {"values": numpy.array(pick([-numpy.inf, 0.0], [0.3, -0.7]))}, first={"i": numpy.array([0, 2, 1]), "depth": numpy.array(3)})
    yield "reduce_prod", Form("ReduceProd", {"x": n(3, 5)}, {"axes": numpy.array([1])}, 18)
    yield "dft", Form("DFT", {"x": n(2, 8, 1)}, onesided=pick(0, 1))
    yield "lstm", Form("LSTM", {"x": n(4, 2, 3), "w": n(1, 12, 3), "r": n(1, 12, 3)}, hidden_size=3, input_forget=pick(0, 1), direction=pick("forward", "reverse"),
                       activations=pick(["Sigmoid", "Tanh", "Tanh"], ["HardSigmoid", "Softsign", "Tanh"]))  # fmt: skip
    yield "gru", Form("GRU", {"x": n(4, 2, 3), "w": n(1, 9, 3), "r": n(1, 9, 3)}, hidden_size=3, linear_before_reset=pick(0, 1), direction=pick("forward", "reverse"))
    yield "instance_norm", Form("InstanceNormalization", {"x": n(2, 3, 4, 4), "s": n(3), "b": n(3)})
    columns = pick(7, 8, 33)
    yield "layer_norm", Form("LayerNormalization", {"x": n(9, columns), "s": n(columns), "b": n(columns)})
    yield "gelu", Form("Gelu", {"x": n(33)}, approximate=pick("none", "tanh"))


NAMES = [name for name, _ in draw(0)]


def bits(array):
    return numpy.ascontiguousarray(array).tobytes()


def check_slopes(form, is_open, gradients, seed):
    """Against differences of the reference evaluation in double precision."""
    module = tensmith.compile(form.model(numpy.float64, is_open), reference=True)
    loss = lambda **x: float(numpy.asarray(module.run(**x)[1]))
    random, step = numpy.random.default_rng(seed), 1e-6
    for name, gradient in zip(form.inputs, gradients):
        direction = random.standard_normal(form.inputs[name].shape)
        moved = [{**form.inputs, name: form.inputs[name] + side * step * direction} for side in (1, -1)]
        slope = (loss(**moved[0]) - loss(**moved[1])) / (2 * step)
        if numpy.isfinite(slope):
            scale = max(1.0, abs(slope), numpy.abs(gradient).max())
            assert abs(numpy.sum(gradient.astype(float) * direction) - slope) <= 2e-3 * scale, name


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_values_and_slopes(name, seed):
    form = dict(draw(seed))[name]
    arrays = {n: a.astype("float32") for n, a in form.inputs.items()}
    for is_open in (False, True):
        text = form.model(numpy.float32, is_open)
        expected = numpy.asarray(tensmith.compile(text, precision="exact").run(**arrays)[0])
        found = [numpy.asarray(v) for v in tensmith.grad(text, wrt=list(form.inputs), of="loss", precision="exact").run(**arrays)]
        assert bits(found[0]) == bits(expected)
        check_slopes(form, is_open, found[2:], seed)
        fast = numpy.asarray(tensmith.grad(text, wrt=list(form.inputs), of="loss").run(**arrays)[0])
        numpy.testing.assert_allclose(fast, expected, rtol=1e-4, atol=1e-5)
