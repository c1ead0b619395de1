"""The wheel's entry point: PyTorch finds the backend by its name. Run where `tensmith`'s wheel and torch are installed."""

import pathlib
import sysconfig

import tensmith
import torch

assert pathlib.Path(tensmith.__file__).is_relative_to(sysconfig.get_path("platlib")), tensmith.__file__
torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
compiled, x = torch.compile(net, backend="tensmith"), torch.randn(5, 8)
with torch.no_grad():
    torch.testing.assert_close(compiled(x), net(x))
gradients = [torch.autograd.grad(model(x).square().sum(), list(net.parameters())) for model in (compiled, net)]
torch.testing.assert_close(*gradients)
print("torch.compile has found the backend, forward and backward")
