"""A worker's way to the servers of KVStore: requests are sent, and answers come as futures, by a thread that never waits for Python.

Keys belong to servers by hash. A second thread waits for the elements of what is pushed, in the order in which it was, so that a
tensor that takes long to compute holds up no sign of life. Requests are not sent twice: where a server is silent for `answer_within` seconds,
those that wait for it get a ConnectionError.
"""

import concurrent.futures
import hashlib
import itertools
import threading
import time
import uuid
import warnings

import zmq

from .. import _eager
from . import messages
from .inbox import Inbox
from .messages import WorkerLost


class Connection:
    """To servers at `addresses`, as the worker number `rank`.

    heartbeat: how often it says that it is alive, in seconds. join_within: how long it tries to take the place of a worker of the same rank.
    """

    def __init__(self, addresses, rank, token="", *, heartbeat=1.0, answer_within=30.0, join_within=60.0):
        self.addresses, self.rank, self.session = list(addresses), rank, uuid.uuid4().hex
        self._heartbeat, self._answer_within = heartbeat, answer_within
        self._numbers, self._waiting = itertools.count(1), {}  # by number: the server and the future
        self._inbox, self._packer = Inbox(), concurrent.futures.ThreadPoolExecutor(1, "tensmith-kvstore-pack")
        self._is_closed = self._is_known = False
        self._thread = threading.Thread(target=self._run, name="tensmith-kvstore", daemon=True)
        self._thread.start()
        try:
            told = [self._hello(server, token, join_within) for server in range(len(self.addresses))]
        except BaseException:
            self._stop()
            raise
        if any(each != told[0] for each in told):
            self._stop()
            raise ValueError(f"the servers were started for different numbers of workers or staleness: {told}")
        # Of all machines: how many workers there are, and which one this is.
        self.workers, self.staleness, self.number = told[0]
        self._is_known = True

    def _hello(self, server, token, join_within):
        since = time.monotonic()
        while True:
            head, _ = self.request(server, {"do": "hello", "token": token}).result()
            if "taken" not in head:
                return head["workers"], head["staleness"], head["number"]
            if time.monotonic() - since > join_within:
                raise ConnectionError(f"{self.addresses[server]} has a worker {self.rank} already, which it heard {head['taken']:.1f} s ago")
            time.sleep(0.3)

    def server_of(self, key):
        return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little") % len(self.addresses)

    def request(self, server, head, tensor=None):
        """A future of the answer's head and tensor. What the tensor is now is sent, whatever is written to it later."""
        future = concurrent.futures.Future()
        if self._is_closed:
            future.set_exception(ConnectionError("the store is closed"))
            return future
        number = next(self._numbers)
        self._waiting[number] = server, future
        snapshot = None if tensor is None else _eager.copy(tensor)
        self._packer.submit(self._pack, server, number, {**head, "id": number, "rank": self.rank, "session": self.session}, snapshot)
        return future

    def _pack(self, server, number, head, tensor):
        try:
            self._inbox.post((server, messages.packed(head, tensor)))
        except Exception as error:  # of the operation that computes the tensor
            if waiting := self._waiting.pop(number, None):
                waiting[1].set_exception(error)
            if head["do"] == "push":  # nothing is added then, and all stay in step
                self._inbox.post((server, messages.packed(head)))

    # ---- what a server with servers above it needs ----

    def begin(self, key, value, then):
        """`then(value or an exception, rounds)` with what the servers have for the key, whose first value this is."""

        def initialised(future):
            if error := future.exception():
                then(error, 0)
            else:
                self._pull(key, future.result()[0]["pushed"], then)

        self.request(self.server_of(key), {"do": "init", "key": key}, value).add_done_callback(initialised)

    def exchange(self, key, number, total, how, then):
        """Pushes, and calls `then(value or an exception, rounds)` with what comes of it, once."""
        push = self.request(self.server_of(key), {"do": "push", "key": key, "number": number, **how}, total)
        self._pull(key, number, lambda value, rounds: then(push.exception() or value if push.done() else value, rounds))

    def _pull(self, key, after, then):
        def pulled(future):
            if error := future.exception():
                then(error, 0)
            else:
                head, value = future.result()
                then(value, head["rounds"])

        self.request(self.server_of(key), {"do": "pull", "key": key, "after": after}).add_done_callback(pulled)

    # ---- the thread ----

    def _run(self):
        try:
            self._loop()
        except Exception as error:  # a message that is none of ours
            self._is_closed = True
            self._fail(None, ConnectionError(f"the connection to {', '.join(self.addresses)} failed: {error}"))

    def _loop(self):
        context = zmq.Context.instance()
        self._sockets = [context.socket(zmq.DEALER) for _ in self.addresses]
        poller = zmq.Poller()
        poller.register(self._inbox.socket, zmq.POLLIN)
        for socket, address in zip(self._sockets, self.addresses):
            socket.setsockopt(zmq.LINGER, 2000)
            socket.set_hwm(0)
            socket.connect(address)
            poller.register(socket, zmq.POLLIN)
        heard, said = [time.monotonic()] * len(self.addresses), 0.0
        while not self._is_closed or self._waiting:
            poller.poll(self._heartbeat * 500)
            for server, frames in self._inbox.taken():
                if server is None:
                    self._is_closed = True
                else:
                    self._sockets[server].send_multipart(frames)
            for server, socket in enumerate(self._sockets):
                while socket.poll(0):
                    self._receive(server, socket.recv_multipart())
                    heard[server] = time.monotonic()
            now = time.monotonic()
            if now - said > self._heartbeat and not self._is_closed:
                said = now
                for server in range(len(self.addresses)):
                    self._sockets[server].send_multipart(messages.packed({"do": "alive", "id": 0, "rank": self.rank, "session": self.session}))
            self._give_up(heard, now)
        for socket in self._sockets:
            socket.close()
        self._inbox.close()

    def _give_up(self, heard, now):
        for server, address in enumerate(self.addresses):
            if now - heard[server] > self._answer_within:
                self._fail(server, ConnectionError(f"the server {address} has not answered for {self._answer_within:.0f} s; begin again once it is there"))

    def _fail(self, server, error):
        """Of one server, or of all where it is None."""
        for number, (other, future) in list(self._waiting.items()):
            if server is None or other == server:
                self._waiting.pop(number)
                future.set_exception(error)

    def _receive(self, server, frames):
        head, tensor = messages.unpacked(frames)
        if "lost" in head:
            self._others_lost(head)
        elif waiting := self._waiting.pop(head.get("id"), None):
            if "error" in head:
                waiting[1].set_exception(ValueError(head["error"]))
            else:
                waiting[1].set_result((head, tensor))
        elif "error" in head and head.get("id") == 0 and self._is_known:
            self._fail(server, ConnectionError(f"the server {self.addresses[server]} does not know this worker any more; begin again with its checkpoint"))

    def _others_lost(self, head):
        if head["then"] == "raise":
            self._fail(None, WorkerLost(head["lost"], head["seconds"]))
        else:
            what = "rounds wait until it is back" if head["then"] == "wait" else "rounds go on without it"
            try:
                warnings.warn(f"worker {head['lost']} has not been heard of for {head['seconds']:.0f} s: {what}", RuntimeWarning, stacklevel=1)
            except RuntimeWarning as raised:  # where warnings are errors: of those who wait
                self._fail(None, raised)

    def _stop(self):
        self._packer.shutdown()
        self._inbox.post((None, None))
        if threading.current_thread() is not self._thread:
            self._thread.join(5)

    def stop(self):
        """Ends without goodbye: this worker is missed, and may come back."""
        if not self._is_closed:
            self._stop()

    def close(self):
        """Says goodbye: this worker takes no part any more."""
        if self._is_closed:
            return
        for future in [self.request(server, {"do": "goodbye"}) for server in range(len(self.addresses))]:
            try:
                future.result(self._answer_within)
            except (ValueError, ConnectionError, WorkerLost, concurrent.futures.TimeoutError):
                pass  # a server that is gone
        self._stop()
