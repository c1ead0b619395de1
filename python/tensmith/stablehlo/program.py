"""From a module of StableHLO to a graph: its main function, with all that it calls inlined, and regions as regions.

What can't be lowered is told at once, each operator with the places that have it, before anything is built.
"""

import os

from .. import Error
from ..lowered import compiled, settings_of
from .graph import Graph, Value, function_for

_TYPES = {"i1": "bool", "ui2": "u2", "ui4": "u4", "ui8": "u8", "ui16": "u16", "ui32": "u32", "ui64": "u64", "complex<f32>": "c64",
          "complex<f64>": "c128"}  # fmt: skip
_MOST_OPERATIONS = 500_000  # of the graph: a function is made again for each call, so that short programs may ask for endless ones
_DEEPEST = 200  # of regions and calls within one another
_STRUCTURE = {"func.return", "stablehlo.return", "func.call"}


def from_stablehlo(program, *, sizes=None, names=None, threads=0, **options):
    """Compiles a program of StableHLO: its text or bytecode, a portable artefact, or the path of a file with one of these.

        model = ts.from_stablehlo("step.mlir")
        y = model(x)

    sizes: for each argument of `main` its dimensions, with names for those that are open; else those are named by the argument, "arg0.1".
    names: of the arguments; else "arg0", "arg1", ...
    threads: of a run. The other options are those of `tensmith.compile` that have to do with a graph.

    Gives a `tensmith.Model`, whose outputs are "output0", "output1", ...; an Error names all operators that can't be compiled.
    """
    settings = settings_of(options)
    return compiled(lowered(program, sizes, names).builder, settings, threads)


def lowered(program, sizes=None, names=None):
    """The program as a `Graph` with inputs and outputs."""
    from . import contraction, control, elementwise, indexing, movement, reduction  # noqa: F401, they register themselves

    ir = _mlir()
    with _context(ir) as context, ir.Location.unknown(context):
        module = _parsed(ir, program)
        try:
            return _Program(module).graph(sizes, names)
        except RecursionError:  # long ones of an operator's own, as of a case's branches
            raise Error("the program's branches, regions or calls are within one another too deep") from None


def _mlir():
    try:
        from jaxlib.mlir import ir
    except ImportError:
        raise Error("StableHLO is read by jaxlib; install it: pip install jaxlib") from None
    return ir


def _context(ir):
    """With jaxlib's upstream dialects, of which `func` is one, and StableHLO's."""
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import chlo, sdy, stablehlo

    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    stablehlo.register_dialect(context)
    chlo.register_dialect(context)
    sdy.register_dialect(context)
    context.allow_unregistered_dialects = True
    return context


def _parsed(ir, program):
    # A program of one line has braces, which a path is not known by.
    is_line = isinstance(program, str) and "\n" not in program
    if isinstance(program, os.PathLike) or (is_line and ("{" not in program or os.path.exists(program))):
        try:
            with open(program, "rb") as file:
                program = file.read()
        except OSError as error:
            raise Error(f"{os.fspath(program)}: {error.strerror}") from None
    from jaxlib.mlir.dialects import stablehlo

    is_artefact = isinstance(program, bytes) and b"StableHLO" in program[:64]
    try:
        if is_artefact:
            return stablehlo.deserialize_portable_artifact(ir.Context.current, program)
        return ir.Module.parse(program)
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise Error("the program is no StableHLO that jaxlib's MLIR reads: " + " ".join(lines[:3])[:500]) from None


def element_type(type_):
    text = str(type_)
    return _TYPES.get(text, text)


def place_of(operation):
    """Its location's words, without the folders of files."""
    text = str(operation.location)
    return text.removeprefix("loc(").removesuffix(")").replace('"', "")[:120].split("/")[-1] if "/" in text else text[:120]


def key_of(operation):
    """What an operation is looked up by."""
    name = operation.name
    if name == "stablehlo.custom_call":
        return "custom:" + operation.attributes["call_target_name"].value
    return name


def _is_declared(function):
    """Without a body."""
    return not function.regions[0].blocks


class _Program:
    def __init__(self, module):
        self._functions = {op.attributes["sym_name"].value: op for op in module.body.operations if op.operation.name == "func.func"}
        if "main" not in self._functions:
            raise Error("the program has no function 'main'")
        self._graph = Graph()
        self._values = {}
        self._depth = self._count = 0

    def graph(self, sizes, names):
        main = self._functions["main"]
        if _is_declared(main):
            raise Error("the function 'main' has no body")
        self._check(main)
        given = list(main.regions[0].blocks[0].arguments)
        for what, listed in (("sizes", sizes), ("names", names)):
            if listed is not None and len(listed) != len(given):
                raise Error(f"{what} has {len(listed)} entries, and the function 'main' has {len(given)} arguments; give one for each")
        names = names if names is not None else [f"arg{i}" for i in range(len(given))]
        arguments = [self._input(i, names[i], argument.type, sizes and sizes[i]) for i, argument in enumerate(given)]
        for i, result in enumerate(self.region(main.regions[0], arguments)):
            self._graph.builder.output(f"output{i}", result.number)
        return self._graph

    def _input(self, i, name, type_, dims):
        if not getattr(type_, "has_rank", False):
            raise Error(f"argument {i} of 'main' is of {type_}; arguments are tensors, with their numbers of dimensions")
        known = [type_.get_dim_size(d) if not type_.is_dynamic_dim(d) else f"arg{i}.{d}" for d in range(type_.rank)]
        if dims is not None and len(dims) != len(known):
            raise Error(f"sizes has {len(dims)} dimensions for argument {i} of 'main', which is of {type_}")
        return self._graph.input(name, element_type(type_.element_type), known if dims is None else [str(dim) for dim in dims])

    # ---- what can't be lowered ----

    def _check(self, main):
        missing, seen, left = {}, set(), [main]
        while left:  # operations whose regions are to be looked through
            for region in left.pop().regions:
                for block in region.blocks:
                    for inner in block.operations:
                        left += self._inside(inner.operation, missing, seen)
        if missing:
            lines = [f"  {name}: {', '.join(places[:3])}{' and more' if len(places) > 3 else ''}" for name, places in sorted(missing.items())]
            raise Error("the program has operators that can't be compiled:\n" + "\n".join(lines))

    def _inside(self, operation, missing, seen):
        """The operations with regions that it stands for; notes it where there is no function for it."""
        name = operation.name
        if name in ("func.call", "stablehlo.composite"):
            if name == "stablehlo.composite" and function_for("composite:" + operation.attributes["name"].value):
                return []
            called = operation.attributes["callee" if name == "func.call" else "decomposition"].value
            if called not in self._functions:
                missing.setdefault(f"a call of @{called}, which isn't there", []).append(place_of(operation))
            elif _is_declared(self._functions[called]):
                missing.setdefault(f"a call of @{called}, which has no body", []).append(place_of(operation))
            elif called not in seen:
                seen.add(called)
                return [self._functions[called]]
        elif name not in _STRUCTURE and not function_for(key_of(operation)):
            missing.setdefault(key_of(operation), []).append(place_of(operation))
        elif name in ("stablehlo.while", "stablehlo.if", "stablehlo.case"):  # the regions of others are recognised as a whole
            return [operation]
        return []

    # ---- lowering ----

    def region(self, region, arguments):
        """The values that its block returns."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Error(f"regions and calls are more than {_DEEPEST} deep within one another, or a function calls itself")
        block = region.blocks[0]
        outer = self._values
        self._values = dict(outer)  # a function that is called twice is made twice
        try:
            for argument, value in zip(block.arguments, arguments):
                self._values[argument] = value
            for inner in block.operations:
                operation = inner.operation
                self._count += 1
                if self._count > _MOST_OPERATIONS:
                    raise Error(f"the program has more than {_MOST_OPERATIONS} operations, with each function as often as it is called")
                operands = [self._values[operand] for operand in operation.operands]
                if operation.name in ("func.return", "stablehlo.return"):
                    return operands
                for result, value in zip(operation.results, self._lower(operation, operands)):
                    self._values[result] = value
        finally:
            self._values = outer
            self._depth -= 1
        raise Error("a block doesn't end by a return")

    def _lower(self, operation, operands):
        name = operation.name
        if name == "func.call":
            return self._call(operation.attributes["callee"].value, operands)
        self._graph.location = place_of(operation)
        if name == "stablehlo.composite":
            function = function_for("composite:" + operation.attributes["name"].value)
            if function is None:
                return self._call(operation.attributes["decomposition"].value, operands)
        else:
            function = function_for(key_of(operation))
        self._graph.region = self.region
        try:
            given = function(self._graph, operation, *operands)
        except Error as error:
            raise Error(f"{place_of(operation)}: {key_of(operation)}: {error}") from None
        return [given] if isinstance(given, Value) else list(given or [])

    def _call(self, name, operands):
        return self.region(self._functions[name].regions[0], operands)
