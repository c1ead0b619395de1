"""Python functions as syntax trees: found by file and line, and held against the code that runs, so that a file that has changed since it was
imported is told.
"""

import ast
import functools
import linecache
import types

from .scalars import NotConvertible

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


# Where a node of the syntax tree has a name, which in a class may be private.
_NAMES = {ast.Name: "id", ast.Attribute: "attr", ast.arg: "arg", ast.keyword: "arg", ast.ExceptHandler: "name", ast.Global: "names", ast.Nonlocal: "names"}


def _mangle(node, owner):
    """Private names become what Python's compiler makes of them. owner: the class that the node is in."""
    if owner and (field := _NAMES.get(type(node))):
        name = getattr(node, field)
        setattr(node, field, [_mangled(each, owner) for each in name] if isinstance(name, list) else _mangled(name, owner))
    within = getattr(node, "body", []) if isinstance(node, ast.ClassDef) else ()
    for each in ast.iter_child_nodes(node):
        _mangle(each, (node.name.lstrip("_") or None) if each in within else owner)


def _mangled(name, owner):
    return f"_{owner}{name}" if name and name.startswith("__") and not name.endswith("__") else name


@functools.lru_cache(maxsize=256)
def _file(name, text):
    """The functions of a file by their first line, and all code that it compiles to."""
    tree = ast.parse(text, name)
    _mangle(tree, None)
    nodes = {}
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS):
            first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
            nodes.setdefault(first, []).append(node)
    codes, pending = set(), [compile(text, name, "exec", dont_inherit=True)]
    while pending:
        code = pending.pop()
        codes.add(code)
        pending += [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return nodes, codes


def _covers(node, code):
    """Whether the code's places lie within the node."""
    body = node.body if isinstance(node, ast.Lambda) else node
    first, last = (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)
    places = [place for place in code.co_positions() if None not in place and place[3]]  # the first instructions are of no place
    return all(first <= (line, column) and (end, end_column) <= last for line, end, column, end_column in places)


@functools.lru_cache(maxsize=4096)
def node_of(code):
    """The syntax tree of a function's code."""
    lines = linecache.getlines(code.co_filename)
    if not lines:
        raise NotConvertible(f"the source of {code.co_name} is not there")
    nodes, codes = _file(code.co_filename, "".join(lines))
    if code not in codes:
        raise NotConvertible(f"the source of {code.co_name} is not what was imported")
    name = code.co_name
    found = [node for node in nodes.get(code.co_firstlineno, []) if getattr(node, "name", "<lambda>") == name]
    if len(found) > 1 and hasattr(code, "co_positions"):  # Python 3.11
        found = [node for node in found if _covers(node, code)]
    if len(found) != 1:
        raise NotConvertible(f"which of the functions in line {code.co_firstlineno} is meant is not known")
    return found[0]


@functools.lru_cache(maxsize=4096)
def names_of(node):
    """The names that a function binds, and those that it declares to be global or of the functions around it."""
    arguments = node.args
    bound = {each.arg for each in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]}
    bound |= {each.arg for each in (arguments.vararg, arguments.kwarg) if each}
    outer, world = set(), set()
    pending = [node.body] if isinstance(node, ast.Lambda) else list(node.body)
    while pending:
        each = pending.pop()
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(each.name)
            pending += each.decorator_list
            continue
        if isinstance(each, ast.Lambda):
            continue
        if isinstance(each, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            pending += [part.target for part in ast.walk(each) if isinstance(part, ast.NamedExpr)]
            continue
        if isinstance(each, ast.Name) and isinstance(each.ctx, (ast.Store, ast.Del)):
            bound.add(each.id)
        elif isinstance(each, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and each.name:
            bound.add(each.name)
        elif isinstance(each, ast.MatchMapping) and each.rest:
            bound.add(each.rest)
        elif isinstance(each, (ast.Import, ast.ImportFrom)):
            bound |= {(alias.asname or alias.name).split(".")[0] for alias in each.names}
        elif isinstance(each, ast.Nonlocal):
            outer |= set(each.names)
        elif isinstance(each, ast.Global):
            world |= set(each.names)
        pending += ast.iter_child_nodes(each)
    return bound - outer - world, world


@functools.lru_cache(maxsize=4096)
def is_generator(node):
    pending = [node.body] if isinstance(node, ast.Lambda) else list(node.body)
    while pending:
        each = pending.pop()
        if isinstance(each, (ast.Yield, ast.YieldFrom, ast.Await)):
            return True
        if not isinstance(each, (*_FUNCTIONS, ast.ClassDef)):
            pending += ast.iter_child_nodes(each)
    return False
