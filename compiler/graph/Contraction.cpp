// Contractions: shape functions, which align stacks of matrices and einsum's letters.
#include "compiler/graph/Inference.h"

using namespace mlir;
using namespace tensmith::graph;

#define GET_OP_CLASSES
#include "compiler/graph/ContractionOps.cpp.inc"

namespace tensmith::graph {

void GraphDialect::addContraction() {
  addOperations<
#define GET_OP_LIST
#include "compiler/graph/ContractionOps.cpp.inc"
      >();
}

LogicalResult MatMulOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  Type element = infer.element(0);
  if (getAccumulateI32())
    element = IntegerType::get(getContext(), 32);
  else if (failed(infer.requireSameElement(0, 1, "(C1)")))
    return failure();
  if (infer.unranked())
    return infer.giveUnranked(element);
  Dims a = infer.dims(0), b = infer.dims(1);
  if (a.empty() || b.empty())
    return infer.error() << "(C1) multiplies a scalar";
  bool aVector = a.size() == 1, bVector = b.size() == 1;
  AffineExpr depth = a.pop_back_val(), rows, columns;
  if (!aVector)
    rows = a.pop_back_val();
  if (!bVector)
    columns = b.pop_back_val();
  AffineExpr other = b.pop_back_val();
  if (failed(
          infer.requireEqual(depth, other, "(C1)", "sizes of the dimension that is summed over")))
    return failure();
  auto dims = infer.broadcast(a, b);
  if (failed(dims))
    return failure();
  if (!aVector)
    dims->push_back(rows);
  if (!bVector)
    dims->push_back(columns);
  return infer.give(element, *dims);
}

LogicalResult EinsumOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  std::string equation = getEquation().str();
  llvm::erase(equation, ' ');
  auto [inputs, output] = StringRef(equation).split("->");
  bool explicitOutput = equation.find("->") != std::string::npos;
  SmallVector<StringRef> terms;
  inputs.split(terms, ',');
  if (terms.size() != getInputs().size())
    return infer.error() << "equation '" << getEquation() << "' has " << terms.size()
                         << " terms for " << getInputs().size() << " operands";
  std::map<char, AffineExpr> sizes;
  std::map<char, int> uses;
  Dims ellipsis;
  for (auto [operand, term] : llvm::enumerate(terms)) {
    Dims dims = infer.dims(operand);
    size_t at = term.find("...");
    std::string letters =
        at == StringRef::npos ? term.str() : (term.take_front(at) + term.drop_front(at + 3)).str();
    if (letters.size() > dims.size() || (at == StringRef::npos && letters.size() != dims.size()))
      return infer.error() << "term '" << term << "' does not fit an operand of rank "
                           << dims.size();
    size_t extra = dims.size() - letters.size();
    if (at != StringRef::npos) {
      auto common = infer.broadcast(ellipsis, ArrayRef(dims).slice(at, extra));
      if (failed(common))
        return failure();
      ellipsis = *common;
      dims.erase(dims.begin() + at, dims.begin() + at + extra);
    }
    for (auto [dim, letter] : llvm::enumerate(letters)) {
      ++uses[letter];
      auto [it, isNew] = sizes.try_emplace(letter, dims[dim]);
      auto common = isNew ? it->second : infer.broadcast(it->second, dims[dim]);
      if (!common)
        return infer.error() << "label '" << std::string(1, letter)
                             << "' stands for different sizes";
      it->second = *common;
    }
  }
  std::string letters = output.str();
  if (!explicitOutput) {
    letters = ellipsis.empty() ? "" : "...";
    for (auto &[letter, count] : uses)
      if (count == 1)
        letters += letter;
  }
  if (!ellipsis.empty() && letters.find("...") == std::string::npos)
    return infer.error() << "the result leaves out the dimensions of '...'";
  for (auto &[letter, count] : uses) {
    if (!llvm::isAlpha(letter))
      return infer.error() << "equation '" << getEquation() << "' has '" << std::string(1, letter)
                           << "' for a label, which is no letter";
    if (llvm::count(letters, letter) > 1)
      return infer.error() << "label '" << std::string(1, letter) << "' is in the result twice";
  }
  Dims result;
  for (size_t i = 0; i < letters.size(); ++i) {
    if (StringRef(letters).substr(i).starts_with("...")) {
      result.append(ellipsis);
      i += 2;
    } else if (!sizes.count(letters[i])) {
      return infer.error() << "label '" << std::string(1, letters[i])
                           << "' of the result is in no term";
    } else {
      result.push_back(sizes[letters[i]]);
    }
  }
  return infer.give(infer.element(0), result);
}

LogicalResult DetOp::inferResults(ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  Inference infer(shapes, *this, results);
  if (infer.unranked())
    return infer.giveUnranked(infer.element(0));
  if (failed(infer.requireRank(0, 2, 64, "x")))
    return failure();
  Dims dims = infer.dims(0);
  if (failed(infer.requireEqual(dims[dims.size() - 2], dims.back(), "(C2)",
                                "the rows and columns of a matrix")))
    return failure();
  return infer.give(infer.element(0), ArrayRef(dims).drop_back(2));
}

} // namespace tensmith::graph
