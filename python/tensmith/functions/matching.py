"""`match` of a recorded call: patterns by Python's rules, each comparison and look-up told to the recording as any other."""

import ast
import collections.abc
import operator

from ..numpy.dtypes import Tensor
from .recording import order_of
from .residual import MISSING
from .scalars import NotConvertible, Range, Traced

# Of these, and of classes derived from them, a pattern with one place stands for the object itself, unless the class has `__match_args__`.
_THEMSELVES = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


class Matching:
    """Of an Interpreter."""

    def _do_Match(self, node, frame):
        subject = self.value(node.subject, frame)
        for case in node.cases:
            found = {}
            if not self._matches(case.pattern, subject, frame, found):
                continue
            for name, value in found.items():
                self.bind(name, value, frame)
            if case.guard is None or self.calls.truth(self.value(case.guard, frame)):
                self.block(case.body, frame)
                return

    def _matches(self, pattern, x, frame, found):
        """found: names with what they get where the whole pattern matches."""
        return getattr(self, "_matches_" + type(pattern).__name__)(pattern, x, frame, found)

    def _matches_MatchValue(self, pattern, x, frame, found):
        return self.calls.truth(self.calls.operate(operator.eq, x, self.value(pattern.value, frame)))

    def _matches_MatchSingleton(self, pattern, x, frame, found):
        if isinstance(x, Traced) and type(x.value) is bool:
            x = self.calls.truth(x)
        return x is pattern.value

    def _matches_MatchAs(self, pattern, x, frame, found):
        if pattern.pattern is not None and not self._matches(pattern.pattern, x, frame, found):
            return False
        if pattern.name is not None:
            found[pattern.name] = x
        return True

    def _matches_MatchOr(self, pattern, x, frame, found):
        for each in pattern.patterns:
            within = dict(found)
            if self._matches(each, x, frame, within):
                found.update(within)
                return True
        return False

    def _matches_MatchSequence(self, pattern, x, frame, found):
        if isinstance(x, (str, bytes, bytearray, Tensor, Traced)):
            return False
        if isinstance(x, Range) or not self.calls.builtins[isinstance](x, collections.abc.Sequence):
            if isinstance(x, Range):
                raise NotConvertible("a range is matched by a sequence")
            return False
        if not isinstance(x, (list, tuple)):
            raise NotConvertible(f"a {type(x).__qualname__} is matched by a sequence")
        values = list(self.calls.iterate(x))
        starred = next((i for i, each in enumerate(pattern.patterns) if isinstance(each, ast.MatchStar)), None)
        count = len(pattern.patterns)
        if len(values) != count if starred is None else len(values) < count - 1:
            return False
        if starred is not None:
            behind = len(values) - (count - starred - 1)
            if (name := pattern.patterns[starred].name) is not None:
                found[name] = self.recording.make(values[starred:behind])
            values[starred:behind] = [None]
        pairs = zip(pattern.patterns, values)
        return all(isinstance(each, ast.MatchStar) or self._matches(each, value, frame, found) for each, value in pairs)

    def _matches_MatchMapping(self, pattern, x, frame, found):
        if type(x) is not dict:
            if self.calls.builtins[isinstance](x, collections.abc.Mapping):
                raise NotConvertible(f"a {type(x).__qualname__} is matched by a mapping")
            return False
        keys = [self._key(self.value(each, frame)) for each in pattern.keys]
        self.recording.touch(x)
        if not all(key in x for key in keys):
            return False
        if not all(self._matches(each, x[key], frame, found) for key, each in zip(keys, pattern.patterns)):
            return False
        if pattern.rest is not None:
            found[pattern.rest] = self.recording.make({key: value for key, value in x.items() if key not in keys})
        return True

    def _matches_MatchClass(self, pattern, x, frame, found):
        cls = self.value(pattern.cls, frame)
        if not isinstance(cls, type):
            raise TypeError("called match pattern must be a class")
        if not self.calls.builtins[isinstance](x, cls):
            return False
        places = pattern.patterns
        names = self._places_of(cls, len(places)) if places else ()
        if names is None:
            if not self._matches(places[0], x, frame, found):
                return False
            names = ()
        for name, each in [*zip(names, places), *zip(pattern.kwd_attrs, pattern.kwd_patterns)]:
            try:
                value = self.objects.attribute(x, name)
            except AttributeError:
                return False
            if not self._matches(each, value, frame, found):
                return False
        return True

    def _places_of(self, cls, count):
        """Names of the attributes that the places stand for; None: the one place is the object."""
        names = ()
        if self.recording.lookup(cls, "__match_args__") is not MISSING:
            names = self.objects.of_class(cls, "__match_args__")
        elif not set(_THEMSELVES).isdisjoint(order_of(cls)):
            if count > 1:
                raise TypeError(f"{cls.__name__}() accepts 1 positional sub-pattern ({count} given)")
            return None
        if len(names) < count:
            raise TypeError(f"{cls.__name__}() accepts {len(names)} positional sub-patterns ({count} given)")
        return names[:count]
