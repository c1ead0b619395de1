"""Record files, which MXNet's own reading of the format is held against, and batches made ahead."""

import random
import struct
import threading

import numpy
import pytest

data = pytest.importorskip("tensmith.data")
MARK = struct.pack("<I", 0xCED7230A)


def drawn(random):
    parts = [random.choice([MARK, random.randbytes(random.randrange(9)), b"\0" * random.randrange(5)]) for _ in range(random.randrange(7))]
    return b"".join(parts)


def read_plainly(content):
    """The records of a file, by the words of the format alone: parts joined by the mark that was cut out."""
    records, place = [], 0
    while place < len(content):
        mark, word = struct.unpack_from("<II", content, place)
        assert mark == 0xCED7230A
        kind, length = word >> 29, word & ((1 << 29) - 1)
        part = content[place + 8 : place + 8 + length]
        records[len(records) if kind < 2 else -1 :] = [part] if kind < 2 else [records[-1] + MARK + part]
        place += 8 + (length + 3) // 4 * 4
    return records


@pytest.mark.parametrize("seed", range(20))
def test_records_are_what_was_written(seed, tmp_path):
    draw = random.Random(seed)
    records = [drawn(draw) for _ in range(30)]
    with data.RecordWriter(tmp_path / "a.rec") as file:
        assert [file.write(each) for each in records] == list(range(30))
    assert read_plainly((tmp_path / "a.rec").read_bytes()) == records
    assert list(data.RecordFile(tmp_path / "a.rec")) == records
    (tmp_path / "a.idx").unlink()
    walked = data.RecordFile(tmp_path / "a.rec")
    assert [walked[number] for number in reversed(range(len(walked)))] == records[::-1]


def test_damaged_files_are_refused_in_words(tmp_path):
    draw = random.Random(5)
    with data.RecordWriter(tmp_path / "a.rec") as file:
        for _ in range(10):
            file.write(drawn(draw))
    content, index = (tmp_path / "a.rec").read_bytes(), (tmp_path / "a.idx").read_text()
    refused = 0
    for _ in range(300):
        damaged = bytearray(content[: draw.choice([len(content), draw.randrange(len(content))])])
        for _ in range(draw.randrange(3)):
            if damaged:
                damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        (tmp_path / "b.rec").write_bytes(damaged)
        (tmp_path / "b.idx").write_text(index)
        if draw.random() < 0.5:
            (tmp_path / "b.idx").unlink()
        try:
            assert len(list(data.RecordFile(tmp_path / "b.rec"))) == len(read_plainly(bytes(damaged)))
        except ValueError as error:
            assert "b.rec" in str(error) or "b.idx" in str(error)
            refused += 1
    assert refused > 100
    (tmp_path / "b.idx").write_text("first\n")
    with pytest.raises(ValueError, match=r"b\.idx: is no index"):
        data.RecordFile(tmp_path / "b.rec")


def test_what_is_not_finished_is_no_file(tmp_path):
    with pytest.raises(KeyError), data.RecordWriter(tmp_path / "a.rec") as file:
        file.write(b"x")
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_an_index_of_another_file_is_not_taken(tmp_path):
    for count in (3, 9):
        with data.RecordWriter(tmp_path / "a.rec") as file:
            for number in range(count):
                file.write(bytes([number]) * 5)
        if count == 3:
            index = (tmp_path / "a.idx").read_text()
    (tmp_path / "a.idx").write_text(index)
    assert len(data.RecordFile(tmp_path / "a.rec")) == 9


def test_a_refused_record_leaves_no_trace(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "_LENGTH", 4)
    with data.RecordWriter(tmp_path / "a.rec") as file:
        file.write(b"aa")
        for wrong, error in ((b"too long", ValueError), (5, TypeError), ("text", TypeError)):
            with pytest.raises(error):
                file.write(wrong)
        file.write(b"bb")
    monkeypatch.undo()
    assert list(data.RecordFile(tmp_path / "a.rec")) == [b"aa", b"bb"]


def test_labels():
    for label in (3.0, [1.0, 2.5], []):
        assert data.unpacked(data.packed(label, b"abc")) == (label if label != [] else 0.0, b"abc")
    for wrong in (b"", b"\xff" * 24):
        with pytest.raises(ValueError, match="record"):
            data.unpacked(wrong)


def decode(record):
    label, payload = data.unpacked(record)
    return numpy.frombuffer(payload, dtype=numpy.uint8), numpy.int64(label)


@pytest.mark.parametrize("shuffle", [None, 4])
def test_parts_of_all_workers_are_the_batches_of_one(shuffle, tmp_path):
    with data.RecordWriter(tmp_path / "a.rec") as file:
        for number in range(50):
            file.write(data.packed(number, bytes([number, 7])))
    records = data.RecordFile(tmp_path / "a.rec")
    whole = data.Batches(records, 8, decode, shuffle=shuffle)
    parts = [data.Batches(records, 8, decode, shuffle=shuffle, rank=rank, workers=2) for rank in range(2)]
    orders = []
    for _ in range(2):
        batches = list(whole)
        assert len(batches) == len(whole) == 6 and batches[0][0].shape == (8, 2)
        for (pixels, labels), halves in zip(batches, zip(*parts, strict=True), strict=True):
            assert (pixels[:, 0] == labels).all()
            assert (numpy.concatenate([labels for _, labels in halves]) == labels).all()
        orders.append(numpy.concatenate([labels for _, labels in batches]).tolist())
    assert (orders[0] == list(range(48))) == (shuffle is None) and (orders[0] == orders[1]) == (shuffle is None)
    for workers in (0, 3):
        with pytest.raises(ValueError, match=f"no equal parts for {workers} workers"):
            data.Batches(records, 8, workers=workers)
    going_on = data.Batches(records, 8, decode, shuffle=shuffle).after(4)
    for _, (_, labels) in zip(range(5), going_on):
        last = labels.tolist()
    assert last == orders[1][16:24]


def test_who_leaves_an_epoch_leaves_no_thread(tmp_path):
    before = threading.active_count()
    for _ in range(20):
        for _ in data.Batches([b"x"] * 50, 2):
            break
    for thread in threading.enumerate():
        if thread.name.startswith(("tensmith-prefetch", "tensmith-decode")):
            thread.join(60)
    assert threading.active_count() <= before


def test_elements_are_made_ahead_and_no_further():
    made, wanted = [], threading.Event()

    def elements():
        for number in range(10):
            made.append(number)
            if len(made) == 3:
                wanted.set()
            yield number

    ahead = data.Prefetch(elements(), depth=2)
    assert wanted.wait(60)  # two are ready, and one waits for its place
    assert len(made) == 3 and next(ahead) == 0
    assert list(ahead) == list(range(1, 10)) and list(ahead) == []


def test_an_exception_comes_where_its_element_would():
    def elements():
        yield 1
        raise OSError("gone")

    ahead = data.Prefetch(elements(), depth=5)
    assert next(ahead) == 1
    with pytest.raises(OSError, match="gone"):
        next(ahead)
    with data.Prefetch(iter(int, 1)) as endless:
        assert next(endless) == 0
    assert list(endless) == []
