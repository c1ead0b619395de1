"""Programs that break one assumption each, by kind: setup gives the state; `change` breaks what the calls before have seen."""

import tensmith as ts
import tensmith.numpy as tnp

SCALE = 2


class Plain:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Pair:
    __match_args__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b


class Double:
    def of(self, x):
        return x * 2


class Triple:
    def of(self, x):
        return x * 3


def double(x):
    return x * 2


def triple(x):
    return x * 3


def by_branch(s, x):
    s.count += 1
    s.state = s.state + x
    if tnp.sum(s.state) > 100:
        return s.state * 2
    return s.state


def by_trip_count(s, x):
    s.count += 1
    for each in s.items:
        x = x + each
    return x


def by_type(s, x):
    s.count += 1
    return x * s.k + (1 if isinstance(s.k, int) else 2)


def by_type_within(s, x):
    s.numbers[0] += 1
    return x * s.numbers[0] + (1 if isinstance(s.numbers[0], int) else 2)


def by_shape(s, x):
    s.count += 1
    return x + s.other, s.other.shape[0]


def by_constant(s, x):
    s.count += 1
    return x * 2 if s.mode == "twice" else x


def by_attribute(s, x):
    s.count += 1
    return s.layer.of(x)


def by_callee(s, x):
    s.count += 1
    return s.function(x)


def with_a_class():
    """A class of its own, which a change is seen in."""

    class Scale:
        def of(self, x):
            return x * 2

    return Plain(count=0, layer=Scale())


def by_global(s, x):
    s.count += 1
    return x if SCALE == 2 else x * SCALE


def set_global(value):
    global SCALE
    SCALE = value


def ones():
    return tnp.ones(3)


CASES = {
    "branch": (by_branch, lambda: Plain(count=0, state=ones()), lambda s: setattr(s, "state", ones() * 100)),
    "trip count": (by_trip_count, lambda: Plain(count=0, items=[ones(), ones()]), lambda s: s.items.append(ones())),
    "type": (by_type_within, lambda: Plain(count=0, numbers=[1]), lambda s: s.numbers.__setitem__(0, 2.0)),
    "shape": (by_shape, lambda: Plain(count=0, other=ones()), lambda s: setattr(s, "other", tnp.ones(1))),
    "constant": (by_constant, lambda: Plain(count=0, mode="twice"), lambda s: setattr(s, "mode", "once")),
    "attribute's type": (by_attribute, lambda: Plain(count=0, layer=Double()), lambda s: setattr(s, "layer", Triple())),
    "callee": (by_callee, lambda: Plain(count=0, function=double), lambda s: setattr(s, "function", triple)),
    "class": (by_attribute, with_a_class, lambda s: setattr(type(s.layer), "of", Triple.of)),
    "global": (by_global, lambda: Plain(count=0), lambda s: set_global(3)),
}


def opened(x):
    with open("/dev/null") as file:
        return x, file.name


def alternating(s, x):
    s.count += 1
    if tnp.sum(x) > 0:
        s.state = s.state + x
    else:
        s.state = s.state * 0.5
    return s.state


def looked_up(table, labels):
    return table[labels]


def trained(model, optimiser, x, y):
    optimiser.zero_grad()
    with ts.record():
        loss = ts.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimiser.step()
    return loss


def trained_twice(model, optimiser, x, y):
    trained(model, optimiser, x, y)
    return trained(model, optimiser, x, y)


def pooled(x, weight):
    return ts.grad(lambda w: tnp.sum(ts.nn.functional.max_pool2d(ts.nn.functional.conv2d(x, w), 2) ** 2))(weight)


def own_gradient(s, x):
    value, slope = ts.value_and_grad(lambda w: tnp.sum(tnp.sin(w * x) * s.scale))(s.w)
    s.w -= 0.1 * slope
    return value


def depth_of(tree, x):
    if isinstance(tree, tuple):
        return depth_of(tree[0], x) + depth_of(tree[1], x) * 2
    return x * tree


def saved(model, path, x):
    model.save(path)
    return model(x)


def inner(x):
    return x * 2


inner_function = ts.function(inner)


def by_function(s, x):
    return inner_function(x) + s.count


def by_name(function, x):
    return x * 2 if getattr(function, "mark", 0) else x


class Scope:
    """Swallows a ValueError, and counts how it was left."""

    def __init__(self):
        self.entered, self.left = 0, []

    def __enter__(self):
        self.entered += 1
        return self

    def __exit__(self, kind, error, trace):
        self.left.append(kind.__name__ if kind else "plain")
        return kind is ValueError

    def __call__(self, x):
        return x * 2.0

    @classmethod
    def half(cls, x):
        return x * 0.5


class OtherScope(Scope):
    """What a scope's methods are replaced by."""

    def __exit__(self, kind, error, trace):
        self.left.append("other")

    def __call__(self, x):
        return x * 3.0

    @classmethod
    def half(cls, x):
        return x * 0.25


def scoped(scope, other, x, way):
    """A block that is left in each of the ways that there are."""
    for number in range(3):
        with scope as first, other:
            x = first(x) + number
            if way == "raise":
                raise ValueError("swallowed")
            if way == "escape":
                raise KeyError("goes on")
            if way == "return":
                return Scope.half(x), "within"
            if way == "break":
                break
        x = x - 1.0
    return Scope.half(x), "behind"
