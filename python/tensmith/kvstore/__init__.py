"""KVStore: parameters that several processes train together, on servers of their own (docs/kvstore.md).

    import tensmith as ts

    store = ts.KVStore("sync")                                # who and where: from the environment, which the launcher sets
    trainer = store.attach(ts.optim.Adam(model.parameters(), lr=1e-3))
    for step in range(trainer.steps, 100):
        trainer.zero_grad()
        with ts.record():
            loss = loss_of(model, batch_of(step, store.rank, store.workers))
        loss.backward()
        trainer.step()                                        # pushes the gradients, pulls the parameters
    store.close()

    python -m tensmith.kvstore --workers 4 train.py           # starts a server and four of these

Needs PyPI's `pyzmq`. Sources: see table.py.
"""

import os

from .. import _eager
from .. import numpy as tnp
from .messages import WorkerLost, in_json
from .table import Table, apply_here

try:
    import zmq  # noqa: F401
except ImportError:  # a local store needs none
    Connection = Server = None
else:
    from .connection import Connection
    from .server import Server

__all__ = ["Attached", "KVStore", "Server", "WorkerLost"]


class Handle:
    """A value that is on its way. `result()` waits for it."""

    def __init__(self, take):
        self._take = take

    def result(self, timeout=None):
        return self._take(timeout)


class KVStore:
    """Tensors by key.

    kind: "local": in this process. "sync": on servers, where the pushes of all workers are added up, round by round. "stale": on servers,
        where each push is applied as it comes, and a worker is ahead of the slowest by as many steps as the servers allow.
    servers, rank, token: addresses, this worker's number, what the servers ask for; from TENSMITH_KVSTORE_SERVERS (separated by commas),
        TENSMITH_KVSTORE_RANK and TENSMITH_KVSTORE_TOKEN where they are not given.
    settings: `heartbeat`, `answer_within`, `join_within`, in seconds (connection.py).

    What a server refuses is a ValueError, a server that is gone a ConnectionError, and a worker that is gone, where the servers are told to
    raise, a WorkerLost.
    """

    def __init__(self, kind="local", servers=None, rank=None, token=None, **settings):
        if kind not in ("local", "sync", "stale"):
            raise ValueError(f"a store is local, sync or stale, and not {kind!r}")
        self.kind, self._counts, self._pushes, self._prefixes = kind, {}, [], set()
        self._optimiser = self._updater = None
        if kind == "local":
            self._table, self._connection = Table(1, 0, self._apply), None
            self.rank, self.workers, self.staleness = 0, 1, 0
            return
        if Connection is None:
            raise ImportError("a store on servers needs ZeroMQ: pip install pyzmq")
        if servers is None:
            servers = [each for each in os.environ.get("TENSMITH_KVSTORE_SERVERS", "").split(",") if each]
        if not servers:
            raise ValueError("no servers are given: run the program by `python -m tensmith.kvstore`, or set TENSMITH_KVSTORE_SERVERS")
        rank = int(os.environ.get("TENSMITH_KVSTORE_RANK", "0")) if rank is None else rank
        token = os.environ.get("TENSMITH_KVSTORE_TOKEN", "") if token is None else token
        self._connection = Connection([servers] if isinstance(servers, str) else servers, rank, token, **settings)
        self.rank, self.workers, self.staleness = self._connection.number, self._connection.workers, self._connection.staleness
        if (self.staleness == 0) != (kind == "sync"):
            staleness, self.staleness = self.staleness, None
            self.close()
            raise ValueError(f"a {kind} store is asked for, and the servers have staleness {staleness}")

    def __enter__(self):
        return self

    def __exit__(self, kind, *failure):
        """A failure is no goodbye: the others see that this worker is missing."""
        if kind is None:
            self.close()
        elif self._connection:
            self._connection.stop()

    # ---- what becomes of pushes ----

    def set_optimiser(self, optimiser, **settings):
        """Pushes are gradients for an optimiser of `ts.optim`, as "Adam", whose states are where the values are. Settings may change between steps."""
        self._optimiser = [optimiser if isinstance(optimiser, str) else optimiser.__name__, settings]

    def set_updater(self, updater):
        """`updater(key, pushed, value)` gives the next value. A local store's alone: servers have theirs from where they are started."""
        if self._connection:
            raise ValueError("a function can't be sent to servers: name an optimiser, or start a Server with updater=...")
        self._updater = updater

    def _apply(self, row, total, how, done):
        if self._updater and total is not None:
            done(_eager.copy(tnp.asarray(self._updater(row.key, total, row.value))))
        else:
            apply_here(row, total, how, done)

    # ---- values ----

    def init(self, key, value):
        """The first value of a key, or of several: lists. That of the first worker counts; all wait for it. Of a key that is there already nothing changes.

        Gives how many rounds it has had.
        """
        if isinstance(key, (list, tuple)):
            return [take() for take in [self._init(*each) for each in zip(key, value, strict=True)]]
        return self._init(key, value)()

    def _init(self, key, value, group=None):
        value = tnp.asarray(value)
        if not self._connection:
            told = []
            self._table.init(key, 0, value, lambda *answer: told.append(answer))
            return lambda: self._initialised(key, *told[0])
        future = self._connection.request(self._connection.server_of(key), {"do": "init", "key": key, "group": group}, value)
        return lambda: self._initialised(key, *(future.result()[0][name] for name in ("rounds", "pushed")))

    def _initialised(self, key, rounds, pushed):
        if isinstance(rounds, Exception):
            raise rounds
        self._counts[key] = pushed
        return rounds

    def push(self, key, value):
        """Adds to a key, or to several: lists. A value may be a list of tensors, of several devices or batches, which are added first. None: nothing to add.

        Returns at once; what fails comes out of the next pull.
        """
        if isinstance(key, (list, tuple)):
            for each in zip(key, value, strict=True):
                self.push(*each)
            return
        if isinstance(value, (list, tuple)) and value and hasattr(value[0], "__dlpack__"):
            value = _sum(value)
        self._push(key, None if value is None else tnp.asarray(value), {"optimiser": self._optimiser} if self._optimiser else {})

    def _push(self, key, value, how):
        in_json(how)  # what can't be sent is refused here
        self._counts[key] = self._counts.get(key, 0) + 1
        if not self._connection:
            self._table.push(key, 0, self._counts[key], value, how)
            return
        head = {"do": "push", "key": key, "number": self._counts[key], **how}
        self._pushes = [each for each in self._pushes if not each.done() or each.exception()]
        self._pushes.append(self._connection.request(self._connection.server_of(key), head, value))

    def _raise_failed_pushes(self):
        done, self._pushes = [each for each in self._pushes if each.done()], [each for each in self._pushes if not each.done()]
        for each in done:
            each.result()

    def pull(self, key, out=None, wait=True, at=None):
        """The value of a key, or a list of those of several, with all that this worker has pushed in it. out: tensors to write it into.

        wait: False gives a Handle, or a list of them, at once: several values are then on their way at the same time.
        """
        if isinstance(key, (list, tuple)):
            outs = [None] * len(key) if out is None else out
            handles = [self.pull(*each, wait=False, at=at) for each in zip(key, outs, strict=True)]
            return [handle.result() for handle in handles] if wait else handles
        take = self._pull(key, at)

        def taken(timeout):
            value, rounds = take(timeout)
            self._raise_failed_pushes()
            if self.staleness == 0:
                self._counts[key] = max(self._counts.get(key, 0), rounds)
            for each in [] if out is None else out if isinstance(out, (list, tuple)) else [out]:
                each[...] = value
            return value if out is None else out

        return taken(None) if wait else Handle(taken)

    def _pull(self, key, at):
        if not self._connection:
            told = []
            self._table.pull(key, 0, self._counts.get(key, 0), lambda *answer: told.append(answer), at)
            if told and isinstance(told[0][0], Exception):
                raise told[0][0]
            return lambda timeout: (_eager.copy(told[0][0]), told[0][1])
        head = {"do": "pull", "key": key, "after": self._counts.get(key, 0) if at is None else at, "at": at}
        future = self._connection.request(self._connection.server_of(key), head)

        def take(timeout):
            answer, value = future.result(timeout)
            return value, answer["rounds"]

        return take

    def exchange(self, key, value, out=None):
        """Pushes, and pulls what comes of it. Lists of keys are on their way together."""
        self.push(key, value)
        return self.pull(key, out)

    # ---- all workers ----

    def barrier(self):
        """Waits until all workers are here."""
        self._ask_all("barrier")

    def save(self):
        """The servers write their checkpoints, between two steps."""
        self._ask_all("save")

    def status(self):
        """Of each server a dict: its `workers` (there, lost or left), `keys`, and `rounds` that all keys have had."""
        return self._ask_all("status")

    def _ask_all(self, what):
        if not self._connection:
            return []
        futures = [self._connection.request(server, {"do": what}) for server in range(len(self._connection.addresses))]
        return [{key: value for key, value in future.result()[0].items() if key != "id"} for future in futures]

    def close(self):
        """This worker takes no part any more; rounds go on without it."""
        if self._connection:
            self._connection.close()

    def attach(self, optimiser, prefix="parameter"):
        """The optimiser, whose parameters and states are the store's from now on: see Attached. Several optimisers have a prefix each."""
        if prefix in self._prefixes:
            raise ValueError(f"an optimiser is attached as '{prefix}' already; give this one a prefix of its own")
        self._prefixes.add(prefix)
        return Attached(self, optimiser, prefix)


def _sum(values):
    total = tnp.asarray(values[0])
    for each in values[1:]:
        total = total + tnp.asarray(each)
    return total


class Attached:
    """An optimiser whose step pushes gradients and pulls parameters.

    Gradients are added over the workers and divided by their number: with mean losses of equally large batches a step is that of one process with all
    batches joined. `steps`: how many steps the parameters have had, from which a worker that comes back goes on. Settings in `param_groups` may change.
    """

    def __init__(self, store, optimiser, prefix):
        self.store, self.param_groups = store, optimiser.param_groups
        self._name = type(optimiser).__name__
        self.keys = [f"{prefix}.{number}" for number in range(sum(len(group["params"]) for group in self.param_groups))]
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        rounds = [take() for take in [store._init(key, parameter, prefix) for key, parameter in zip(self.keys, parameters)]]
        self.steps = min(store._counts[key] for key in self.keys)
        store._counts.update(dict.fromkeys(self.keys, self.steps))
        store.pull(self.keys, parameters, at=min(rounds) if store.staleness == 0 else None)

    def zero_grad(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def step(self):
        """A parameter without a gradient, on all workers, stays as it is."""
        keys, store, parameters = iter(self.keys), self.store, []
        for group in self.param_groups:
            settings = {key: value for key, value in group.items() if key != "params"}
            for parameter in group["params"]:
                store._push(next(keys), parameter.grad, {"optimiser": [self._name, settings], "scale": 1 / store.workers})
                parameters.append(parameter)
        store.pull(self.keys, parameters)
        self.steps += 1
