"""Programs in which it matters which tensor a name stands for, what is a view, when a thing is computed, and what integers and numbers are to Python:
a graph that has branches and loops must not change it.
"""

import tensmith as ts
import tensmith.numpy as tnp


def state():
    return State()


class State:
    def __init__(self):
        self.state, self.zero, self.rows = tnp.asarray([1.0, 2.0, 3.0]), tnp.zeros(3), tnp.ones((6, 3))
        self.a = self.b = self.best = None
        self.count, self.k = 0, 0
        self.weight = tnp.asarray([0.5, -1.0, 2.0])
        self.weight.requires_grad = True


class Link:
    def __init__(self, number, rest=None):
        self.number, self.rest = number, rest


def chain(count):
    return None if count == 0 else Link(count % 3, chain(count - 1))


def signs(i):
    return tnp.ones(3) * (1 if i % 2 else -1) * (i + 1)


def gradient_through_a_number(s, x):
    return ts.grad(lambda t: tnp.sum(t * float(tnp.sum(t))))(x)


def recorded_number(s, x):
    s.weight.grad = None
    with ts.record():
        h = s.weight * x
        k = 1.0
        while float(tnp.sum(h * h)) > 2.0:
            h = h * 0.5
            k = k + float(tnp.sum(h))
        loss = tnp.sum(h * k)
    loss.backward()
    return s.weight.grad * 1.0


def view_at_a_number(s, k):
    row = s.rows[k]
    row += 1


def views_in_a_loop(s, n):
    for i in range(n):
        s.rows[i][0] = 7.0


def rows_written(s, x):
    for row in s.rows:
        if tnp.sum(row) > 40 + tnp.sum(x):
            break
        row += 1


def items_written(s, items):
    for each in items:
        each += 1


def best_item(s, items):
    best = s.zero
    for each in items:
        if tnp.sum(each) > tnp.sum(best):
            best = each
    s.best = best
    return best


def names_of_one(s, x):
    if tnp.sum(x) > 0:
        a = x * 2
        b = a
    else:
        a = x * 3
        b = a
    b += 1
    return a


def lists_of_one(s, x):
    if tnp.sum(x) > 0:
        inner = [x * 2, 1]
        out = [inner, inner]
    else:
        inner = [x, 2]
        out = [inner, inner]
    inner[1] = 7
    return out


def attributes_of_one(s, x):
    if tnp.sum(x) > 0:
        s.a = s.b = x * 2
    else:
        s.a = s.b = x - 1


def view_in_a_branch(s, x):
    if tnp.sum(x) > 0:
        y = x * 2
        v = y[0]
    else:
        y = x * 3
        v = y[0]
    y += 1
    return v * 1.0


def names_of_one_in_a_loop(s, x, n):
    g = h = x * 1.0
    for i in range(n):
        h = h * 2
        g = h
    g += 1
    return h


def tensor_of_a_number(s, x):
    v = float(tnp.sum(x))
    t = tnp.asarray(v)
    t += 1
    return (x * v if v > 0 else x - v), t, v


def nested_choice(s, x):
    if tnp.sum(x) > 0:
        y = s.state if tnp.sum(x) > 12 else x * 2
    else:
        y = x * 3
    y += 1
    return y * 1.0


def nested_return(s, x):
    if tnp.sum(x) > 0:
        if tnp.sum(x) > 12:
            return s.state
        return x * 2
    return x


def no_turns(s, x, n):
    h = s.state
    for i in range(n):
        h = h + x
    h += 1
    return h * 1.0


def carried_and_written(s, x, n):
    h = s.state
    for i in range(n):
        h += x
        h = tnp.tanh(h)
    return h * 1.0


def end_of(s, x, link):
    return x if link is None else end_of(s, x, link.rest)


def end_is_written(s, x, link):
    y = end_of(s, x, link)
    y += 1


def accumulated(s, x, link):
    if link is None:
        return s.zero
    total = accumulated(s, x, link.rest)
    total += x
    return total * 1.0


def weighed(s, x, link):
    return x * 1.0 if link is None else weighed(s, x, link.rest) * (link.number + 1) + link.number


def fibonacci(s, n):
    a, b = 0, 1
    for i in range(n):
        a, b = b, a + b
    return a


def summed_integers(s, items):
    total = 0
    for each in items:
        total = total + each
    return total


def iterator_of_both_sides(s, x):
    pairs = zip([1.0, 2.0], [3.0, 4.0])
    if tnp.sum(x) > 0:
        for a, b in pairs:
            x = x + a * b
    else:
        for a, b in pairs:
            x = x - a * b
    return x


def iterator_in_a_loop(s, x, n):
    values = iter([1.0, 2.0, 3.0])
    for i in range(n):
        x = x + sum(values)
    return x


def identity_behind_a_branch(s, x):
    y = s.state if tnp.sum(x) > 0 else x * 1.0
    if y is s.state:
        s.count += 1
    return y * 2


def test_that_writes(s, x):
    n = 5
    if tnp.sum(x) > 0:
        while (n := n - 1) > 0:
            x = x + 1
    else:
        x = x - 1
    return x


def index_before_the_begin(s, x, n):
    t = x[0] * 0
    for i in range(n):
        t = t + x[-i - 1]
    return t


def late_generator(s, x):
    s.k = 1
    values = (each * s.k for each in [1, 2])
    s.k = 5
    return sum(values)


def lazy_test(s, x):
    def check(each):
        s.count += 1
        return each > 1

    return any(check(each) for each in [1, 2, 3])


def loop_in_a_side(s, x):
    if tnp.sum(x) > 0:
        while float(tnp.sum(x)) < 100.0:
            x = x * 2
    return x


def loop_behind_an_assumption(s, x):
    if tnp.sum(x) > 0:
        s.a = [x]
        while float(tnp.sum(x)) < 100.0:
            x = x * 2
    return x


def tensors(i):
    return [tnp.ones(3) * ((j * 3 + i) % 5 + 1) for j in range(i % 4 + 1)]


_OF_SIGNS = (
    gradient_through_a_number, recorded_number, rows_written, names_of_one, lists_of_one, attributes_of_one, view_in_a_branch, tensor_of_a_number, nested_choice, nested_return,
    iterator_of_both_sides, identity_behind_a_branch, test_that_writes, late_generator, lazy_test, loop_in_a_side, loop_behind_an_assumption,
)  # fmt: skip
PROGRAMS = {
    **{program: lambda i: (signs(i),) for program in _OF_SIGNS},
    **{program: lambda i: (tnp.ones(3), (2, 3, 1, 4, 5, 0, 0, 2)[i]) for program in (names_of_one_in_a_loop, no_turns, carried_and_written, iterator_in_a_loop)},
    **{program: lambda i: (tnp.ones(3), chain(i % 4 + 1)) for program in (end_of, end_is_written, accumulated, weighed)},
    **{program: lambda i: (tensors(i),) for program in (items_written, best_item)},
    view_at_a_number: lambda i: (i % 5,), views_in_a_loop: lambda i: (i % 5 + 1,), fibonacci: lambda i: (i * 20,),
    summed_integers: lambda i: ([2**62 if i > 4 else j for j in range(i % 4 + 1)],),
    index_before_the_begin: lambda i: (tnp.asarray([1.0, 2.0, 3.0]), (1, 2, 3, 2, 1, 4, 5, 3)[i]),
}  # fmt: skip
