"""A server of KVStore: the sockets of a table, and who is still there.

One thread does all: it receives, lets the table decide, and sends. What a worker asks for is answered at once or when the table has it; a message that
is wrong is answered by an error, and ends nothing. Workers say that they are alive each second. Of one that is silent for `lost_after` seconds the
others are told, and then, by `on_loss`:

- "wait": rounds wait until it is back. All that it had pushed in whole rounds is in the values, so it goes on where it stopped.
- "continue": rounds go on without it, until it is back.
- "raise": whoever waits gets WorkerLost.

Several servers share the keys among themselves, by hash (connection.py). A server with `upstream` sums what the workers of one machine push, and is
itself one worker of the servers above: so a machine sends each gradient once.
"""

import logging
import os
import pathlib
import time

import zmq

from .. import _eager
from .. import numpy as tnp
from . import messages
from .inbox import Inbox
from .table import Table

log = logging.getLogger("tensmith.kvstore")
LARGEST_MESSAGE = 4 << 30  # bytes


class _Worker:
    def __init__(self, identity, session, now):
        self.identity, self.session, self.heard = identity, session, now
        self.is_lost, self.told = False, 0.0  # told: when the others were, the last time


class Server:
    """Values of keys for a number of workers, at an address as "tcp://127.0.0.1:7040"; port 0 or "*" is any free one, and `address` tells which.

    workers: how many take part. staleness: 0 for rounds; s for how many steps a worker may be ahead of the slowest; None for any number.
    checkpoint: a file of safetensors that is written every `every` rounds, and begun with where it exists.
    token: what workers must show. An address of other than this machine needs one.
    updater: `updater(key, pushed, value)` gives the next value, instead of optimisers. upstream: a Connection to servers above.
    part: this server's number and how many there are, which a checkpoint belongs to.
    """

    def __init__(self, address="tcp://127.0.0.1:*", workers=1, staleness=0, *, lost_after=5.0, on_loss="wait", checkpoint=None, every=100, token="",
                 updater=None, upstream=None, part=(0, 1)):  # fmt: skip
        if on_loss not in ("wait", "continue", "raise"):
            raise ValueError(f"on_loss is wait, continue or raise, and not {on_loss!r}")
        if workers < 1:
            raise ValueError("at least one worker takes part")
        if not token and not address.startswith(("tcp://127.0.0.1:", "tcp://localhost:", "ipc://", "inproc://")):
            raise ValueError(f"{address} may be reached from other machines: give a token that workers must show")
        if staleness is not None and staleness < 0 or every < 1:
            raise ValueError("a worker may be 0 steps ahead or more, and checkpoints are written every round or more seldom")
        if upstream and (staleness != 0 or upstream.staleness != 0):
            raise ValueError("a server with servers above it adds rounds: the staleness of both is 0")
        if checkpoint and not pathlib.Path(checkpoint).absolute().parent.is_dir():
            raise ValueError(f"{checkpoint}: there is no such folder")
        self.workers, self.lost_after, self.on_loss, self.token = workers, lost_after, on_loss, token
        self.checkpoint, self.every, self._saved, self._part = checkpoint and pathlib.Path(checkpoint), every, 0, list(part)
        self.upstream, self._inbox, self._asked_to_save = upstream, Inbox(), []
        self.table = Table(workers, staleness, *self._apply(updater))
        self.known, self.left, self._barrier = {}, set(), []
        self._socket = zmq.Context.instance().socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        self._socket.setsockopt(zmq.MAXMSGSIZE, LARGEST_MESSAGE)
        self._socket.setsockopt(zmq.LINGER, 1000)
        self._socket.set_hwm(0)  # no answer is dropped, however many keys a step has
        self._socket.bind(address)
        self._poller = zmq.Poller()
        for socket in (self._socket, self._inbox.socket):
            self._poller.register(socket, zmq.POLLIN)
        self.address = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        if self.checkpoint and self.checkpoint.exists():
            self._restore(dict(_eager.read_safetensors(os.fspath(self.checkpoint))))

    def _apply(self, updater):
        """How the table gets the next value, where that is not by optimisers."""
        if updater:
            return [lambda row, total, how, done: done(row.value if total is None else updater(row.key, total, row.value))]
        return [self._apply_above] if self.upstream else []

    def _apply_above(self, row, total, how, done):
        """Pushes the sum of this machine to the servers above, and has their value for ours."""
        def then(value, rounds):
            self._inbox.post(lambda: done(value))

        self.upstream.exchange(row.key, row.rounds + 1, total, how, then)

    def _restore(self, tensors):
        part = tensors.pop("server", None)
        if part is None or part.tolist() != self._part:
            found = "none of a KVStore" if part is None else f"that of server {part.tolist()[0]} of {part.tolist()[-1]}"
            raise ValueError(f"{self.checkpoint}: is {found}, and this is server {self._part[0]} of {self._part[1]}")
        try:
            self.table.restore(tensors)
        except ValueError as error:
            raise ValueError(f"{self.checkpoint}: {error}") from None
        self._saved = max((row.rounds for row in self.table.rows.values()), default=0)

    # ---- the loop ----

    def run(self):
        """Until all workers have said goodbye."""
        while len(self.left) < self.workers:
            self.step(250)
        self.close()

    def step(self, milliseconds):
        """Does what has come in, and looks who is silent."""
        self._poller.poll(milliseconds)
        for _ in range(1000):
            if not self._socket.poll(0):
                break
            identity, *frames = self._socket.recv_multipart()
            self._handle(identity, frames)
        for then in self._inbox.taken():
            then()
        self._look_who_is_silent()
        self._save_now_and_then()

    def close(self):
        if self.checkpoint and self.table.rows and self.table.is_level():
            self._save_or_say_why_not()
        self._socket.close()
        self._inbox.close()

    def _send(self, identity, head, tensor=None):
        self._socket.send_multipart([identity, *messages.packed(head, tensor)])

    def _handle(self, identity, frames):
        number = None
        try:
            head, tensor = messages.unpacked(frames)
            number = messages.number(head, "id")
            what = messages.text(head, "do")
            if what not in self._DOES:
                raise ValueError(f"there is nothing called {what[:40]!r} to do")
            self._DOES[what](self, identity, head, tensor, lambda answer=None, tensor=None: self._send(identity, {"id": number, **(answer or {})}, tensor))
        except (ValueError, MemoryError, RuntimeError, TypeError) as error:
            self._send(identity, {"id": number, "error": str(error) or type(error).__name__})

    # ---- what workers ask for ----

    def _hello(self, identity, head, tensor, reply):
        if self.token and head.get("token") != self.token:
            raise ValueError("the token is wrong")
        rank, session, now = messages.number(head, "rank", 0, self.workers - 1), messages.text(head, "session", 64), time.monotonic()
        known = self.known.get(rank)
        if known and known.session != session and rank not in self.left and not known.is_lost:
            reply({"taken": now - known.heard})
            return
        if known and known.session != session:
            log.warning("worker %d is back", rank)
            self.table.forget_waiting(rank)
            self._barrier = [each for each in self._barrier if each[0] != rank]
        self.known[rank] = _Worker(identity, session, now)
        self.left.discard(rank)
        if rank not in self.table.members:
            self.table.join(rank)
        # Of several machines, workers are numbered one after the other.
        above, machines = (self.upstream.number, self.upstream.workers) if self.upstream else (0, 1)
        reply({"workers": machines * self.workers, "number": above * self.workers + rank, "staleness": self.table.staleness})

    def _worker(self, identity, head):
        """The rank of one that has said hello."""
        rank = messages.number(head, "rank", 0, self.workers - 1)
        known = self.known.get(rank)
        if not known or known.session != head.get("session"):
            raise ValueError(f"this is not worker {rank}: say hello first")
        known.identity, known.heard = identity, time.monotonic()
        if known.is_lost:
            known.is_lost = False
            log.warning("worker %d is heard again", rank)
            if rank not in self.table.members:
                self.table.join(rank)
        return rank

    def _alive(self, identity, head, tensor, reply):
        self._worker(identity, head)
        reply()

    def _init(self, identity, head, tensor, reply):
        rank, key = self._worker(identity, head), messages.text(head, "key")
        group = None if head.get("group") is None else messages.text(head, "group")
        if tensor is None:
            raise ValueError("a value is missing")

        def done(rounds, pushed):
            reply({"error": str(rounds)} if isinstance(rounds, Exception) else {"rounds": rounds, "pushed": pushed})

        if self.upstream and key not in self.table.rows and rank == min(self.table.members):
            self.upstream.begin(key, tensor, lambda value, rounds: self._inbox.post(lambda: self._begin(key, rank, value, rounds, done, group)))
        else:
            self.table.init(key, rank, tensor, done, group)

    def _begin(self, key, rank, value, rounds, done, group):
        """A key of a server with others above it: their value, and as many rounds."""
        if isinstance(value, Exception):
            done(value, 0)
            self.table.refuse(key, value)
        else:
            self.table.init(key, rank, value, done, group, rounds)

    def _push(self, identity, head, tensor, reply):
        rank = self._worker(identity, head)
        how = {}
        if (scale := head.get("scale")) is not None:
            if not isinstance(scale, (int, float)):
                raise ValueError("the scale should be a number")
            how["scale"] = scale
        if (optimiser := head.get("optimiser")) is not None:
            if not (isinstance(optimiser, list) and len(optimiser) == 2 and isinstance(optimiser[0], str) and isinstance(optimiser[1], dict)):
                raise ValueError("an optimiser is a name and its settings")
            how["optimiser"] = optimiser
        self.table.push(messages.text(head, "key"), rank, messages.number(head, "number", 1), tensor, how)
        reply()

    def _pull(self, identity, head, tensor, reply):
        rank, at = self._worker(identity, head), None
        if head.get("at") is not None:
            at = messages.number(head, "at")

        def done(value, rounds):
            if isinstance(value, Exception):
                reply({"error": str(value)})
            else:
                reply({"rounds": rounds}, value)

        self.table.pull(messages.text(head, "key"), rank, messages.number(head, "after"), done, at)

    def _wait_for_all(self, identity, head, tensor, reply):
        rank = self._worker(identity, head)
        self._barrier = [each for each in self._barrier if each[0] != rank] + [(rank, reply)]
        self._open_barrier()

    def _open_barrier(self):
        if self.table.members <= {rank for rank, _ in self._barrier}:
            waiting, self._barrier = self._barrier, []
            for _, reply in waiting:
                reply()

    def _save(self, identity, head, tensor, reply):
        self._worker(identity, head)
        if not self.checkpoint:
            raise ValueError("this server was started without a checkpoint's file")
        self._asked_to_save.append(reply)

    def _status(self, identity, head, tensor, reply):
        self._worker(identity, head)
        reply({"workers": {str(rank): "left" if rank in self.left else "lost" if known.is_lost else "there" for rank, known in self.known.items()},
               "keys": len(self.table.rows), "rounds": min((row.rounds for row in self.table.rows.values()), default=0)})  # fmt: skip

    def _goodbye(self, identity, head, tensor, reply):
        rank = self._worker(identity, head)
        self.left.add(rank)
        reply()
        self.table.leave(rank)
        self._open_barrier()

    _DOES = {"hello": _hello, "alive": _alive, "init": _init, "push": _push, "pull": _pull, "barrier": _wait_for_all, "save": _save, "status": _status,
             "goodbye": _goodbye}  # fmt: skip

    # ---- those who are silent, and the file ----

    def _look_who_is_silent(self):
        """The others are told once; where they are to raise it, each second, so that nobody waits in vain."""
        now = time.monotonic()
        for rank, known in self.known.items():
            if rank in self.left or now - known.heard < self.lost_after:
                continue
            if not known.is_lost:
                then = {"wait": "rounds wait until it is back", "continue": "rounds go on without it", "raise": "who waits is told"}[self.on_loss]
                log.warning("worker %d has not been heard of for %.0f s: %s", rank, now - known.heard, then)
            elif self.on_loss != "raise" or now - known.told < 1:
                continue
            is_new, known.is_lost, known.told = not known.is_lost, True, now
            for other, each in self.known.items():
                if other != rank and other not in self.left and not each.is_lost:
                    self._send(each.identity, {"lost": rank, "seconds": now - known.heard, "then": self.on_loss})
            if is_new and self.on_loss == "continue":
                self.table.leave(rank)
                self._open_barrier()

    def _save_now_and_then(self):
        """Between two steps, where there are steps: a file holds all keys of a step equally far."""
        if not self.checkpoint or self.table.staleness == 0 and not self.table.is_level():
            return
        rounds = max((row.rounds for row in self.table.rows.values()), default=0)
        if self._asked_to_save or rounds >= self._saved + self.every:
            failure = self._save_or_say_why_not()
            self._saved = rounds
            asked, self._asked_to_save = self._asked_to_save, []
            for reply in asked:
                reply(failure)

    def _save_or_say_why_not(self):
        """A checkpoint that can't be written ends no training."""
        try:
            self.save()
        except (OSError, RuntimeError, ValueError) as error:
            log.warning("no checkpoint was written: %s", error)
            return {"error": str(error)}
        return None

    def save(self):
        """The checkpoint, whole or not at all."""
        part = tnp.asarray(self._part, dtype=tnp.int64)
        _eager.write_safetensors(os.fspath(self.checkpoint), [("server", part), *self.table.state().items()])
