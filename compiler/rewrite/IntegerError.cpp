// Rows of random codes with the layer's own, in the order of the kernels, against sums in f64. See
// RoundingError.h.
//
// Sums of integers are exact. What is rounded are the scales, which are multiplied with each other
// before they are with a sum: where they are far from one, their product has few bits, or none,
// though that of the numbers has all.
#include "base/Philox.h"
#include "compiler/graph/Constants.h"
#include "compiler/rewrite/CodedOperands.h"
#include "compiler/rewrite/RoundingError.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

using namespace mlir;

namespace tensmith::rewrite {
namespace {

constexpr uint64_t kSeed = 2018;
constexpr int64_t kRows = 4;
constexpr int64_t kMostOutputs = 48; // that are looked at

graph::DequantizeOp dequantizationBehind(Value value) {
  if (auto transpose = value.getDefiningOp<graph::TransposeOp>())
    return dequantizationBehind(transpose.getX());
  return dequantizationOf(value);
}

/// Of the dimensions of a value of static shape, in what lies behind its transpositions.
SmallVector<int64_t> stridesBehind(Value value) {
  auto shape = cast<RankedTensorType>(value.getType()).getShape();
  SmallVector<int64_t> strides(shape.size(), 1);
  if (auto transpose = value.getDefiningOp<graph::TransposeOp>()) {
    SmallVector<int64_t> before = stridesBehind(transpose.getX());
    for (auto [position, dim] : llvm::enumerate(transpose.getPermutation()))
      strides[position] = before[size_t(dim)];
    return strides;
  }
  for (size_t dim = shape.size(); dim-- > 1;)
    strides[dim - 1] = strides[dim] * shape[dim];
  return strides;
}

/// The one number of all, or that of the place.
double at(const std::optional<HostTensor> &tensor, int64_t place) {
  assert(!tensor || tensor->size() == 1 || place < tensor->size());
  return tensor ? tensor->getDouble(tensor->size() == 1 ? 0 : place) : 0;
}

class Trial {
public:
  explicit Trial(Operation *product)
      : conv_(dyn_cast<graph::ConvOp>(product)),
        left_(dequantizationBehind(product->getOperand(0))),
        right_(dequantizationBehind(product->getOperand(1))), moments_(inputMoments(product)),
        leftScale_(graph::constantTensor(left_.getScale())),
        leftZero_(graph::constantTensor(left_.getZeroPoint())),
        scales_(graph::constantTensor(right_.getScale())),
        zeros_(graph::constantTensor(right_.getZeroPoint())) {
    if (conv_)
      takeBias(conv_.getBias());
    auto rows = cast<RankedTensorType>(product->getOperand(0).getType()).getShape();
    auto shape = cast<RankedTensorType>(product->getOperand(1).getType()).getShape();
    size_t rank = shape.size();
    outputs_ = shape[conv_ ? 0 : rank - 1];
    channels_ = conv_ ? shape[1] : rows.back();
    SmallVector<int64_t> sizes{channels_}, strides{0};
    if (conv_)
      sizes.assign(shape.begin() + 1, shape.end());
    if (!ShapedType::isDynamicShape(shape) && (codes_ = graph::constantTensor(right_.getX()))) {
      strides = stridesBehind(product->getOperand(1));
      stride_ = strides[conv_ ? 0 : rank - 1];
      strides = conv_ ? SmallVector<int64_t>(ArrayRef(strides).drop_front())
                      : SmallVector<int64_t>{strides[rank - 2]};
    }
    strides.resize(sizes.size());
    for (auto [size, stride] : llvm::zip_equal(sizes, strides)) {
      std::vector<int64_t> places;
      for (int64_t place : places_)
        for (int64_t i = 0; i < size; ++i)
          places.push_back(place + i * stride);
      places_ = std::move(places);
    }
    if (ShapedType::isDynamic(outputs_))
      outputs_ = scales_ ? scales_->size() : 0;
  }

  /// Whether the scales are known, and the zero points: of all outputs one, or one of each.
  bool valid() {
    auto isOfOutputs = [&](const std::optional<HostTensor> &tensor) {
      return !tensor || tensor->size() == 1 || tensor->size() == outputs_;
    };
    auto isOne = [](const std::optional<HostTensor> &tensor) {
      return !tensor || tensor->size() == 1;
    };
    if (!isOne(leftScale_) || !isOne(leftZero_) || !isOfOutputs(scales_) || !isOfOutputs(zeros_) ||
        !isOfOutputs(biasCodes_) || !isOfOutputs(biasScales_))
      return false;
    auto isKnown = [](const std::optional<HostTensor> &zeros, Value value) {
      return zeros || isa<NoneType>(value.getType());
    };
    return leftScale_ && scales_ && outputs_ > 0 && !places_.empty() &&
           isKnown(leftZero_, left_.getZeroPoint()) && isKnown(zeros_, right_.getZeroPoint());
  }

  double error(bool asIntegers) {
    int64_t groups = std::max<int64_t>(moments_.channels() / std::max<int64_t>(channels_, 1), 1);
    int64_t step = (outputs_ + kMostOutputs - 1) / kMostOutputs, drawn = -1;
    double error = 0, largest = 0;
    for (int64_t output = 0; output < outputs_; output += step) {
      if (int64_t group = output * groups / outputs_; group != drawn)
        draw(drawn = group);
      takeColumn(output);
      for (int64_t row = 0; row < kRows; ++row) {
        double right = sumOf(row), found = 0;
        right = right * at(leftScale_, 0) * at(scales_, output) + bias<double>(output);
        if (asIntegers)
          found = float(sumOf(row)) * (float(at(scales_, output)) * float(at(leftScale_, 0))) +
                  bias<float>(output);
        else
          found = dequantizedSumOf(row, output) + bias<float>(output);
        double difference = std::abs(found - right);
        error = std::max(error, std::isnan(difference) ? kInfinity : difference);
        largest = std::max(largest, std::abs(right));
      }
    }
    return error == 0 || error == kInfinity ? error : error / largest;
  }

private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  /// Rows of a group's channels, relative to the zero point: by their moments, or any codes.
  void draw(int64_t group) {
    bool isUnsigned = getElementTypeOrSelf(left_.getX().getType()).isUnsignedInteger();
    int64_t inputs = int64_t(places_.size()), taps = inputs / channels_;
    double zero = at(leftZero_, 0), low = (isUnsigned ? 0 : -128) - zero;
    rows_.resize(size_t(kRows * inputs));
    for (int64_t i = 0; i < kRows * inputs; ++i) {
      double code = low + std::floor(256 * uniformAt(kSeed, uint64_t(i)));
      if (moments_.channels() > 0) {
        float number = moments_.drawn(group * channels_ + i % inputs / taps, kSeed, uint64_t(i));
        code = std::clamp(std::nearbyint(number / at(leftScale_, 0)), low, low + 255);
      }
      rows_[size_t(i)] = std::isnan(code) ? 0 : int32_t(code);
    }
  }

  void takeColumn(int64_t output) {
    column_.resize(places_.size());
    auto take = [&](auto codes) {
      auto zero = int32_t(at(zeros_, output));
      for (size_t i = 0; i < places_.size(); ++i)
        column_[i] = int32_t(codes[size_t(output * stride_ + places_[i])]) - zero;
    };
    if (codes_ && codes_->type() == DataType::I8)
      return take(std::as_const(*codes_).as<int8_t>());
    if (codes_ && codes_->type() == DataType::U8)
      return take(std::as_const(*codes_).as<uint8_t>());
    // Of another product's operand, or not known yet.
    for (size_t i = 0; i < column_.size(); ++i)
      column_[i] = int32_t(255 * uniformAt(kSeed + 1, uint64_t(output) * column_.size() + i)) - 127;
  }

  double sumOf(int64_t row) const {
    const int32_t *numbers = rows_.data() + row * int64_t(column_.size());
    int32_t sum = 0; // which holds it, as the product's does
    for (size_t i = 0; i < column_.size(); ++i)
      sum += numbers[i] * column_[i];
    return sum;
  }

  float dequantizedSumOf(int64_t row, int64_t output) const {
    const int32_t *numbers = rows_.data() + row * int64_t(column_.size());
    auto leftScale = float(at(leftScale_, 0)), scale = float(at(scales_, output));
    float sum = 0;
    for (size_t i = 0; i < column_.size(); ++i)
      sum = std::fma(float(numbers[i]) * leftScale, float(column_[i]) * scale, sum);
    return sum;
  }

  /// A convolution's, of numbers or of 32-bit codes, whose zero point is zero
  /// (IntegerProducts.cpp).
  void takeBias(Value bias) {
    auto coded = bias.getDefiningOp<graph::DequantizeOp>();
    biasCodes_ = graph::constantTensor(coded ? coded.getX() : bias);
    if (coded)
      biasScales_ = graph::constantTensor(coded.getScale());
  }

  template <typename T> T bias(int64_t output) const {
    return T(at(biasCodes_, output)) * (biasScales_ ? T(at(biasScales_, output)) : T(1));
  }

  graph::ConvOp conv_;
  graph::DequantizeOp left_, right_;
  InputMoments moments_;
  std::optional<HostTensor> leftScale_, leftZero_, scales_, zeros_, codes_, biasCodes_, biasScales_;
  int64_t outputs_, stride_ = 0, channels_;
  std::vector<int64_t> places_{0}; // of a column's codes, from its first
  std::vector<int32_t> rows_, column_;
};

} // namespace

std::optional<double> errorOfIntegers(Operation *product) {
  Trial trial(product);
  return trial.valid() ? std::optional(trial.error(/*asIntegers=*/true)) : std::nullopt;
}

void setMomentsOfCodes(Operation *product) {
  graph::DequantizeOp left = dequantizationBehind(product->getOperand(0));
  auto scale = graph::constantTensor(left.getScale()),
       zero = graph::constantTensor(left.getZeroPoint());
  auto shape = cast<RankedTensorType>(product->getOperand(0).getType()).getShape();
  int64_t channels = isa<graph::ConvOp>(product) ? shape[1] : shape.back();
  if (!scale || scale->size() != 1 || (zero && zero->size() != 1) ||
      inputMoments(product).channels() > 0 || ShapedType::isDynamic(channels))
    return;
  bool isUnsigned = getElementTypeOrSelf(left.getX().getType()).isUnsignedInteger();
  double mean = (isUnsigned ? 127.5 : -0.5) - at(zero, 0), deviation = 256 / std::sqrt(12);
  setInputMoments(product, {std::vector<double>(size_t(channels), mean * at(scale, 0)),
                            std::vector<double>(size_t(channels), deviation * at(scale, 0))});
}

double errorOfDequantized(Operation *product) { return Trial(product).error(/*asIntegers=*/false); }

} // namespace tensmith::rewrite
