"""Models of JANUS's programs in Tensmith's own language, trained by a compiled step: what a converted function is held against. They have the same sizes,
batches and optimisers; first weights are drawn otherwise, so their losses are others.
"""

import pathlib
import random
import tempfile

import numpy

import tensmith as ts


def _lenet(scale):
    return f"""import "tensmith/convolution.tsm"
import "tensmith/dense.tsm"

let first = conv2d_weights(1, {6 * scale}, 5)
let second = conv2d_weights({6 * scale}, {16 * scale}, 5)
let wide = dense_weights({16 * scale * 25}, 120)
let narrow = dense_weights(120, 84)
let classes = dense_weights(84, 10)

fn main(x: f32[{4 * scale}, 1, 28, 28]) = {{
  let x = max_pool2d(tanh(conv2d(x, first, 1, 2)), 2, 2);
  let x = max_pool2d(tanh(conv2d(x, second, 1, 0)), 2, 2);
  dense(tanh(dense(tanh(dense(flatten(x), wide)), narrow)), classes)
}}
"""


def _lstm(scale):
    """The cell has the weights of `nn.LSTMCell`, and of PyTorch's: a product of the input and one of the state."""
    return f"""import "tensmith/dense.tsm"
import "tensmith/recurrent.tsm"

let enter = dense_weights({4 * scale}, {32 * scale})
let stay = dense_weights({8 * scale}, {32 * scale})
let out = dense_weights({8 * scale}, 5)

fn after(x: f32[6, 4, {4 * scale}], i: i64[], state) = {{
  let (hidden, cell) = state;
  let gates = dense(gather(x, i, axis = 0), enter) + dense(hidden, stay);
  let cell = sigmoid(part(gates, 1, 4)) * cell + sigmoid(part(gates, 0, 4)) * tanh(part(gates, 2, 4));
  (sigmoid(part(gates, 3, 4)) * tanh(cell), cell)
}}

fn main(x: f32[6, 4, {4 * scale}]) = {{
  let zero = (broadcast(0.0) : f32[4, {8 * scale}]);
  let (hidden, _) = after(x, 5, after(x, 4, after(x, 3, after(x, 2, after(x, 1, after(x, 0, (zero, zero)))))));
  dense(hidden, out)
}}
"""


def _tree_rnn(scale):
    return f"""import "tensmith/dense.tsm"

let words = (random_normal(seed = 0) : f32[20, {8 * scale}])
let joined = dense_weights({16 * scale}, {8 * scale})
let out = dense_weights({8 * scale}, 5)

fn encode(tree) =
  match tree {{
    Leaf(word) => (reshape(gather(words, word, axis = 0)) : f32[1, {8 * scale}]),
    Node(left, right) => tanh(dense(concat(encode(left), encode(right), axis = 1), joined)),
  }}

fn main(tree: Tree[i64[]]) = dense(encode(tree), out)
"""


def _tree_lstm(scale):
    return f"""import "tensmith/dense.tsm"
import "tensmith/recurrent.tsm"

let words = (random_normal(seed = 0) : f32[20, {8 * scale}])
let leaf = dense_weights({8 * scale}, {16 * scale})
let gates = dense_weights({16 * scale}, {40 * scale})
let out = dense_weights({8 * scale}, 5)

fn encode(tree) =
  match tree {{
    Leaf(word) => {{
      let both = dense((reshape(gather(words, word, axis = 0)) : f32[1, {8 * scale}]), leaf);
      (tanh(part(both, 0, 2)), part(both, 1, 2))
    }},
    Node(left, right) => {{
      let (a, a_cell) = encode(left);
      let (b, b_cell) = encode(right);
      let all = dense(concat(a, b, axis = 1), gates);
      let cell = sigmoid(part(all, 0, 5)) * tanh(part(all, 1, 5)) + sigmoid(part(all, 3, 5)) * a_cell + sigmoid(part(all, 4, 5)) * b_cell;
      (sigmoid(part(all, 2, 5)) * tanh(cell), cell)
    }},
  }}

fn main(tree: Tree[i64[]]) = {{
  let (hidden, _) = encode(tree);
  dense(hidden, out)
}}
"""


def _pictures(scale):
    draw = numpy.random.RandomState(1)
    return lambda step: {"x": draw.randn(4 * scale, 1, 28, 28).astype("float32"), "target": draw.randint(0, 10, 4 * scale)}


def _sequences(scale):
    draw = numpy.random.RandomState(1)
    return lambda step: {"x": draw.randn(6, 4, 4 * scale).astype("float32"), "target": draw.randint(0, 5, 4)}


def _trees(scale):
    """Those of the other programs: a tree is drawn with a label for each node, of which the root's counts."""
    draw = random.Random(3)

    def drawn(leaves, make):
        if leaves == 1:
            return draw.randrange(5), make["Leaf"](numpy.int64(draw.randrange(20)))
        left = draw.randint(1, leaves - 1)
        label = draw.randrange(5)
        return label, make["Node"](*(drawn(count, make)[1] for count in (left, leaves - left)))

    def given(step):
        label, tree = drawn(draw.randint(2, 4 if scale == 1 else 20), step.constructors)
        return {"tree": tree, "target": numpy.asarray([label])}

    return given


# The text at a scale, its data, and how it is trained.
MODELS = {
    "LeNet": (_lenet, _pictures, {"optimiser": "momentum", "learning_rate": 0.01}),
    "LSTM": (_lstm, _sequences, {"optimiser": "adam", "learning_rate": 0.01, "clip_norm": 1.0}),
    "TreeRNN": (_tree_rnn, _trees, {"optimiser": "adagrad", "learning_rate": 0.05}),
    "TreeLSTM": (_tree_lstm, _trees, {"optimiser": "adagrad", "learning_rate": 0.05}),
}


def step_of(name, scale):
    """A step that is called with its number and gives its loss."""
    text, data, settings = MODELS[name]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model.tsm")
        path.write_text(text(scale))
        step = ts.train_step(path, threads=1, **settings)
    given = data(scale)
    return lambda number: step(**given(step))["loss"]
