"""`ts.KVStore`: what a table decides whatever the order of messages, servers beside wrong messages, and processes that train as one does."""

import os
import pathlib
import random
import re
import subprocess
import sys
import threading

import numpy
import pytest

tnp = pytest.importorskip("tensmith.numpy")
import zmq  # noqa: E402
from tensmith.kvstore import Server, WorkerLost, messages  # noqa: E402
from tensmith.kvstore.table import Table  # noqa: E402

import tensmith as ts  # noqa: E402
from tensmith import _eager  # noqa: E402

WORKER = pathlib.Path(__file__).with_name("kvstore_training.py")


def full(value, size=2):
    return tnp.full((size,), value, dtype=tnp.float32)


def adds(row, total, how, done):
    done(row.value if total is None else row.value + total)


# ---- The table ----


class Draw:
    """Workers that push and pull a few keys in an order that is drawn, some of which die and come back with a step that they repeat."""

    def __init__(self, seed, staleness):
        self.random, self.staleness = random.Random(seed), staleness
        self.workers, self.keys, self.steps = self.random.randint(1, 4), [f"key{i}" for i in range(self.random.randint(1, 3))], 6
        self.table = Table(self.workers, staleness, adds)
        self.done = dict.fromkeys(range(self.workers), 0)
        self.got, self.asked = {}, set()
        for key in self.keys:
            for rank in reversed(range(self.workers)):
                self.table.init(key, rank, full(0.0), lambda *answer: None)

    def value(self, rank, key, number):
        return float((rank + 1) * 10**number + self.keys.index(key)) if (rank + number) % 5 else None

    def run(self):
        ready = {rank: self.pushes_of(rank) for rank in range(self.workers)}
        while any(ready.values()):
            rank = self.random.choice([rank for rank, waiting in ready.items() if waiting or self.is_answered(rank)])
            if not ready[rank]:
                continue
            self.do(rank, ready[rank].pop(0))
            if self.random.random() < 0.1:
                self.table.forget_waiting(rank)
                self.asked = {each for each in self.asked if each[0] != rank}
                ready[rank] = self.pushes_of(rank)
            for other in range(self.workers):
                if not ready[other] and self.is_answered(other) and self.done[other] < self.steps:
                    self.done[other] += 1
                    ready[other] = self.pushes_of(other)

    def pushes_of(self, rank):
        number = self.done[rank] + 1
        if number > self.steps:
            return []
        deeds = [("push", key, number) for key in self.keys]
        self.random.shuffle(deeds)
        return deeds + [("pull", key, number) for key in self.keys]

    def do(self, rank, deed):
        what, key, number = deed
        if what == "push":
            value = self.value(rank, key, number)
            self.table.push(key, rank, number, None if value is None else full(value), {})
            return
        self.asked.add((rank, key, number))

        def done(value, rounds):
            self.asked.discard((rank, key, number))
            self.got[rank, key, number] = value.numpy()[0], rounds
            if self.staleness:
                slowest = min(self.table.rows[key].pushed.get(other, 0) for other in range(self.workers))
                assert slowest >= number - self.staleness

        self.table.pull(key, rank, number, done)

    def is_answered(self, rank):
        number = self.done[rank] + 1
        return all((rank, key, number) in self.got for key in self.keys)

    def total(self, key, number):
        return sum(self.value(rank, key, n) or 0 for rank in range(self.workers) for n in range(1, number + 1))


@pytest.mark.parametrize("seed", range(25))
def test_rounds_are_the_same_in_any_order(seed):
    draw = Draw(seed, 0)
    draw.run()
    assert len(draw.got) == draw.workers * len(draw.keys) * draw.steps
    for (_, key, number), (value, rounds) in draw.got.items():
        assert value == numpy.float32(draw.total(key, number)) and rounds == number


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("staleness", [1, 3, None])
def test_no_worker_is_further_ahead_than_it_may(seed, staleness):
    draw = Draw(seed, staleness)
    draw.run()
    for key in draw.keys:
        assert draw.table.rows[key].value.numpy()[0] == pytest.approx(draw.total(key, draw.steps), rel=1e-6)


def test_a_key_whose_first_worker_is_gone_begins_with_the_next_ones_value():
    table, told = Table(3, 0, adds), []
    table.init("a", 2, full(3.0), lambda *answer: told.append(answer))
    table.init("a", 1, full(2.0), lambda *answer: told.append(answer))
    table.leave(0)
    assert told == [(0, 0), (0, 0)] and table.rows["a"].value.numpy()[0] == 2.0


def test_many_rounds_at_once():
    table = Table(2, 0, adds)
    for rank in range(2):
        table.init("a", rank, full(0.0), lambda *answer: None)
    for number in range(3000):
        table.push("a", 0, number + 1, full(1.0), {})
    table.leave(1)
    assert table.rows["a"].rounds == 3000 and table.rows["a"].value.numpy()[0] == 3000.0


@pytest.mark.parametrize("name, value, words", [
    ("rounds/a", None, "there is no 'rounds/a'"), ("rounds/a", [-5, 1], "not negative"), ("rounds/a", [1, 2, 3], "should be 2 numbers"),
    ("optimiser/a/Adam", [1, 2], "are missing"), ("optimiser/a/Adagio", [1, 0], "no optimiser 'Adagio'"), ("optimiser/b/Adam", [1, 0], "no key 'b'")])  # fmt: skip
def test_what_is_no_state_is_refused(name, value, words):
    table = Table(1, 0, adds)
    table.init("a", 0, full(1.0), lambda *answer: None)
    tensors = table.state()
    if value is None:
        del tensors[name]
    else:
        tensors[name] = tnp.asarray(value, dtype=tnp.int64)
    with pytest.raises(ValueError, match=words):
        Table(1, 0, adds).restore(tensors)


def test_a_torn_step_is_repeated_from_the_values_before_it():
    table, got = Table(1, 0, adds), []
    for key in "ab":
        table.init(key, 0, full(1.0), lambda *answer: None)
    table.push("a", 0, 1, full(5.0), {})
    for key in "ab":
        table.pull(key, 0, 0, lambda value, rounds: got.append((value.numpy()[0], rounds)), at=0)
    table.push("a", 0, 1, full(7.0), {})  # is in already
    table.push("b", 0, 1, full(7.0), {})
    table.pull("a", 0, 1, lambda value, rounds: got.append((value.numpy()[0], rounds)))
    assert got == [(1.0, 0), (1.0, 0), (6.0, 1)]
    table.push("a", 0, 2, full(1.0), {})
    with pytest.raises(ValueError, match="its value after 0 is gone"):
        table.pull("a", 0, 0, None, at=0)


# ---- A server and its workers as threads ----


class Running:
    def __init__(self, **settings):
        self.server = Server(**settings)
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()

    def store(self, rank=0, kind="sync", **settings):
        return ts.KVStore(kind, self.server.address, rank, **settings)

    def stop(self):
        for _ in range(600):  # one that says hello after this is no longer among those that have left
            self.server.left = set(range(self.server.workers))
            self.thread.join(0.1)
            if not self.thread.is_alive():
                break
        assert not self.thread.is_alive()


@pytest.fixture
def running():
    started = []

    def run(**settings):
        started.append(Running(**settings))
        return started[-1]

    yield run
    for each in started:
        each.stop()


def together(*works):
    """Runs each in a thread of its own, and gives what they give."""
    results = [None] * len(works)

    def work(place):
        try:
            results[place] = works[place]()
        except Exception as error:
            results[place] = error

    threads = [threading.Thread(target=work, args=(place,), daemon=True) for place in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
    return results


@pytest.mark.parametrize("kind", ["local", "sync"])
def test_values_of_all_types_and_sizes(kind, running):
    with ts.KVStore() if kind == "local" else running().store() as store:
        for number, name in enumerate(("bool", "int8", "uint16", "int64", "float16", "bfloat16", "float32", "float64", "complex64")):
            for shape in ((), (0, 3), (2, 5)):
                value = tnp.astype(tnp.ones(shape), getattr(tnp, name))
                key = f"{name}{shape}"
                assert store.init(key, value) == 0
                found = store.pull(key)
                assert found.shape == shape and (found.dtype == value.dtype or name == "bfloat16")
                assert numpy.array_equal(found.numpy(), value.numpy())
                if number == 6:
                    out = tnp.zeros(shape, dtype=tnp.float32)
                    store.exchange(key, [value, value.numpy(), value], out)
                    assert numpy.array_equal(out.numpy(), 3 * value.numpy())


def test_what_is_pushed_is_what_the_tensor_was(running):
    with running().store() as store:
        store.init("x", full(0.0, 1000))
        for step in range(5):
            given = full(float(step), 1000)
            for _ in range(20):
                given = given * 1.0
            store.push("x", given)
            given[...] = full(-1.0, 1000)
            assert store.pull("x").numpy()[0] == step


@pytest.mark.parametrize("ask, words", [
    (lambda store: store.pull("nothing"), "no key 'nothing'"),
    (lambda store: store.exchange("x", tnp.ones((3,), dtype=tnp.float32)), r"shape \(2,\), and worker 0 pushes \(3,\)"),
    (lambda store: store.init("x", tnp.ones((7,))), r"shape \(2,\), and worker 0 gives \(7,\)"),
    (lambda store: (store.set_optimiser("Adam", speed=3), store.exchange("x", full(1.0))), "does not take these settings"),
    (lambda store: (store.set_optimiser("Adagio"), store.exchange("x", full(1.0))), "no optimiser 'Adagio'; there are"),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["local", "sync"])
def test_wrong_requests_say_what_is_wrong(ask, words, kind, running):
    with ts.KVStore() if kind == "local" else running().store() as store:
        store.init("x", full(1.0))
        with pytest.raises(ValueError, match=words):
            ask(store)
        assert store.pull("x").numpy()[0] == 1.0


def test_stores_that_there_are_none_of(running, monkeypatch):
    monkeypatch.delenv("TENSMITH_KVSTORE_SERVERS", raising=False)
    with pytest.raises(ValueError, match="local, sync or stale"):
        ts.KVStore("async")
    with pytest.raises(ValueError, match="no servers are given"):
        ts.KVStore("sync")
    with pytest.raises(ValueError, match="the servers have staleness 0"):
        running().store(kind="stale")
    with pytest.raises(ValueError, match="the token is wrong"):
        running(token="open").store()
    with pytest.raises(ValueError, match="'rank' should be a whole number from 0 to 0"):
        running().store(rank=3)
    with pytest.raises(ValueError, match="give a token"):
        Server("tcp://0.0.0.0:*")
    with pytest.raises(ConnectionError, match="has not answered"):
        ts.KVStore("sync", "tcp://127.0.0.1:9", 0, answer_within=0.5)


def test_an_optimiser_goes_on_from_what_was_pushed_between():
    store = ts.KVStore()
    x = tnp.asarray([1.0], dtype=tnp.float32)
    x.requires_grad = True
    trainer = store.attach(ts.optim.SGD([x], lr=1.0))
    for expected in (0.0, 99.0):
        x.grad = tnp.ones((1,), dtype=tnp.float32)
        trainer.step()
        assert x.numpy()[0] == expected
        store.push("parameter.0", numpy.float32([100]))
    with pytest.raises(ValueError, match="a prefix of its own"):
        store.attach(ts.optim.SGD([x], lr=1.0))


def test_settings_and_tensors_that_can_not_be_sent(running, monkeypatch):
    with running().store() as store:
        store.init("x", full(1.0))
        store.set_optimiser("SGD", lr=numpy.float32(0.5))
        assert store.exchange("x", full(1.0)).numpy()[0] == 0.5
        store.set_optimiser("SGD", lr=object())
        with pytest.raises(TypeError):
            store.push("x", full(1.0))
        store.set_optimiser("SGD", lr=0.5)
        packed = messages.packed
        with monkeypatch.context() as patch:  # as where the tensor's operation fails, which is known once its elements are asked for
            patch.setattr(messages, "packed", lambda head, tensor=None: packed(head, tensor) if head.get("do") != "push" or tensor is None else 1 // 0)
            store.push("x", full(1.0))
            with pytest.raises(ZeroDivisionError):
                store.pull("x")
        assert store.exchange("x", full(1.0)).numpy()[0] == 0.0


def test_no_answer_of_many_is_lost(running):
    with running().store() as store:
        keys = [f"key{number}" for number in range(2500)]
        store.init(keys, [full(0.0, 500)] * len(keys))
        found = store.exchange(keys, [full(float(number), 500) for number in range(len(keys))])
        assert [x.numpy()[0] for x in found] == list(range(len(keys)))


def test_a_function_decides(running):
    def halves(key, pushed, value):
        return (value + pushed) / 2.0

    local = ts.KVStore()
    local.set_updater(halves)
    with running(updater=halves).store() as far:
        for store in (local, far):
            store.init("x", full(1.0))
            store.push("x", full(3.0))
            assert store.pull("x").numpy()[0] == 2.0
        with pytest.raises(ValueError, match="can't be sent"):
            far.set_updater(halves)


def test_a_server_survives_any_message(running):
    server = running()
    drawn = random.Random(4)
    heads = [b'{"id": 1, "do": "hello", "rank": 0, "session": "a"}', b'{"id": 2, "do": "init", "key": "x", "rank": 0, "session": "a", "type": "float32", "shape": [2]}',
             b'{"id": 3, "do": "push", "key": "x", "number": 1, "rank": 0, "session": "a", "type": "float32", "shape": [2]}',
             b'{"id": 4, "do": "pull", "key": "x", "after": 0, "rank": 0, "session": "a"}', b'{"id": 5, "do": "init", "key": "y", "rank": 0, "session": "a", '
             b'"type": "float64", "shape": [1099511627776, 4096]}', b"[" * 5000, b"[]", b"", b"\xff"]  # fmt: skip
    socket = zmq.Context.instance().socket(zmq.DEALER)
    socket.connect(server.server.address)
    for _ in range(300):
        head = bytearray(drawn.choice(heads))
        for _ in range(drawn.choice([0, 0, 1, 3])):
            if head:
                head[drawn.randrange(len(head))] = drawn.randrange(256)
        socket.send_multipart([bytes(head), *[drawn.randbytes(drawn.choice([0, 4, 8]))] * drawn.choice([0, 1, 1, 2])])
    socket.close(0)
    probe = zmq.Context.instance().socket(zmq.DEALER)
    probe.connect(server.server.address)
    probe.send(b'{"id": 7, "do": "dance"}')
    assert probe.poll(60000) and b"nothing called 'dance'" in probe.recv()
    probe.close(0)


def test_a_silent_worker_is_told_of(running):
    server = running(workers=2, on_loss="raise", lost_after=2.0)
    silent, store = together(lambda: server.store(0), lambda: server.store(1))
    together(lambda: silent.init("x", full(0.0)), lambda: store.init("x", full(0.0)))
    silent._connection._stop()
    for _ in range(2):  # whoever waits, also who does so later
        store.push("x", full(1.0))
        with pytest.raises(WorkerLost, match="worker 0 has not been heard of"):
            store.pull("x")
    store.close()


def test_a_failure_is_no_goodbye(running):
    server = running()
    with pytest.raises(KeyError), server.store():
        raise KeyError
    assert server.server.left == set() and server.thread.is_alive()


def test_a_barrier_waits_for_the_worker_that_is_back(running):
    server = running(workers=2, lost_after=1.0)
    first, store = together(lambda: server.store(0), lambda: server.store(1))
    first._connection.request(0, {"do": "barrier"})
    first.status()
    first._connection.stop()
    first = server.store(0)
    waits = threading.Thread(target=store.barrier, daemon=True)
    waits.start()
    store.status()
    assert waits.is_alive()
    first.barrier()
    waits.join(60)
    assert not waits.is_alive()
    first.close()
    store.close()


def test_rounds_go_on_without_a_silent_worker_until_it_is_back(running):
    server = running(workers=2, on_loss="continue", lost_after=2.0)
    silent, store = together(lambda: server.store(0), lambda: server.store(1))
    together(lambda: silent.init("x", full(0.0)), lambda: store.init("x", full(0.0)))
    silent._connection._stop()
    assert store.exchange("x", full(1.0)).numpy()[0] == 1.0
    back = server.store(0)
    assert back.init("x", full(0.0)) == 1
    first, second = together(lambda: back.exchange("x", full(10.0)), lambda: store.exchange("x", full(1.0)))
    assert first.numpy()[0] == second.numpy()[0] == 11.0
    back.close()
    store.close()


def test_a_server_goes_on_from_its_checkpoint(running, tmp_path):
    def steps(store, count):
        store.set_optimiser("Adam", lr=0.1)
        return [store.exchange("x", full(float(i % 3 - 1))).numpy()[0] for i in range(count)]

    with running(checkpoint=tmp_path / "a.safetensors").store() as store:
        store.init("x", full(1.0))
        steps(store, 6)
        store.save()
        expected = steps(store, 6)
    os.replace(tmp_path / "a.safetensors", tmp_path / "late")  # written at the end again
    server = running(checkpoint=tmp_path / "b.safetensors")
    with server.store() as store:
        store.init("x", full(1.0))
        steps(store, 6)
    server.stop()  # it writes at its end
    with running(checkpoint=tmp_path / "b.safetensors").store() as store:
        assert store.init("x", full(9.0)) == 6
        assert steps(store, 6) == expected
        store.init("later", full(0.0))  # is no reason not to write
        store.save()
    with pytest.raises(ValueError, match=r"b\.safetensors: is that of server 0 of 1, and this is server 1 of 2"):
        Server(checkpoint=tmp_path / "b.safetensors", part=(1, 2))
    with pytest.raises(ValueError, match="there is no such folder"):
        Server(checkpoint=tmp_path / "nowhere" / "c.safetensors")


def test_a_checkpoint_that_can_not_be_written_ends_no_training(running, tmp_path):
    (tmp_path / "folder").mkdir()
    with running(checkpoint=tmp_path / "folder" / "a.safetensors").store() as store:
        store.save()
        store.init("x", full(1.0))
        for each in (tmp_path / "folder").iterdir():
            each.unlink()
        (tmp_path / "folder").rmdir()
        with pytest.raises(ValueError, match=r"a\.safetensors"):
            store.save()
        assert store.exchange("x", full(2.0)).numpy()[0] == 2.0


def test_gradients_of_a_compiled_model(running, tmp_path):
    """Half a batch for each of two workers, whose gradients are compiled: rounds are those of the whole batch."""
    onnx = pytest.importorskip("onnx")
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["y"]), onnx.helper.make_node("Sub", ["y", "t"], ["d"]),
             onnx.helper.make_node("Mul", ["d", "d"], ["s"]), onnx.helper.make_node("ReduceMean", ["s"], ["loss"], keepdims=0)]  # fmt: skip
    ports = [onnx.helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", ["n", 3]), ("t", ["n", 1]), ("w", [3, 1]), ("loss", []))]
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(nodes, "squares", ports[:3], ports[3:]), ir_version=10,
                                     opset_imports=[onnx.helper.make_opsetid("", 18)]), tmp_path / "model.onnx")  # fmt: skip
    model = ts.grad(tmp_path / "model.onnx", wrt=["w"], of="loss")
    x = numpy.random.default_rng(0).normal(size=(8, 3)).astype("float32")
    t = x @ numpy.float32([[1], [-2], [3]])

    def learn(store, own):
        with store:
            store.set_optimiser("SGD", lr=0.05)
            w = numpy.zeros((3, 1), dtype="float32")
            store.init("w", w)
            for _ in range(20):
                _, dw = model(x=x[own], t=t[own], w=w)
                w = store.exchange("w", dw).numpy()
        return w

    server = running(workers=2)
    halves = together(*[lambda rank=rank: learn(server.store(rank), slice(4 * rank, 4 * rank + 4)) for rank in range(2)])
    assert numpy.array_equal(halves[0], halves[1])
    w = numpy.zeros((3, 1))
    for _ in range(20):
        w -= 0.05 * sum(2 / 4 * x[own].T @ (x[own] @ w - t[own]) for own in (slice(0, 4), slice(4, 8)))
    assert numpy.abs(halves[0] - w).max() < 1e-5


def test_the_page_runs(monkeypatch):
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs/kvstore.md").read_text()
    (program,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    names = {}
    exec(program, names)
    assert names["trainer"].steps == 50 and float(names["loss"]) < 1.0


# ---- Processes ----


def launched(*arguments, status=0):
    done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=600)
    assert done.returncode == status, done.stderr
    return done.stderr


def saved(path):
    return {name: value.numpy() for name, value in _eager.read_safetensors(os.fspath(path))}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    out = tmp_path_factory.mktemp("kvstore") / "alone.safetensors"
    launched(WORKER, out, "--kind", "alone")
    return saved(out)


@pytest.mark.parametrize("workers, servers", [(1, 1), (2, 1), (4, 2)])
def test_rounds_of_processes_are_the_steps_of_one(alone, workers, servers, tmp_path):
    launched("-m", "tensmith.kvstore", "--workers", workers, "--servers", servers, WORKER, tmp_path / "out")
    found = saved(tmp_path / "out")
    assert all(numpy.abs(found[name] - alone[name]).max() < 1e-6 for name in alone)


def test_a_worker_that_is_killed_comes_back_and_changes_nothing(tmp_path):
    launched("-m", "tensmith.kvstore", "--workers", 2, "--servers", 3, WORKER, tmp_path / "whole", "--steps", 40)
    told = launched("-m", "tensmith.kvstore", "--workers", 2, "--servers", 3, "--restarts", 1, "--lost-after", 3, WORKER, tmp_path / "killed",
                    "--steps", 40, "--dies-at", 20)  # fmt: skip
    assert "worker 1 was ended by SIGKILL; it is started again" in told and "worker 1 has not been heard of" in told and "worker 1 is back" in told
    whole, killed = saved(tmp_path / "whole"), saved(tmp_path / "killed")
    assert all(numpy.array_equal(whole[name], killed[name]) for name in whole)
    told = launched("-m", "tensmith.kvstore", "--workers", 2, WORKER, tmp_path / "again", "--dies-at", 3, status=137)
    assert "worker 1 was ended by SIGKILL" in told


def test_workers_that_are_ahead_learn_as_well(tmp_path):
    launched("-m", "tensmith.kvstore", "--workers", 2, "--stale", 2, WORKER, tmp_path / "out", "--kind", "stale")
    found = saved(tmp_path / "out")
    x = numpy.random.default_rng(500).normal(size=(200, 6)).astype("float32")
    hidden = numpy.tanh(x @ found["0.weight"].T + found["0.bias"])
    error = (hidden @ found["2.weight"].T + found["2.bias"])[:, 0] - (2 * x[:, 0] - x[:, 1])
    assert (error**2).mean() < 1.5  # 5 where nothing is learnt


def test_sums_of_a_machine_go_up_as_one(alone, tmp_path):
    """Four workers on two machines, each with a server of its own below the one that has the values."""
    root = Server(workers=2)
    serving = threading.Thread(target=root.run, daemon=True)
    serving.start()
    below = [subprocess.Popen([sys.executable, "-m", "tensmith.kvstore", "serve", "--workers", "2", "--above", root.address, "--rank", str(machine)],
                              stdout=subprocess.PIPE, text=True) for machine in range(2)]  # fmt: skip
    addresses = [each.stdout.readline().strip() for each in below]
    import kvstore_training as training

    # Networks of one seed are made one after the other: the stream is one for all threads.
    models = [training.network() for _ in range(4)]

    def work(number):
        store = ts.KVStore("sync", addresses[number // 2], number % 2)
        trainer = store.attach(ts.optim.SGD(models[number].parameters(), lr=0.1))
        return store, trainer

    stores = together(*[lambda number=number: work(number) for number in range(4)])
    assert [(store.rank, store.workers) for store, _ in stores] == [(number, 4) for number in range(4)]
    for step in range(10):
        for number, (store, trainer) in enumerate(stores):
            x, y = training.batch(step, store.rank, store.workers)
            trainer.zero_grad()
            with ts.record():
                loss = ts.nn.functional.mse_loss(models[number](tnp.asarray(x)), tnp.asarray(y))
            loss.backward()
        assert together(*[trainer.step for _, trainer in stores]) == [None] * 4
    together(*[store.close for store, _ in stores])
    for each in below:
        assert each.wait(60) == 0
        each.stdout.close()
    serving.join()
    one = training.network()
    training.train(one, ts.optim.SGD(one.parameters(), lr=0.1), 0, 1, 10)
    for parameter, other in zip(one.parameters(), models[0].parameters()):
        assert numpy.abs(parameter.numpy() * 1.0 - other.numpy()).max() < 1e-6
