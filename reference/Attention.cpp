// Reference evaluation of attention (ONNX Attention, opset 24): softmax(q k^T * scale + bias) v,
// for each image and head; q's heads share k's and v's in groups of equal size.
//
// The bias joins the mask, the causal limit and the number of keys that are no padding, each as 0
// or minus infinity; a row of which every key is masked has weights, and so a result, of zeros.
// Causal: query i sees key j where j <= i + offset, `offset` being the number of keys before the
// queries.
#include "reference/Attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tensmith::reference {

namespace {

constexpr double kMasked = -std::numeric_limits<double>::infinity();

/// Queries, keys or values as [batch, heads, length, size].
struct Heads {
  std::span<double> values;
  int64_t batch = 0, heads = 0, length = 0, size = 0;
  Shape shape() const { return {batch, heads, length, size}; }
  double *row(int64_t b, int64_t h, int64_t i) const {
    return values.data() + ((b * heads + h) * length + i) * size;
  }
};

/// From four dimensions as they are, or from [batch, length, heads * size].
Heads headsOf(Workspace &workspace, const Invocation &invocation, size_t index, const char *name,
              const char *attribute) {
  const HostTensor &x = workspace.floatOperand(index, name);
  Heads h;
  workspace.require(x.rank() == 3 || x.rank() == 4, name, "must have three or four dimensions");
  if (!workspace.ok())
    return h;
  const Shape &s = x.shape();
  if (x.rank() == 4) {
    h = {workspace.widen<double>(x), s[0], s[1], s[2], s[3]};
    return h;
  }
  const int64_t heads = invocation.attributes.integer(attribute);
  if (heads < 1 || s[2] % heads != 0) {
    workspace.rejectAttribute(attribute, "is " + std::to_string(heads) + ", which doesn't divide " +
                                             std::to_string(s[2]));
    return h;
  }
  h = {{}, s[0], heads, s[1], s[2] / heads};
  std::span<double> flat = workspace.widen<double>(x);
  h.values = workspace.zeros<double>(h.shape());
  for (int64_t b = 0; workspace.ok() && b < h.batch && !flat.empty(); ++b)
    for (int64_t i = 0; i < h.length; ++i)
      for (int64_t head = 0; head < heads; ++head)
        std::copy_n(flat.data() + ((b * h.length + i) * heads + head) * h.size, h.size,
                    h.row(b, head, i));
  return h;
}

/// The keys or values of the past before the new ones.
Heads withPast(Workspace &workspace, const Invocation &invocation, size_t index, const char *name,
               const Heads &fresh) {
  if (!workspace.ok() || !invocation.present(index))
    return fresh;
  const HostTensor &past = workspace.floatOperand(index, name, 4);
  if (!workspace.ok())
    return fresh;
  const int64_t before = past.shape()[2];
  workspace.expectShape(past, name, Shape{fresh.batch, fresh.heads, before, fresh.size});
  Heads all = fresh;
  all.length += before;
  Heads old = fresh;
  old.length = before;
  old.values = workspace.widen<double>(past);
  all.values = workspace.zeros<double>(all.shape());
  for (int64_t b = 0; workspace.ok() && b < all.batch && !all.values.empty(); ++b)
    for (int64_t h = 0; h < all.heads; ++h) {
      std::copy_n(old.row(b, h, 0), before * all.size, all.row(b, h, 0));
      std::copy_n(fresh.row(b, h, 0), fresh.length * all.size, all.row(b, h, before));
    }
  return all;
}

/// What is added to the scores.
struct Bias {
  std::span<double> mask;
  std::vector<int64_t> strides; // of the mask, over [batch, heads, queries, keys]
  int64_t maskedFrom = 0;       // keys beyond the mask's last dimension are masked
  bool boolean = false, causal = false;
  std::span<int64_t> valid;      // keys that are no padding, by image
  int64_t offset = 0;            // of the first query among the keys, unless `valid` says
  int64_t left = -1, right = -1; // the window's ends, counted from the query; none where negative

  double at(int64_t b, int64_t h, int64_t i, int64_t j, int64_t queries) const {
    double bias = 0;
    if (!strides.empty()) {
      if (j >= maskedFrom)
        return kMasked;
      bias = mask[size_t(b * strides[0] + h * strides[1] + i * strides[2] + j * strides[3])];
      if (boolean)
        bias = bias != 0 ? 0 : kMasked;
    }
    const int64_t before = valid.empty() ? offset : valid[size_t(b)] - queries;
    const int64_t ahead = j - i - before;
    if ((causal && ahead > 0) || (left >= 0 && -ahead > left) || (right >= 0 && ahead > right) ||
        (!valid.empty() && j >= valid[size_t(b)]))
      bias += kMasked;
    return bias;
  }
};

void readMask(Workspace &workspace, const HostTensor &mask, const Heads &q, const Heads &k,
              Bias &bias) {
  bias.boolean = mask.type() == DataType::Bool;
  workspace.require(bias.boolean || isFloat(mask.type()), "mask", "must be of booleans or floats");
  workspace.require(mask.rank() >= 1, "mask", "is a scalar");
  if (!workspace.ok())
    return;
  bias.maskedFrom = mask.shape().back();
  const Shape target{q.batch, q.heads, q.length, bias.maskedFrom};
  auto strides = broadcastStrides(mask.shape(), target);
  if (!strides || bias.maskedFrom > k.length) {
    workspace.reject("mask", "has shape " + toString(mask.shape()) +
                                 ", which can't be broadcast to " +
                                 toString(Shape{q.batch, q.heads, q.length, k.length}));
    return;
  }
  bias.strides = *strides;
  bias.mask = workspace.widen<double>(mask);
}

Bias biasOf(Workspace &workspace, const Invocation &invocation, const Heads &q, const Heads &k,
            int64_t past) {
  Bias bias;
  bias.causal = invocation.attributes.integer("is_causal") != 0;
  bias.offset = past;
  bias.left = invocation.attributes.integer("left_window", -1);
  bias.right = invocation.attributes.integer("right_window", -1);
  if (invocation.present(3))
    readMask(workspace, workspace.operand(3, "mask"), q, k, bias);
  if (invocation.present(6) && workspace.ok()) {
    const HostTensor &lengths = workspace.operand(6, "nonpad_kv_seqlen", 1);
    workspace.expectShape(lengths, "nonpad_kv_seqlen", Shape{q.batch});
    workspace.require(!invocation.present(4), "nonpad_kv_seqlen",
                      "and 'past_key' exclude each other");
    bias.valid = workspace.widen<int64_t>(lengths);
    for (int64_t &length : bias.valid)
      length = std::clamp<int64_t>(length, 0, k.length);
  }
  return bias;
}

struct Settings {
  double scale = 1, softcap = 0;
  int64_t mode = 0; // which scores are the fourth result
  DataType precision = DataType::F64;
};

Settings settingsOf(Workspace &workspace, const Attributes &attributes, int64_t headSize) {
  Settings s;
  s.scale = attributes.real("scale", 1 / std::sqrt(double(std::max<int64_t>(headSize, 1))));
  s.softcap = attributes.real("softcap");
  s.mode = attributes.integer("qk_matmul_output_mode");
  if (s.mode < 0 || s.mode > 3)
    workspace.rejectAttribute("qk_matmul_output_mode", "must be between 0 and 3");
  if (attributes.has("softmax_precision")) {
    s.precision = attributes.type("softmax_precision");
    if (s.precision != DataType::F32 && s.precision != DataType::F16 &&
        s.precision != DataType::F64 && s.precision != DataType::BF16)
      workspace.rejectAttribute("softmax_precision", "must be a float type");
  }
  return s;
}

void roundTo(std::span<double> values, DataType type) {
  if (type == DataType::F64)
    return;
  HostTensor cell(type, {1});
  for (double &value : values) {
    cell.setDouble(0, value);
    value = cell.getDouble(0);
  }
}

void softmaxRow(std::span<double> scores) {
  const double most = scores.empty() ? kMasked : std::ranges::max(scores);
  if (most == kMasked) {
    std::ranges::fill(scores, 0);
    return;
  }
  double sum = 0;
  for (double &score : scores)
    sum += score = std::exp(score - most);
  for (double &score : scores)
    score /= sum;
}

/// Turns a row of raw scores into weights; `shown` receives the stage that `mode` names.
void weigh(const Settings &s, const Bias &bias, std::span<double> scores, double *shown, int64_t b,
           int64_t h, int64_t i, int64_t queries) {
  auto show = [&](int64_t stage) {
    if (s.mode == stage)
      std::ranges::copy(scores, shown);
  };
  show(0);
  if (s.softcap > 0)
    for (double &score : scores)
      score = s.softcap * std::tanh(score / s.softcap);
  show(1);
  bool allMasked = true;
  for (size_t j = 0; j < scores.size(); ++j) {
    const double added = bias.at(b, h, i, int64_t(j), queries);
    allMasked &= added == kMasked;
    scores[j] += added;
  }
  show(2);
  roundTo(scores, s.precision);
  if (allMasked) // whatever the scores were: an infinite one is no reason for a NaN
    std::ranges::fill(scores, 0);
  else
    softmaxRow(scores);
  roundTo(scores, s.precision);
  show(3);
}

void attend(const Settings &s, const Bias &bias, const Heads &q, const Heads &k, const Heads &v,
            const Heads &y, const Heads &shown, std::span<double> scores) {
  const int64_t group = q.heads / k.heads;
  for (int64_t b = 0; b < q.batch; ++b)
    for (int64_t h = 0; h < q.heads; ++h)
      for (int64_t i = 0; i < q.length; ++i) {
        const double *query = q.row(b, h, i);
        for (int64_t j = 0; j < k.length; ++j) {
          const double *key = k.row(b, h / group, j);
          double sum = 0;
          for (int64_t d = 0; d < q.size; ++d)
            sum += query[d] * key[d];
          scores[size_t(j)] = sum * s.scale;
        }
        weigh(s, bias, scores, shown.row(b, h, i), b, h, i, q.length);
        double *result = y.row(b, h, i);
        for (int64_t j = 0; j < k.length; ++j) {
          const double *value = v.row(b, h / group, j);
          for (int64_t d = 0; d < v.size; ++d)
            result[d] += scores[size_t(j)] * value[d];
        }
      }
}

/// [batch, length, heads * size] where `merged`, else as it is.
HostTensor resultOf(Workspace &workspace, const Heads &y, DataType type, bool merged) {
  if (!merged)
    return workspace.narrow<double>(y.values, type, y.shape());
  std::span<double> flat = workspace.zeros<double>(y.shape());
  for (int64_t b = 0; workspace.ok() && b < y.batch && !flat.empty(); ++b)
    for (int64_t h = 0; h < y.heads; ++h)
      for (int64_t i = 0; i < y.length; ++i)
        std::copy_n(y.row(b, h, i), y.size,
                    flat.data() + ((b * y.length + i) * y.heads + h) * y.size);
  return workspace.narrow<double>(flat, type, Shape{y.batch, y.length, y.heads * y.size});
}

void checkHeads(Workspace &workspace, const Heads &q, const Heads &k, const Heads &v) {
  if (!workspace.ok())
    return;
  workspace.require(k.batch == q.batch && k.size == q.size, "k",
                    "must have q's batch and head size");
  workspace.require(k.heads > 0 && q.heads % k.heads == 0, "k",
                    "must have a number of heads that divides q's");
  workspace.require(v.batch == k.batch && v.heads == k.heads && v.length == k.length, "v",
                    "must have k's batch, heads and length");
}

} // namespace

Outcome evaluateAttention(const Invocation &invocation) {
  Workspace workspace(invocation);
  Heads q = headsOf(workspace, invocation, 0, "q", "q_num_heads");
  Heads k = headsOf(workspace, invocation, 1, "k", "kv_num_heads");
  Heads v = headsOf(workspace, invocation, 2, "v", "kv_num_heads");
  checkHeads(workspace, q, k, v);
  workspace.require(invocation.present(4) == invocation.present(5), "past_key",
                    "and 'past_value' must be given together");
  const int64_t fresh = k.length;
  k = withPast(workspace, invocation, 4, "past_key", k);
  v = withPast(workspace, invocation, 5, "past_value", v);
  workspace.require(k.length == v.length, "past_value", "must be as long as 'past_key'");
  const Settings settings = settingsOf(workspace, invocation.attributes, q.size);
  const Bias bias = biasOf(workspace, invocation, q, k, k.length - fresh);
  Heads y{{}, q.batch, q.heads, q.length, v.size}, shown{{}, q.batch, q.heads, q.length, k.length};
  y.values = workspace.zeros<double>(y.shape());
  shown.values = workspace.zeros<double>(shown.shape());
  std::span<double> scores = workspace.zeros<double>({k.length});
  if (!workspace.ok())
    return workspace.status();
  if (q.batch > 0 && q.heads > 0)
    attend(settings, bias, q, k, v, y, shown, scores);
  const std::span<const HostTensor> operands = invocation.operands;
  const DataType type = operands[0].type();
  return workspace.finish(resultOf(workspace, y, type, operands[0].rank() == 3),
                          resultOf(workspace, k, operands[1].type(), false),
                          resultOf(workspace, v, operands[2].type(), false),
                          resultOf(workspace, shown, type, false));
}

} // namespace tensmith::reference
