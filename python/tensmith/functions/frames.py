"""What names mean in a function that is executed for a recording."""


class Frame:
    """parent: the function that this one stands in, where that is executed here as well; cells: of one that Python has made."""

    def __init__(self, bound, world, parent, globals_, cells):
        self.bound, self.world, self.parent, self.globals, self.cells = bound, world, parent, globals_, cells
        self.names, self.yields = {}, None
        self.loop = None  # the innermost that is executed now


class Interpreted:
    """A function that the recorded call has made, or one of Python's that a library is to call."""

    def __init__(self, interpreter, node, frame, defaults, named_defaults, function=None):
        self.interpreter, self.node, self.frame, self.defaults, self.named_defaults = interpreter, node, frame, defaults, named_defaults
        self.function = function

    def __call__(self, *arguments, **named):
        return self.interpreter.calls.call(self.function or self, list(arguments), named)


class Rest:
    """What follows a statement, to the end of its function or of a loop's body; `is_loop`: which of both. blocks: lists of statements."""

    def __init__(self, is_loop, blocks):
        self.is_loop, self.blocks = is_loop, blocks

    def before(self, statements):
        return Rest(self.is_loop, [statements, *self.blocks])


def cells_of(function):
    return dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
