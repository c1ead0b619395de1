"""Operators with bodies, and sequences: If, Loop, Scan, sequences mapped, carried and joined."""

import numpy
from onnx import helper

from values import BOOL, F32, I64, Graph, Value


def declare(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, [size if isinstance(size, int) else None for size in shape])


def finish(graph, name, outputs):
    """The body as a graph. An output that the body doesn't compute itself goes through Identity."""
    own = {output for node in graph.nodes for output in node.output}
    results = []
    for value in outputs:
        if value.name not in own or value.name in [result.name for result in results]:
            value = Value(graph.raw("Identity", [value])[0], value.type, value.shape, value.bound)
        results.append(value)
    ports = [declare(value.name, value.type, value.shape) for value in results]
    return helper.make_graph(graph.nodes, name, graph.inputs, ports, graph.initializers)


def body_of(parent):
    return Graph(parent.program, parent)


def parameter(graph, kind, shape, bound=1.0):
    value = Value(graph.program.fresh("p"), kind, tuple(shape), bound)
    graph.inputs.append(declare(value.name, kind, shape))
    graph.values.append(value)
    return value


def common(g, a, b):
    """The shape of a value that is one of either."""
    return tuple(x if x == y else g.new_dim() for x, y in zip(a, b))


def branch(g):
    """If: both branches give as many values of the same types and ranks; their sizes may differ."""
    from generate import grow

    condition = g.truth()
    sides = [body_of(g), body_of(g)]
    for side in sides:
        grow(side, g.random.randint(1, 4))
    pairs = []
    for _ in range(g.random.randint(1, 3)):
        left = sides[0].pick(lambda v: True)
        right = sides[1].pick(lambda v: left is not None and v.type == left.type and v.rank == left.rank)
        if left is not None and right is not None:
            pairs.append((left, right))
    if not pairs:
        return None
    graphs = [finish(side, "branch", [pair[i] for pair in pairs]) for i, side in enumerate(sides)]
    names = g.raw("If", [condition], len(pairs), then_branch=graphs[0], else_branch=graphs[1])
    for name, (a, b) in zip(names, pairs):
        g.values.append(Value(name, a.type, common(g, a.shape, b.shape), max(a.bound, b.bound)))
    return g.values[-1]


def carried_again(body, value, shape):
    """A value of the carried one's type and shape that the body computes from it, and bounded for any number of trips."""
    other = body.pick(lambda v: v.type == value.type and v.shape == shape and v.name != value.name)
    if value.type == F32:
        mixed = body.add(body.random.choice(["Add", "Mul", "Sub"]), [value, other or value], F32, shape, 1e9)
        return mixed
    mixed = body.add("Add", [value, other or body.scalar(1)], I64, shape, 1e9)
    return mixed


def loop(g):
    """Loop: carried floats, integers, and a tensor that grows; a condition that data decides; results scanned."""
    from generate import grow

    initial = [v for v in (g.float(0, 3), g.integer(0, 2)) if g.random.random() < 0.8]
    grows = g.float(1, 2) if g.random.random() < 0.4 else None
    body = body_of(g)
    iteration, _ = parameter(body, I64, (), 8), parameter(body, BOOL, ())
    carried = [parameter(body, v.type, v.shape, max(v.bound, 40 if v.type == F32 else 1000)) for v in initial]
    growing = parameter(body, F32, (body.new_dim(), *grows.shape[1:]), grows.bound) if grows is not None else None
    grow(body, g.random.randint(1, 4))
    outputs = [carried_again(body, v, v.shape) for v in carried]
    if growing is not None:
        rows = body.pick(lambda v: v.type == F32 and v.rank == growing.rank and v.shape[1:] == growing.shape[1:]
                         and isinstance(v.shape[0], int)) or grows
        outputs.append(body.add("Concat", [growing, rows], F32, growing.shape, max(growing.bound, rows.bound), axis=0))
    scanned = []
    for _ in range(g.random.randint(0, 2)):
        value = body.pick(lambda v: v.known() or not any(isinstance(s, str) for s in v.shape))
        if value is not None:
            scanned.append(value)
    if g.random.random() < 0.4:
        goes_on = body.add("Less", [iteration, body.scalar(g.random.randint(0, 4))], BOOL, ())
    else:
        goes_on = body.scalar(True, numpy.bool_)
    if not outputs and not scanned:
        return None
    graph = finish(body, "body", [goes_on, *outputs, *scanned])
    trips = g.scalar(g.random.randint(0, 5)) if g.random.random() < 0.6 else g.count_up_to(6)
    start = "" if g.random.random() < 0.6 else g.truth()
    operands = [trips, start, *initial, *([grows] if grows is not None else [])]
    names = g.raw("Loop", operands, len(outputs) + len(scanned), body=graph)
    count = g.new_dim()
    for name, first, value in zip(names, [*initial, *([grows] if grows is not None else [])], outputs):
        shape = first.shape if first is not grows else (g.new_dim(), *grows.shape[1:])
        g.values.append(Value(name, value.type, shape, max(first.bound, value.bound)))
    for name, value in zip(names[len(outputs):], scanned):
        g.values.append(Value(name, value.type, (count, *value.shape), value.bound))
    return g.values[-1]


def scan(g):
    """Scan over one or two tensors of the same length, forwards or backwards, with states."""
    from generate import grow

    first = g.float(1, 3)
    inputs = [first]
    second = g.pick(lambda v: v.type in (F32, I64) and v.rank >= 1 and v.shape[0] == first.shape[0] and v.name != first.name)
    if second is not None and g.random.random() < 0.5:
        inputs.append(second)
    states = [g.float(0, 2)] if g.random.random() < 0.7 else []
    body = body_of(g)
    carried = [parameter(body, v.type, v.shape, 40) for v in states]
    slices = [parameter(body, v.type, v.shape[1:], v.bound) for v in inputs]
    grow(body, g.random.randint(1, 4))
    outputs = [carried_again(body, v, v.shape) for v in carried]
    scanned = [body.pick(lambda v: v.known() or v.shape == slices[0].shape) or slices[0]]
    graph = finish(body, "body", [*outputs, *scanned])
    directions = [g.random.randint(0, 1) for _ in inputs]
    back = g.random.randint(0, 1)
    names = g.raw("Scan", [*states, *inputs], len(outputs) + 1, body=graph, num_scan_inputs=len(inputs),
                  scan_input_directions=directions, scan_output_directions=[back])
    for name, state, value in zip(names, states, outputs):
        g.values.append(Value(name, F32, state.shape, max(state.bound, value.bound)))
    g.values.append(Value(names[-1], scanned[0].type, (first.shape[0], *scanned[0].shape), scanned[0].bound))
    return g.values[-1]


def sequence(g):
    """A sequence made, changed, and taken apart again."""
    x = g.float(1, 3)
    others = [v for v in g.visible() if v.type == F32 and v.rank == x.rank and v.shape[1:] == x.shape[1:]]
    parts = [x, *(g.random.choice(others) for _ in range(g.random.randint(0, 3)) if others)]
    (name,) = g.raw("SequenceConstruct", parts)
    if g.random.random() < 0.4:
        (name,) = g.raw("SequenceInsert", [name, parts[0], g.scalar(g.random.randint(0, len(parts)))])
        parts = [*parts, parts[0]]
    if g.random.random() < 0.5:
        name = mapped(g, name, parts)
    bound = max(v.bound for v in parts)
    if g.random.random() < 0.5:
        at = g.add("Mod", [g.number(), g.scalar(len(parts))], I64, (), len(parts))
        return flattened(g, g.raw("SequenceAt", [name, at])[0], x, bound)
    if g.random.random() < 0.3:
        return g.add("SequenceLength", [name], I64, (), len(parts))
    return flattened(g, g.raw("ConcatFromSequence", [name], axis=0)[0], x, bound)


def flattened(g, name, x, bound):
    """What comes out of a sequence has no rank that its type tells; most operators ask for one."""
    rest = x.shape[1:] if all(isinstance(size, int) and size > 0 for size in x.shape[1:]) else ()
    return g.add("Reshape", [name, g.ints(-1, *rest)], F32, (g.new_dim(), *rest), bound)


def mapped(g, name, parts):
    """SequenceMap of a body that keeps the shape."""
    body = body_of(g)
    element = parameter(body, F32, (g.new_dim(), *parts[0].shape[1:]), max(v.bound for v in parts))
    for op in [g.random.choice(["Tanh", "Abs", "Neg", "Sigmoid"]) for _ in range(g.random.randint(1, 3))]:
        element = body.add(op, [element], F32, element.shape, max(element.bound, 1))
    return g.raw("SequenceMap", [name], body=finish(body, "mapped", [element]))[0]


def pieces(g):
    """SplitToSequence, and the pieces one by one through a loop that carries a sequence."""
    x = g.float(1, 3, lambda v: isinstance(v.shape[0], int) and v.shape[0] > 0)
    if x is None:
        return None
    (name,) = g.raw("SplitToSequence", [x, g.scalar(g.random.randint(1, 3))], axis=0)
    if g.random.random() < 0.5:
        body = body_of(g)
        iteration, goes = parameter(body, I64, (), 4), parameter(body, BOOL, ())
        carried = body.program.fresh("s")
        body.inputs.append(helper.make_tensor_sequence_value_info(carried, F32, None))
        piece = body.floats((1, *(s if isinstance(s, int) else 1 for s in x.shape[1:])))
        scale = body.add("Cast", [iteration], F32, (), 4, to=F32)
        piece = body.add("Mul", [piece, scale], F32, piece.shape, 4 * piece.bound)
        if any(not isinstance(s, int) for s in x.shape[1:]):
            return None
        (longer,) = body.raw("SequenceInsert", [carried, piece])
        (kept,) = body.raw("Identity", [goes])
        graph = helper.make_graph(
            body.nodes, "body", body.inputs,
            [declare(kept, BOOL, ()), helper.make_tensor_sequence_value_info(longer, F32, None)], body.initializers)
        (name,) = g.raw("Loop", [g.count_up_to(4), "", name], body=graph)
    return flattened(g, g.raw("ConcatFromSequence", [name], axis=0)[0], x, 8 + x.bound)


CONTROL = [(branch, 1.2), (loop, 1.5), (scan, 0.8), (sequence, 0.6), (pieces, 0.3)]
