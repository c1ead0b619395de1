"""`tensmith.nn` and `tensmith.optim` beside PyTorch's: the same parameters and inputs give the same results, gradients and steps."""

import numpy
import pytest

torch = pytest.importorskip("torch", minversion="2.5")
ts = pytest.importorskip("tensmith", reason="the Python package is not built")

import tensmith.numpy as tnp  # noqa: E402
from tensmith import nn, optim  # noqa: E402

F = torch.nn
SHAPES = {
    "Linear": ((7, 5), {}, [(3, 7)]),
    "Bilinear": ((3, 4, 5), {}, [(6, 3), (6, 4)]),
    "Conv1d": ((4, 6, 3), {"stride": 2, "padding": 1}, [(2, 4, 9)]),
    "Conv2d": ((4, 6, 3), {"padding": 1, "groups": 2, "dilation": 2}, [(2, 4, 8, 9)]),
    "Conv3d": ((2, 3, 2), {}, [(2, 2, 4, 5, 4)]),
    "ConvTranspose1d": ((4, 6, 3), {"stride": 2, "output_padding": 1}, [(2, 4, 5)]),
    "ConvTranspose2d": ((4, 6, 3), {"stride": 2, "padding": 1, "groups": 2}, [(2, 4, 5, 6)]),
    "MaxPool2d": ((3,), {"stride": 2, "padding": 1}, [(2, 3, 8, 9)]),
    "AvgPool2d": ((2,), {}, [(2, 3, 8, 9)]),
    "AdaptiveAvgPool2d": ((3,), {}, [(2, 3, 8, 7)]),
    "BatchNorm1d": ((5,), {}, [(7, 5)]),
    "BatchNorm2d": ((5,), {}, [(4, 5, 3, 2)]),
    "GroupNorm": ((2, 6), {}, [(3, 6, 4)]),
    "InstanceNorm2d": ((4,), {"affine": True}, [(2, 4, 5, 3)]),
    "LayerNorm": (((4, 3),), {}, [(2, 4, 3)]),
    "RMSNorm": ((6,), {}, [(2, 4, 6)]),
    "RNN": ((5, 4), {"num_layers": 2}, [(6, 3, 5)]),
    "LSTM": ((5, 4), {"bidirectional": True, "batch_first": True}, [(3, 6, 5)]),
    "GRU": ((5, 4), {}, [(6, 3, 5)]),
    "GRUCell": ((5, 4), {}, [(3, 5)]),
    "LSTMCell": ((5, 4), {}, [(3, 5)]),
    "MultiheadAttention": ((8, 2), {"batch_first": True}, [(2, 5, 8), (2, 6, 8), (2, 6, 8)]),
    "TransformerEncoderLayer": ((8, 2, 16), {"dropout": 0.0, "activation": "gelu", "norm_first": True}, [(5, 2, 8)]),
    "TransformerDecoderLayer": ((8, 2, 16), {"dropout": 0.0}, [(5, 2, 8), (6, 2, 8)]),
    "Transformer": ((8, 2, 1, 1, 16), {"dropout": 0.0}, [(5, 2, 8), (4, 2, 8)]),
    "PReLU": ((4,), {}, [(3, 4, 5)]),
} | {name: ((), {}, [(3, 8)]) for name in "CELU ELU GELU GLU Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid Mish ReLU ReLU6 SELU SiLU "
     "Sigmoid Softplus Softsign Tanh".split()}  # fmt: skip


def close(ours, theirs, tolerance=2e-4):
    theirs = theirs.detach().numpy()
    assert ours.shape == theirs.shape
    assert numpy.allclose(ours.numpy(), theirs, rtol=tolerance, atol=tolerance * (1 + abs(theirs).max())), abs(ours.numpy() - theirs).max()


def first(result):
    return result[0] if isinstance(result, (tuple, list)) else result


@pytest.mark.parametrize("name", SHAPES)
def test_modules(name):
    arguments, settings, shapes = SHAPES[name]
    torch.manual_seed(0)
    theirs, ours = getattr(F, name)(*arguments, **settings), getattr(nn, name)(*arguments, **settings)
    ours.load_state_dict({key: value.detach().numpy() for key, value in theirs.state_dict().items()})
    given = [torch.randn(shape, requires_grad=True) for shape in shapes]
    wanted = first(theirs(*given))
    weights = torch.randn_like(wanted)
    (wanted * weights).sum().backward()
    tensors = [tnp.asarray(x.detach().numpy(), copy=True) for x in given]
    for x in tensors:
        x.requires_grad = True
    with ts.record():
        got = first(ours(*tensors))
        loss = tnp.sum(got * tnp.asarray(weights.numpy()))
    close(got, wanted)
    loss.backward()
    for x, y in zip(tensors, given):
        close(x.grad, y.grad, 5e-4)
    gradients = dict(theirs.named_parameters())
    assert [key for key, _ in ours.named_parameters()] == list(gradients)
    for key, parameter in ours.named_parameters():
        close(parameter.grad, gradients[key].grad, 5e-4)
    for key, value in theirs.state_dict().items():  # running statistics
        close(ours.state_dict()[key], value)
    close(first(ours.eval()(*tensors)), first(theirs.eval()(*given)))


LOSSES = [("CrossEntropyLoss", "classes", {}), ("CrossEntropyLoss", "classes", {"label_smoothing": 0.1, "ignore_index": 1}),
          ("NLLLoss", "classes", {"reduction": "sum"}), ("MSELoss", "numbers", {}), ("L1Loss", "numbers", {}), ("SmoothL1Loss", "numbers", {}),
          ("HuberLoss", "numbers", {"delta": 0.5}), ("BCEWithLogitsLoss", "shares", {}), ("KLDivLoss", "shares", {"reduction": "batchmean"})]  # fmt: skip


@pytest.mark.parametrize("name, kind, settings", LOSSES)
def test_losses(name, kind, settings):
    torch.manual_seed(1)
    x = torch.randn(6, 4, requires_grad=True)
    target = {"classes": torch.randint(0, 4, (6,)), "numbers": torch.randn(6, 4), "shares": torch.rand(6, 4)}[kind]
    wanted = getattr(F, name)(**settings)(x, target)
    wanted.backward()
    given = tnp.asarray(x.detach().numpy(), copy=True)
    loss = getattr(nn, name)(**settings)
    got, gradient = ts.value_and_grad(lambda x: loss(x, tnp.asarray(target.numpy())))(given)
    close(got, wanted)
    close(gradient, x.grad)


OPTIMISERS = [("SGD", {"lr": 0.1}), ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
              ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.2}), ("Adam", {"lr": 0.05}), ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
              ("AdamW", {"lr": 0.05}), ("Adagrad", {"lr": 0.1, "lr_decay": 0.1}), ("RMSprop", {"centered": True, "momentum": 0.5})]  # fmt: skip


@pytest.mark.parametrize("name, settings", OPTIMISERS)
def test_optimisers(name, settings):
    torch.manual_seed(2)
    values = [torch.randn(4, 3), torch.randn(3)]
    theirs = [value.clone().requires_grad_() for value in values]
    ours = [nn.Parameter(tnp.asarray(value.numpy(), copy=True)) for value in values]
    optimisers = [getattr(torch.optim, name)(theirs, **settings), getattr(optim, name)(ours, **settings)]
    for step in range(5):
        if step == 3:
            for optimiser in optimisers:
                optimiser.param_groups[0]["lr"] *= 0.5
        for optimiser in optimisers:
            optimiser.zero_grad()
        (torch.tanh(theirs[0] + theirs[1]) ** 2).sum().backward()
        with ts.record():
            loss = tnp.sum(tnp.tanh(ours[0] + ours[1]) ** 2)
        loss.backward()
        for optimiser in optimisers:
            optimiser.step()
    for a, b in zip(ours, theirs):
        close(a, b, 1e-5)
