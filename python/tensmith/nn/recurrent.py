"""Recurrent layers: cells of one step, and layers over a sequence, whose loop is compiled (`scan`)."""

from .. import numpy as tnp
from ..numpy import creation
from ..recorded.operators import scan
from . import functional
from .layers import draw_, empty
from .module import Module

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell"]


def _parts(x, count):
    size = x.shape[-1] // count
    return [x[..., i * size : (i + 1) * size] for i in range(count)]


def rnn_step(inputs, state, recurrent, nonlinearity):
    (hidden,) = state
    total = inputs + recurrent(hidden)
    return [tnp.tanh(total) if nonlinearity == "tanh" else functional.relu(total)]


def lstm_step(inputs, state, recurrent, _):
    hidden, cell = state
    enter, forget, new, leave = _parts(inputs + recurrent(hidden), 4)
    cell = tnp.sigmoid(forget) * cell + tnp.sigmoid(enter) * tnp.tanh(new)
    return [tnp.sigmoid(leave) * tnp.tanh(cell), cell]


def gru_step(inputs, state, recurrent, _):
    """What is kept of the state is gated behind its product, as PyTorch and cuDNN have it."""
    (hidden,) = state
    (reset, update, new), (reset_of, update_of, new_of) = _parts(inputs, 3), _parts(recurrent(hidden), 3)
    update = tnp.sigmoid(update + update_of)
    new = tnp.tanh(new + tnp.sigmoid(reset + reset_of) * new_of)
    return [(1 - update) * new + update * hidden]


_KINDS = {"RNN": (1, 1, rnn_step), "LSTM": (4, 2, lstm_step), "GRU": (3, 1, gru_step)}


class _Cell(Module):
    kind = ""

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", dtype=None):
        super().__init__()
        gates = _KINDS[self.kind][0]
        self.input_size, self.hidden_size, self.nonlinearity = input_size, hidden_size, nonlinearity
        self.weight_ih = empty(gates * hidden_size, input_size, dtype=dtype)
        self.weight_hh = empty(gates * hidden_size, hidden_size, dtype=dtype)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, empty(gates * hidden_size, dtype=dtype) if bias else None)
        draw_(self, hidden_size)

    def forward(self, x, state=None):
        _, states, step = _KINDS[self.kind]
        if state is None:
            state = [creation.zeros((*x.shape[:-1], self.hidden_size), dtype=x.dtype)] * states
        elif states == 1:
            state = [state]
        inputs = functional.linear(x, self.weight_ih, self.bias_ih)
        result = step(inputs, state, lambda hidden: functional.linear(hidden, self.weight_hh, self.bias_hh), self.nonlinearity)
        return result[0] if states == 1 else tuple(result)


class RNNCell(_Cell):
    kind = "RNN"


class LSTMCell(_Cell):
    kind = "LSTM"


class GRUCell(_Cell):
    kind = "GRU"


class _Recurrent(Module):
    kind = ""

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False,
                 nonlinearity="tanh", dtype=None):  # fmt: skip
        super().__init__()
        gates = _KINDS[self.kind][0]
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.batch_first, self.dropout, self.bidirectional, self.nonlinearity = batch_first, dropout, bidirectional, nonlinearity
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else hidden_size * (2 if bidirectional else 1)
            for suffix in self._suffixes(layer):
                for name, size in (("weight_ih", (inputs,)), ("weight_hh", (hidden_size,)), ("bias_ih", ()), ("bias_hh", ())):
                    wanted = bias or name.startswith("weight")
                    self.register_parameter(name + suffix, empty(gates * hidden_size, *size, dtype=dtype) if wanted else None)
        draw_(self, hidden_size)

    def _suffixes(self, layer):
        return [f"_l{layer}", f"_l{layer}_reverse"] if self.bidirectional else [f"_l{layer}"]

    def _over(self, x, state, suffix):
        """One layer in one direction: its outputs and its last state."""
        step = _KINDS[self.kind][2]
        weight, bias = getattr(self, "weight_hh" + suffix), getattr(self, "bias_hh" + suffix)
        inputs = functional.linear(x, getattr(self, "weight_ih" + suffix), getattr(self, "bias_ih" + suffix))
        if suffix.endswith("_reverse"):
            inputs = tnp.flip(inputs, axis=0)

        def body(carried, rows):
            after = step(rows[0], carried, lambda hidden: functional.linear(hidden, weight, bias), self.nonlinearity)
            return after, [after[0]]

        last, (outputs,) = scan(body, state, [inputs])
        return tnp.flip(outputs, axis=0) if suffix.endswith("_reverse") else outputs, last

    def forward(self, x, state=None):
        """x: [time, batch, input], or [batch, time, input] with batch_first, or without the batch. Gives the outputs and the last state."""
        if x.ndim not in (2, 3):
            raise ValueError(f"{self.kind} takes a tensor of 3 dimensions, or of 2 without a batch, not of {x.ndim}")
        is_single, states = x.ndim == 2, _KINDS[self.kind][1]
        if is_single:
            x = x[:, None]
        elif self.batch_first:
            x = tnp.moveaxis(x, 0, 1)
        count = self.num_layers * (2 if self.bidirectional else 1)
        if state is None:
            state = [creation.zeros((count, x.shape[1], self.hidden_size), dtype=x.dtype)] * states
        else:
            state = [state] if states == 1 else list(state)
            state = [each[:, None] for each in state] if is_single else state
        lasts = []
        for layer in range(self.num_layers):
            if layer:
                x = functional.dropout(x, self.dropout, self.training)
            outputs = []
            for suffix in self._suffixes(layer):
                result, last = self._over(x, [each[len(lasts)] for each in state], suffix)
                outputs.append(result)
                lasts.append(last)
            x = outputs[0] if len(outputs) == 1 else tnp.concat(outputs, axis=-1)
        last = [tnp.stack([each[i] for each in lasts]) for i in range(states)]
        if is_single:
            x, last = x[:, 0], [each[:, 0] for each in last]
        elif self.batch_first:
            x = tnp.moveaxis(x, 0, 1)
        return x, last[0] if states == 1 else tuple(last)


class RNN(_Recurrent):
    kind = "RNN"


class LSTM(_Recurrent):
    kind = "LSTM"


class GRU(_Recurrent):
    kind = "GRU"
