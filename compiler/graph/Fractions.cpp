// Arithmetic on quotients of sizes, through the operators that exporters use; see Fractions.h.
#include "compiler/graph/Fractions.h"

#include "compiler/graph/BroadcastSizes.h"
#include "compiler/graph/Constants.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/SizeCases.h"
#include "compiler/graph/SlicedRange.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;

namespace tensmith::graph {
namespace {

using Element = std::optional<Fraction>;
using Elements = SmallVector<Element>;

bool isNeverNegative(AffineExpr size) {
  AffineExpr zero = getAffineConstantExpr(0, size.getContext());
  return SizeCases::isAtMost(zero, size);
}

constexpr int kDeepest = 32;     // operators, one behind another
constexpr int64_t kLargest = 64; // elements: of shapes and scales

class Search {
public:
  explicit Search(ShapeContext &shapes) : shapes_(shapes) {}

  std::optional<Elements> of(Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    bool isSmall = type && type.hasStaticShape() && type.getNumElements() <= kLargest &&
                   (type.getElementType().isIntOrIndex() || isa<FloatType>(type.getElementType()));
    if (!isSmall || depth_ == kDeepest)
      return std::nullopt;
    if (auto it = known_.find(value); it != known_.end())
      return it->second;
    ++depth_;
    auto result = afresh(value, type);
    --depth_;
    if (result && int64_t(result->size()) != type.getNumElements())
      result.reset();
    known_[value] = result;
    return result;
  }

private:
  std::optional<Elements> afresh(Value value, RankedTensorType type) {
    if (type.getElementType().isIntOrIndex())
      if (auto contents = shapes_.contents(value)) {
        Elements elements;
        for (AffineExpr element : *contents)
          elements.push_back(whole(element));
        return elements;
      }
    Operation *op = value.getDefiningOp();
    if (!op)
      return std::nullopt;
    return TypeSwitch<Operation *, std::optional<Elements>>(op)
        .Case([&](ConstantOp constant) { return ofConstant(constant); })
        .Case<ReshapeOp, DynamicReshapeOp>([&](auto reshape) { return of(reshape.getX()); })
        .Case([&](CastOp cast) { return ofCast(cast); })
        .Case<FloorOp, CeilOp, RoundOp>([&](auto rounding) { return ofRounding(rounding); })
        .Case<AddOp, SubOp, MulOp, DivOp>([&](auto binary) { return ofBinary(binary); })
        .Case([&](ConcatOp concat) { return ofConcat(concat, type); })
        .Case([&](GatherOp gather) { return ofGather(gather); })
        .Case<SliceOp, DynamicSliceOp>([&](auto slice) { return ofSlice(slice, type); })
        .Default([](Operation *) { return std::nullopt; });
  }

  Fraction whole(AffineExpr value) { return {value, shapes_.constant(1), false}; }
  Element wholeOf(const Fraction &fraction) {
    AffineExpr part = wholePart(shapes_, fraction);
    return part ? Element(whole(part)) : std::nullopt;
  }

  std::optional<Elements> ofConstant(ConstantOp constant) {
    auto tensor = hostTensor(constant.getValue());
    if (!tensor.ok())
      return std::nullopt;
    Elements elements;
    for (int64_t i = 0; i < tensor->size(); ++i)
      elements.push_back(ofNumber(tensor->getDouble(i)));
    return elements;
  }

  /// A fraction by a small power of two.
  Element ofNumber(double number) {
    constexpr int64_t kLargestDivisor = 1024;
    constexpr double kLargestNumber = 1 << 20;
    for (int64_t divisor = 1; divisor <= kLargestDivisor; divisor *= 2)
      if (double times = number * double(divisor);
          std::abs(times) <= kLargestNumber && times == std::floor(times))
        return Fraction{shapes_.constant(int64_t(times)), shapes_.constant(divisor), false};
    return std::nullopt;
  }

  std::optional<Elements> ofCast(CastOp cast) {
    auto elements = of(cast.getX());
    Type to = cast.getTo();
    if (!elements || !(to.isF32() || to.isF64() || to.isInteger(32) || to.isInteger(64)))
      return std::nullopt;
    if (isa<IntegerType>(to))
      for (Element &element : *elements)
        if (element)
          element = wholeOf(*element);
    return elements;
  }

  std::optional<Elements> ofRounding(Operation *op) {
    auto elements = of(op->getOperand(0));
    if (!elements)
      return std::nullopt;
    for (Element &element : *elements) {
      if (!element || element->denominator == shapes_.constant(1))
        continue;
      if (isa<RoundOp>(op)) // halves go to the even one
        element.reset();
      else
        element = whole(shapes_.simplify(isa<FloorOp>(op)
                                             ? element->numerator.floorDiv(element->denominator)
                                             : element->numerator.ceilDiv(element->denominator)));
    }
    return elements;
  }

  std::optional<Elements> ofBinary(Operation *op) {
    auto a = of(op->getOperand(0)), b = of(op->getOperand(1));
    if (!a || !b || a->empty() || b->empty())
      return std::nullopt;
    size_t count = std::max(a->size(), b->size());
    if ((a->size() != count && a->size() != 1) || (b->size() != count && b->size() != 1))
      return std::nullopt;
    bool isInteger = getElementTypeOrSelf(op->getResult(0).getType()).isIntOrIndex();
    Elements elements;
    for (size_t i = 0; i < count; ++i) {
      const Element &x = (*a)[a->size() == 1 ? 0 : i], &y = (*b)[b->size() == 1 ? 0 : i];
      elements.push_back(x && y && !x->isRounded && !y->isRounded ? combined(op, *x, *y)
                                                                  : std::nullopt);
      if (isInteger && elements.back())
        elements.back() = wholeOf(*elements.back());
    }
    return elements;
  }

  /// Null where the result may be rounded and isn't a plain quotient.
  Element combined(Operation *op, const Fraction &x, const Fraction &y) {
    if (isa<DivOp>(op))
      return quotient(x, y);
    if (isa<MulOp>(op))
      return exact(x.numerator * y.numerator, x.denominator * y.denominator);
    AffineExpr left = x.numerator * y.denominator, right = y.numerator * x.denominator;
    return exact(isa<AddOp>(op) ? left + right : left - right, x.denominator * y.denominator);
  }

  Element exact(AffineExpr numerator, AffineExpr denominator) {
    Fraction result{shapes_.simplify(numerator), shapes_.simplify(denominator), false};
    return isPowerOfTwo(result.denominator) && isShort(result.numerator) ? Element(result)
                                                                         : std::nullopt;
  }

  Element quotient(const Fraction &x, const Fraction &y) {
    AffineExpr numerator = shapes_.simplify(x.numerator * y.denominator),
               denominator = shapes_.simplify(y.numerator * x.denominator);
    if (!isShort(numerator) || isLongSize(denominator) || constantOf(denominator) == 0 ||
        !isNeverNegative(denominator))
      return std::nullopt;
    AffineExpr result = shapes_.simplify(numerator.floorDiv(denominator));
    if (shapes_.equal(result * denominator, numerator))
      return whole(result);
    return Fraction{numerator, denominator, !isPowerOfTwo(denominator)};
  }

  static bool isShort(AffineExpr size) { return ShapeContext::isExact(size) && !isLongSize(size); }

  static bool isPowerOfTwo(AffineExpr divisor) {
    auto constant = dyn_cast<AffineConstantExpr>(divisor);
    return constant && constant.getValue() > 0 &&
           llvm::isPowerOf2_64(uint64_t(constant.getValue()));
  }

  /// Of vectors.
  std::optional<Elements> ofConcat(ConcatOp concat, RankedTensorType type) {
    if (type.getRank() != 1)
      return std::nullopt;
    Elements elements;
    for (Value input : concat.getInputs()) {
      auto own = cast<RankedTensorType>(input.getType());
      auto part = of(input);
      if (!part && !own.hasStaticShape())
        return std::nullopt;
      elements.append(part ? *part : Elements(size_t(own.getNumElements())));
    }
    return elements;
  }

  std::optional<Elements> ofGather(GatherOp gather) {
    auto elements = of(gather.getX());
    auto indices = shapes_.constants(gather.getIndices());
    if (!elements || !indices || cast<RankedTensorType>(gather.getX().getType()).getRank() != 1)
      return std::nullopt;
    Elements result;
    auto size = int64_t(elements->size());
    for (int64_t index : *indices) {
      index += index < 0 ? size : 0;
      if (index < 0 || index >= size)
        return std::nullopt;
      result.push_back((*elements)[index]);
    }
    return result;
  }

  std::optional<Elements> ofSlice(SliceOp slice, RankedTensorType type) {
    return type.getRank() == 1
               ? taken(slice.getX(), slice.getStarts()[0], slice.getSteps()[0], type.getDimSize(0))
               : std::nullopt;
  }
  std::optional<Elements> ofSlice(DynamicSliceOp slice, RankedTensorType type) {
    auto starts = shapes_.constants(slice.getStarts());
    bool isPlain = isa<NoneType>(slice.getSteps().getType());
    auto steps =
        isPlain ? std::optional(SmallVector<int64_t>{1}) : shapes_.constants(slice.getSteps());
    if (type.getRank() != 1 || !starts || starts->size() != 1 || !steps)
      return std::nullopt;
    auto from = dyn_cast<RankedTensorType>(slice.getX().getType());
    if (!from || !from.hasStaticShape() || from.getNumElements() == 0)
      return std::nullopt;
    int64_t size = from.getDimSize(0), start = (*starts)[0];
    start =
        std::clamp<int64_t>(start < 0 ? start + size : start, 0, (*steps)[0] > 0 ? size : size - 1);
    return taken(slice.getX(), start, (*steps)[0], type.getDimSize(0));
  }

  std::optional<Elements> taken(Value x, int64_t start, int64_t step, int64_t count) {
    auto elements = of(x);
    if (!elements)
      return std::nullopt;
    Elements result;
    for (int64_t i = 0; i < count; ++i) {
      int64_t at = start + i * step;
      if (at < 0 || at >= int64_t(elements->size()))
        return std::nullopt;
      result.push_back((*elements)[at]);
    }
    return result;
  }

  ShapeContext &shapes_;
  llvm::DenseMap<Value, std::optional<Elements>> known_;
  int depth_ = 0;
};

} // namespace

std::optional<SmallVector<std::optional<Fraction>>> fractionsOf(ShapeContext &shapes, Value value) {
  auto elements = Search(shapes).of(value);
  bool isAnyKnown = elements && llvm::any_of(*elements, [](const Element &e) { return bool(e); });
  return isAnyKnown ? elements : std::nullopt;
}

std::optional<Contents> partialContents(ShapeContext &shapes, Value value) {
  if (!getElementTypeOrSelf(value.getType()).isIntOrIndex())
    return std::nullopt;
  auto elements = fractionsOf(shapes, value);
  if (!elements)
    return std::nullopt;
  Contents contents;
  for (const Element &element : *elements)
    contents.push_back(element ? wholePart(shapes, *element) : AffineExpr());
  return contents;
}

AffineExpr wholePart(ShapeContext &shapes, const Fraction &fraction) {
  AffineExpr above = fraction.numerator, by = fraction.denominator;
  if (constantOf(by) == 0 || !isNeverNegative(by))
    return {};
  if (isNeverNegative(above))
    return shapes.simplify(above.floorDiv(by));
  // What is rounded toward zero is the quotient of max(above, 0) less that of max(-above, 0).
  auto below = smallerNumber(shapes, above, shapes.constant(0));
  if (!below)
    return {};
  return shapes.simplify((above - *below).floorDiv(by) - (-*below).floorDiv(by));
}

} // namespace tensmith::graph
