"""Eager tensors on devices: the values are the host's, results lie where their operands do, and what the host looks at is right.

Memory of a device "separate" can't be touched by the host: whatever forgets a copy ends the process, or is an error of the runtime.
"""

import os

os.environ.setdefault("TENSMITH_SEPARATE_DELAYS", "50")

import pathlib
import pickle
import subprocess
import sys
import threading

import numpy
import pytest

import tensmith as ts
import tensmith.numpy as tnp
from tensmith import _eager, nn, optim

A, B = "separate:0", "separate:1"


def there(values, device=A):
    return tnp.asarray(values, device=device)


def test_results_lie_where_their_operands_do():
    x = there([[1.0, 2.0], [3.0, 4.0]])
    assert x.device == A and tnp.asarray([1.0]).device == "cpu"
    for y in (x + 1, 2 * x, x @ x, tnp.exp(x), tnp.sum(x), x > 2, tnp.astype(x, tnp.int32), tnp.zeros_like(x), x.T, x[0], x[x > 1], tnp.concat([x, x]), -x):
        assert y.device == A
    # What lies on the host goes along with what does not.
    mixed = x + tnp.asarray([10.0, 20.0])
    assert mixed.device == A and mixed.tolist() == [[11.0, 22.0], [13.0, 24.0]]
    with pytest.raises(ValueError, match=f"{A} and {B}; move them to one by to_device"):
        x + there([1.0, 2.0], B)
    assert (x + there([1.0, 2.0], B).to_device(A)).tolist() == [[2.0, 4.0], [4.0, 6.0]]


def test_names_of_devices():
    assert "cpu" in tnp.__array_namespace_info__().devices() and A in tnp.__array_namespace_info__().devices()
    assert tnp.ones(2, device="separate").device == A and tnp.ones(2, device="cpu").device == "cpu"
    for wrong in ("cuda", "separate:99", "separate:x", "", "../separate"):
        with pytest.raises(ValueError, match="is not there"):
            tnp.ones(2, device=wrong)
    with pytest.raises(ValueError, match="named by a text"):
        tnp.ones(2, device=0)
    x = tnp.ones(2)
    assert x.to_device("cpu") is x and x.to_device(A).to_device(A).device == A
    with ts.default_device(A):
        assert tnp.arange(3).device == A and tnp.asarray([1.0]).device == A and tnp.ones(1, device="cpu").device == "cpu"
        assert tnp.__array_namespace_info__().default_device() == A
        seen = []
        thread = threading.Thread(target=lambda: seen.append(tnp.ones(1).device))
        thread.start()
        thread.join()
        assert seen == ["cpu"]
    assert tnp.arange(3).device == "cpu"


def test_what_others_see_is_a_copy():
    x = there([1.5, 2.5])
    seen = x.numpy()
    assert seen.tolist() == [1.5, 2.5] and not seen.flags.writeable
    x[0] = 7.0
    assert seen.tolist() == [1.5, 2.5] and x.tolist() == [7.0, 2.5]
    assert numpy.asarray(x).tolist() == [7.0, 2.5]
    assert x.__dlpack_device__() == (12, 0)
    with pytest.raises(BufferError, match="to_device"):
        x.__dlpack__()
    assert numpy.from_dlpack(x.to_device("cpu")).tolist() == [7.0, 2.5]
    assert tnp.from_dlpack(x, device="cpu").device == "cpu"
    with pytest.raises(TypeError):
        memoryview(x)[0] = 1.0
    assert A in repr(x) and "7." in repr(x)
    assert pickle.loads(pickle.dumps(x)).tolist() == [7.0, 2.5]


def test_views_and_writes():
    host, x = tnp.reshape(tnp.arange(24.0), (2, 3, 4)), tnp.reshape(tnp.arange(24.0, device=A), (2, 3, 4))
    for each in (host, x):
        each[0, ::2] *= 2
        each.mT[1] = each.mT[0] + 1
        each[tnp.asarray([1, 0]), :, 3] = tnp.asarray([5.0, 6.0, 7.0])
        each[each > 20] = -1.0
        each[...] = each[::-1]
    assert x.tolist() == host.tolist() and x.device == A
    host[...] = x * 2  # back to the host
    assert host.tolist() == (x * 2).tolist() and host.device == "cpu"


def _programs(count):
    return range(count if os.environ.get("TENSMITH_LONG") is None else 1000)


@pytest.mark.parametrize("seed", _programs(12))
def test_random_programs_are_the_hosts(seed):
    """Chains of operations, views and writes, on one device or the other, or partly on the host: the bits are those of the host alone."""

    def run(devices):
        draw = numpy.random.default_rng(seed)
        places = numpy.random.default_rng(seed + 1)

        def place(x):
            return x.to_device(devices[int(places.integers(len(devices)))])

        pool = [place(tnp.asarray(draw.integers(-4, 5, (3, 4)).astype("float32"))) for _ in range(3)]
        for _ in range(25):
            a, b = (pool[int(i)] for i in draw.integers(0, len(pool), 2))
            kind = int(draw.integers(0, 9))
            if kind == 0:
                pool.append(a + b)
            elif kind == 1:
                pool.append(tnp.where(a > b, a, b * 2))
            elif kind == 2:
                a[int(draw.integers(0, 3))] = b[0] - 1
            elif kind == 3:
                pool.append(tnp.reshape(tnp.sum(a, axis=0), (1, 4)) * tnp.ones((3, 1), dtype=tnp.float32))
            elif kind == 4:
                pool.append(tnp.flip(a, axis=1)[::-1])
            elif kind == 5:
                a[:, 1:3] += b[:, ::2]
            elif kind == 6:
                pool.append(tnp.astype((a @ tnp.matrix_transpose(b)) @ b, tnp.float32) % 7)
            elif kind == 7:
                pool.append(tnp.take(a, tnp.asarray(draw.integers(0, 4, 4)), axis=1))
            else:
                pool.append(place(a + 0))
        return [x.tolist() for x in pool]

    wanted = run(["cpu"])
    assert run([A]) == wanted
    assert run(["cpu", A]) == wanted


def test_derivatives_and_leaves():
    def loss(w, x):
        return tnp.sum(tnp.tanh(x @ w) ** 2)

    w, x = numpy.random.default_rng(0).standard_normal((2, 3, 3))
    wanted = ts.grad(loss)(tnp.asarray(w), tnp.asarray(x))
    got = ts.grad(loss)(there(w), there(x))
    assert got.device == A and numpy.allclose(got.numpy(), wanted.numpy(), rtol=1e-12)
    assert numpy.allclose(ts.hessian(lambda w: loss(w, there(x)))(there(w)).numpy(), ts.hessian(lambda w: loss(w, tnp.asarray(x)))(tnp.asarray(w)).numpy(), rtol=1e-9)
    assert ts.vmap(lambda row: tnp.sum(row * row))(there(x)).device == A
    leaf = there(w)
    leaf.requires_grad = True
    for _ in range(2):
        with ts.record():
            error = loss(leaf.to_device("cpu"), tnp.asarray(x)) + loss(leaf, there(x)).to_device("cpu")
        error.backward()
    assert leaf.grad.device == A and numpy.allclose(leaf.grad.numpy(), 4 * wanted.numpy(), rtol=1e-12)


def _trained(device, step_of):
    nn.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).to(device)
    optimiser = optim.Adam(model.parameters(), lr=0.05)
    draw = numpy.random.default_rng(1)
    x, target = tnp.asarray(draw.standard_normal((10, 6)).astype("float32"), device=device), tnp.asarray(draw.integers(0, 3, 10), device=device)

    def step():
        optimiser.zero_grad()
        with ts.record():
            error = nn.functional.cross_entropy(model(x), target)
        error.backward()
        optimiser.step()
        return error

    step = step_of(step)
    errors = [float(step()) for _ in range(12)]
    assert all(p.device == p.grad.device == device for p in model.parameters()) and all(b.device == device for b in model.buffers())
    return errors, {name: x.numpy().copy() for name, x in model.state_dict().items()}


@pytest.mark.parametrize("step_of", [lambda step: step, ts.function, ts.coexecute], ids=["eager", "function", "coexecute"])
def test_training_is_the_hosts(step_of):
    errors, state = _trained("cpu", lambda step: step)
    on_device, there = _trained(A, step_of)
    assert errors[-1] < errors[0] / 2 and numpy.allclose(on_device, errors, rtol=1e-4)
    for name, x in state.items():
        assert numpy.allclose(there[name], x, rtol=1e-3, atol=1e-5), name


def test_convolutions_and_recurrence():
    nn.manual_seed(1)
    for layer, x in ((nn.Conv2d(3, 4, 3, padding=1), numpy.random.default_rng(0).standard_normal((2, 3, 6, 6)).astype("float32")),
                     (nn.MaxPool2d(2), numpy.random.default_rng(0).standard_normal((2, 3, 6, 6)).astype("float32")),
                     (nn.LSTM(4, 5, batch_first=True), numpy.random.default_rng(0).standard_normal((2, 6, 4)).astype("float32"))):  # fmt: skip
        wanted = layer(tnp.asarray(x))
        got = layer.to(A)(there(x))
        wanted, got = (each[0] if isinstance(each, tuple) else each for each in (wanted, got))
        assert got.device == A and numpy.allclose(got.numpy(), wanted.numpy(), atol=1e-6)


def test_a_converted_function_runs_where_its_tensors_lie():
    f = ts.function(lambda x, w: tnp.tanh(x @ w) if float(tnp.sum(x)) > 0 else x @ w)
    x, w = numpy.random.default_rng(0).standard_normal((2, 4, 4))
    x = numpy.abs(x)
    for device in ("cpu", A, B, "cpu", A):
        for sign in (1, -1):
            for _ in range(4):
                y = f(tnp.asarray(sign * x, device=device), tnp.asarray(w, device=device))
                assert y.device == device
                assert numpy.allclose(y.numpy(), numpy.tanh(x @ w) if sign > 0 else -(x @ w), rtol=1e-12)
    assert f.statistics()["conversions"] > 0


def test_devices_within_converted_functions():
    """What a function says of devices is Python's to do, and can't be the body of a loop."""
    functions = [lambda x: x.to_device(A) * 2, lambda x: (x + tnp.ones(3, device=A)), lambda x: tnp.asarray(x, device=A) + 1,
                 lambda x: x * 2 if x.device == A else (x * 3).to_device(A)]  # fmt: skip
    for function in functions:
        f = ts.function(function)
        for device in ("cpu", "cpu", "cpu", "cpu", A, A, "cpu"):
            x = tnp.asarray([1.0, 2.0, 3.0], device=device)
            y = f(x)
            assert y.device == A and y.tolist() == function(x).tolist()
        assert f.statistics()["converted"] == 0
    with pytest.raises(TypeError, match="recorded as a whole, as the bodies of scan and vmap"):
        ts.vmap(functions[0])(tnp.ones((2, 3)))


def test_programs_over_several_devices():
    """One program runs on one device; gradients come back to where their leaves lie, and an optimiser writes where its parameters do."""
    one, other = there([1.0, 2.0]), there([3.0, 4.0], B)
    for leaf in (one, other):
        leaf.requires_grad = True
    optimiser = optim.SGD([one, other], lr=0.1)
    with ts.record():
        error = tnp.sum((one * 2).to_device(B) * other)
    error.backward()
    assert (one.grad.device, other.grad.device) == (A, B) and one.grad.tolist() == [6.0, 8.0] and other.grad.tolist() == [2.0, 4.0]
    optimiser.step()
    assert (one.device, other.device) == (A, B) and numpy.allclose(one.numpy(), [0.4, 1.2]) and numpy.allclose(other.numpy(), [2.8, 3.6])


def test_modules_are_moved_before_they_are_recorded():
    layer = nn.Linear(2, 2)
    with ts.record(), pytest.raises(TypeError, match="before anything is recorded"):
        layer.to(A)
    assert layer.weight.device == "cpu" and layer.to(A).weight.device == A


def test_a_default_device_is_of_what_programs_make():
    x = there([1.0, 2.0, 3.0], B)
    parameter = nn.Parameter(there([1.0, 2.0], B))
    optimiser = optim.Adam([parameter], lr=0.1)
    parameter.grad = there([1.0, 1.0], B)
    layer = nn.LSTM(2, 3, batch_first=True).to(B)
    with ts.default_device(A):
        assert tnp.repeat(x, there([1, 2, 0], B)).tolist() == [1.0, 2.0, 2.0]
        optimiser.step()
        assert layer(there(numpy.ones((1, 4, 2), dtype="float32"), B))[0].device == B
        assert tnp.fft.fftfreq(5, device="cpu").device == "cpu" and tnp.fft.fftfreq(5).device == A
        assert tnp.tril(there(numpy.ones((2, 2)), B)).device == B
    assert parameter.device == B and numpy.allclose(parameter.numpy(), [0.9, 1.9])


def test_compiled_kernels_run_on_the_device():
    """However small: each operation is one run of a kernel that was compiled for the device."""
    x = there(numpy.ones((64, 64)))
    _eager.finish()
    before = _eager.kernel_statistics()["runs"]
    y = tnp.exp(x) @ x + 1
    y.wait()
    assert _eager.kernel_statistics()["runs"] == before + 3
    assert numpy.allclose(y.numpy(), numpy.e * 64 + 1)


def test_every_element_type():
    for name in "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128".split():
        kind = getattr(tnp, name)
        x = tnp.astype(tnp.asarray([0, 1, 1, 0]), kind, device=A)
        assert x.device == A and x.dtype == kind
        y = tnp.where(x == x, x, x)
        assert y.device == A and [complex(each).real for each in y.tolist()] == [0, 1, 1, 0]
        if kind != tnp.bool:
            assert [complex(each).real for each in (x + x).tolist()] == [0, 2, 2, 0]


def test_memory_on_the_device_is_given_back():
    """Thousands of tensors, of more bytes in all than the device has room for."""
    x = there(numpy.ones(1 << 20, dtype="float32"))
    kept = [x]
    for _ in range(300):  # 4 MiB each, and as many addresses of the host's
        kept[0] = kept[0] * 1.5 - 0.5
    assert float(kept[0][0]) == 1.0
    resident = int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096
    for _ in range(300):
        kept[0] = kept[0] * 1.5 - 0.5
    kept[0].wait()
    assert int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096 < resident + (200 << 20)


def test_a_child_of_a_fork_goes_on_with_its_devices():
    code = f"""if True:
        import os, tensmith.numpy as tnp
        x = tnp.arange(5.0, device={A!r})
        y = x * 2
        y.wait()
        if (child := os.fork()) == 0:
            os._exit(0 if (y + x).tolist() == [0.0, 3.0, 6.0, 9.0, 12.0] else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), (y - x).tolist())"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert told.stdout.strip() == "0 [0.0, 1.0, 2.0, 3.0, 4.0]"


def test_without_the_library_a_device_is_not_there():
    code = "import tensmith.numpy as tnp\ntry:\n    tnp.ones(2, device='absent')\nexcept ValueError as error:\n    print(error)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "the device 'absent' is not there" in told.stdout
