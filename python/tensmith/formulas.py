"""Functions that the graph has no operator for, of operators that it has: for graphs of PyTorch's and of StableHLO's alike.

A graph gives `apply(name, *operands)`, which broadcasts, and `scalar(number, dtype)`; a formula computes in its operands' type.
"""

import math

# exp(y^2) erfc(y) (1 + 2y) over t = (y - 4) / (y + 4), where it is smooth from y = 0 to infinity (Shepherd and Laframboise, Chebyshev
# approximation of (1 + 2x) exp(x^2) erfc(x), 1981): a Chebyshev series of 24 terms as a polynomial, lowest power first, whose relative error is
# 3e-16 in f64 and 3e-7 in f32.
_ERFC = (
    1.2329951186255526, -0.1396211168405623, 0.015379652102610473, 0.06809705425466908, -0.10103906603586531, 0.0937328349990944,
    -0.06633036582031154, 0.03716751552655567, -0.016197733981455194, 0.005031970067657489, -0.000757773707063825, -0.00019925714661091188,
    0.00015062309720018628, -2.4397746422436416e-05, -1.1225101875659178e-05, 5.706604414895734e-06, 2.9801353803031333e-07,
    -8.210939042560568e-07, 7.115337800585303e-08, 1.0633855618594884e-07, -1.6371779763566967e-08, -1.234686604382353e-08,
    1.5738283774192037e-09, 9.311744978232572e-10,
)  # fmt: skip
_NOTHING_IS_LEFT = 30  # from where on erfc is zero in f64


def erfc(g, x):
    """1 - erf(x) with a relative error that doesn't grow as it falls to zero."""

    def number(value):
        return g.scalar(value, x.dtype)

    y = g.apply("min", g.apply("abs", x), number(_NOTHING_IS_LEFT))
    t = g.apply("div", g.apply("sub", y, number(4)), g.apply("add", y, number(4)))
    series = number(_ERFC[-1])
    for factor in reversed(_ERFC[:-1]):
        series = g.apply("add", g.apply("mul", series, t), number(factor))
    scaled = g.apply("div", series, g.apply("add", number(1), g.apply("mul", number(2), y)))
    tail = g.apply("mul", _bell(g, y), scaled)
    return g.apply("where", g.apply("less", x, number(0)), g.apply("sub", number(2), tail), tail)


def _bell(g, y):
    """exp(-y^2). The square of y, rounded to sixteenths, is exact, and what it lacks is (y - near)(y + near)."""
    near = g.apply("mul", g.apply("round", g.apply("mul", y, g.scalar(16, y.dtype))), g.scalar(1 / 16, y.dtype))
    rest = g.apply("mul", g.apply("sub", y, near), g.apply("add", y, near))
    return g.apply("mul", *(g.apply("exp", g.apply("neg", part)) for part in (g.apply("mul", near, near), rest)))


def expm1(g, x):
    """2 tanh(x/2) / (1 - tanh(x/2)) near zero, where a difference would lose digits."""
    one = g.scalar(1, x.dtype)
    half = g.apply("tanh", g.apply("mul", x, g.scalar(0.5, x.dtype)))
    small = g.apply("div", g.apply("mul", g.scalar(2, x.dtype), half), g.apply("sub", one, half))
    is_large = g.apply("greater", g.apply("abs", x), one)
    return g.apply("where", is_large, g.apply("sub", g.apply("exp", x), one), small)


def is_negative(g, x):
    """By the sign of a float, which a zero has too."""
    zero = g.scalar(0, x.dtype)
    inverse_below = g.apply("less", g.apply("div", g.scalar(1, x.dtype), x), zero)
    return g.apply("or", g.apply("less", x, zero), g.apply("and", g.apply("equal", x, zero), inverse_below))


def atan2(g, y, x):
    """The arc tangent of the smaller by the larger, turned into its octant; signs of zeros count. Of one shape and type."""

    def number(value):
        return g.scalar(value, x.dtype)

    across, along = g.apply("abs", x), g.apply("abs", y)
    large, small = g.apply("max", across, along), g.apply("min", across, along)
    quotient = g.apply("where", g.apply("equal", large, number(0)), number(0), g.apply("div", small, large))
    quotient = g.apply("where", g.apply("equal", small, number(math.inf)), number(1), quotient)
    angle = g.apply("atan", quotient)
    angle = g.apply("where", g.apply("greater", along, across), g.apply("sub", number(math.pi / 2), angle), angle)
    angle = g.apply("where", is_negative(g, x), g.apply("sub", number(math.pi), angle), angle)
    return g.apply("where", is_negative(g, y), g.apply("neg", angle), angle)
