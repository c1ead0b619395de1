"""Single layers and sums that tuning and its searches are measured on."""

import graphs


def layers():
    """Models of one layer each, by name."""
    def model(input, build):
        b = graphs.Builder()
        return b.model({"x": input}, {build(b): len(input)})

    return {
        "conv_14x14x256": model((1, 256, 14, 14), lambda b: b.conv("x", 256, 256, 3, activation="relu")),
        "depthwise_28x28x192": model((1, 192, 28, 28), lambda b: b.conv("x", 192, 192, 3, groups=192, activation="relu")),
        "product_509x1021x253": model((509, 1021), lambda b: b.op("MatMul", "x", b.drawn(1021, 253))),
        "ffn_128x768x3072": model((128, 768), lambda b: b.op("MatMul", "x", b.drawn(768, 3072))),
    }  # fmt: skip


COMPREHENSIONS = {
    "transposed_128x1024x1024": "def f(float(128, 1024) A, float(1024, 1024) B) -> (C) { C(m, n) +=! A(m, k) * B(n, k) }",
    "batched_500x26x72x26": "def f(float(500, 26, 72) X, float(500, 72, 26) Y) -> (Z) { Z(b, n, k) +=! X(b, n, m) * Y(b, m, k) }",
    "grouped_convolution_16_14": "def f(float(32, 32, 16, 14, 14) I, float(32, 16, 16, 3, 3) K) -> (O) {"
                                 " O(n, g, o, h, w) +=! I(n, g, i, h + r, w + s) * K(g, o, i, r, s) }",
    "grouped_convolution_32_7": "def f(float(32, 32, 32, 7, 7) I, float(32, 32, 32, 3, 3) K) -> (O) {"
                                " O(n, g, o, h, w) +=! I(n, g, i, h + r, w + s) * K(g, o, i, r, s) }",
    "moments_128x2304": "def f(float(128, 2304) I) -> (mean, square) { mean(n) +=! I(n, k)  square(n) +=! I(n, k) * I(n, k) }",
    "kronecker_256": "def f(float(16, 32) W, float(256, 32, 32, 32) X) -> (A) { A(m, n0, n1, d) +=! X(m, n0, n1, n) * W(d, n) }",
}  # fmt: skip
