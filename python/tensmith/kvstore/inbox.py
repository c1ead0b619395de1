"""What other threads give to a thread that waits for sockets: a queue, and a socket by which it is woken (sockets belong to one thread)."""

import collections
import itertools
import threading

import zmq

_names = itertools.count()


class Inbox:
    def __init__(self):
        name = f"inproc://tensmith-inbox-{next(_names)}"
        context = zmq.Context.instance()
        self.socket, self._bell = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
        self.socket.bind(name)
        self._bell.connect(name)
        self._items, self._lock = collections.deque(), threading.Lock()

    def post(self, item):
        """From any thread."""
        with self._lock:
            self._items.append(item)
            if not self._bell.closed and len(self._items) == 1:
                self._bell.send(b"")

    def taken(self):
        """All that is there, for the thread that waits."""
        with self._lock:
            items, self._items = self._items, collections.deque()
            while self.socket.poll(0):
                self.socket.recv()
        return items

    def close(self):
        with self._lock:
            self.socket.close(0)
            self._bell.close(0)
