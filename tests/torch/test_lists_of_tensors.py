"""Optimisers that change all parameters at once, by operators on lists of tensors."""

import copy

import pytest

torch = pytest.importorskip("torch", minversion="2.5")
ts = pytest.importorskip("tensmith", reason="the Python package is not built")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import tensmith.torch  # noqa: E402
from tensmith.torch.foreach import of_lists  # noqa: E402


def drawn():
    return [torch.rand(shape) + 0.5 for shape in ((3, 2), (4,), ())]


KINDS = {"List[Tensor]": drawn, "List[number]": lambda: [0.5, 1.25, -2.0], "number": lambda: 1.5, "Tensor": lambda: torch.tensor(0.75)}


def operands(operator):
    """Of each argument without a default, by its type; a vector of values for the operators that take such."""
    taken = [KINDS[str(argument.type)]() for argument in operator._schema.arguments if not (argument.has_default_value() or argument.kwarg_only)]
    return [*taken[:-1], torch.tensor([0.5, 1.25, -2.0])] if str(operator) in ("aten._foreach_addcmul.Tensor", "aten._foreach_addcdiv.Tensor") else taken


def test_each_operator_beside_eager():
    """Breaks if a list's operator is another function of one tensor, or an operand of the list is taken for that of another element."""
    operators = [operator for operator in of_lists() if operator is not torch.ops.aten._foreach_copy.default]
    given = [operands(operator) for operator in operators]
    assert len(operators) > 50

    def call(given):
        return [operator(*of) for operator, of in zip(operators, given)]

    module = make_fx(lambda: call(given), decomposition_table=of_lists())()
    assert not any("_foreach_" in str(node.target) for node in module.graph.nodes)
    torch.testing.assert_close(module(), call(given), rtol=1e-6, atol=1e-6)


OPTIMISERS = {
    "adam": lambda p: torch.optim.Adam(p, lr=1e-2, amsgrad=True, foreach=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, weight_decay=1e-3, foreach=True),
    "rprop": lambda p: torch.optim.Rprop(p, lr=1e-2, foreach=True),
    "adamax": lambda p: torch.optim.Adamax(p, lr=1e-2, foreach=True),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_steps_beside_eager(name):
    """Breaks if a step has an operator that is refused, or state goes by another tensor than its own."""
    ours = [torch.nn.Parameter(x) for x in drawn()]
    eager = copy.deepcopy(ours)
    first, second = OPTIMISERS[name](ours), OPTIMISERS[name](eager)
    step = torch.compile(first.step, backend=tensmith.torch.backend)
    for _ in range(4):
        for x, y in zip(ours, eager):
            x.grad = torch.randn_like(x)
            y.grad = x.grad.clone()
        step()
        second.step()
    for x, y in zip(ours, eager):
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-5)
