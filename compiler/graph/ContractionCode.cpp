// Einstein summation as transpositions, sums and matrix products (Decomposable::decompose).
//
// Operands are contracted from left to right. For each pair, labels fall into four classes: kept in
// both (batch), kept in one (rows, columns), summed in both (the product's inner dimension); those
// summed in one alone are summed before. Batch dimensions stay apart, so that an ellipsis
// broadcasts as matmul does. A label twice in one operand (a diagonal) has no decomposition.
#include "compiler/graph/GraphCode.h"

using namespace mlir;

namespace tensmith::graph {

namespace {
// A letter of the equation, or a dimension of the ellipsis: 256 plus its distance from the end.
using Label = int;
using Labels = SmallVector<Label>;

struct Term {
  Value value;
  Labels labels;
};

/// The labels of one operand's part of the equation; nothing where it is malformed. `ellipsis` is
/// how many dimensions "..." stands for.
std::optional<Labels> parseTerm(StringRef text, int64_t ellipsis) {
  Labels labels;
  while (!text.empty()) {
    if (text.consume_front("...")) {
      for (int64_t distance = ellipsis; distance-- > 0;)
        labels.push_back(256 + int(distance));
    } else if (isalpha(static_cast<unsigned char>(text.front()))) {
      labels.push_back(text.front());
      text = text.drop_front();
    } else {
      return std::nullopt;
    }
  }
  Labels sorted = labels;
  llvm::sort(sorted);
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    return std::nullopt;
  return labels;
}

struct Equation {
  SmallVector<Labels> inputs;
  Labels output;
};

/// The implicit form's output: the ellipsis, then the labels that occur once, in order.
Labels implicitOutput(ArrayRef<Labels> inputs) {
  std::map<Label, int> counts;
  Labels output;
  int ellipsis = 0;
  for (const Labels &labels : inputs)
    for (Label label : labels) {
      ++counts[label];
      ellipsis = std::max(ellipsis, label >= 256 ? label - 255 : 0);
    }
  for (int distance = ellipsis; distance-- > 0;)
    output.push_back(256 + distance);
  for (auto [label, count] : counts)
    if (label < 256 && count == 1)
      output.push_back(label);
  return output;
}

std::optional<Equation> parseEquation(StringRef text, ValueRange operands) {
  std::string compact;
  for (char c : text)
    if (c != ' ')
      compact += c;
  auto [left, right] = StringRef(compact).split("->");
  SmallVector<StringRef> parts;
  left.split(parts, ',');
  if (parts.size() != operands.size())
    return std::nullopt;
  Equation equation;
  int64_t longest = 0;
  for (auto [part, operand] : llvm::zip_equal(parts, operands)) {
    int64_t rank = GraphCode::rank(operand), letters = part.size();
    bool hasEllipsis = part.contains("...");
    int64_t ellipsis = hasEllipsis ? rank - (letters - 3) : 0;
    auto labels = ellipsis < 0 ? std::nullopt : parseTerm(part, ellipsis);
    if (!labels || int64_t(labels->size()) != rank)
      return std::nullopt;
    longest = std::max(longest, ellipsis);
    equation.inputs.push_back(*labels);
  }
  if (!StringRef(compact).contains("->")) {
    equation.output = implicitOutput(equation.inputs);
    return equation;
  }
  auto output = parseTerm(right, longest);
  if (!output)
    return std::nullopt;
  equation.output = *output;
  return equation;
}

/// `term` with its labels in another order.
Term permute(const GraphCode &code, const Term &term, const Labels &order) {
  SmallVector<int64_t> permutation;
  for (Label label : order)
    permutation.push_back(llvm::find(term.labels, label) - term.labels.begin());
  bool isIdentity = llvm::equal(term.labels, order);
  return {isIdentity ? term.value : code.transpose(term.value, permutation), order};
}

/// Sums the labels that nothing else needs.
Term sumUnneeded(const GraphCode &code, const Term &term, function_ref<bool(Label)> isNeeded) {
  SmallVector<int64_t> axes;
  Labels kept;
  for (auto [axis, label] : llvm::enumerate(term.labels)) {
    if (isNeeded(label))
      kept.push_back(label);
    else
      axes.push_back(axis);
  }
  if (axes.empty())
    return term;
  return {code.reduce("graph.reduce_sum", term.value, axes, false), kept};
}

/// Batch labels apart, then two merged groups: [batch..., product(second), product(third)].
Value asMatrices(const GraphCode &code, const Term &term, const Labels &batch, const Labels &second,
                 const Labels &third) {
  Labels order = batch;
  llvm::append_range(order, second);
  llvm::append_range(order, third);
  Value ordered = permute(code, term, order).value;
  if (!ordered)
    return ordered;
  GraphCode::Dims dims = code.dims(ordered);
  ArrayRef<AffineExpr> all = dims;
  GraphCode::Dims to(all.take_front(batch.size()));
  to.push_back(code.graph.shapes.product(all.slice(batch.size(), second.size())));
  to.push_back(code.graph.shapes.product(all.take_back(third.size())));
  return code.reshape(ordered, to);
}

/// Labels that are summed over stand for one size: what may be 1 where the other operand has more
/// is repeated.
Value repeated(const GraphCode &code, const Term &term, const Term &other, const Labels &labels) {
  GraphCode::Dims dims = code.dims(term.value), others = code.dims(other.value);
  for (Label label : labels) {
    AffineExpr &own = dims[llvm::find(term.labels, label) - term.labels.begin()];
    auto both = code.graph.shapes.broadcast(
        own, others[llvm::find(other.labels, label) - other.labels.begin()]);
    if (!both)
      return {};
    own = *both;
  }
  return code.broadcast(term.value, dims);
}

Term contract(const GraphCode &code, const Term &a, const Term &b,
              function_ref<bool(Label)> isNeededLater) {
  auto has = [](const Term &term, Label label) { return llvm::is_contained(term.labels, label); };
  Term left = sumUnneeded(code, a, [&](Label l) { return isNeededLater(l) || has(b, l); });
  Term right = sumUnneeded(code, b, [&](Label l) { return isNeededLater(l) || has(a, l); });
  if (!left.value || !right.value)
    return {};
  Labels batch, rows, inner, columns;
  for (Label label : left.labels)
    (!has(right, label) ? rows : isNeededLater(label) ? batch : inner).push_back(label);
  for (Label label : right.labels)
    if (!has(left, label))
      columns.push_back(label);

  Value leftValue = repeated(code, left, right, inner);
  right.value = repeated(code, right, left, inner);
  left.value = leftValue;
  if (!left.value || !right.value)
    return {};
  GraphCode::Dims rowDims, columnDims;
  auto dimsOf = [&](const Term &term, const Labels &labels, GraphCode::Dims &dims) {
    for (Label label : labels)
      dims.push_back(code.dims(term.value)[llvm::find(term.labels, label) - term.labels.begin()]);
  };
  dimsOf(left, rows, rowDims);
  dimsOf(right, columns, columnDims);
  Value product = code.matmul(asMatrices(code, left, batch, rows, inner),
                              asMatrices(code, right, batch, inner, columns));
  if (!product)
    return {};
  GraphCode::Dims all = code.dims(product);
  GraphCode::Dims to(ArrayRef<AffineExpr>(all).take_front(batch.size()));
  llvm::append_range(to, rowDims);
  llvm::append_range(to, columnDims);
  Labels labels = batch;
  llvm::append_range(labels, rows);
  llvm::append_range(labels, columns);
  return {code.reshape(product, to), labels};
}
} // namespace

LogicalResult EinsumOp::decompose(GraphBuilder &graph, SmallVectorImpl<Value> &results) {
  if (getInputs().empty() || !llvm::all_of(getInputs(), GraphCode::isRanked))
    return failure();
  auto equation = parseEquation(getEquation(), getInputs());
  if (!equation)
    return failure();
  GraphCode code(graph);
  Type element = GraphCode::element(getInputs()[0]);
  Term term{code.widen(getInputs()[0]), equation->inputs[0]};
  for (size_t next = 1; next < equation->inputs.size() && term.value; ++next) {
    auto isNeededLater = [&](Label label) {
      bool isLater = llvm::is_contained(equation->output, label);
      for (size_t i = next + 1; i < equation->inputs.size(); ++i)
        isLater |= llvm::is_contained(equation->inputs[i], label);
      return isLater;
    };
    Term operand{code.widen(getInputs()[next]), equation->inputs[next]};
    term = contract(code, term, operand, isNeededLater);
  }
  if (!term.value)
    return failure();
  term = sumUnneeded(code, term, [&](Label l) { return llvm::is_contained(equation->output, l); });
  if (!term.value || term.labels.size() != equation->output.size())
    return failure(); // the output names a label that no operand has
  return finish(code.cast(permute(code, term, equation->output).value, element), results);
}

} // namespace tensmith::graph
