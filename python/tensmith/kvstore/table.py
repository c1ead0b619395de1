"""Values by key, and what workers add to them: all that a server of KVStore decides, without its sockets.

A worker pushes a tensor for a key, its first, second, third one and so on. What comes of the pushes is one of two things:

- staleness 0: the n-th pushes of all workers are a *round*. Once all are there they are added in the order of the workers, and the sum is applied. So
  a value's bits depend on no order in which messages arrive.
- staleness s > 0, or None for any: a push is applied as it comes. A worker that has pushed n times is given a value once all others have
  pushed n - s times at least (Ho and others, "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", NIPS 2013).

Invariant: `row.rounds` is how often the value has changed, and `row.pushed[rank]` how many pushes of that worker are in it. The value of the round before
is kept as well: while a step is made some keys, of this server or another, are a round ahead of the others. So a worker that comes back begins with the last
step that was whole, and gets what it would have got. A push that is in already is passed over, so a step may be repeated. Source of the whole: Li and others, "Scaling Distributed Machine Learning
with the Parameter Server", OSDI 2014; Chen and others, "MXNet", 2015, whose KVStore this is.
"""

from .. import _eager, optim
from .. import numpy as tnp


class Row:
    """What is known of a key."""

    def __init__(self, key, value, group=None):
        self.key, self.value, self.rounds = key, value, 0
        self.group = group  # keys that one step changes have one; None: a key by itself
        self.previous = None  # of the round before
        self.pushed = {}  # by rank: how many pushes are in the value
        self.pending = {}  # by round, by rank: (tensor or None, how to apply it)
        self.waiting = []  # (rank, pushes of it, what to do with the value)
        self.optimiser = None
        self.untold = {}  # by rank: why its push could not be applied
        self.is_applying = False


def optimiser_of(name, settings, value):
    """An optimiser of one parameter. A name or a setting that there is none of is a ValueError."""
    if name not in optim.__all__ or not isinstance(getattr(optim, name), type):
        raise ValueError(f"there is no optimiser '{name}'; there are {', '.join(x for x in optim.__all__ if isinstance(getattr(optim, x), type))}")
    parameter = _eager.copy(value)
    parameter.requires_grad = True
    try:
        return getattr(optim, name)([parameter], **settings)
    except TypeError as error:
        raise ValueError(f"{name} does not take these settings: {error}") from None


def apply_here(row, total, how, done):
    """Applies the sum of a round, or one push, to the value: by the optimiser that came with it, or else it is the value."""
    if total is None:
        return done(row.value)
    if (scale := how.get("scale")) is not None:
        total = total * scale
    if not how.get("optimiser"):
        return done(_eager.cast(total, row.value.dtype))
    name, settings = how["optimiser"][0], {key: tuple(x) if isinstance(x, list) else x for key, x in how["optimiser"][1].items()}
    if row.optimiser is None or row.optimiser[0] != name:
        row.optimiser = name, optimiser_of(name, settings, row.value)
    optimiser = row.optimiser[1]
    group = optimiser.param_groups[0]
    group.update({key: value for key, value in settings.items() if key in group and key != "params"})
    parameter = group["params"][0]
    parameter[...] = row.value  # which something else may have changed
    parameter.grad = _eager.cast(total, parameter.dtype)
    optimiser.step()
    parameter.grad = None
    done(_eager.copy(parameter))


class Table:
    """The rows of all keys.

    workers: how many take part; staleness: see above. `apply(row, total, how, done)` makes of a round's sum the next value, and
    calls `done` with it or with an exception, now or later.
    """

    def __init__(self, workers, staleness=0, apply=apply_here):
        self.workers, self.staleness, self.apply = workers, staleness, apply
        self.members = set(range(workers))  # whose pushes a round needs
        self.rows = {}
        self.expecting = {}  # by key: those who wait for the first worker's value

    # ---- what workers ask for ----

    def init(self, key, rank, value, done, group=None, rounds=0):
        """The first worker's value is the key's. `done(rounds or an exception, pushed)` once it is there: how far the value is, and how many pushes
        of the worker are in it. rounds: how far it is where it comes from elsewhere."""
        if key not in self.rows and rank != min(self.members, default=rank):
            self.expecting.setdefault(key, []).append((rank, value, done, group))
            return
        if key not in self.rows:
            row = self.rows[key] = Row(key, _eager.copy(value))
            row.rounds, row.pushed = rounds, dict.fromkeys(range(self.workers), rounds) if rounds else {}
        self.rows[key].group = group
        for other, given, answer, _ in [(rank, value, done, group), *self.expecting.pop(key, [])]:
            self._begun(key, other, given.shape, answer)

    def refuse(self, key, error):
        """There will be no value of the key: all who wait for it are told."""
        for _, _, done, _ in self.expecting.pop(key, []):
            done(error, 0)

    def _begun(self, key, rank, shape, done):
        row = self.rows[key]
        if shape != row.value.shape:
            done(ValueError(f"'{key}' has the shape {row.value.shape}, and worker {rank} gives {shape}"), 0)
            return
        row.pushed.setdefault(rank, 0 if self.staleness != 0 else row.rounds)
        done(row.rounds, row.pushed[rank])

    def push(self, key, rank, number, value, how):
        """The worker's push of that number, from 1 on; None: it has nothing to add. One that is refused counts as nothing, so that all stay in step."""
        row = self._row(key)
        if number <= row.pushed.get(rank, 0):
            return  # a step that is repeated
        if self.staleness != 0 and number != row.pushed.get(rank, 0) + 1:
            raise ValueError(f"push {number} of worker {rank} to '{key}' comes after its push {row.pushed.get(rank, 0)}")
        is_fitting = value is None or value.shape == row.value.shape
        if self.staleness == 0:
            row.pending.setdefault(number, {})[rank] = value if is_fitting else None, how
            self._advance(row)
        else:
            self._apply(row, value if is_fitting else None, how, {rank: number})
        if not is_fitting:
            raise ValueError(f"'{key}' has the shape {row.value.shape}, and worker {rank} pushes {value.shape}")

    def pull(self, key, rank, after, done, at=None):
        """`done(value or an exception, rounds)` once as many pushes of the worker, and of the others as the staleness asks for, are in the value.

        at: the value of that round, where it is the last or the one before.
        """
        row = self._row(key)
        if at is not None and at != row.rounds:
            if at != row.rounds - 1 or row.previous is None:
                raise ValueError(f"'{key}' has had {row.rounds} rounds, and its value after {at} is gone; checkpoints of several servers have to be of one step")
            done(row.previous, at)
            return
        row.waiting.append((rank, after, done))
        self._answer(row)

    # ---- who takes part ----

    def leave(self, rank):
        """Rounds go on without the worker."""
        self.members.discard(rank)
        for key, waiting in list(self.expecting.items()):
            for first in [each for each in waiting if each[0] == min(self.members, default=None)]:
                waiting.remove(first)
                other, value, done, group = first
                self.init(key, other, value, done, group)
        for row in self.rows.values():
            self._advance(row)
            self._answer(row)

    def join(self, rank):
        """The worker's pushes are needed again, from the next round on."""
        self.members.add(rank)
        for row in self.rows.values():
            row.pushed[rank] = max(row.pushed.get(rank, 0), row.rounds if self.staleness == 0 else 0)

    def forget_waiting(self, rank):
        """What a worker asked for that is gone."""
        for row in self.rows.values():
            row.waiting = [each for each in row.waiting if each[0] != rank]
        for key in self.expecting:
            self.expecting[key] = [each for each in self.expecting[key] if each[0] != rank]

    # ---- rounds ----

    def _row(self, key):
        if key not in self.rows:
            raise ValueError(f"there is no key '{key}'; init it first")
        return self.rows[key]

    def _advance(self, row):
        """Applies the rounds for which all have pushed."""
        while not row.is_applying:
            number = row.rounds + 1
            given = row.pending.get(number, {})
            if not self.members or not self.members <= given.keys():
                return
            total, how = None, {}
            for rank in sorted(given):
                value, told = given[rank]
                if value is not None:
                    total, how = (value, told) if total is None else (total + value, how)
            row.pending.pop(number)
            self._apply(row, total, how, dict.fromkeys(given, number))

    def _apply(self, row, total, how, pushed):
        """Makes of a sum the next value, in which there are so many pushes of these workers then. Where that fails the value stays, and
        they are told with their next pull."""
        results = []

        def done(result):
            results.append(result)
            if not is_within and len(results) == 1:  # it comes later
                self._applied(row, result, pushed)
                self._advance(row)

        row.is_applying = is_within = True
        try:
            self.apply(row, total, how, done)
        except Exception as error:  # of settings that the optimiser refuses, or of its sizes
            results.append(error)
        is_within = False
        if results:
            self._applied(row, results[0], pushed)

    def _applied(self, row, result, pushed):
        row.is_applying = False
        is_error = isinstance(result, Exception)
        row.previous, row.value, row.rounds = row.value, row.value if is_error else result, row.rounds + 1
        for rank, number in pushed.items():
            row.pushed[rank] = max(row.pushed.get(rank, 0), number)
        if is_error:
            row.untold |= dict.fromkeys(pushed, result)
        self._answer(row)

    def _answer(self, row):
        waiting, row.waiting = row.waiting, []
        for rank, after, done in waiting:
            if self._may_have(row, rank, after):
                done(row.untold.pop(rank, None) or row.value, row.rounds)
            else:
                row.waiting.append((rank, after, done))

    def _may_have(self, row, rank, after):
        if self.staleness == 0:
            return row.rounds >= after
        slowest = min((row.pushed.get(other, 0) for other in self.members), default=after)
        return row.pushed.get(rank, 0) >= after and (self.staleness is None or slowest >= after - self.staleness)

    # ---- a file of all ----

    def is_level(self):
        """Whether all keys of each group are equally far: between two steps."""
        rounds = {}
        return all(row.group is None or rounds.setdefault(row.group, row.rounds) == row.rounds for row in self.rows.values())

    def state(self):
        """Tensors by name: values, how far they are, and the optimisers' states."""
        tensors = {}
        for key, row in self.rows.items():
            tensors[f"value/{key}"] = row.value
            pushed = [row.pushed.get(rank, 0) for rank in range(self.workers)]
            tensors[f"rounds/{key}"] = tnp.asarray([row.rounds, *pushed], dtype=tnp.int64)
            if row.optimiser:
                name, optimiser = row.optimiser
                for each in optimiser.state.values():
                    tensors[f"optimiser/{key}/{name}"] = tnp.asarray([each["step"], len(each["states"])], dtype=tnp.int64)
                    tensors |= {f"state/{key}/{place}": x for place, x in enumerate(each["states"])}
        return tensors

    def restore(self, tensors):
        """Begins with what `state` gave. What is none is a ValueError."""
        for name, value in tensors.items():
            if name.startswith("value/"):
                key = name.removeprefix("value/")
                row = self.rows[key] = Row(key, value)
                rounds, *pushed = self._numbers(tensors, f"rounds/{key}", 1 + self.workers)
                row.rounds, row.pushed = rounds, dict(enumerate(pushed)) if self.staleness != 0 else dict.fromkeys(range(self.workers), rounds)
        for name in tensors:
            if name.startswith("optimiser/"):
                key, optimiser = name.removeprefix("optimiser/").rsplit("/", 1)
                self._restore_optimiser(self._row(key), optimiser, *self._numbers(tensors, name, 2), tensors)

    def _restore_optimiser(self, row, name, step, count, tensors):
        optimiser = optimiser_of(name, {}, row.value)
        states = [tensors.get(f"state/{row.key}/{place}") for place in range(min(count, 16))]
        if any(state is None or state.shape != row.value.shape for state in states):
            raise ValueError(f"the states of '{row.key}' are missing, or have other shapes than it")
        optimiser.state = {0: {"step": step, "states": [_eager.copy(state) for state in states]}}
        row.optimiser = name, optimiser

    def _numbers(self, tensors, name, count):
        """So many whole numbers that are not negative."""
        values = tensors[name].numpy() if name in tensors else None
        if values is None or values.shape != (count,) or values.dtype.kind != "i" or (values < 0).any():
            raise ValueError(f"'{name}' should be {count} numbers that are not negative" if values is not None else f"there is no '{name}'")
        return map(int, values)
