// Matrix products: stacks in parts of their matrices, single ones in parts of rows or columns.
#include "libraries/onednn/OneDnn.h"

#include <algorithm>

namespace tensmith::onednn {
namespace {

constexpr int64_t kOperationsOfPart = 1 << 20;
/// Rows or columns of a part: each packs the other operand anew.
constexpr int64_t kLeastOfPart = 64;
/// Columns of a part whose weights are kept: by parts that hung on rows and threads there would be
/// a copy for each way to cut them.
constexpr int64_t kPanel = 256;

class Product {
public:
  explicit Product(const TensmithCall *call)
      : call_(call), batch_(call->sizes[TENSMITH_MATMUL_BATCH]),
        rows_(call->sizes[TENSMITH_MATMUL_ROWS]), columns_(call->sizes[TENSMITH_MATMUL_COLUMNS]),
        depth_(call->sizes[TENSMITH_MATMUL_DEPTH]),
        leftTransposed_(call->sizes[TENSMITH_MATMUL_LEFT_TRANSPOSED]),
        rightTransposed_(call->sizes[TENSMITH_MATMUL_RIGHT_TRANSPOSED]),
        rightVaries_(call->sizes[TENSMITH_MATMUL_RIGHT_VARIES]),
        isKept_(call->sizes[TENSMITH_MATMUL_RIGHT_KEPT]),
        left_(static_cast<const float *>(call->operands[0])),
        right_(static_cast<const float *>(call->operands[1])),
        steps_(call->sizes + TENSMITH_MATMUL_STEPS, call->operands + 2, /*scalesSums=*/true) {}

  void run() {
    if (batch_ * rows_ * columns_ == 0)
      return;
    steps_.keepAddend(batch_ * rows_ * columns_);
    int64_t each = 2 * depth_;
    int64_t count, least = kLeastOfPart;
    if (batch_ > 1) {
      side_ = Side::Batch;
      count = batch_;
      each *= rows_ * columns_;
      least = 1;
    } else if (columns_ > rows_ && isKept_) {
      side_ = Side::Panels;
      count = (columns_ + kPanel - 1) / kPanel;
      each *= rows_ * kPanel;
      least = 1;
    } else if (columns_ > rows_) {
      side_ = Side::Columns;
      count = columns_;
      each *= rows_;
    } else {
      side_ = Side::Rows;
      count = rows_;
      each *= columns_;
    }
    call_->services->parallel_for(call_, count,
                                  std::max(kOperationsOfPart / std::max<int64_t>(each, 1), least),
                                  compute, this);
  }

private:
  enum class Side { Batch, Rows, Columns, Panels };
  struct Part {
    int64_t batch, rows, columns; // how many
    int64_t firstMatrix = 0, firstRow = 0, firstColumn = 0;
  };

  static void compute(void *closure, int64_t begin, int64_t end) {
    auto &product = *static_cast<Product *>(closure);
    Part part{product.batch_, product.rows_, product.columns_};
    switch (product.side_) {
    case Side::Batch:
      part.batch = end - begin;
      part.firstMatrix = begin;
      break;
    case Side::Rows:
      part.rows = end - begin;
      part.firstRow = begin;
      break;
    case Side::Columns:
      part.columns = end - begin;
      part.firstColumn = begin;
      break;
    case Side::Panels:
      for (int64_t panel = begin; panel < end; ++panel) {
        part.firstColumn = panel * kPanel;
        part.columns = std::min(kPanel, product.columns_ - part.firstColumn);
        guarded(product.call_, [&] { product.compute(part); });
      }
      return;
    }
    guarded(product.call_, [&] { product.compute(part); });
  }

  void compute(const Part &part) {
    bool isStack = batch_ > 1;
    auto shaped = [&](Dims sizes) {
      if (!isStack)
        sizes.erase(sizes.begin());
      return sizes;
    };
    Dims left = shaped({part.batch, part.rows, depth_}),
         leftStrides =
             shaped({rows_ * depth_, leftTransposed_ ? 1 : depth_, leftTransposed_ ? rows_ : 1}),
         right = shaped({rightVaries_ ? part.batch : 1, depth_, part.columns}),
         rightStrides = shaped(
             {depth_ * columns_, rightTransposed_ ? 1 : columns_, rightTransposed_ ? depth_ : 1}),
         result = shaped({part.batch, part.rows, part.columns}),
         resultStrides = shaped({rows_ * columns_, columns_, 1});
    std::vector<int64_t> key{0};
    for (const Dims *dims : {&left, &leftStrides, &right, &rightStrides, &result, &resultStrides})
      key.insert(key.end(), dims->begin(), dims->end());
    steps_.addTo(key);
    size_t channel = result.size() - 1;
    auto plain = describe(right, rightStrides);
    bool isLaidOut = isKept_ && !isStack;
    key.push_back(isLaidOut);
    auto made = findOrMake(key, [&] {
      auto attributes = steps_.attributes(result, resultStrides, channel);
      auto a = describe(left, leftStrides), b = isLaidOut ? inAnyLayout(right) : plain,
           c = describe(result, resultStrides);
      Dims bias(result.size(), 1);
      bias[channel] = part.columns;
      auto description =
          steps_.bias() ? dnnl::matmul::desc(a, b, describe(bias), c) : dnnl::matmul::desc(a, b, c);
      dnnl::matmul::primitive_desc chosen(description, attributes, engine());
      Made all = madeOf(chosen);
      all.weights = chosen.weights_desc();
      return all;
    });
    void *scratch = nullptr;
    if (size_t bytes = made->scratch.get_size()) {
      scratch = call_->services->scratch(call_, int64_t(bytes));
      if (!scratch)
        throw std::bad_alloc();
    }
    int64_t offset = (part.firstMatrix * rows_ + part.firstRow) * columns_ + part.firstColumn;
    const float *a =
        left_ + part.firstMatrix * rows_ * depth_ + part.firstRow * (leftTransposed_ ? 1 : depth_);
    const float *b = right_ + (rightVaries_ ? part.firstMatrix * depth_ * columns_ : 0) +
                     part.firstColumn * (rightTransposed_ ? depth_ : 1);
    if (isLaidOut) {
      key.front() = 3;
      b = Weights(b, true).in(made->weights, plain, key);
    }
    Arguments arguments{
        {DNNL_ARG_SRC, memoryAt(describe(left, leftStrides), a)},
        {DNNL_ARG_WEIGHTS, memoryAt(made->weights, b)},
        {DNNL_ARG_DST, memoryAt(describe(result, resultStrides), steps_.result() + offset)}};
    steps_.addTo(arguments, result, resultStrides, channel, offset, part.firstColumn);
    execute(*made, std::move(arguments), scratch);
  }

  const TensmithCall *call_;
  int64_t batch_, rows_, columns_, depth_;
  bool leftTransposed_, rightTransposed_, rightVaries_, isKept_;
  const float *left_, *right_;
  Steps steps_;
  Side side_ = Side::Rows;
};

} // namespace
} // namespace tensmith::onednn

extern "C" __attribute__((visibility("default"))) int32_t
tensmith_matmul(const TensmithCall *call) {
  using namespace tensmith::onednn;
  return guarded(call, [&] { Product(call).run(); });
}
