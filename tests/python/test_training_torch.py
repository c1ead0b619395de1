"""A hundred steps of training follow PyTorch's losses, from the same weights and data."""

import warnings

import numpy as np
import pytest

import tensmith as ts

torch = pytest.importorskip("torch", reason="needs torch, which bench/requirements.txt does not bring")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

STEPS = 100


class Layer(nn.Module):
    def __init__(self, size=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.first, self.second = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)

    def forward(self, x):
        batch, length, size = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, size // self.heads).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, size)
        x = self.norm1(x + self.out(y))
        return self.norm2(x + self.second(functional.gelu(self.first(x))))


class Bert(nn.Module):
    def __init__(self, words=50, size=32):
        super().__init__()
        self.words, self.norm = nn.Embedding(words, size), nn.LayerNorm(size)
        self.layers, self.head = nn.Sequential(Layer(), Layer()), nn.Linear(size, 3)

    def forward(self, ids):
        return self.head(self.layers(self.norm(self.words(ids)))[:, 0])


def mlp():
    return nn.Sequential(nn.Linear(20, 33), nn.ReLU(), nn.Linear(33, 7)), lambda draw: draw.normal(size=(16, 20)).astype(np.float32), 7


def lenet():
    net = nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 11, 3, stride=2, bias=False),
        nn.BatchNorm2d(11), nn.ReLU(), nn.Flatten(), nn.Linear(11 * 4, 5),
    )  # fmt: skip
    return net, lambda draw: draw.normal(size=(16, 1, 14, 14)).astype(np.float32), 5


def bert():
    return Bert(), lambda draw: draw.integers(0, 50, (8, 12)), 3


# The rates leave losses that a rounding changes by no more than the tolerance over all steps.
@pytest.mark.parametrize("make, optimiser, rate, tolerance", [(mlp, "sgd", 0.05, 1e-4), (lenet, "momentum", 0.01, 1e-3), (bert, "adam", 1e-4, 1e-3)])
def test_a_hundred_steps_follow_torch(tmp_path, make, optimiser, rate, tolerance):
    torch.manual_seed(3)
    net, batch_of, classes = make()
    net.train()
    draw = np.random.default_rng(5)
    batches = [(batch_of(draw), draw.integers(0, classes, 8 if make is bert else 16)) for _ in range(10)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(net, (torch.from_numpy(batches[0][0]),), tmp_path / "net.onnx", input_names=["x"], opset_version=17,
                          dynamo=False, training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False)  # fmt: skip
    theirs = {
        "sgd": lambda p: torch.optim.SGD(p, rate),
        "momentum": lambda p: torch.optim.SGD(p, rate, momentum=0.9),
        "adam": lambda p: torch.optim.Adam(p, rate),
    }[optimiser](net.parameters())
    step = ts.train_step(tmp_path / "net.onnx", optimiser=optimiser, learning_rate=rate)
    for i in range(STEPS):
        x, target = batches[i % len(batches)]
        theirs.zero_grad()
        loss = functional.cross_entropy(net(torch.from_numpy(x)), torch.from_numpy(target))
        loss.backward()
        theirs.step()
        assert abs(float(step(x=x, target=target)["loss"]) - loss.item()) < tolerance * max(1, loss.item()), i
    for name, value in net.named_parameters():
        if name in step.state:
            np.testing.assert_allclose(step.state[name], value.detach().numpy(), rtol=0.01, atol=tolerance * 5, err_msg=name)
