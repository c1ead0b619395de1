// Every operator of the contract (runtime/LibraryAbi.h) by plain loops: what a module's calls fall
// back on where the library that it was compiled for is missing.
//
// A row of the result is computed in memory of its own, taken through the steps, and then stored:
// it may lie where an operand of a step does. Sums are kept in as many parts as a vector has
// elements, so that compilers make vectors of them without being told to round otherwise.
#include "runtime/LibraryAbi.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <span>

namespace {

constexpr int64_t kOperationsOfPart = 1 << 18;
constexpr size_t kParts = 16;

float dot(const float *a, const float *b, int64_t count) {
  std::array<float, kParts> sums{};
  int64_t i = 0;
  for (; i + int64_t(kParts) <= count; i += kParts)
    for (size_t part = 0; part < kParts; ++part)
      sums[part] += a[i + int64_t(part)] * b[i + int64_t(part)];
  float sum = 0;
  for (float part : sums)
    sum += part;
  for (; i < count; ++i)
    sum += a[i] * b[i];
  return sum;
}

float activated(int64_t kind, float y) {
  switch (kind) {
  case TENSMITH_STEP_RELU:
    return y > 0 || std::isnan(y) ? y : 0;
  case TENSMITH_STEP_GELU:
    return y / 2 * (1 + std::erf(y * float(M_SQRT1_2)));
  case TENSMITH_STEP_TANH:
    return std::tanh(y);
  default: // TENSMITH_STEP_SIGMOID
    return 1 / (1 + std::exp(-y));
  }
}

/// The steps behind an operator, on rows of its result of so many columns.
class Steps {
public:
  Steps(const int64_t *sizes, void *const *operands, int64_t columns)
      : sizes_(sizes), operands_(operands), columns_(columns) {
    for (int64_t step = 0; step < sizes[0]; ++step)
      result_ += hasOperand(sizes[1 + 2 * step]);
  }

  /// Takes row `row` of the result through the steps, and stores it.
  void store(int64_t row, std::span<float> y) const {
    void *const *operand = operands_;
    for (int64_t step = 0; step < sizes_[0]; ++step) {
      int64_t kind = sizes_[1 + 2 * step];
      const float *values = hasOperand(kind) ? static_cast<const float *>(*operand++) : nullptr;
      if (isFull(kind))
        values += row * columns_;
      apply(kind, float(std::bit_cast<double>(sizes_[2 + 2 * step])), values, y);
    }
    std::ranges::copy(y, static_cast<float *>(operands_[result_]) + row * columns_);
  }

private:
  static bool isFull(int64_t kind) {
    return kind == TENSMITH_STEP_ADD || kind == TENSMITH_STEP_SUBTRACT_FROM ||
           kind == TENSMITH_STEP_SUBTRACT;
  }
  static bool hasOperand(int64_t kind) {
    return isFull(kind) || kind == TENSMITH_STEP_SCALE_COLUMNS || kind == TENSMITH_STEP_ADD_COLUMNS;
  }

  static void apply(int64_t kind, float number, const float *operand, std::span<float> y) {
    for (size_t j = 0; j < y.size(); ++j)
      switch (kind) {
      case TENSMITH_STEP_SCALE:
        y[j] *= number;
        break;
      case TENSMITH_STEP_SCALE_COLUMNS:
        y[j] *= operand[j];
        break;
      case TENSMITH_STEP_ADD_COLUMNS:
      case TENSMITH_STEP_ADD:
        y[j] += operand[j];
        break;
      case TENSMITH_STEP_SUBTRACT_FROM:
        y[j] = operand[j] - y[j];
        break;
      case TENSMITH_STEP_SUBTRACT:
        y[j] -= operand[j];
        break;
      default:
        y[j] = activated(kind, y[j]);
      }
  }

  const int64_t *sizes_;
  void *const *operands_;
  int64_t columns_;
  size_t result_ = 0; // its place among the operands
};

/// Of the calling body; none where there is no memory, which the call then knows.
std::span<float> scratch(const TensmithCall *call, int64_t count) {
  auto *memory = static_cast<float *>(
      call->services->scratch(call, std::max<int64_t>(count, 1) * int64_t(sizeof(float))));
  if (!memory)
    call->services->fail(call, TENSMITH_FAIL_NO_MEMORY, 0);
  return {memory, memory ? size_t(count) : 0};
}

/// Calls `row(number, memory)` for all rows, each with memory for so many numbers.
template <typename Row>
int32_t forRows(const TensmithCall *call, int64_t rows, int64_t operations, int64_t memory,
                const Row &row) {
  struct Closure {
    const TensmithCall *call;
    const Row &row;
    int64_t memory;
  } closure{call, row, memory};
  auto body = [](void *data, int64_t begin, int64_t end) {
    auto &own = *static_cast<Closure *>(data);
    std::span<float> memory = scratch(own.call, own.memory);
    for (int64_t number = begin; memory.data() && number < end; ++number)
      own.row(number, memory);
  };
  int64_t grain = std::max<int64_t>(kOperationsOfPart / std::max<int64_t>(operations, 1), 1);
  if (rows > 0)
    call->services->parallel_for(call, rows, grain, body, &closure);
  return 0;
}

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int32_t tensmith_matmul(const TensmithCall *call) {
  const int64_t *sizes = call->sizes;
  int64_t rows = sizes[TENSMITH_MATMUL_ROWS], columns = sizes[TENSMITH_MATMUL_COLUMNS],
          depth = sizes[TENSMITH_MATMUL_DEPTH];
  auto *left = static_cast<const float *>(call->operands[0]),
       *right = static_cast<const float *>(call->operands[1]);
  Steps steps(sizes + TENSMITH_MATMUL_STEPS, call->operands + 2, columns);
  // The left row in one piece, then the sums.
  auto row = [&](int64_t number, std::span<float> memory) {
    int64_t matrix = number / rows, i = number % rows;
    std::span<float> a = memory.first(size_t(depth)), y = memory.subspan(size_t(depth));
    const float *from = left + matrix * rows * depth;
    for (int64_t k = 0; k < depth; ++k)
      a[size_t(k)] =
          sizes[TENSMITH_MATMUL_LEFT_TRANSPOSED] ? from[k * rows + i] : from[i * depth + k];
    const float *b = right + (sizes[TENSMITH_MATMUL_RIGHT_VARIES] ? matrix * depth * columns : 0);
    std::ranges::fill(y, 0.0F);
    if (sizes[TENSMITH_MATMUL_RIGHT_TRANSPOSED])
      for (int64_t j = 0; j < columns; ++j)
        y[size_t(j)] = dot(a.data(), b + j * depth, depth);
    else
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t j = 0; j < columns; ++j)
          y[size_t(j)] += a[size_t(k)] * b[k * columns + j];
    steps.store(number, y);
  };
  return forRows(call, sizes[TENSMITH_MATMUL_BATCH] * rows, 2 * columns * depth, depth + columns,
                 row);
}

EXPORT int32_t tensmith_convolution(const TensmithCall *call) {
  auto size = [&](int number) { return call->sizes[number]; };
  int64_t group = size(TENSMITH_CONVOLUTION_GROUP), out = size(TENSMITH_CONVOLUTION_OUT_CHANNELS);
  int64_t channels = size(TENSMITH_CONVOLUTION_IN_CHANNELS), each = channels / group;
  int64_t height = size(TENSMITH_CONVOLUTION_IN_HEIGHT),
          width = size(TENSMITH_CONVOLUTION_IN_WIDTH);
  int64_t outHeight = size(TENSMITH_CONVOLUTION_OUT_HEIGHT),
          outWidth = size(TENSMITH_CONVOLUTION_OUT_WIDTH);
  int64_t tall = size(TENSMITH_CONVOLUTION_KERNEL_HEIGHT),
          wide = size(TENSMITH_CONVOLUTION_KERNEL_WIDTH);
  int64_t window = each * tall * wide;
  auto *images = static_cast<const float *>(call->operands[0]),
       *weights = static_cast<const float *>(call->operands[1]);
  Steps steps(call->sizes + TENSMITH_CONVOLUTION_STEPS, call->operands + 2, out);
  /// What the window at a place of the result reads of an element of it: 0 beyond the image.
  auto element = [&](int64_t place, int64_t channel, int64_t down, int64_t along) {
    int64_t y = place / outWidth % outHeight * size(TENSMITH_CONVOLUTION_STRIDE_HEIGHT) -
                size(TENSMITH_CONVOLUTION_PAD_TOP) +
                down * size(TENSMITH_CONVOLUTION_DILATION_HEIGHT);
    int64_t x = place % outWidth * size(TENSMITH_CONVOLUTION_STRIDE_WIDTH) -
                size(TENSMITH_CONVOLUTION_PAD_LEFT) +
                along * size(TENSMITH_CONVOLUTION_DILATION_WIDTH);
    bool isInside = y >= 0 && y < height && x >= 0 && x < width;
    int64_t image = place / (outWidth * outHeight);
    return isInside ? images[((image * height + y) * width + x) * channels + channel] : 0;
  };
  auto row = [&](int64_t place, std::span<float> memory) {
    std::span<float> patch = memory.first(size_t(window)), y = memory.subspan(size_t(window));
    for (int64_t g = 0; g < group; ++g) {
      float *next = patch.data(); // in the order of the weights
      for (int64_t channel = g * each; channel < (g + 1) * each; ++channel)
        for (int64_t down = 0; down < tall; ++down)
          for (int64_t along = 0; along < wide; ++along)
            *next++ = element(place, channel, down, along);
      for (int64_t o = g * (out / group); o < (g + 1) * (out / group); ++o)
        y[size_t(o)] = dot(patch.data(), weights + o * window, window);
    }
    steps.store(place, y);
  };
  return forRows(call, size(TENSMITH_CONVOLUTION_IMAGES) * outHeight * outWidth, 2 * out * window,
                 window + out, row);
}

EXPORT int32_t tensmith_softmax(const TensmithCall *call) {
  int64_t columns = call->sizes[TENSMITH_SOFTMAX_COLUMNS];
  auto *x = static_cast<const float *>(call->operands[0]);
  auto *y = static_cast<float *>(call->operands[1]);
  auto row = [&](int64_t number, std::span<float>) {
    const float *from = x + number * columns;
    float *to = y + number * columns;
    float most = columns ? *std::max_element(from, from + columns) : 0;
    float sum = 0;
    for (int64_t j = 0; j < columns; ++j)
      sum += to[j] = std::exp(from[j] - most);
    for (int64_t j = 0; j < columns; ++j)
      to[j] /= sum;
  };
  return forRows(call, call->sizes[TENSMITH_SOFTMAX_ROWS], 16 * columns, 0, row);
}

EXPORT int32_t tensmith_layer_norm(const TensmithCall *call) {
  int64_t columns = call->sizes[TENSMITH_LAYER_NORM_COLUMNS];
  bool isBiased = call->sizes[TENSMITH_LAYER_NORM_BIASED] != 0;
  double epsilon = std::bit_cast<double>(call->sizes[TENSMITH_LAYER_NORM_EPSILON]);
  auto *x = static_cast<const float *>(call->operands[0]),
       *scale = static_cast<const float *>(call->operands[1]),
       *bias = isBiased ? static_cast<const float *>(call->operands[2]) : nullptr;
  auto *y = static_cast<float *>(call->operands[isBiased ? 3 : 2]);
  auto row = [&](int64_t number, std::span<float>) {
    const float *from = x + number * columns;
    float *to = y + number * columns;
    double sum = 0, squares = 0;
    for (int64_t j = 0; j < columns; ++j)
      sum += from[j];
    double mean = sum / double(columns);
    for (int64_t j = 0; j < columns; ++j)
      squares += (from[j] - mean) * (from[j] - mean);
    double factor = 1 / std::sqrt(squares / double(columns) + epsilon);
    for (int64_t j = 0; j < columns; ++j)
      to[j] = float((from[j] - mean) * factor) * scale[j] + (bias ? bias[j] : 0);
  };
  return forRows(call, call->sizes[TENSMITH_LAYER_NORM_ROWS], 8 * columns, 0, row);
}
