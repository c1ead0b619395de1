"""Each test of PyTorch's door starts from the same random numbers, with nothing compiled and a cache of its own."""

import pytest


@pytest.fixture(autouse=True)
def _fresh(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", minversion="2.5")
    torch.manual_seed(0)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    monkeypatch.setattr(torch._dynamo.config, "allow_rnn", True, raising=False)  # nn.LSTM and its kin are else left to eager, and nothing is tested
    monkeypatch.setenv("TENSMITH_CACHE", str(tmp_path / "cache"))
