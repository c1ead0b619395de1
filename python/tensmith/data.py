"""Record files, and batches that are made ahead of their use.

    from tensmith import data

    with data.RecordWriter("train.rec") as file:
        for picture, label in samples:
            file.write(data.packed(label, picture.tobytes()))

    def decode(record):
        label, payload = data.unpacked(record)
        return numpy.frombuffer(payload, dtype=numpy.uint8).reshape(28, 28), label

    for pictures, labels in data.Batches(data.RecordFile("train.rec"), 128, decode, shuffle=7, rank=store.rank, workers=store.workers):
        ...

The format is MXNet's RecordIO, which its tools write and read: a word that marks a beginning, a word of three bits (which part of a record it is) and 29
bits of length, the bytes, and zeros up to a whole word. A record in which the mark stands at a whole word is cut there into parts. An index beside
the file, `train.idx` of `train.rec`, has a line with a number and a place for each record; without one, or with one of another file, the file is walked
through once.
"""

import collections
import concurrent.futures
import mmap
import os
import pathlib
import struct
import threading

__all__ = ["Batches", "Prefetch", "RecordFile", "RecordWriter", "packed", "unpacked"]

_MARK = 0xCED7230A
_MARK_BYTES = struct.pack("<I", _MARK)
_LENGTH = (1 << 29) - 1  # of a part
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)
_HEAD = struct.Struct("<IfQQ")  # how many labels stand behind it, a label, two numbers


def packed(label, payload, number=0):
    """A record of a label, a number or several, and bytes."""
    payload = _as_bytes(payload)
    if not hasattr(label, "__len__") or getattr(label, "shape", None) == ():
        return _HEAD.pack(0, float(label), number, 0) + payload
    labels = [float(each) for each in label]
    return _HEAD.pack(len(labels), 0.0, number, 0) + struct.pack(f"<{len(labels)}f", *labels) + payload


def _as_bytes(payload):
    if not isinstance(payload, (bytes, bytearray, memoryview)):
        raise TypeError(f"a record is bytes, and not a {type(payload).__name__}; arrays have tobytes()")
    return bytes(payload)


def unpacked(record):
    """The label, a float or a list of them, and the bytes of a record that `packed` made."""
    if len(record) < _HEAD.size:
        raise ValueError(f"a record with a label has {_HEAD.size} bytes at least, and not {len(record)}")
    count, label, _, _ = _HEAD.unpack_from(record)
    end = _HEAD.size + 4 * count
    if end > len(record):
        raise ValueError(f"the record says that it has {count} labels, and has {len(record)} bytes")
    return (list(struct.unpack_from(f"<{count}f", record, _HEAD.size)) if count else label), bytes(record[end:])


class RecordWriter:
    """Writes records one after the other, and their index beside the file. What is not closed is no file: it is written under another name."""

    def __init__(self, path):
        self._path = pathlib.Path(path)
        self._new = self._path.with_name(self._path.name + ".new")
        self._file, self._places = open(self._new, "wb"), []

    def write(self, record):
        """Appends a record, and gives its number."""
        parts = _parts(_as_bytes(record))
        if max(map(len, parts)) > _LENGTH:
            raise ValueError(f"a record has at most {_LENGTH} bytes, and not {len(record)}")
        self._places.append(self._file.tell())
        for place, part in enumerate(parts):
            kind = _WHOLE if len(parts) == 1 else _FIRST if place == 0 else _LAST if place == len(parts) - 1 else _MIDDLE
            self._file.write(struct.pack("<II", _MARK, kind << 29 | len(part)) + part + b"\0" * (-len(part) % 4))
        return len(self._places) - 1

    def close(self):
        if self._file.closed:
            return
        self._file.close()
        index = "".join(f"{number}\t{place}\n" for number, place in enumerate(self._places))
        _index_of(self._path).write_text(index)
        os.replace(self._new, self._path)

    def __enter__(self):
        return self

    def __exit__(self, kind, *failure):
        if kind is None:
            self.close()
        else:
            self._file.close()
            self._new.unlink(missing_ok=True)


def _parts(record):
    """The record, cut where the mark stands at a whole word: the mark itself is left out there."""
    parts, begin, place = [], 0, record.find(_MARK_BYTES)
    while place >= 0:
        if place % 4 == 0:
            parts.append(record[begin:place])
            begin = place + 4
        place = record.find(_MARK_BYTES, place + 1 if place % 4 else place + 4)
    return [*parts, record[begin:]]


def _index_of(path):
    return path.with_suffix(".idx")


class RecordFile:
    """The records of a file, by number: `len`, `[]`, iteration. Any number of threads may read. A file that is cut off or damaged is a ValueError."""

    def __init__(self, path):
        self._path = pathlib.Path(path)
        with open(self._path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        self._places = self._indexed()
        if self._places is None:
            self._places = list(self._walked())

    def _indexed(self):
        """The places of the index, if there is one of this file: the first record begins the file, each ends where the next begins, and the last ends it."""
        index = _index_of(self._path)
        if not index.exists():
            return None
        try:
            places = [int(line.split("\t")[1]) for line in index.read_text().splitlines()]
        except (ValueError, IndexError):
            raise ValueError(f"{index}: is no index of records; without it the file is walked through") from None
        if any(not 0 <= place <= len(self._bytes) - 8 or place % 4 for place in places) or places[:1] not in ([0], [] if not self._bytes else [0]):
            return None
        return places if all(self._end(place) == end for place, end in zip(places, [*places[1:], len(self._bytes)])) else None

    def _walked(self):
        place = 0
        while place < len(self._bytes):
            yield place
            place = self._end(place)

    def _end(self, place):
        """Where the record that begins there ends."""
        return collections.deque(self._parts_from(place), 1)[0][1]

    def _parts_from(self, place):
        """Of each part of the record its bytes and where the next one begins."""
        begin, is_first = place, True
        while True:
            kind, length = self._part(place)
            if (kind in (_WHOLE, _FIRST)) != is_first or kind > _LAST:
                raise ValueError(f"{self._path}: the parts of the record at byte {begin} are in no order, at byte {place}")
            end = place + 8 + length + -length % 4
            yield self._bytes[place + 8 : place + 8 + length], end
            if kind in (_WHOLE, _LAST):
                return
            place, is_first = end, False

    def _part(self, place):
        """Which part of a record begins there, and its length."""
        if place + 8 > len(self._bytes):
            raise ValueError(f"{self._path}: ends within a record, at byte {place}")
        mark, word = struct.unpack_from("<II", self._bytes, place)
        if mark != _MARK:
            raise ValueError(f"{self._path}: no record begins at byte {place}")
        if place + 8 + (word & _LENGTH) > len(self._bytes):
            raise ValueError(f"{self._path}: ends within a record, at byte {place}")
        return word >> 29, word & _LENGTH

    def __len__(self):
        return len(self._places)

    def __getitem__(self, number):
        return _MARK_BYTES.join(part for part, _ in self._parts_from(self._places[number]))

    def __iter__(self):
        return (self[number] for number in range(len(self)))


class _Ahead:
    """What a thread has ready; it holds this alone, so that who drops a Prefetch ends its thread."""

    def __init__(self, depth):
        self.ready, self.depth, self.is_closed, self.change = collections.deque(), depth, False, threading.Condition()

    def put(self, element):
        """False: nobody wants it any more."""
        with self.change:
            self.change.wait_for(lambda: self.is_closed or len(self.ready) < self.depth)
            if not self.is_closed:
                self.ready.append(element)
                self.change.notify_all()
            return not self.is_closed

    def close(self):
        with self.change:
            self.is_closed = True
            self.ready.clear()
            self.change.notify_all()


_END = object()


def _make(iterator, ahead):
    try:
        for element in iterator:
            if not ahead.put((element, None)):
                break
        else:
            ahead.put((_END, None))
    except BaseException as error:
        ahead.put((_END, error))
    finally:
        if hasattr(iterator, "close"):
            iterator.close()


class Prefetch:
    """What an iterable gives, in its order, made by a thread that is up to `depth` ahead. An exception comes where its element would have come."""

    def __init__(self, iterable, depth=2):
        if depth < 1:
            raise ValueError("a thread is at least one element ahead")
        self._ahead = _Ahead(depth)
        threading.Thread(target=_make, args=(iter(iterable), self._ahead), name="tensmith-prefetch", daemon=True).start()

    def __iter__(self):
        return self

    def __next__(self):
        ahead = self._ahead
        with ahead.change:
            ahead.change.wait_for(lambda: ahead.ready or ahead.is_closed)
            if ahead.is_closed:
                raise StopIteration
            element, error = ahead.ready.popleft()
            ahead.change.notify_all()
        if element is not _END:
            return element
        self.close()
        raise error or StopIteration

    def close(self):
        """Nothing more is made."""
        self._ahead.close()

    def __del__(self):
        if hasattr(self, "_ahead"):
            self.close()

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.close()


class Batches:
    """Batches of decoded records, an epoch for each iteration, made ahead by threads.

    records: anything with `len` and `[]`. size: samples in a batch of all workers together; what is left over at an epoch's end is left out.
    decode: makes of a record a tuple of arrays and numbers, each of which is stacked along a new first dimension; it runs in `threads` threads.
    shuffle: the seed of an order that is another one in each epoch; None: as they are in the file. rank, workers: which part of each batch is given.
    """

    def __init__(self, records, size, decode=lambda record: (record,), *, shuffle=None, rank=0, workers=1, threads=2, ahead=2):
        if size < 1 or workers < 1 or size % workers or not 0 <= rank < workers:
            raise ValueError(f"batches of {size} have no equal parts for {workers} workers, of which this is number {rank}")
        self.records, self.size, self.decode, self.epoch = records, size, decode, 0
        self._shuffle, self._threads, self._ahead = shuffle, threads, ahead
        self._own = slice(rank * size // workers, (rank + 1) * size // workers)

    def __len__(self):
        return len(self.records) // self.size

    def __iter__(self):
        epoch, self.epoch = self.epoch, self.epoch + 1
        return Prefetch(self._epoch(epoch), self._ahead)

    def after(self, step):
        """Batches of all epochs, one after the other, without end, from that step of the training on: for a worker that comes back."""
        if len(self) == 0:
            raise ValueError(f"{len(self.records)} records have no batch of {self.size}")

        def batches():
            epoch, begin = divmod(step, len(self))
            while True:
                yield from self._epoch(epoch, begin)
                epoch, begin = epoch + 1, 0

        return Prefetch(batches(), self._ahead)

    def _epoch(self, epoch, first=0):
        import numpy

        count = len(self.records)
        order = numpy.arange(count) if self._shuffle is None else numpy.random.default_rng([self._shuffle, epoch]).permutation(count)
        with concurrent.futures.ThreadPoolExecutor(self._threads, "tensmith-decode") as pool:
            for begin in range(first * self.size, len(self) * self.size, self.size):
                samples = list(pool.map(lambda number: self.decode(self.records[int(number)]), order[begin : begin + self.size][self._own]))
                yield tuple(_stacked(each) for each in zip(*samples, strict=True))


def _stacked(values):
    """Bytes stay a list."""
    import numpy

    return list(values) if isinstance(values[0], bytes) else numpy.stack([numpy.asarray(value) for value in values])
