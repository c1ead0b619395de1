"""An LSTM, a language model, and recursive networks over trees: of JANUS's programs those on sequences and data structures."""

import random

import numpy

import tensmith as ts
import tensmith.numpy as tnp
from tensmith import nn, optim

functional = nn.functional


class Sequences(nn.Module):
    """A loop of Python over a cell; the last state is classified."""

    def __init__(self, scale):
        super().__init__()
        self.width = 8 * scale
        self.cell, self.head = nn.LSTMCell(4 * scale, self.width), nn.Linear(self.width, 5)

    def forward(self, x):
        h, c = tnp.zeros((x.shape[1], self.width), dtype=tnp.float32), tnp.zeros((x.shape[1], self.width), dtype=tnp.float32)
        for i in range(x.shape[0]):
            h, c = self.cell(x[i], (h, c))
        return self.head(h)


def lstm(convert, scale):
    draw, model = numpy.random.RandomState(1), Sequences(scale)
    optimiser = optim.Adam(model.parameters(), lr=0.01)

    def train(x, y):
        optimiser.zero_grad()
        with ts.record():
            loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optim.clip_grad_norm_(list(model.parameters()), 1.0)
        optimiser.step()
        return loss

    step = convert(train)
    return step, lambda number: step(tnp.asarray(draw.randn(6, 4, 4 * scale).astype("float32")), tnp.asarray(draw.randint(0, 5, 4)))


class LanguageModel:
    """Zaremba et al.'s: the state goes on from one piece of text to the next, and is an attribute."""

    def __init__(self, scale):
        self.words, self.width, self.batch = 20 * scale, 8 * scale, 4
        self.embedding, self.head = nn.Embedding(self.words, self.width), nn.Linear(self.width, self.words)
        self.cells = nn.ModuleList([nn.LSTMCell(self.width, self.width) for _ in range(2)])
        self.drop = nn.Dropout(0.1)
        self.optimiser = optim.SGD([p for each in (self.embedding, self.head, self.cells) for p in each.parameters()], lr=0.5)
        self.state = [(tnp.zeros((self.batch, self.width), dtype=tnp.float32), tnp.zeros((self.batch, self.width), dtype=tnp.float32)) for _ in self.cells]
        self.costs, self.count = 0.0, 0

    def train(self, text):
        self.optimiser.zero_grad()
        state, losses = list(self.state), []
        with ts.record():
            for t in range(text.shape[0] - 1):
                x = self.drop(self.embedding(text[t]))
                for i, cell in enumerate(self.cells):
                    state[i] = cell(x, state[i])
                    x = state[i][0]
                losses.append(functional.cross_entropy(self.head(x), text[t + 1]))
            loss = sum(losses) / len(losses)
        loss.backward()
        self.optimiser.step()
        self.state = state
        self.costs += float(loss)
        self.count += 1
        return loss


def language_model(convert, scale):
    draw, program = numpy.random.RandomState(2), LanguageModel(scale)
    step = convert(LanguageModel.train)
    return step, lambda number: step(program, tnp.asarray(draw.randint(0, program.words, (6, program.batch))))


class Tree:
    """A sentence as its parse tree; leaves have a word."""

    def __init__(self, label, word=None, left=None, right=None):
        self.label, self.word, self.left, self.right = label, word, left, right

    @property
    def is_leaf(self):
        return self.left is None


def drawn(draw, leaves):
    """A binary tree of any form."""
    if leaves == 1:
        return Tree(draw.randrange(5), word=draw.randrange(20))
    left = draw.randint(1, leaves - 1)
    return Tree(draw.randrange(5), left=drawn(draw, left), right=drawn(draw, leaves - left))


class TreeRnn(nn.Module):
    """Socher et al.'s."""

    def __init__(self, scale):
        super().__init__()
        width = 8 * scale
        self.words, self.joined, self.head = nn.Embedding(20, width), nn.Linear(2 * width, width), nn.Linear(width, 5)

    def state(self, tree):
        if tree.is_leaf:
            return tnp.reshape(self.words.weight[tree.word], (1, -1))
        return tnp.tanh(self.joined(tnp.concat([self.state(tree.left), self.state(tree.right)], axis=1)))

    def forward(self, tree):
        return self.head(self.state(tree))


class TreeLstm(nn.Module):
    """Tai et al.'s, of two children."""

    def __init__(self, scale):
        super().__init__()
        self.width = width = 8 * scale
        self.words, self.leaf = nn.Embedding(20, width), nn.Linear(width, 2 * width)
        self.gates, self.head = nn.Linear(2 * width, 5 * width), nn.Linear(width, 5)

    def state(self, tree):
        w = self.width
        if tree.is_leaf:
            both = self.leaf(tnp.reshape(self.words.weight[tree.word], (1, -1)))
            return tnp.tanh(both[:, :w]), both[:, w:]
        (left, left_cell), (right, right_cell) = self.state(tree.left), self.state(tree.right)
        gates = self.gates(tnp.concat([left, right], axis=1))
        enter, new, leave = tnp.sigmoid(gates[:, :w]), tnp.tanh(gates[:, w : 2 * w]), tnp.sigmoid(gates[:, 2 * w : 3 * w])
        cell = enter * new + tnp.sigmoid(gates[:, 3 * w : 4 * w]) * left_cell + tnp.sigmoid(gates[:, 4 * w :]) * right_cell
        return leave * tnp.tanh(cell), cell

    def forward(self, tree):
        return self.head(self.state(tree)[0])


def over_trees(network):
    def make(convert, scale):
        draw, model = random.Random(3), network(scale)
        optimiser = optim.Adagrad(model.parameters(), lr=0.05)

        def train(tree):
            optimiser.zero_grad()
            with ts.record():
                loss = functional.cross_entropy(model(tree), tnp.asarray([tree.label]))
            loss.backward()
            optimiser.step()
            return loss

        step = convert(train)
        return step, lambda number: step(drawn(draw, draw.randint(2, 4 if scale == 1 else 20)))

    return make


PROGRAMS = {"LSTM": lstm, "language model": language_model, "TreeRNN": over_trees(TreeRnn), "TreeLSTM": over_trees(TreeLstm)}
