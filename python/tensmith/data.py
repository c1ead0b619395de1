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
the file, `FILE.idx`, has a line with a number and a place for each record; without one the file is walked through once.
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
    try:
        return _HEAD.pack(0, float(label), number, 0) + bytes(payload)
    except TypeError:
        labels = [float(each) for each in label]
    return _HEAD.pack(len(labels), 0.0, number, 0) + struct.pack(f"<{len(labels)}f", *labels) + bytes(payload)


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
        record = bytes(record)
        self._places.append(self._file.tell())
        parts = _parts(record)
        for place, part in enumerate(parts):
            if len(part) > _LENGTH:
                raise ValueError(f"a record has at most {_LENGTH} bytes, and not {len(part)}")
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
        self._places = self._indexed() or list(self._walked())

    def _indexed(self):
        """The places of the index, if there is one that is not older than the file."""
        index = _index_of(self._path)
        if not index.exists():
            return None
        try:
            places = [int(line.split("\t")[1]) for line in index.read_text().splitlines()]
        except (ValueError, IndexError):
            raise ValueError(f"{index}: is no index of records; without it the file is walked through") from None
        if any(not 0 <= place <= len(self._bytes) - 8 or place % 4 for place in places):
            raise ValueError(f"{index}: names places that {self._path.name} has not; it is another file's")
        return places

    def _walked(self):
        place = 0
        while place < len(self._bytes):
            kind, length = self._part(place)
            if kind in (_WHOLE, _FIRST):
                yield place
            place += 8 + length + -length % 4

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
        place, parts = self._places[number], []
        while True:
            kind, length = self._part(place)
            if (kind in (_WHOLE, _FIRST)) != (not parts) or kind > _LAST:
                raise ValueError(f"{self._path}: the parts of the record {number} are in no order, at byte {place}")
            parts.append(self._bytes[place + 8 : place + 8 + length])
            if kind in (_WHOLE, _LAST):
                return _MARK_BYTES.join(parts)
            place += 8 + length + -length % 4

    def __iter__(self):
        return (self[number] for number in range(len(self)))


class Prefetch:
    """What an iterable gives, in its order, made by a thread that is up to `depth` ahead. An exception comes where its element would have come."""

    _END = object()

    def __init__(self, iterable, depth=2):
        if depth < 1:
            raise ValueError("a thread is at least one element ahead")
        self._iterator, self._ready, self._depth = iter(iterable), collections.deque(), depth
        self._change, self._is_closed = threading.Condition(), False
        self._thread = threading.Thread(target=self._run, name="tensmith-prefetch", daemon=True)
        self._thread.start()

    def _run(self):
        last = False
        while not last:
            try:
                element = next(self._iterator), None
            except StopIteration:
                element, last = (self._END, None), True
            except BaseException as error:
                element, last = (None, error), True
            with self._change:
                self._change.wait_for(lambda: self._is_closed or len(self._ready) < self._depth)
                if self._is_closed:
                    return
                self._ready.append(element)
                self._change.notify_all()

    def __iter__(self):
        return self

    def __next__(self):
        with self._change:
            self._change.wait_for(lambda: self._ready or self._is_closed)
            if self._is_closed:
                raise StopIteration
            element, error = self._ready[0]
            if element is not self._END and error is None:
                self._ready.popleft()
                self._change.notify_all()
                return element
        if error is not None:
            self.close()
            raise error
        raise StopIteration

    def close(self):
        """Nothing more is made."""
        with self._change:
            self._is_closed = True
            self._ready.clear()
            self._change.notify_all()

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
        if size < 1 or size % workers or not 0 <= rank < workers:
            raise ValueError(f"batches of {size} have no equal parts for {workers} workers, of which this is number {rank}")
        self.records, self.size, self.decode, self.epoch = records, size, decode, 0
        self._shuffle, self._threads, self._ahead = shuffle, threads, ahead
        self._own = slice(rank * size // workers, (rank + 1) * size // workers)

    def __len__(self):
        return len(self.records) // self.size

    def __iter__(self):
        epoch, self.epoch = self.epoch, self.epoch + 1
        return Prefetch(self._epoch(epoch), self._ahead)

    def _epoch(self, epoch):
        import numpy

        count = len(self.records)
        order = numpy.arange(count) if self._shuffle is None else numpy.random.default_rng([self._shuffle, epoch]).permutation(count)
        with concurrent.futures.ThreadPoolExecutor(self._threads, "tensmith-decode") as pool:
            for begin in range(0, len(self) * self.size, self.size):
                samples = list(pool.map(lambda number: self.decode(self.records[int(number)]), order[begin : begin + self.size][self._own]))
                yield tuple(_stacked(each) for each in zip(*samples, strict=True))


def _stacked(values):
    """Bytes stay a list."""
    import numpy

    return list(values) if isinstance(values[0], bytes) else numpy.stack([numpy.asarray(value) for value in values])
