"""Products and convolutions, with all their dimension numbers."""

from .. import Error
from .graph import lowers, product
from .movement import ints_of, padded, spaced


@lowers("stablehlo.dot_general")
def _dot_general(g, operation, a, b):
    """As a product of stacks of matrices [batch, m, k] and [batch, k, n]."""
    from jaxlib.mlir.dialects import stablehlo as hlo

    from .program import element_type

    numbers = hlo.DotDimensionNumbers(operation.attributes["dot_dimension_numbers"])
    batch_a, batch_b = list(numbers.lhs_batching_dimensions), list(numbers.rhs_batching_dimensions)
    over_a, over_b = list(numbers.lhs_contracting_dimensions), list(numbers.rhs_contracting_dimensions)
    dtype = element_type(operation.results[0].type.element_type)
    a, b = g.cast(a, dtype), g.cast(b, dtype)
    own_a = [dim for dim in range(a.rank) if dim not in batch_a + over_a]
    own_b = [dim for dim in range(b.rank) if dim not in batch_b + over_b]

    def sizes(x, dims):
        return [x.shape[dim] for dim in dims]

    batch = sizes(a, batch_a)
    shape = [*batch, *sizes(a, own_a), *sizes(b, own_b)]
    k = product(sizes(a, over_a))
    left = g.reshape(g.transpose(a, batch_a + own_a + over_a), [*batch, product(sizes(a, own_a)), k])
    right = g.reshape(g.transpose(b, batch_b + over_b + own_b), [*batch, k, product(sizes(b, own_b))])
    return g.reshape(g.op("matmul", [left, right]), shape)


@lowers("stablehlo.dot")
def _dot(g, operation, a, b):
    return g.op("matmul", [a, b])


def _inverse(permutation):
    return sorted(range(len(permutation)), key=lambda i: permutation[i])


@lowers("stablehlo.convolution", "stablehlo.dynamic_conv")
def _convolution(g, operation, x, w, *padding):
    from jaxlib.mlir.dialects import stablehlo as hlo

    from .program import element_type

    numbers = hlo.ConvDimensionNumbers(operation.attributes["dimension_numbers"])
    n = len(numbers.input_spatial_dimensions)
    x = g.transpose(x, [numbers.input_batch_dimension, numbers.input_feature_dimension, *numbers.input_spatial_dimensions])
    w = g.transpose(w, [numbers.kernel_output_feature_dimension, numbers.kernel_input_feature_dimension, *numbers.kernel_spatial_dimensions])
    dtype = element_type(operation.results[0].type.element_type)
    x, w = g.cast(x, dtype), g.cast(w, dtype)

    def setting(name, default):
        return ints_of(operation, name) if name in operation.attributes else [default] * n

    if "window_reversal" in operation.attributes:
        flipped = [2 + i for i, is_flipped in enumerate(operation.attributes["window_reversal"]) if bool(is_flipped)]
        if flipped:
            w = g.op("reverse", [w], axes=flipped)
    low, high = _sides(g, operation, padding, n)
    x = spaced(g, x, g.scalar(0, dtype), [0, 0, *[step - 1 for step in setting("lhs_dilation", 1)]])
    if any(side < 0 for side in low + high):
        x = padded(g, x, g.scalar(0, dtype), [0, 0, *[min(side, 0) for side in low]], [0, 0, *[min(side, 0) for side in high]])
        low, high = ([max(side, 0) for side in sides] for sides in (low, high))
    groups = operation.attributes["feature_group_count"].value
    batches = operation.attributes["batch_group_count"].value
    if batches > 1:
        if groups > 1:
            raise Error("it has groups of features and of batches")
        # Each group of the batch is for its own outputs: groups of features, with the parts of the batch beside one another.
        outer, channels, *rest = x.shape
        x = g.reshape(x, [batches, outer // batches, channels, *rest])
        x = g.reshape(g.transpose(x, [1, 0, *range(2, x.rank)]), [outer // batches, batches * channels, *rest])
        groups = batches
    y = g.op("conv", [x, w, None], strides=setting("window_strides", 1), pads=low + high, dilations=setting("rhs_dilation", 1), group=groups)
    return g.transpose(y, _inverse([numbers.output_batch_dimension, numbers.output_feature_dimension, *numbers.output_spatial_dimensions]))


def _sides(g, operation, padding, n):
    if padding:
        known = g.sizes_in(g.reshape(padding[0], [2 * n]))
        if not all(isinstance(size, int) for size in known):
            raise Error("it pads by sizes that aren't numbers")
    elif "padding" in operation.attributes:
        import numpy

        known = numpy.array(operation.attributes["padding"]).reshape(-1).tolist()
        known = known * (2 * n) if len(known) == 1 else known
    else:
        known = [0] * 2 * n
    return known[0::2], known[1::2]
