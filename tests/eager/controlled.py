"""Programs whose course depends on tensors, or on lengths that change: what becomes branches and loops of the graph. Each is called with a state
and what its `arguments` give for a number of the call.
"""

import tensmith as ts
import tensmith.numpy as tnp


class State:
    def __init__(self):
        self.count, self.best, self.state, self.pair = 0, 1e9, tnp.ones(3), (tnp.zeros(3), 0)
        self.weight = tnp.asarray([0.5, -1.0, 2.0])
        self.weight.requires_grad = True


def signs(i):
    return tnp.ones(3) * (1 if i % 2 else -1) * (i + 1)


def both_sides(s, x):
    s.count += 1
    if tnp.sum(x) > 0:
        s.state = s.state + x
        factor = 1
    else:
        s.state = s.state * 0.5
        s.count += 2
        factor = 2
    return s.state * factor


def one_side(s, x):
    if float(tnp.max(x)) < s.best and not tnp.any(x > 100):
        s.best = float(tnp.max(x))
        s.state = x * 2
    return s.state + s.best


def early_return(s, x):
    if tnp.sum(x) > 0:
        return x * 2
    s.count += 1
    y = x - 1
    if float(y[0]) < -3:
        return y
    return y * 3


def in_place(s, x):
    if tnp.sum(x) > 0:
        s.state += x
    else:
        s.state[0] = 7.0
    return float(tnp.sum(s.state)) * 2


def chosen(s, x):
    y = x * 2 if tnp.sum(x) > 0 else s.state
    s.pair = (y, s.pair[1] + 1) if tnp.min(x) < -3 else (y + 1, 0)
    return y * float(tnp.sum(y))


def nested(s, x):
    if tnp.sum(x) > 0:
        if tnp.sum(x) > 12:
            s.count += 3
            return x + 1
        y = x * 2
    elif x[0] < -5:
        y = x * 4
    else:
        y = x
    return y + s.count


def halved(s, x):
    n = 0
    while float(tnp.sum(x)) > 1.0:
        x = x * 0.5
        n += 1
    s.count = n
    return x, n


def fixed_point(s, x):
    x = x * 1.0
    for _ in range(30):
        y = (x + 2.0 / x) * 0.5
        if float(tnp.max(tnp.abs(y - x))) < 1e-3:
            break
        x = y
    return x


def ranged(s, x, n):
    h = x
    s.state = s.state * 1.0
    for i in range(n):
        h = h * 0.5 + i
        if i % 2 == 0:
            continue
        s.state = s.state + h
    return h


def rows(s, x, items):
    for each in items:
        if tnp.sum(each) > 0:
            x = x + each
        else:
            x = x * 2
    return x


def indexed(s, x, words):
    h = tnp.zeros(3)
    table = s.state * tnp.reshape(tnp.arange(5.0), (5, 1)) + x
    for word in words:
        h = tnp.tanh(h + table[word])
    return h


def trained(s, x):
    s.weight.grad = None
    with ts.record():
        h = x * s.weight
        while float(tnp.sum(tnp.abs(h))) > 4.0:
            h = h * tnp.tanh(s.weight)
        loss = tnp.sum(h * h) if tnp.sum(h) > 0 else tnp.sum(tnp.sin(h * s.weight))
    loss.backward()
    s.state = s.weight.grad * 1.0
    return loss


PROGRAMS = {
    both_sides: lambda i: (signs(i),), one_side: lambda i: (signs(i),), early_return: lambda i: (signs(i),), in_place: lambda i: (signs(i),),
    chosen: lambda i: (tnp.asarray([i % 2 * 8.0 - 3.0, i % 3 * -4.0, 1.0]),), nested: lambda i: (signs(i * 2 if i % 3 else i),), halved: lambda i: (tnp.ones(3) * (i % 5 + 1),),
    fixed_point: lambda i: (tnp.ones(3) * (i % 4 * 30 + 1.0),), ranged: lambda i: (signs(i), i % 6),
    rows: lambda i: (signs(i), [signs(i + j) for j in range(i % 4 + 1)]), indexed: lambda i: (signs(i), [(i + j) % 5 for j in range(i * 5 % 23 + 1)]),
    trained: lambda i: (signs(i) * (0.3 * (i % 4)),),
}  # fmt: skip


def added_in_place(s, items):
    for each in items:
        s.state += each * 0.5
    return s.state * 1.0


# ---- what is left to assumptions


def raising(s, x):
    if tnp.sum(x) > 0:
        s.count += 1
        return x
    raise ValueError("negative")


def aliased(s, x):
    y = s.state if tnp.sum(x) > 0 else x * 1.0
    y += 1
    return s.state


def growing(s, x):
    seen = []
    while float(tnp.sum(x)) > 1.0 and len(seen) < 5:
        x = x * 0.5
        seen.append(float(tnp.sum(x)))
    return seen


def of_other_kinds(s, x):
    y = None
    if tnp.sum(x) > 0:
        y = x * 2
    return y


def handed_back(s, x):
    return s.state if tnp.sum(x) > 0 else x


LEFT = (raising, aliased, growing, of_other_kinds, handed_back)


# ---- recursion


class Node:
    def __init__(self, number, left=None, right=None):
        self.number, self.left, self.right, self.seen = number, left, right, 0
        self.parts = [each for each in (left, right) if each is not None]


def tree(draw, leaves):
    if leaves == 1:
        return Node(draw.randrange(1, 5))
    left = draw.randint(1, leaves - 1)
    return Node(draw.randrange(1, 5), tree(draw, left), tree(draw, leaves - left))


def summed(s, x, node):
    """Cases of None, of a number that decides, and children in another order than they are read; two results."""
    if node is None:
        return x * 0.0, tnp.ones(3)
    if node.left is None and node.right is None:
        return x * node.number, tnp.tanh(x + s.weight)
    right, gate = summed(s, x, node.right)
    left, other = summed(s, x, node.left)
    if node.number == 3:
        return left * gate + right, other * 0.5
    return tnp.tanh(left - right * 2.0) + node.number, tnp.where(left > right, gate, other)


def of_trees(s, x, node):
    s.weight.grad = None
    with ts.record():
        value, gate = summed(s, x, node)
        loss = tnp.sum(value * gate * s.weight)
    loss.backward()
    s.state = s.weight.grad * 1.0
    s.count += node.number
    return loss, value


def counted(s, x, node):
    """Writes to what it goes through."""
    node.seen += 1
    return x * node.number if node.left is None else counted(s, x, node.left) + counted(s, x, node.right)


def listed(s, x, node):
    """Children in lists of their own."""
    total = x * node.number
    for each in node.parts:
        total = total + listed(s, x, each) * 0.5
    return total


def deepening(s, x, node, depth=0):
    """Another argument changes on the way."""
    return x * depth if node.left is None else deepening(s, x, node.left, depth + 1) + deepening(s, x, node.right, depth + 1)


def grown(s, x, node):
    """Results of different shapes."""
    return x if node.left is None else tnp.concat([grown(s, x, node.left), grown(s, x, node.right)])
