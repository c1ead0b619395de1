// Statements of comprehensions that other operators say, which have templates of their own:
//
//   C(i, j) +=! A(i, k) * B(j, k)                        matmul(A, transpose(B))
//   O(n, g, o, y) +=! I(n, g, c, 2 * y + r) * K(g, o, c, r)   conv(I, K) of g groups, in strides
//   S(i) +=! f(A(i, k), B(k))                            reduce_sum(f(A, B), k)
//   C(i, j) = A(i, j) * s(i) / float(N)                  mul, div
//
// A factor of a product may have its indices in any order, and several indices may be one dimension
// of the operator: those that both factors and the result have are the stack, those of one factor
// rows or columns, and those that the result lacks are summed up. An index must run over all of the
// dimensions that it stands at. What is none of these stays a statement.
#include "compiler/graph/ComprehensionSizes.h"
#include "compiler/graph/Constants.h"
#include "compiler/graph/GraphCode.h"
#include "reference/comprehension/Affine.h"

using namespace mlir;

namespace tensmith::graph {

using comprehension::Assignment;
using comprehension::Expr;
using comprehension::Statement;
using comprehension::Tensor;

namespace {

using Indices = SmallVector<size_t>; // numbers of the statement's

void append(Indices &to, ArrayRef<size_t> from) { to.append(from.begin(), from.end()); }

class Statements {
public:
  Statements(ComprehensionOp op, const ComprehensionView &view, GraphBuilder &graph)
      : op_(op), view_(view), statement_(*view.single()), code_(graph),
        sizes_(view, op, graph.shapes) {}

  Value run() {
    if (statement_.readsTarget() || !statement_.coversTarget || !isReal(statement_.value->type) ||
        !findSizes())
      return {};
    if (!statement_.isReduction())
      return asElements();
    if (Value product = asProduct())
      return product;
    if (Value convolution = asConvolution())
      return convolution;
    return asReduction();
  }

private:
  static bool isReal(DataType type) { return type == DataType::F32 || type == DataType::F64; }
  const Tensor &tensor(const Expr &read) const {
    return view_.function->tensors[size_t(read.integer)];
  }
  Value operand(const Expr &read) { return op_->getOperand(*view_.operandOf(read.integer)); }
  bool isOfResult(size_t index) const { return index < statement_.rank; }

  static bool isZero(const Expr &expr) {
    return expr.kind == Expr::Kind::Integer && expr.integer == 0;
  }

  /// How many values each index takes, from 0 on.
  bool findSizes() {
    for (const comprehension::Index &index : statement_.indices) {
      AffineExpr size = isZero(*index.low) ? sizes_.of(*index.high) : AffineExpr();
      if (!size)
        return false;
      sizeOf_.push_back(code_.graph.shapes.simplify(size));
    }
    return true;
  }
  GraphCode::Dims sizesOf(ArrayRef<size_t> indices) const {
    return llvm::map_to_vector(indices, [&](size_t index) { return sizeOf_[index]; });
  }
  AffineExpr sizeOf(ArrayRef<size_t> indices) const {
    return code_.graph.shapes.product(sizesOf(indices));
  }

  /// The tensor's dimension has an index to itself, which runs over all of it.
  bool isAlone(const Expr &read, size_t dim) const {
    const Expr &at = *read.parts[dim];
    return at.kind == Expr::Kind::Index &&
           comprehension::keyOf(*statement_.indices[size_t(at.integer)].high) ==
               comprehension::keyOf(*tensor(read).extents[dim]);
  }

  /// The indices of an element that is read without any arithmetic.
  std::optional<Indices> indicesOf(const Expr &read) const {
    Indices indices;
    for (size_t dim = 0; dim < read.parts.size(); ++dim) {
      auto index = size_t(read.parts[dim]->integer);
      if (read.checked || !isZero(*tensor(read).lows[dim]) || !isAlone(read, dim) ||
          llvm::is_contained(indices, index))
        return std::nullopt;
      indices.push_back(index);
    }
    return indices;
  }

  /// A tensor whose dimensions are `from`, with `to` in their order instead.
  Value ordered(Value value, ArrayRef<size_t> from, ArrayRef<size_t> to) {
    if (from == to)
      return value;
    auto permutation = llvm::map_to_vector(
        to, [&](size_t index) { return int64_t(llvm::find(from, index) - from.begin()); });
    return code_.transpose(value, permutation);
  }

  // ---- products

  struct Factors {
    const Expr *a, *b;
    Indices ofA, ofB;
  };

  /// Two elements of f32.
  bool isOfFactors() const {
    const Expr &value = *statement_.value;
    auto isElement = [](const comprehension::ExprRef &part) {
      return part->kind == Expr::Kind::Read && part->type == DataType::F32;
    };
    return statement_.assignment == Assignment::Add && value.kind == Expr::Kind::Binary &&
           value.text == "*" && llvm::all_of(value.parts, isElement);
  }

  Value asProduct() {
    if (!isOfFactors())
      return {};
    Factors factors{statement_.value->parts[0].get(), statement_.value->parts[1].get(), {}, {}};
    auto ofA = indicesOf(*factors.a), ofB = indicesOf(*factors.b);
    if (!ofA || !ofB)
      return {};
    factors.ofA = *ofA;
    factors.ofB = *ofB;
    // Columns are what lies side by side in the result.
    if (statement_.rank && llvm::is_contained(factors.ofA, statement_.rank - 1)) {
      std::swap(factors.a, factors.b);
      std::swap(factors.ofA, factors.ofB);
    }
    return productOf(factors);
  }

  Value productOf(const Factors &factors) {
    Indices stack, rows, columns, summed;
    for (size_t index = 0; index < statement_.indices.size(); ++index) {
      bool isInA = llvm::is_contained(factors.ofA, index);
      bool isInB = llvm::is_contained(factors.ofB, index);
      if (!isOfResult(index) && !(isInA && isInB))
        return {}; // of one factor, whose sum it is
      Indices &own = !isOfResult(index) ? summed : isInA && isInB ? stack : isInA ? rows : columns;
      own.push_back(index);
    }
    // Columns before the rows number matrices, by each of which the one of rows is multiplied.
    Indices matrices;
    if (stack.empty() && !rows.empty())
      matrices.assign(columns.begin(),
                      llvm::find_if(columns, [&](size_t index) { return index > rows.front(); }));
    columns.erase(columns.begin(), columns.begin() + ptrdiff_t(matrices.size()));
    Value a = matricesOf(*factors.a, factors.ofA, stack, rows, summed);
    Value b =
        matricesOf(*factors.b, factors.ofB, stack.empty() ? matrices : stack, summed, columns);
    Indices made(stack.empty() ? matrices : stack);
    append(made, rows);
    append(made, columns);
    Indices wanted = llvm::to_vector(llvm::seq(statement_.rank));
    return ordered(code_.reshape(code_.matmul(a, b), sizesOf(made)), made, wanted);
  }

  /// [stack, first, second], each of several indices; without a stack of none.
  Value matricesOf(const Expr &read, ArrayRef<size_t> own, ArrayRef<size_t> stack,
                   ArrayRef<size_t> first, ArrayRef<size_t> second) {
    Indices order(stack);
    append(order, first);
    append(order, second);
    GraphCode::Dims dims{sizeOf(first), sizeOf(second)};
    if (!stack.empty())
      dims.insert(dims.begin(), sizeOf(stack));
    return code_.reshape(ordered(operand(read), own, order), dims);
  }

  // ---- convolutions

  /// An index of the result in strides, and one of the window, at one dimension of the image.
  struct Window {
    size_t position, tap, dim;
    int64_t stride, dilation;
  };

  std::optional<Window> windowAt(const Expr &read, size_t dim) const {
    comprehension::Affine at = comprehension::affineOf(read.parts[dim]);
    if (!at.valid || at.constant != 0 || at.terms.size() != 2)
      return std::nullopt;
    Window window{SIZE_MAX, SIZE_MAX, dim, 0, 0};
    for (const auto &[key, term] : at.terms) {
      if (term.expr->kind != Expr::Kind::Index || term.coefficient < 1)
        return std::nullopt;
      auto index = size_t(term.expr->integer);
      (isOfResult(index) ? window.position : window.tap) = index;
      (isOfResult(index) ? window.stride : window.dilation) = term.coefficient;
    }
    if (window.position == SIZE_MAX || window.tap == SIZE_MAX)
      return std::nullopt;
    return window;
  }

  bool isSome(ArrayRef<size_t> indices) const {
    return llvm::all_of(indices, [&](size_t index) {
      auto size = constantOf(sizeOf_[index]);
      return size && *size > 0;
    });
  }

  Value asConvolution() {
    if (!isOfFactors())
      return {};
    const Expr &first = *statement_.value->parts[0], &second = *statement_.value->parts[1];
    if (auto ofWeights = indicesOf(second))
      return convolutionOf(first, second, *ofWeights);
    auto ofWeights = indicesOf(first);
    return ofWeights ? convolutionOf(second, first, *ofWeights) : Value();
  }

  Value convolutionOf(const Expr &image, const Expr &weights, const Indices &ofWeights) {
    constexpr size_t kMostWindows = 3;
    SmallVector<Window> windows;
    Indices plain, ofImage; // by dimension; of a window its position
    for (size_t dim = 0; dim < image.parts.size(); ++dim) {
      if (image.checked || !isZero(*tensor(image).lows[dim]))
        return {};
      if (isAlone(image, dim)) {
        plain.push_back(size_t(image.parts[dim]->integer));
        ofImage.push_back(plain.back());
        continue;
      }
      auto window = windowAt(image, dim);
      if (!window)
        return {};
      windows.push_back(*window);
      ofImage.push_back(window->position);
    }
    if (windows.empty() || windows.size() > kMostWindows)
      return {};
    llvm::sort(windows, [](const Window &a, const Window &b) { return a.position < b.position; });
    Indices images, groups, outs, channels, positions, taps;
    for (const Window &window : windows) {
      positions.push_back(window.position);
      taps.push_back(window.tap);
    }
    for (size_t index = 0; index < statement_.indices.size(); ++index) {
      bool isInImage = llvm::is_contained(plain, index);
      bool isInWeights = llvm::is_contained(ofWeights, index);
      bool isPosition = llvm::is_contained(positions, index);
      if (isPosition || llvm::is_contained(taps, index)) {
        if (isInImage || isInWeights == isPosition)
          return {};
        continue;
      }
      if (!isOfResult(index) && !(isInImage && isInWeights))
        return {};
      Indices &own = !isOfResult(index)         ? channels
                     : isInImage && isInWeights ? groups
                     : isInImage                ? images
                                                : outs;
      own.push_back(index);
    }
    Indices all(plain);
    append(all, positions);
    append(all, taps); // a tap in two windows is a diagonal
    // Of no position, tap or channel there is no convolution, but an empty result or zeros.
    if (llvm::DenseSet<size_t>(all.begin(), all.end()).size() != all.size() ||
        !llvm::all_of(ArrayRef<ArrayRef<size_t>>{groups, outs, channels, taps, positions},
                      [&](ArrayRef<size_t> indices) { return isSome(indices); }))
      return {};
    return convolved({image, weights, ofImage, ofWeights, windows, images, groups, outs, channels,
                      positions, taps});
  }

  struct Convolution {
    const Expr &image, &weights;
    ArrayRef<size_t> ofImage, ofWeights;
    ArrayRef<Window> windows;
    ArrayRef<size_t> images, groups, outs, channels, positions, taps;
  };

  Value convolved(const Convolution &of) {
    auto joined = [](std::initializer_list<ArrayRef<size_t>> parts) {
      Indices all;
      for (ArrayRef<size_t> part : parts)
        append(all, part);
      return all;
    };
    AffineExpr group = sizeOf(of.groups), channels = sizeOf(of.channels);
    Value x = operand(of.image), w = operand(of.weights);
    GraphCode::Dims imageSizes = code_.dims(x);
    GraphCode::Dims dims{sizeOf(of.images), group * channels};
    for (const Window &window : of.windows)
      dims.push_back(imageSizes[window.dim]);
    x = code_.reshape(
        ordered(x, of.ofImage, joined({of.images, of.groups, of.channels, of.positions})), dims);
    dims = {group * sizeOf(of.outs), channels};
    dims.append(sizesOf(of.taps));
    w = code_.reshape(ordered(w, of.ofWeights, joined({of.groups, of.outs, of.channels, of.taps})),
                      dims);
    SmallVector<int64_t> strides, dilations, pads(2 * of.windows.size(), 0);
    for (const Window &window : of.windows) {
      strides.push_back(window.stride);
      dilations.push_back(window.dilation);
    }
    Value y = code_.op("graph.conv", {x, w, code_.graph.none()},
                       {code_.integers("strides", strides), code_.integers("pads", pads),
                        code_.integers("dilations", dilations),
                        code_.integer("group", *constantOf(group))});
    if (!y)
      return {};
    // Positions that ranges leave out make another result.
    GraphCode::Dims positions = code_.dims(y);
    for (auto [size, wanted] : llvm::zip_equal(ArrayRef(positions).drop_front(2), of.positions))
      if (!code_.graph.shapes.equal(size, sizeOf_[wanted]))
        return {};
    Indices made = joined({of.images, of.groups, of.outs, of.positions});
    return ordered(code_.reshape(y, sizesOf(made)), made,
                   llvm::to_vector(llvm::seq(statement_.rank)));
  }

  // ---- numbers by themselves

  Value asElements() {
    llvm::append_range(order_, llvm::seq(statement_.rank));
    return code_.broadcast(elements(*statement_.value), sizesOf(order_));
  }

  // ---- sums, and the largest and smallest

  Value asReduction() {
    static const std::pair<Assignment, StringRef> kReductions[] = {
        {Assignment::Add, "graph.reduce_sum"},
        {Assignment::Minimum, "graph.reduce_min"},
        {Assignment::Maximum, "graph.reduce_max"}};
    auto reduction =
        llvm::find_if(kReductions, [&](auto &row) { return row.first == statement_.assignment; });
    // In the order of an element that has all indices; of products over more, tiles are better.
    if (reduction == std::end(kReductions) || !findOrder())
      return {};
    auto reduced = llvm::to_vector(llvm::seq(statement_.rank, statement_.indices.size()));
    auto count = constantOf(sizeOf(reduced)); // the largest of nothing is infinite here
    if (reduction->first != Assignment::Add && !(count && *count > 0))
      return {};
    Value value = elements(*statement_.value);
    SmallVector<int64_t> axes;
    Indices left;
    for (auto [axis, index] : llvm::enumerate(order_)) {
      if (isOfResult(index))
        left.push_back(index);
      else
        axes.push_back(int64_t(axis));
    }
    value = code_.broadcast(value, sizesOf(order_));
    return ordered(code_.reduce(reduction->second, value, axes, false), left,
                   llvm::to_vector(llvm::seq(statement_.rank)));
  }

  bool findOrder() {
    comprehension::visit(*statement_.value, [&](const Expr &part) {
      if (part.kind != Expr::Kind::Read || !order_.empty())
        return;
      auto indices = indicesOf(part);
      if (indices && indices->size() == statement_.indices.size())
        order_ = *indices;
    });
    return !order_.empty();
  }

  /// Of all points, in order; dimensions in which it is the same are 1.
  Value elements(const Expr &expr) {
    if (!isReal(expr.type))
      return {};
    auto part = [&](size_t number) { return elements(*expr.parts[number]); };
    switch (expr.kind) {
    case Expr::Kind::Real:
      return code_.graph.scalar(elementType(op_.getContext(), expr.type), expr.number);
    case Expr::Kind::Read:
      return read(expr);
    case Expr::Kind::Cast:
      return cast(*expr.parts[0], elementType(op_.getContext(), expr.type));
    case Expr::Kind::Unary:
      return expr.text == "-" ? code_.unary("graph.neg", part(0)) : Value();
    case Expr::Kind::Function: {
      StringRef name = operatorOfFunction(expr.text);
      if (name.empty())
        return {};
      SmallVector<Value> arguments;
      for (size_t number = 0; number < expr.parts.size(); ++number)
        arguments.push_back(part(number));
      return code_.op(("graph." + name).str(), arguments);
    }
    case Expr::Kind::Binary: {
      StringRef name = operatorOfSign(expr.text);
      bool isAsItIs = !name.empty() && name != "mod"; // which rounds by an attribute
      return isAsItIs ? code_.op(("graph." + name).str(), {part(0), part(1)}) : Value();
    }
    default:
      return {};
    }
  }

  /// Of a number, or of a whole one that sizes tell.
  Value cast(const Expr &expr, Type to) {
    if (isReal(expr.type))
      return code_.cast(elements(expr), to);
    std::optional<int64_t> known = wholeOf(expr);
    return known ? code_.graph.scalar(to, double(*known)) : Value();
  }

  /// A whole number that is known, which wraps at each step at the width of its type.
  std::optional<int64_t> wholeOf(const Expr &expr) {
    if (!isInteger(expr.type))
      return std::nullopt;
    auto part = [&](size_t number) { return wholeOf(*expr.parts[number]); };
    std::optional<int64_t> value, other;
    switch (expr.kind) {
    case Expr::Kind::Integer:
      value = expr.integer;
      break;
    case Expr::Kind::Size:
      if (AffineExpr size = sizes_.of(expr))
        value = constantOf(code_.graph.shapes.simplify(size));
      break;
    case Expr::Kind::Cast:
      value = part(0);
      break;
    case Expr::Kind::Binary:
      value = part(0);
      other = part(1);
      if (!value || !other)
        return std::nullopt;
      if (expr.text == "+")
        value = int64_t(uint64_t(*value) + uint64_t(*other));
      else if (expr.text == "-")
        value = int64_t(uint64_t(*value) - uint64_t(*other));
      else if (expr.text == "*")
        value = int64_t(uint64_t(*value) * uint64_t(*other));
      else
        return std::nullopt;
      break;
    default:
      break;
    }
    if (!value)
      return std::nullopt;
    llvm::APInt bits(64, uint64_t(*value));
    unsigned width = unsigned(8 * byteSize(expr.type));
    bits = bits.trunc(width);
    return info(expr.type).kind == TypeClass::Signed ? bits.getSExtValue()
                                                     : int64_t(bits.getZExtValue());
  }

  Value read(const Expr &expr) {
    auto indices = indicesOf(expr);
    if (!indices)
      return {};
    Indices inOrder;
    GraphCode::Dims dims;
    for (size_t index : order_) {
      bool isOwn = llvm::is_contained(*indices, index);
      if (isOwn)
        inOrder.push_back(index);
      dims.push_back(isOwn ? sizeOf_[index] : code_.size(1));
    }
    return code_.reshape(ordered(operand(expr), *indices, inOrder), dims);
  }

  ComprehensionOp op_;
  const ComprehensionView &view_;
  const Statement &statement_;
  GraphCode code_;
  ComprehensionSizes sizes_;
  GraphCode::Dims sizeOf_;
  Indices order_;
};

} // namespace

LogicalResult asOperators(ComprehensionOp op, GraphBuilder &graph,
                          SmallVectorImpl<Value> &results) {
  ComprehensionView view = viewOf(op);
  if (!view || !view.single())
    return failure();
  return finish(Statements(op, view, graph).run(), results);
}

} // namespace tensmith::graph
