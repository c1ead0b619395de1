"""Models as their users write them, in words that two libraries share: what differs is a class for each of them."""

import contextlib


class Tensmith:
    def __init__(self):
        import tensmith as ts
        import tensmith.numpy as tnp

        self.nn, self.optim, self.recorded = ts.nn, ts.optim, ts.record
        self.tensor = tnp.asarray
        self.zeros = lambda *shape: tnp.zeros(shape, dtype=tnp.float32)
        self.tanh, self.sigmoid, self.joined = tnp.tanh, tnp.sigmoid, lambda parts: tnp.concat(parts, axis=1)
        ts.nn.manual_seed(0)


class Torch:
    def __init__(self):
        import torch

        self.nn, self.optim, self.recorded = torch.nn, torch.optim, contextlib.nullcontext
        self.tensor, self.zeros, self.tanh, self.sigmoid = torch.as_tensor, torch.zeros, torch.tanh, torch.sigmoid
        self.joined = lambda parts: torch.cat(parts, 1)
        torch.manual_seed(0)


def trained(words, model, forward):
    """A step of training by Adam."""
    optimiser = words.optim.Adam(model.parameters(), lr=1e-3)
    recorded, cross_entropy = words.recorded, words.nn.functional.cross_entropy

    def step(x, y):
        optimiser.zero_grad()
        with recorded():
            loss = cross_entropy(forward(x), y)
        loss.backward()
        optimiser.step()
        return loss

    return step


def mlp(words):
    nn = words.nn
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    return trained(words, model, lambda x: model(x))


def lstm(words):
    """A layer over 16 steps of time."""
    model = words.nn.ModuleDict({"layer": words.nn.LSTM(32, 64), "head": words.nn.Linear(64, 10)})

    def forward(x):
        outputs, _ = model["layer"](x)
        return model["head"](outputs[-1])

    return trained(words, model, forward)


def lstm_cells(words):
    """The same as a loop of Python over a cell."""
    model = words.nn.ModuleDict({"cell": words.nn.LSTMCell(32, 64), "head": words.nn.Linear(64, 10)})
    zeros = words.zeros

    def forward(x):
        state = (zeros(8, 64), zeros(8, 64))
        for i in range(x.shape[0]):
            state = model["cell"](x[i], state)
        return model["head"](state[0])

    return trained(words, model, forward)


def trees(words):
    """A TreeLSTM of two children (Tai and others, ACL 2015), over trees of tuples whose leaves are words' numbers."""
    nn, tanh, sigmoid, joined = words.nn, words.tanh, words.sigmoid, words.joined
    size = 64
    model = nn.ModuleDict({"gates": nn.Linear(2 * size, 5 * size), "leaf": nn.Linear(size, 2 * size), "words": nn.Linear(size, 100), "head": nn.Linear(size, 5)})

    def walk(tree):
        if not isinstance(tree, tuple):
            both = model["leaf"](model["words"].weight[tree : tree + 1])
            return tanh(both[:, :size]), both[:, size:]
        (left, left_cell), (right, right_cell) = walk(tree[0]), walk(tree[1])
        gates = model["gates"](joined([left, right]))
        enter, new, leave = sigmoid(gates[:, :size]), tanh(gates[:, size : 2 * size]), sigmoid(gates[:, 2 * size : 3 * size])
        cell = enter * new + sigmoid(gates[:, 3 * size : 4 * size]) * left_cell + sigmoid(gates[:, 4 * size :]) * right_cell
        return leave * tanh(cell), cell

    return trained(words, model, lambda tree: model["head"](walk(tree)[0]))


STEPS = {"mlp": mlp, "lstm": lstm, "lstm_cells": lstm_cells, "trees": trees}
