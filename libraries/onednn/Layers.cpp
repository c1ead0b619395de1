// Convolutions, in parts of their images or of one image's rows; softmax and layer normalisation.
//
// Images are channels-last, as modules have them, and weights are brought into the layout that
// oneDNN wants before they are used: once, where they are the module's constants.
#include "libraries/onednn/OneDnn.h"

#include <algorithm>
#include <bit>

namespace tensmith::onednn {
namespace {

constexpr int64_t kOperationsOfPart = 1 << 22;
constexpr int64_t kElementsOfPart = 1 << 14;

class Convolution {
public:
  explicit Convolution(const TensmithCall *call)
      : call_(call), sizes_(call->sizes), x_(static_cast<const float *>(call->operands[0])),
        w_(static_cast<const float *>(call->operands[1]),
           call->sizes[TENSMITH_CONVOLUTION_WEIGHTS_KEPT]),
        steps_(call->sizes + TENSMITH_CONVOLUTION_STEPS, call->operands + 2,
               /*scalesSums=*/false) {}

  void run() {
    int64_t images = size(TENSMITH_CONVOLUTION_IMAGES),
            height = size(TENSMITH_CONVOLUTION_OUT_HEIGHT);
    int64_t row = size(TENSMITH_CONVOLUTION_OUT_WIDTH) * size(TENSMITH_CONVOLUTION_OUT_CHANNELS);
    if (images * height * row == 0)
      return;
    byImages_ = images > 1;
    int64_t each = 2 * row * size(TENSMITH_CONVOLUTION_KERNEL_HEIGHT) *
                   size(TENSMITH_CONVOLUTION_KERNEL_WIDTH) *
                   (size(TENSMITH_CONVOLUTION_IN_CHANNELS) / size(TENSMITH_CONVOLUTION_GROUP));
    int64_t count = byImages_ ? images : height;
    each *= byImages_ ? height : 1;
    int64_t grain = std::max<int64_t>(kOperationsOfPart / std::max<int64_t>(each, 1), 1);
    // Each part reads all weights.
    if (!byImages_ && int64_t(plainWeights().get_size()) > height * row * int64_t(sizeof(float)))
      grain = std::max(grain, (height + 1) / 2);
    call_->services->parallel_for(call_, count, grain, compute, this);
  }

private:
  struct Part {
    int64_t firstImage, images, firstRow, rows;
  };

  int64_t size(int number) const { return sizes_[number]; }

  static void compute(void *closure, int64_t begin, int64_t end) {
    auto &convolution = *static_cast<Convolution *>(closure);
    Part part{0, 1, begin, end - begin};
    if (convolution.byImages_)
      part = {begin, end - begin, 0, convolution.size(TENSMITH_CONVOLUTION_OUT_HEIGHT)};
    guarded(convolution.call_, [&] { convolution.compute(part); });
  }

  /// Rows of the image that the part's windows lie in, and what they reach beyond it; all rows of
  /// whole images.
  struct Rows {
    int64_t first, count, above, below;
  };
  Rows rowsOf(const Part &part) const {
    int64_t height = size(TENSMITH_CONVOLUTION_IN_HEIGHT);
    // Rows that no window reads lie between one image and the next, too.
    if (part.rows == size(TENSMITH_CONVOLUTION_OUT_HEIGHT))
      return {0, height, size(TENSMITH_CONVOLUTION_PAD_TOP), size(TENSMITH_CONVOLUTION_PAD_BOTTOM)};
    int64_t span = (size(TENSMITH_CONVOLUTION_KERNEL_HEIGHT) - 1) *
                       size(TENSMITH_CONVOLUTION_DILATION_HEIGHT) +
                   1;
    int64_t begin = part.firstRow * size(TENSMITH_CONVOLUTION_STRIDE_HEIGHT) -
                    size(TENSMITH_CONVOLUTION_PAD_TOP);
    int64_t end = begin + (part.rows - 1) * size(TENSMITH_CONVOLUTION_STRIDE_HEIGHT) + span;
    // A row at least, if all is beyond.
    int64_t first = std::clamp<int64_t>(begin, 0, height - 1),
            last = std::clamp<int64_t>(end, first + 1, height);
    return {first, last - first, first - begin, end - last};
  }

  Dims strides(int64_t height, int64_t width, int64_t channels) const {
    return {height * width * channels, 1, width * channels, channels};
  }
  Dims image(const Part &part) const {
    return {part.images, size(TENSMITH_CONVOLUTION_IN_CHANNELS), rowsOf(part).count,
            size(TENSMITH_CONVOLUTION_IN_WIDTH)};
  }
  Dims result(const Part &part) const {
    return {part.images, size(TENSMITH_CONVOLUTION_OUT_CHANNELS), part.rows,
            size(TENSMITH_CONVOLUTION_OUT_WIDTH)};
  }
  /// Of whole images: a part of one image is told so by its strides, which no one looks at.
  Dims stridesOf(const Dims &dims) const { return strides(dims[2], dims[3], dims[1]); }

  Dims weights() const {
    int64_t group = size(TENSMITH_CONVOLUTION_GROUP);
    Dims dims{size(TENSMITH_CONVOLUTION_OUT_CHANNELS) / group,
              size(TENSMITH_CONVOLUTION_IN_CHANNELS) / group,
              size(TENSMITH_CONVOLUTION_KERNEL_HEIGHT), size(TENSMITH_CONVOLUTION_KERNEL_WIDTH)};
    if (group > 1)
      dims.insert(dims.begin(), group);
    return dims;
  }

  dnnl::memory::desc plainWeights() const { return describe(weights()); }

  std::vector<int64_t> keyOf(int64_t kind, const Part &part) const {
    std::vector<int64_t> key{kind, part.images, part.firstRow, part.rows};
    key.insert(key.end(), sizes_ + 1, sizes_ + TENSMITH_CONVOLUTION_STEPS);
    steps_.addTo(key);
    return key;
  }

  Made make(const Part &part) const {
    auto weights = inAnyLayout(this->weights());
    Rows rows = rowsOf(part);
    Dims from = image(part), to = result(part);
    auto x = describe(from, stridesOf(from)), y = describe(to, stridesOf(to));
    Dims steps{size(TENSMITH_CONVOLUTION_STRIDE_HEIGHT), size(TENSMITH_CONVOLUTION_STRIDE_WIDTH)},
        between{size(TENSMITH_CONVOLUTION_DILATION_HEIGHT) - 1,
                size(TENSMITH_CONVOLUTION_DILATION_WIDTH) - 1},
        before{rows.above, size(TENSMITH_CONVOLUTION_PAD_LEFT)},
        after{rows.below, size(TENSMITH_CONVOLUTION_PAD_RIGHT)};
    constexpr auto kInference = dnnl::prop_kind::forward_inference;
    constexpr auto kDirect = dnnl::algorithm::convolution_direct;
    using Forward = dnnl::convolution_forward;
    auto description =
        steps_.bias()
            ? Forward::desc(kInference, kDirect, x, weights, describe({to[1]}), y, steps, between,
                            before, after)
            : Forward::desc(kInference, kDirect, x, weights, y, steps, between, before, after);
    Forward::primitive_desc made(description, steps_.attributes(to, stridesOf(to), 1), engine());
    Made all = madeOf(made);
    all.weights = made.weights_desc();
    return all;
  }

  void compute(const Part &part) {
    auto made = findOrMake(keyOf(1, part), [&] { return make(part); });
    const float *w = w_.in(made->weights, plainWeights(), keyOf(2, part));
    void *scratch = nullptr;
    if (size_t bytes = made->scratch.get_size()) {
      scratch = call_->services->scratch(call_, int64_t(bytes));
      if (!scratch)
        throw std::bad_alloc();
    }
    Rows rows = rowsOf(part);
    Dims from = image(part), to = result(part);
    int64_t width = size(TENSMITH_CONVOLUTION_IN_WIDTH) * size(TENSMITH_CONVOLUTION_IN_CHANNELS);
    const float *x =
        x_ + (part.firstImage * size(TENSMITH_CONVOLUTION_IN_HEIGHT) + rows.first) * width;
    int64_t offset =
        (part.firstImage * size(TENSMITH_CONVOLUTION_OUT_HEIGHT) + part.firstRow) * to[3] * to[1];
    Arguments arguments{
        {DNNL_ARG_SRC, memoryAt(describe(from, stridesOf(from)), x)},
        {DNNL_ARG_WEIGHTS, memoryAt(made->weights, w)},
        {DNNL_ARG_DST, memoryAt(describe(to, stridesOf(to)), steps_.result() + offset)}};
    steps_.addTo(arguments, to, stridesOf(to), 1, offset, 0);
    execute(*made, std::move(arguments), scratch);
  }

  const TensmithCall *call_;
  const int64_t *sizes_;
  const float *x_;
  Weights w_;
  Steps steps_;
  bool byImages_ = false;
};

/// An operator on each row by itself.
class RowOperator {
public:
  RowOperator(const TensmithCall *call, int64_t rows, int64_t columns)
      : call_(call), rows_(rows), columns_(columns) {}
  virtual ~RowOperator() = default;

  void run() {
    if (rows_ * columns_ == 0)
      return;
    call_->services->parallel_for(
        call_, rows_, std::max<int64_t>(kElementsOfPart / columns_, 1),
        [](void *closure, int64_t begin, int64_t end) {
          auto &self = *static_cast<RowOperator *>(closure);
          guarded(self.call_, [&] { self.compute(begin, end - begin); });
        },
        this);
  }

protected:
  virtual Made make(const dnnl::memory::desc &rows) const = 0;
  virtual std::vector<int64_t> key() const = 0;
  virtual void addTo(Arguments &arguments) const = 0;
  virtual float *result() const = 0;

  const TensmithCall *call_;
  int64_t rows_, columns_;

private:
  void compute(int64_t first, int64_t count) {
    auto rows = describe({count, columns_});
    std::vector<int64_t> all = key();
    all.insert(all.end(), {count, columns_});
    auto made = findOrMake(all, [&] { return make(rows); });
    size_t bytes = made->scratch.get_size();
    void *scratch = bytes ? call_->services->scratch(call_, int64_t(bytes)) : nullptr;
    if (bytes && !scratch)
      throw std::bad_alloc();
    auto x = static_cast<const float *>(call_->operands[0]);
    Arguments arguments{{DNNL_ARG_SRC, memoryAt(rows, x + first * columns_)},
                        {DNNL_ARG_DST, memoryAt(rows, result() + first * columns_)}};
    addTo(arguments);
    execute(*made, std::move(arguments), scratch);
  }
};

dnnl::primitive_attr withScratch() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

class Softmax : public RowOperator {
public:
  explicit Softmax(const TensmithCall *call)
      : RowOperator(call, call->sizes[TENSMITH_SOFTMAX_ROWS],
                    call->sizes[TENSMITH_SOFTMAX_COLUMNS]) {}

private:
  Made make(const dnnl::memory::desc &rows) const override {
    using Forward = dnnl::softmax_forward;
    Forward::desc description(dnnl::prop_kind::forward_inference, rows, 1);
    return madeOf(Forward::primitive_desc(description, withScratch(), engine()));
  }
  std::vector<int64_t> key() const override { return {3}; }
  void addTo(Arguments &) const override {}
  float *result() const override { return static_cast<float *>(call_->operands[1]); }
};

class LayerNorm : public RowOperator {
public:
  explicit LayerNorm(const TensmithCall *call)
      : RowOperator(call, call->sizes[TENSMITH_LAYER_NORM_ROWS],
                    call->sizes[TENSMITH_LAYER_NORM_COLUMNS]),
        biased_(call->sizes[TENSMITH_LAYER_NORM_BIASED]),
        epsilon_(call->sizes[TENSMITH_LAYER_NORM_EPSILON]) {}

private:
  Made make(const dnnl::memory::desc &rows) const override {
    using Forward = dnnl::layer_normalization_forward;
    auto flags = dnnl::normalization_flags::use_scale;
    if (biased_)
      flags |= dnnl::normalization_flags::use_shift;
    Forward::desc description(dnnl::prop_kind::forward_inference, rows,
                              float(std::bit_cast<double>(epsilon_)), flags);
    return madeOf(Forward::primitive_desc(description, withScratch(), engine()));
  }
  std::vector<int64_t> key() const override { return {4, biased_, epsilon_}; }
  void addTo(Arguments &arguments) const override {
    auto columns = describe({columns_});
    arguments.insert_or_assign(DNNL_ARG_SCALE, memoryAt(columns, call_->operands[1]));
    if (biased_)
      arguments.insert_or_assign(DNNL_ARG_SHIFT, memoryAt(columns, call_->operands[2]));
  }
  float *result() const override { return static_cast<float *>(call_->operands[biased_ ? 3 : 2]); }

  bool biased_;
  int64_t epsilon_;
};

} // namespace
} // namespace tensmith::onednn

using namespace tensmith::onednn;

extern "C" __attribute__((visibility("default"))) int32_t
tensmith_convolution(const TensmithCall *call) {
  return guarded(call, [&] { Convolution(call).run(); });
}

extern "C" __attribute__((visibility("default"))) int32_t
tensmith_softmax(const TensmithCall *call) {
  return guarded(call, [&] { Softmax(call).run(); });
}

extern "C" __attribute__((visibility("default"))) int32_t
tensmith_layer_norm(const TensmithCall *call) {
  return guarded(call, [&] { LayerNorm(call).run(); });
}
