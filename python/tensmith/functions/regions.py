"""Parts of a call that are branches or loop bodies of the graph: recorded on a tape of their own, and undone, so that the other side, or what
comes after, finds everything as it was.

A region notes each place that the program writes and that was there before it: names, attributes, lists and dicts, elements of tensors. At
its end it takes what stands there, and puts back what stood there before. Control flow (control.py) makes of both the values that the places have
afterwards, and writes these as the program would.

Invariant: what a region can't note (gradients, sets, iterators) is not changed within one; whoever would refuses.
"""

import collections
import contextlib

from .. import _eager
from .scalars import NotConvertible


class _Missing:
    def __repr__(self):
        return "nothing"


# Of a place that has no value, and of one whose value depends on the way that was taken, and can't be told.
MISSING, UNCLEAR = _Missing(), _Missing()


class Place:
    """get, set: as the program reads and writes it; undo: puts back what stands there now, untold."""

    def __init__(self, get, set_, undo, kind="place"):
        self.get, self.set, self.undo = get, set_, undo
        self.is_name, self.is_content = kind == "name", kind == "content"
        self.before = self.after = None


class Choice(collections.namedtuple("Choice", "result condition first second site", defaults=(None, None, None))):
    """A tensor of the graph that in Python is the one or the other of two, or a view of it: where None, one of its own. `condition` is None where it is not
    told which; `first` may be a list of tensors. site: an index, where that has chosen.
    """

    __slots__ = ()

    @property
    def tensors(self):
        found = []
        for each in (self.first, self.second):
            found += each if isinstance(each, (list, tuple)) else [] if each is None else [each]
        return found


class Region:
    """As a context it records; `places` are there afterwards. Made within it are those objects that nobody outside of it can know.

    is_real: whether the recorded call comes here, so that values are those of a real one.
    """

    def __init__(self, recording, site, is_real=True):
        self.recording, self.site = recording, site
        self.is_real = is_real and all(each.is_real for each in recording.regions)
        self.tape = _eager.tape(True, True)
        self.places, self.made, self.kept, self.outer = {}, {}, [], []
        self._is_noting = False

    def __enter__(self):
        self._resume()
        return self

    def __exit__(self, kind, error, traceback):
        site = self.recording.regions[0].site
        try:
            if kind is None:
                for place in self.places.values():
                    place.after = place.get()
        except NotConvertible as refusal:
            error = refusal
            raise
        finally:
            self._leave()
            for place in reversed(self.places.values()):
                place.undo()
            if isinstance(error, NotConvertible):
                error.site = site
        if isinstance(error, Exception):  # which the program's handlers must not take, since only one side raises it
            refusal = NotConvertible(f"a branch or a loop of the graph raises {kind.__name__}: {error}")
            refusal.site = site
            raise refusal from None

    def _resume(self):
        self.outer = list(_eager.recording())
        for tape in reversed(self.outer):
            tape.end()
        self.tape.begin()
        self.recording.regions.append(self)

    def _leave(self):
        for tape in reversed(list(_eager.recording())):
            tape.end()
        for tape in self.outer:
            tape.begin()
        self.recording.regions.pop()
        self.recording.closed.append(self.tape)

    @contextlib.contextmanager
    def resumed(self):
        """Records on, of what the region has given."""
        self._resume()
        try:
            yield
        finally:
            self._leave()

    @contextlib.contextmanager
    def outside(self):
        """Records where the region stands."""
        inner = list(_eager.recording())
        for tape in reversed(inner):
            tape.end()
        for tape in self.outer:
            tape.begin()
        self.recording.regions.pop()
        try:
            yield
        finally:
            for tape in reversed(self.outer):
                tape.end()
            for tape in inner:
                tape.begin()
            self.recording.regions.append(self)

    def make(self, x):
        self.made[id(x)] = x
        return x

    # ---- what is about to be written

    def note(self, key, owner, place):
        """`place()` gives the Place."""
        if self._is_noting or key in self.places or id(owner) in self.made:
            return
        self._is_noting = True  # to read a place may take it in, which is no write
        try:
            made = place()
            made.before = made.get()
        finally:
            self._is_noting = False
        made.owner = owner
        self.places[key] = made

    def note_name(self, names, name, owner):
        before = names.get(name, MISSING)

        def set_(value):
            if value is MISSING:
                names.pop(name, None)
            else:
                self.recording.note_name(names, name, owner)
                names[name] = value

        def undo():
            if before is MISSING:
                names.pop(name, None)
            else:
                names[name] = before

        self.note(("name", id(names), name), owner, lambda: Place(lambda: names.get(name, MISSING), set_, undo, "name"))

    def note_content(self, x):
        def write(value):
            self.recording.note_content(x)
            _fill(x, value)

        def place():
            before = _copied(x)
            return Place(lambda: _copied(x), write, lambda: _fill(x, before), "content")

        self.note(("content", id(x)), x, place)

    def note_elements(self, x, write):
        """Of a tensor that is about to be written. `write(value)`: writes all of it, as the program would."""
        if self.tape.is_bound(x):
            return
        if x.requires_grad:
            raise NotConvertible("a tensor that asks for gradients is written in a branch or a loop of the graph")
        with self.outside():
            kept = _eager.copy(x)
        try:
            self.tape.keep_for(x, kept)
        except TypeError as error:
            raise NotConvertible(f"{error}, in a branch or a loop of the graph") from None
        self.kept.append(x)

        def undo():
            self.recording.quietly(lambda: x.__setitem__(..., kept))

        key = ("elements", id(x))
        self.note(key, x, lambda: Place(lambda: _eager.copy(x), write, undo))
        self.places[key].before = kept

    def is_made_within(self, x):
        """Whether the tensor's memory is the region's own."""
        if not self.tape.is_bound(x) or any(x.shares_memory(each) for each in self.kept):
            return False
        chosen = [choice for choice in self.recording.choices.values() if x.shares_memory(choice.result)]
        return all(not isinstance(choice.first, list) and all(self.is_made_within(each) for each in choice.tensors) for choice in chosen)


def _copied(x):
    return list(x) if isinstance(x, list) else dict(x)


def _fill(x, values):
    if isinstance(x, list):
        x[:] = values
    else:
        x.clear()
        x.update(values)


def _put_back(names, values):
    """Other threads find each name at any time."""
    names.update(values)
    for name in [name for name in names if name not in values]:
        del names[name]


def snapshot_of(container, kind):
    """A function that puts back what an attribute's, a cell's or a global's owner holds."""
    if kind == "cell":
        before = container.cell_contents
        return lambda: setattr(container, "cell_contents", before)
    if kind == "global":
        values = dict(container)
        return lambda: _put_back(container, values)
    tables = [vars(container), *(vars(container).get(name) for name in ("_parameters", "_buffers", "_modules"))]
    held = [(table, dict(table)) for table in tables if type(table) is dict]

    def undo():
        for table, values in held:
            table.clear()
            table.update(values)

    return undo
