// Support vector machines of ai.onnx.ml (SVMClassifier, SVMRegressor), as products and reductions.
//
// A classifier of k classes is k (k - 1) / 2 deciders, one for each pair, that vote. Probabilities
// of classes from those of pairs are the fixed point of Wu, Lin and Weng, "Probability Estimates
// for Multi-class Classification by Pairwise Coupling" (2004), second method, as libsvm iterates
// it: a loop in which each row stops changing when it has converged.
#include "frontends/onnx/Classifiers.h"
#include "frontends/onnx/Loops.h"

#include <numeric>

namespace tensmith::onnx_import {
namespace {

constexpr std::string_view kDomain = "ai.onnx.ml";

/// The kernel function of each row of x and each support vector, [rows, vectors]; null, with an
/// error, of a name that is none.
Value kernelOf(NodeImport &n, Value x, Value vectors, const std::string &kind) {
  auto parameters = n.floatsAttr("kernel_params");
  double gamma = !parameters.empty() ? parameters[0] : 0;
  double offset = parameters.size() > 1 ? parameters[1] : 0;
  double degree = parameters.size() > 2 ? parameters[2] : 0;
  if (!x || !vectors)
    return {};
  Value product = n.matmul(x, n.transpose(vectors, {1, 0}));
  if (kind == "LINEAR")
    return product;
  if (kind == "POLY") {
    Value base = n.add(n.mul(product, gamma), offset);
    return base ? n("graph.pow", {base, n.scalar(base, degree)}) : base;
  }
  if (kind == "SIGMOID")
    return n.unary("graph.tanh", n.add(n.mul(product, gamma), offset));
  if (kind == "RBF") { // |x - v|^2, not by its square's expansion, which cancels
    auto rows = n.dims(x), others = n.dims(vectors);
    Value difference = n.sub(n.reshape(x, {rows[0], n.size(1), rows[1]}),
                             n.reshape(vectors, {n.size(1), others[0], others[1]}));
    Value distance = difference
                         ? n.reduce("graph.reduce_sum", n.mul(difference, difference), {2}, false)
                         : difference;
    return n.unary("graph.exp", n.mul(distance, -gamma));
  }
  (void)n.error("kernel_type '" + kind + "' is none that is known");
  return {};
}

/// The list as rows of equal length; null, with an error, where it can't be.
Value rowsOf(NodeImport &n, ArrayRef<double> values, int64_t rows, Type type) {
  int64_t count = int64_t(values.size());
  if (rows < 1 || count == 0 || count % rows) {
    (void)n.error("has support vectors or coefficients that are not as many for each vector");
    return {};
  }
  return constantOf(n, type, values, {rows, count / rows});
}

LogicalResult svmRegressor(NodeImport &n) {
  auto transform = transformOf(n);
  Value x = featuresOf(n);
  if (failed(transform) || !x)
    return failure();
  Type type = n.element(x);
  int64_t supports = n.intAttr("n_supports");
  auto coefficients = n.floatsAttr("coefficients"), rho = n.floatsAttr("rho");
  if (rho.empty() || coefficients.empty() || supports < 0)
    return n.error("has no coefficients or no rho");
  Value y;
  if (supports > 0) {
    Value vectors = rowsOf(n, n.floatsAttr("support_vectors"), supports, type);
    if (!vectors || int64_t(coefficients.size()) != supports)
      return n.error("has not a coefficient for each of its n_supports support vectors");
    y = kernelOf(n, x, vectors, n.stringAttr("kernel_type", "LINEAR"));
  } else {
    y = x;
  }
  int64_t count = int64_t(coefficients.size());
  Value weights = constantOf(n, type, coefficients, {count, 1});
  y = y && weights ? n.add(n.matmul(y, weights), rho[0]) : Value();
  if (y && n.intAttr("one_class"))
    y = n.where(n("graph.greater", {y, n.scalar(y, 0)}), n.scalar(y, 1), n.scalar(y, -1));
  return n.give({n.cast(transformed(n, y, *transform), n.builder.getF32Type())});
}

// ---- Classification

struct Machine {
  Ints perClass; // support vectors of each class
  int64_t classes = 0;
  SmallVector<double> coefficients, rho, probA, probB;

  int64_t pairs() const { return classes * (classes - 1) / 2; }
  int64_t vectors() const { return std::accumulate(perClass.begin(), perClass.end(), int64_t(0)); }
};

/// The deciders as columns, [vectors, pairs]: pair (i, j) weighs i's vectors by row j - 1 of the
/// coefficients and j's by row i.
SmallVector<double> deciders(const Machine &machine) {
  int64_t all = machine.vectors(), pairs = machine.pairs(), pair = 0, startOfI = 0;
  SmallVector<double> table(size_t(all * pairs), 0);
  for (int64_t i = 0; i < machine.classes; startOfI += machine.perClass[size_t(i++)]) {
    int64_t startOfJ = startOfI + machine.perClass[size_t(i)];
    for (int64_t j = i + 1; j < machine.classes; ++j, ++pair) {
      for (int64_t v = startOfI; v < startOfI + machine.perClass[size_t(i)]; ++v)
        table[size_t(v * pairs + pair)] = machine.coefficients[size_t((j - 1) * all + v)];
      for (int64_t v = startOfJ; v < startOfJ + machine.perClass[size_t(j)]; ++v)
        table[size_t(v * pairs + pair)] = machine.coefficients[size_t(i * all + v)];
      startOfJ += machine.perClass[size_t(j)];
    }
  }
  return table;
}

/// A table [pairs, classes]: `first` for pair (i, j) at i, `second` at j.
Value pairTable(NodeImport &n, int64_t classes, Type type, double first, double second) {
  int64_t pairs = classes * (classes - 1) / 2, pair = 0;
  SmallVector<double> table(size_t(pairs * classes), 0);
  for (int64_t i = 0; i < classes; ++i)
    for (int64_t j = i + 1; j < classes; ++j, ++pair) {
      table[size_t(pair * classes + i)] = first;
      table[size_t(pair * classes + j)] = second;
    }
  return constantOf(n, type, table, {pairs, classes});
}

/// How many deciders are for each class, [rows, classes].
Value votesOf(NodeImport &n, const Machine &machine, Value scores) {
  Type type = n.element(scores);
  Value isFirst = n.cast(n("graph.greater", {scores, n.scalar(scores, 0)}), type);
  Value other = isFirst ? n.sub(n.scalar(isFirst, 1), isFirst) : isFirst;
  Value forFirst = n.matmul(isFirst, pairTable(n, machine.classes, type, 1, 0));
  return n.add(forFirst, n.matmul(other, pairTable(n, machine.classes, type, 0, 1)));
}

/// One of the last dimension's columns, [rows, 1].
Value column(NodeImport &n, Value x, int64_t place) {
  return n.slice(x, {0, place}, {n.dims(x)[0], n.size(1)});
}

/// What the iteration of pairwise coupling goes by: Q as its rows, each [rows, classes].
using Rows = SmallVector<Value>;

/// Q from the probabilities of pairs: sums of squares on the diagonal, products elsewhere.
Rows couplingOf(NodeImport &n, const Machine &machine, Value scores) {
  int64_t k = machine.classes;
  Type type = n.element(scores);
  Value a = constantOf(n, type, machine.probA, {machine.pairs()});
  Value b = constantOf(n, type, machine.probB, {machine.pairs()});
  Value linear = n.add(n.mul(scores, a), b);
  Value first = n.unary("graph.sigmoid", n.unary("graph.neg", linear));
  first = n("graph.max", {first, n.scalar(scores, 1e-7)});
  first = first ? n("graph.min", {first, n.scalar(scores, 1 - 1e-7)}) : first;
  if (!first)
    return {};
  SmallVector<SmallVector<Value>> r(static_cast<size_t>(k), SmallVector<Value>(size_t(k)));
  int64_t pair = 0;
  for (size_t i = 0; i < size_t(k); ++i)
    for (size_t j = i + 1; j < size_t(k); ++j, ++pair) {
      r[i][j] = column(n, first, pair);
      r[j][i] = n.sub(n.scalar(first, 1), r[i][j]);
    }
  Rows q;
  for (size_t t = 0; t < size_t(k); ++t) {
    SmallVector<Value> entries;
    for (size_t j = 0; j < size_t(k); ++j) {
      Value entry;
      if (j != t) {
        entry = n.unary("graph.neg", n.mul(r[j][t], r[t][j]));
      } else {
        for (size_t i = 0; i < size_t(k); ++i)
          if (i != t) {
            Value square = n.mul(r[i][t], r[i][t]);
            entry = entry ? n.add(entry, square) : square;
          }
      }
      entries.push_back(entry);
    }
    q.push_back(n.concat(entries, 1));
  }
  return q;
}

/// One round over all classes; rows that have converged stay as they are.
Value coupledOnce(NodeImport &n, const Rows &q, Value p) {
  int64_t k = int64_t(q.size());
  Type type = n.element(p);
  SmallVector<Value> products;
  for (Value row : q)
    products.push_back(n.reduce("graph.reduce_sum", n.mul(row, p), {1}, true));
  Value qp = n.concat(products, 1);
  Value pqp = n.reduce("graph.reduce_sum", n.mul(p, qp), {1}, true);
  if (!qp || !pqp)
    return {};
  Value error = n.reduce("graph.reduce_max", n.unary("graph.abs", n.sub(qp, pqp)), {1}, true);
  Value isDone = n("graph.less", {error, n.graph.scalar(type, 0.005 / double(k))});
  Value next = p;
  for (int64_t t = 0; t < k && next && qp && pqp; ++t) {
    SmallVector<double> unit(size_t(k), 0);
    unit[size_t(t)] = 1;
    Value qtt = column(n, q[size_t(t)], t), qpt = column(n, qp, t);
    Value step = n.div(n.sub(pqp, qpt), qtt), grown = n.add(step, 1);
    Value inner = n.mul(step, n.add(n.mul(step, qtt), n.mul(qpt, 2)));
    pqp = n.div(n.add(pqp, inner), n.mul(grown, grown));
    qp = n.div(n.add(qp, n.mul(step, q[size_t(t)])), grown);
    next = n.div(n.add(next, n.mul(step, constantOf(n, type, unit, {1, k}))), grown);
  }
  return next && isDone ? n.where(isDone, p, next) : Value();
}

/// The probability of each class, [rows, classes].
Value probabilitiesOf(NodeImport &n, const Machine &machine, Value scores) {
  Rows q = couplingOf(n, machine, scores);
  if (q.empty() || llvm::is_contained(q, Value()))
    return {};
  Type type = n.element(scores);
  AffineExpr rows = n.dims(scores)[0], classes = n.size(machine.classes);
  Value start = n.filled(type, {rows, classes}, 1 / double(machine.classes));
  auto round = [&](mlir::ValueRange arguments) -> FailureOr<SmallVector<Value>> {
    Value next = coupledOnce(n, q, arguments[2]);
    if (!next)
      return failure();
    return SmallVector<Value>{n.graph.scalar(n.builder.getI1Type(), 1), next};
  };
  int64_t rounds = std::max<int64_t>(100, machine.classes);
  if (!start || failed(buildLoop(n, n.integerScalar(rounds), n.none(), {start}, 0, round)))
    return {};
  Value p = n.results[0];
  n.results.clear();
  return p;
}

FailureOr<Machine> machineOf(NodeImport &n, int64_t labels) {
  Machine machine;
  machine.perClass = n.intsAttr("vectors_per_class");
  machine.classes = std::max<int64_t>(labels, 1);
  machine.coefficients = n.floatsAttr("coefficients");
  machine.rho = n.floatsAttr("rho");
  machine.probA = n.floatsAttr("prob_a");
  machine.probB = n.floatsAttr("prob_b");
  constexpr int64_t kMostClasses = 256, kMostVectors = int64_t(1) << 24;
  bool isBounded = machine.classes <= kMostClasses && llvm::all_of(machine.perClass, [](int64_t v) {
                     return v >= 0 && v <= kMostVectors;
                   });
  if (!isBounded || machine.coefficients.empty() || machine.rho.empty())
    return n.error("has no coefficients or no rho, more than 256 classes, or a number of support "
                   "vectors that is none");
  return machine;
}

/// Without support vectors: a row of coefficients for each class.
LogicalResult linearMachine(NodeImport &n, const Machine &machine, const ClassLabels &labels,
                            Value x, Transform transform) {
  Value weights = rowsOf(n, machine.coefficients, machine.classes, n.element(x));
  Value scores =
      weights ? n.add(n.matmul(x, n.transpose(weights, {1, 0})), machine.rho[0]) : weights;
  return n.give({labelled(n, labels, largestOfRows(n, scores)),
                 n.cast(transformed(n, scores, transform), n.builder.getF32Type())});
}

LogicalResult svmClassifier(NodeImport &n) {
  ClassLabels labels = classLabels(n, "classlabels_ints");
  auto transform = transformOf(n);
  Value x = featuresOf(n);
  auto machine = machineOf(n, labels.count());
  if (failed(transform) || failed(machine) || !x)
    return failure();
  if (machine->vectors() == 0)
    return linearMachine(n, *machine, labels, x, *transform);
  int64_t all = machine->vectors();
  size_t pairs = size_t(machine->pairs());
  bool hasProbabilities = !machine->probA.empty();
  if (machine->classes < 2 || int64_t(machine->perClass.size()) != machine->classes ||
      int64_t(machine->coefficients.size()) != all * (machine->classes - 1) ||
      machine->rho.size() != pairs ||
      (hasProbabilities && (machine->probA.size() != pairs || machine->probB.size() != pairs)))
    return n.error("its coefficients, rho, prob_a or prob_b are not those of its classes");
  Type type = n.element(x), f32 = n.builder.getF32Type();
  Value vectors = rowsOf(n, n.floatsAttr("support_vectors"), all, type);
  Value kernel = kernelOf(n, x, vectors, n.stringAttr("kernel_type", "LINEAR"));
  Value weights = constantOf(n, type, deciders(*machine), {all, int64_t(pairs)});
  Value rho = constantOf(n, type, machine->rho, {int64_t(pairs)});
  Value scores = kernel && weights ? n.add(n.matmul(kernel, weights), rho) : Value();
  if (!scores)
    return failure();
  Value label = labelled(n, labels, largestOfRows(n, votesOf(n, *machine, scores)));
  if (hasProbabilities) {
    Value p = probabilitiesOf(n, *machine, scores);
    return n.give({label, n.cast(transformed(n, p, *transform), f32)});
  }
  if (pairs == 1) // of the two classes' scores, the decider's and its opposite
    scores = n.concat({n.unary("graph.neg", scores), scores}, 1);
  return n.give({label, n.cast(transformed(n, scores, *transform), f32)});
}

constexpr Operator kOperators[] = {
    {"SVMRegressor", svmRegressor, kDomain},
    {"SVMClassifier", svmClassifier, kDomain},
};

} // namespace

std::span<const Operator> supportVectorOperators() { return kOperators; }

} // namespace tensmith::onnx_import
