"""What notebooks show of tensors, of converted functions and of trainings: HTML, and graphs as SVG.

A graph is drawn in layers: a step stands below all that it reads, and within its layer near the middle of these (Sugiyama and others, 1981,
with one sweep for the order). The text is that of a tape (recorded/lowering.py).
"""

import html

from .recorded.lowering import Step

_MOST_ROWS, _MOST_COLUMNS, _EDGE = 20, 12, 3  # of a table; how many at its ends where it is cut
_MOST_NODES = 300
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y = 132, 34, 14, 30  # of a node, in pixels


def table_of(tensor):
    """Type, shape, and the elements of up to two dimensions; of more the first matrix."""
    shape = "×".join(map(str, tensor.shape)) or "one number"
    caption = f"<caption>{html.escape(str(tensor.dtype))}, {shape}</caption>"
    values = tensor.numpy()
    if values.size == 0:
        return f"<table>{caption}</table>"
    if values.ndim > 2:
        caption = caption.replace("</caption>", f"; the first {shape.split('×', values.ndim - 2)[-1]}</caption>")
        values = values[(0,) * (values.ndim - 2)]
    rows = values.reshape(1, -1) if values.ndim < 2 else values
    lines = [_row([rows[i][j] if j is not None else None for j in _shown(rows.shape[1], _MOST_COLUMNS)] if i is not None else None)
             for i in _shown(rows.shape[0], _MOST_ROWS)]  # fmt: skip
    return f"<table>{caption}{''.join(lines)}</table>"


def _shown(count, most):
    """Numbers of rows or columns, with None for those in the middle that are left out."""
    return range(count) if count <= most else [*range(_EDGE), None, *range(count - _EDGE, count)]


def _row(values):
    if values is None:
        return "<tr><td>⋮</td></tr>"
    return "<tr>" + "".join(f"<td>{'…' if value is None else _number(value)}</td>" for value in values) + "</tr>"


def _number(value):
    return f"{value:.5g}" if value.dtype.kind in "fc" else html.escape(str(value))


def told(text, graphs):
    """What a function explains, below its first line, and its graphs: each to be unfolded."""
    first, _, rest = text.partition("\n")
    parts = [(html.escape(first), f"<pre>{html.escape(rest)}</pre>"), *((html.escape(name), graph) for name, graph in graphs)]
    return "".join(f"<details><summary>{name}</summary>{part}</details>" for name, part in parts)


def page_of(path):
    """A page in a frame, or None where there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return f'<iframe srcdoc="{html.escape(file.read())}" width="100%" height="600"></iframe>'
    except OSError:
        return None


class _Node:
    def __init__(self, name, shape, operands, attributes=""):
        self.name, self.shape, self.operands, self.attributes = name, shape, operands, attributes
        self.layer, self.place = 0, 0.0


def _nodes(text):
    """The nodes, and of each value the node that gives it. Numbers that are constants stand in the steps that read them."""
    nodes, values, results = [], [], 0

    def add(node, count=1):
        nodes.append(node)
        values.extend([node] * count)

    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "input":
            dtype, *sizes = rest.split()
            add(_Node("input", f"{dtype} {'×'.join(sizes)}", []))
        elif kind == "const":
            values.append(rest.split()[1])
        elif kind == "state":  # a result that is written over an input
            continue
        elif kind == "out":
            nodes.append(_Node(f"result {results}", "", [values[int(rest)]]))
            results += 1
        else:
            step = Step(line)
            operands = [values[number] for number in step.operands if number >= 0]
            dtype, sizes = step.types[0]
            attributes = ", ".join(f"{name} {value}" for name, value in step.attributes.items() if len(str(value)) < 60)
            constants = "".join(f" {each}" for each in operands if isinstance(each, str))
            add(_Node(step.name + constants, f"{dtype} {'×'.join(map(str, sizes))}", operands, attributes), len(step.types))
    for node in nodes:
        node.operands = [each for each in node.operands if isinstance(each, _Node)]
    return nodes


def _layers(nodes):
    for node in nodes:
        node.layer = max((each.layer + 1 for each in node.operands), default=0)
    for node in reversed(nodes):  # an input, and a step of one, stands right above its first reader
        readers = [each.layer for each in nodes if node in each.operands]
        if readers and not any(each.operands for each in node.operands):
            node.layer = min(readers) - 1
    layers = [[] for _ in range(max(node.layer for node in nodes) + 1)]
    for node in nodes:
        layers[node.layer].append(node)
    for layer in layers:
        layer.sort(key=lambda node: sum(each.place for each in node.operands) / len(node.operands) if node.operands else len(layer))
        for number, node in enumerate(layer):
            node.place = number - (len(layer) - 1) / 2
    return layers


def graph_of(text):
    """The graph of a tape's text as SVG; of one that is too large a sentence."""
    nodes = _nodes(text)
    if len(nodes) > _MOST_NODES:
        return f"<p>{len(nodes)} steps, too many to be drawn.</p>"
    layers = _layers(nodes)
    width = max(map(len, layers)) * (_WIDTH + _GAP_X) + _GAP_X
    height = len(layers) * (_HEIGHT + _GAP_Y) + _GAP_Y

    def corner(node):
        return width / 2 + node.place * (_WIDTH + _GAP_X) - _WIDTH / 2, _GAP_Y / 2 + node.layer * (_HEIGHT + _GAP_Y)

    drawn = []
    for node in nodes:
        x, y = corner(node)
        for each in node.operands:
            from_x, from_y = corner(each)
            begin, end, bend = (from_x + _WIDTH / 2, from_y + _HEIGHT), (x + _WIDTH / 2, y), _GAP_Y / 2
            drawn.append(f'<path d="M{begin[0]:g} {begin[1]:g}C{begin[0]:g} {begin[1] + bend:g} {end[0]:g} {end[1] - bend:g} {end[0]:g} {end[1]:g}"/>')
    for node in nodes:
        x, y = corner(node)
        kind = "given" if not node.operands and node.name == "input" or node.name.startswith("result ") else "step"
        drawn.append(f'<g class="{kind}"><title>{html.escape(f"{node.name} {node.shape} {node.attributes}".strip())}</title>'
                     f'<rect x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="5"/>'
                     f'<text x="{x + _WIDTH / 2:g}" y="{y + (14 if node.shape else 21):g}">{html.escape(_cut(node.name))}</text>'
                     f'<text class="shape" x="{x + _WIDTH / 2:g}" y="{y + 27:g}">{html.escape(_cut(node.shape))}</text></g>')  # fmt: skip
    style = ("<style>path{fill:none;stroke:#8a94a0}rect{fill:#eef3f8;stroke:#8a94a0}.given rect{fill:#fff}text{font:12px sans-serif;"
             "text-anchor:middle;fill:#222}.shape{font-size:10px;fill:#667}</style>")  # fmt: skip
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">{style}{"".join(drawn)}</svg>'


def _cut(text):
    return text if len(text) <= 22 else text[:21] + "…"
