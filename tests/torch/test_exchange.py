"""How tensors of PyTorch go into a module and out of it: by its table of C functions where it has one, else by capsules of DLPack."""

import gc
import weakref

import pytest

import tensmith as ts
from tensmith import _tensmith

torch = pytest.importorskip("torch", minversion="2.5")

from torch.utils.dlpack import from_dlpack  # noqa: E402

import tensmith.torch  # noqa: E402
from tensmith.torch import run  # noqa: E402


class Doubled(torch.nn.Module):
    def forward(self, x):
        return x * 2


class WithoutTable(torch.Tensor):
    __dlpack_c_exchange_api__ = None


def exchange(kind=torch.Tensor):
    return _tensmith.TensorExchange(kind, run.readable, from_dlpack, torch.Tensor.is_neg, torch.Tensor.is_conj)


def doubled(x, by=None):
    model = ts.from_torch(Doubled(), (torch.zeros(x.shape, dtype=x.dtype),))
    (result,) = model.module._module.run([x], None, by or exchange())
    return result


def test_the_table_is_used_where_there_is_one():
    # Breaks if the table's name, version or layout is misread.
    assert exchange().is_direct == hasattr(torch.Tensor, "__dlpack_c_exchange_api__")


@pytest.mark.parametrize("kind", [torch.Tensor, WithoutTable])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8])
def test_elements_are_as_given_both_ways(kind, dtype):
    # Breaks if a type is mistaken, or a library without the table isn't asked for capsules.
    x = torch.arange(6).reshape(2, 3).to(dtype).as_subclass(kind)
    assert exchange(kind).is_direct == (kind is torch.Tensor and hasattr(torch.Tensor, "__dlpack_c_exchange_api__"))
    result = doubled(x, exchange(kind))
    assert torch.equal(result, torch.arange(6).reshape(2, 3).to(dtype) * 2) and result.dtype == dtype



@pytest.mark.parametrize(
    "x",
    [torch.arange(12.0).reshape(3, 4).t(), torch.arange(24.0)[::2], torch.arange(3.0).expand(2, 3), torch.zeros(0, 4).t(), torch.tensor(3.0),
     torch.arange(12.0)[5:9], torch.arange(8.0).reshape(1, 2, 4).transpose(0, 1)],
    ids=["transposed", "every other", "expanded", "empty", "one", "a part", "a side of one"],
)  # fmt: skip
def test_elements_that_lie_in_another_order(x):
    # Breaks if memory is read as if it were dense.
    assert torch.equal(doubled(x), x * 2)


def test_negated_tensors_are_what_they_say():
    # Breaks if memory is read where its elements have yet to be negated.
    x = torch._neg_view(torch.arange(3.0))
    assert x.is_neg() and doubled(x).tolist() == [0, -2, -4]


def test_a_compiled_function_is_given_negated_gradients():
    # Breaks likewise: the gradient that the backward is given isn't among what is traced.
    call = torch.compile(Doubled(), backend=tensmith.torch.backend)
    x = torch.ones(3, requires_grad=True)
    call(x).backward(torch._neg_view(torch.arange(3.0)))
    assert x.grad.tolist() == [0, -2, -4]


def test_memory_is_let_go_of_in_time():
    # Breaks if an input is kept after a call, or a result doesn't keep its memory.
    x = torch.arange(4.0)
    gone = weakref.ref(x)
    result = doubled(x)
    del x
    gc.collect()
    assert gone() is None
    again = result.view(2, 2)
    del result
    gc.collect()
    assert again.tolist() == [[0, 2], [4, 6]]


def test_what_is_written_to_an_input_later_is_seen():
    # Breaks if what a tensor was is kept for later calls.
    call = torch.compile(torch.nn.Linear(2, 1, bias=False), backend=tensmith.torch.backend)
    weight = next(call.parameters())
    for value in (1.0, 2.0):
        with torch.no_grad():
            weight.fill_(value)
            assert call(torch.ones(1, 2)).item() == 2 * value
    weight.data = torch.full((2, 1), 3.0).t()
    with torch.no_grad():
        assert call(torch.ones(1, 2)).item() == 6


def test_places_that_have_no_memory_are_refused():
    # Breaks if the table's error is shown in the place of ours, or left behind.
    model = ts.from_torch(Doubled(), (torch.zeros(2),))
    with pytest.raises(ts.Error, match="device meta"):
        model.module._module.run([torch.zeros(2, device="meta")], None, exchange())


def test_what_lies_otherwise_is_brought_into_order_by_pytorch():
    # Breaks if a tensor whose elements don't lie in order is copied here, by one thread, or a dense one goes by capsule.
    asked = []

    def readable(x):
        asked.append(x)
        return run.readable(x)

    with_table = _tensmith.TensorExchange(torch.Tensor, readable, from_dlpack, torch.Tensor.is_neg, torch.Tensor.is_conj)
    if not with_table.is_direct:
        pytest.skip("this PyTorch has no table")
    x = torch.arange(6.0).reshape(2, 3)
    for given, count in ((x, 0), (x.t().contiguous().t(), 1), (x[:, :1].expand(2, 3), 2), (x[:1], 2)):
        assert torch.equal(doubled(given, with_table), given * 2) and len(asked) == count
