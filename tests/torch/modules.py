"""What tests of modules are made of: modules of functions, inputs, and answers with gradients to compare."""

import torch
from torch import nn
from torch.utils import _pytree

import tensmith as ts


class Of(nn.Module):
    """A module of a function of its parts and the inputs."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            if isinstance(part, torch.Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(self, *inputs):
        return self.function(self, *inputs)


def of(function, **parts):
    return Of(lambda self, *inputs: function(*inputs), **parts)


def r(*shape):
    return torch.randn(*shape)


def ints(limit, *shape):
    return torch.randint(0, limit, shape)


def leaves(value):
    return [x for x in _pytree.tree_leaves(value) if isinstance(x, torch.Tensor)]


def close(given, wanted, tolerance=1e-4):
    """To a part of the largest number of each tensor."""
    given, wanted = leaves(given), leaves(wanted)
    assert len(given) == len(wanted)
    for a, b in zip(given, wanted):
        largest = b.double().abs().nan_to_num(0, 0, 0).max().item() if b.numel() else 0.0
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance * max(1.0, largest), equal_nan=True)


def gradients_of(net, call, inputs):
    """Answers and gradients of all that may have one; the same numbers are drawn each time."""
    torch.manual_seed(1)
    inputs = [x.clone(memory_format=torch.preserve_format).requires_grad_(x.is_floating_point()) for x in inputs]
    answers = call(*inputs)
    loss = sum((x.double() * torch.linspace(0.5, 1.5, x.numel(), dtype=torch.float64).reshape(x.shape)).sum() for x in leaves(answers) if x.requires_grad)
    taken = [x for x in [*inputs, *net.parameters()] if x.requires_grad]
    if not isinstance(loss, torch.Tensor):
        return answers, []
    return answers, torch.autograd.grad(loss, taken, allow_unused=True, materialize_grads=True)


def made(modules, name):
    """The module and its inputs, the same ones each time."""
    torch.manual_seed(0)
    return modules[name]()


def exported_agrees(make):
    """What `from_torch` gives, by reference, is what eager gives."""
    (net, *inputs), (other, *_) = make(), make()
    with torch.no_grad():
        torch.manual_seed(2)
        wanted = other.eval()(*[x.clone() for x in inputs])
        model = ts.from_torch(net.eval(), tuple(inputs), reference=True)
        torch.manual_seed(2)
        close(model(*inputs), wanted)


def trained(net, call, inputs, rate=1e-2, steps=3):
    """Losses of steps of AdamW, and what the parameters are after them."""
    torch.manual_seed(3)
    optimiser, losses = torch.optim.AdamW([x for x in net.parameters() if x.requires_grad] or [torch.zeros(1, requires_grad=True)], rate), []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = sum(x.square().mean() if x.numel() else x.sum() for x in leaves(call(*inputs)) if x.is_floating_point())
        if loss.requires_grad:
            loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return losses, [x.detach() for x in net.parameters()]


def compiled_agrees(make, backend, parameters=True):
    """Answers, gradients, losses of training and buffers of `torch.compile` are eager's, and parameters after it, but where a gradient that rounding
    leaves of nothing moves them as far as any: AdamW divides by its size."""
    (net, *inputs), (other, *_) = make(), make()
    call = torch.compile(net, backend=backend)
    for a, b in zip(gradients_of(net, call, inputs), gradients_of(other, other, inputs)):
        close(a, b)
    (losses, own), (wanted, others) = trained(net, call, inputs), trained(other, other, inputs)
    close(losses, wanted, 1e-3)
    if parameters:
        close(own, others, 1e-3)
    close(list(net.buffers()), list(other.buffers()))
