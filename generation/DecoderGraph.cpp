// Writing a decoder's graph; see DecoderGraph.h.
#include "generation/DecoderGraph.h"

#include "files/Failure.h"

#include <cmath>
#include <fmt/format.h>
#include <map>

namespace tensmith::generation {
namespace {

using Value = GraphOf::Value;

std::string number(int64_t value) { return std::to_string(value); }

class DecoderWriter {
public:
  DecoderWriter(GraphOf &graph, const Architecture &architecture, const GgufFile &file,
                const DecoderOptions &options)
      : g_(graph), a_(architecture), file_(file), options_(options),
        t_(options.form == DecoderForm::Step        ? "1"
           : options.form == DecoderForm::PagedStep ? "b"
                                                    : "t") {}

  DecoderInputs write() {
    bool rotatesTwice = a_.rotatesTwice();
    Value tokens = g_.input("tokens", TS_I64, {t_});
    for (int which = 0; which < (rotatesTwice ? 2 : 1); ++which) {
      std::string suffix = which ? "_windowed" : "";
      cosines_.push_back(rotationInput("cosines" + suffix));
      sines_.push_back(rotationInput("sines" + suffix));
    }
    const CacheFormat &cache = options_.cache;
    ts_type stored = cache.type();
    std::string head = number(cache.rowOfHead());
    Dims past = {"past", number(a_.keyHeads), head};
    if (isPaged())
      past = {"pages", number(options_.positions), number(a_.keyHeads), head};
    writePlaces();
    for (int64_t layer = 0; layer < a_.layers; ++layer) {
      pasts_.push_back(g_.input("past_key." + number(layer), stored, past));
      pasts_.push_back(g_.input("past_value." + number(layer), stored, past));
    }
    Value x = embeddings(tokens);
    for (int64_t layer = 0; layer < a_.layers; ++layer)
      x = block(x, layer);
    if (hasLogits() || isPaged())
      writeLogits(x);
    for (int64_t layer = 0; layer < a_.layers; ++layer) {
      for (int64_t which : {0, 1}) {
        std::string name = which ? "value" : "key";
        g_.output(name + "." + number(layer), news_[size_t(2 * layer + which)]);
      }
    }
    return std::move(inputs_);
  }

private:
  bool isPaged() const { return options_.positions > 0; }
  bool hasLogits() const {
    return options_.form != DecoderForm::Several && options_.form != DecoderForm::PagedSpan;
  }
  /// Which keys a row sees, and where they are.
  void writePlaces() {
    table_ = g_.input("table", TS_I64, {t_, isPaged() ? "n" : "1"});
    lengths_ = g_.input("lengths", TS_I64, {t_});
    firsts_ = g_.input("firsts", TS_I64, {t_});
  }

  void writeLogits(Value x) {
    x = normalised(x, "output_norm", a_.width, 1);
    if (isPaged())
      g_.output("hidden", x);
    if (!hasLogits())
      return;
    Value logits = file_.find("output.weight")
                       ? linear(x, "output", a_.width, a_.vocabulary)
                       : product(x, "token_embd.weight", a_.width, a_.vocabulary);
    g_.output("logits", a_.logitCap > 0 ? capped(logits, a_.logitCap) : logits);
  }

  Value rotationInput(const std::string &name) {
    Value x = g_.input(name, TS_F32, {t_, number(a_.rotated / 2)});
    return g_.reshape(x, {t_, "1", number(a_.rotated / 2)});
  }

  // Weights.

  /// The input for rows of blocks; tensors that are read twice are one.
  Value matrix(const std::string &name, int64_t columns, int64_t rows) {
    const GgufTensor &tensor = file_.tensor(name);
    if (tensor.shape != Shape{rows, columns})
      fail(file_.name(), fmt::format("'{}' is of {}, where the architecture needs {}x{}", name,
                                     toString(tensor.shape), rows, columns));
    if (!tensor.format)
      fail(file_.name(), fmt::format("'{}' has integers where floats are needed", name));
    auto [found, isNew] = matrices_.try_emplace(name);
    if (isNew) {
      inputs_.weights.push_back(&tensor);
      found->second = g_.input(name, TS_U8, {number(rows), number(tensor.blockBytes())});
    }
    return found->second;
  }
  /// By how much rows are shorter than their blocks, whose last one is filled up with zeros.
  int64_t missing(const std::string &name, int64_t columns) {
    int64_t elements = file_.tensor(name).format->elements;
    return (elements - columns % elements) % elements;
  }
  std::string formatOf(const std::string &name) {
    return std::string(file_.tensor(name).format->name);
  }
  Value product(Value x, const std::string &name, int64_t columns, int64_t rows) {
    Value weights = matrix(name, columns, rows);
    std::string order = name.substr(0, name.rfind('.')) + ".order"; // numbers of columns
    if (file_.find(order))
      x = g_.op("gather", {x, cast(vector(order, columns), TS_I64)}, {{"axis", int64_t(1)}});
    if (int64_t more = missing(name, columns))
      x = g_.op("pad", {x},
                {{"low", std::vector<int64_t>{0, 0}}, {"high", std::vector<int64_t>{0, more}}});
    return g_.op("block_product", {x, weights},
                 {{"format", formatOf(name)}, {"x_bits", int64_t(options_.exact ? 0 : 8)}});
  }
  /// One f32 for each column.
  Value vector(const std::string &name, int64_t size) {
    const GgufTensor &tensor = file_.tensor(name);
    if (tensor.shape != Shape{size} || !tensor.format || tensor.format->plain != DataType::F32)
      fail(file_.name(), fmt::format("'{}' is of {}, where {} numbers of f32 are needed", name,
                                     toString(tensor.shape), size));
    inputs_.weights.push_back(&tensor);
    return g_.input(name, TS_F32, {number(size)});
  }
  /// The product, with its bias where the file has one.
  Value linear(Value x, const std::string &name, int64_t columns, int64_t rows) {
    Value y = product(x, name + ".weight", columns, rows);
    return file_.find(name + ".bias") ? g_.op("add", {y, vector(name + ".bias", rows)}) : y;
  }
  /// With a bias the numbers' mean is taken off before (LayerNorm), without one it isn't (RMSNorm).
  Value normalised(Value x, const std::string &name, int64_t size, int64_t axis) {
    std::vector<NamedAttribute> attributes = {{"axis", axis}, {"epsilon", a_.epsilon}};
    Value scale = vector(name + ".weight", size);
    return file_.find(name + ".bias")
               ? g_.op("layer_norm", {x, scale, vector(name + ".bias", size)}, attributes)
               : g_.op("rms_norm", {x, scale}, attributes);
  }
  Value normalisedIfThere(Value x, const std::string &name) {
    return file_.find(name + ".weight") ? normalised(x, name, a_.width, 1) : x;
  }
  Value capped(Value x, double cap) {
    return g_.op("mul", {g_.op("tanh", {g_.op("div", {x, g_.scalar(cap)})}), g_.scalar(cap)});
  }

  // Layers.

  Value embeddings(Value tokens) {
    Value rows = g_.op("gather", {matrix("token_embd.weight", a_.width, a_.vocabulary), tokens},
                       {{"axis", int64_t(0)}});
    Value x = g_.op("block_values", {rows}, {{"format", formatOf("token_embd.weight")}});
    if (missing("token_embd.weight", a_.width))
      x = g_.columns(x, 0, 1, {t_, number(a_.width)});
    return a_.family->scalesEmbeddings
               ? g_.op("mul", {x, g_.scalar(double(float(std::sqrt(double(a_.width)))))})
               : x;
  }

  Value block(Value x, int64_t layer) {
    std::string at = "blk." + number(layer) + ".";
    Value normed = normalised(x, at + "attn_norm", a_.width, 1);
    Value y = attention(normed, layer, at);
    x = g_.op("add", {x, normalisedIfThere(y, at + "post_attention_norm")});
    // Both of what the block begins with, where there is one norm for them.
    if (a_.family->isParallel && !file_.find(at + "ffn_norm.weight"))
      return g_.op("add", {x, feedForward(normed, at)});
    y = feedForward(normalised(x, at + "ffn_norm", a_.width, 1), at);
    return g_.op("add", {x, normalisedIfThere(y, at + "post_ffw_norm")});
  }

  Value attention(Value x, int64_t layer, const std::string &at) {
    int64_t own = a_.heads * a_.headSize, keys = a_.keyHeads * a_.headSize;
    Value q, k, v;
    if (file_.find(at + "attn_qkv.weight")) {
      Value all = linear(x, at + "attn_qkv", a_.width, own + 2 * keys);
      q = g_.columns(all, 0, 1, {t_, number(own)});
      k = g_.columns(all, own, 1, {t_, number(keys)});
      v = g_.columns(all, own + keys, 1, {t_, number(keys)});
    } else {
      q = linear(x, at + "attn_q", a_.width, own);
      k = linear(x, at + "attn_k", a_.width, keys);
      v = linear(x, at + "attn_v", a_.width, keys);
    }
    q = rotated(heads(q, a_.heads, at + "attn_q_norm"), a_.heads, layer);
    k = rotated(heads(k, a_.keyHeads, at + "attn_k_norm"), a_.keyHeads, layer);
    v = g_.reshape(v, {t_, number(a_.keyHeads), number(a_.headSize)});
    news_.push_back(asKept(k)), news_.push_back(asKept(v));
    Value y = attend(q, layer);
    return linear(y, at + "attn_output", own, a_.width);
  }

  Value heads(Value x, int64_t count, const std::string &norm) {
    x = g_.reshape(x, {t_, number(count), number(a_.headSize)});
    return file_.find(norm + ".weight") ? normalised(x, norm, a_.headSize, 2) : x;
  }

  /// [t, heads, size], each pair turned by its position's angle.
  Value rotated(Value x, int64_t count, int64_t layer) {
    size_t which = cosines_.size() > 1 && a_.hasWindow(layer) ? 1 : 0;
    bool halves = a_.rotation == Rotation::Halves;
    int64_t pairs = a_.rotated / 2;
    Dims part = {t_, number(count), number(pairs)};
    Value first = g_.columns(x, 0, halves ? 1 : 2, part);
    Value second = g_.columns(x, halves ? pairs : 1, halves ? 1 : 2, part);
    Value c = cosines_[which], s = sines_[which];
    Value low = g_.op("sub", {g_.op("mul", {first, c}), g_.op("mul", {second, s})});
    Value high = g_.op("add", {g_.op("mul", {second, c}), g_.op("mul", {first, s})});
    std::vector<Value> parts;
    if (halves) {
      parts = {low, high};
    } else {
      Dims apart = {t_, number(count), number(pairs), "1"};
      Value joined = g_.op("concat", {g_.reshape(low, apart), g_.reshape(high, apart)},
                           {{"axis", int64_t(3)}});
      parts = {g_.reshape(joined, {t_, number(count), number(a_.rotated)})};
    }
    if (a_.rotated < a_.headSize)
      parts.push_back(
          g_.columns(x, a_.rotated, 1, {t_, number(count), number(a_.headSize - a_.rotated)}));
    return parts.size() == 1 ? parts[0] : g_.op("concat", parts, {{"axis", int64_t(2)}});
  }

  // What is kept of keys and values.

  Value cast(Value x, ts_type to) { return g_.op("cast", {x}, {{"to", to}}); }

  /// Keys or values [t, heads, size] as the cache keeps them.
  Value asKept(Value x) {
    const CacheFormat &cache = options_.cache;
    if (cache.isHalf)
      return cast(x, TS_F16);
    if (!cache.blocks)
      return x;
    bool isSigned = cache.blocks->isSigned;
    std::string heads = number(cache.heads), count = number(cache.blocksOfHead());
    x = g_.reshape(x, {t_, heads, count, number(cache.blocks->elements)});
    std::vector<NamedAttribute> last = {{"axes", std::vector<int64_t>{3}}, {"keepdims", true}};
    Value extreme, least = g_.scalar(isSigned ? -127 : -8), most = g_.scalar(isSigned ? 127 : 7);
    if (isSigned) {
      extreme = g_.op("div", {g_.op("reduce_max", {g_.op("abs", {x})}, last), most});
    } else {
      Value high = g_.op("reduce_max", {x}, last), low = g_.op("reduce_min", {x}, last);
      Value isHigh = g_.op("greater_or_equal", {high, g_.op("neg", {low})});
      extreme = g_.op("div", {g_.op("where", {isHigh, high, low}), least});
    }
    Value half = cast(extreme, TS_F16), scale = cast(half, TS_F32), zero = g_.scalar(0);
    Value divisor =
        g_.op("where", {g_.op("equal", {scale, zero}), g_.scalar(1), scale}); // of zeros
    Value level = g_.op("max", {g_.op("min", {g_.op("div", {x, divisor}), most}), least});
    return blocksOf(g_.op("round", {level}), half);
  }

  /// Bytes of blocks as base/BlockFormats.h has them: the scale's two, then codes, of q4_0 those of
  /// the second half in the upper bits.
  Value blocksOf(Value level, Value half) {
    const CacheFormat &cache = options_.cache;
    Value bits = g_.op("bit_cast", {half}, {{"to", TS_U16}});
    Value upper = g_.op("bit_shift", {bits, cast(g_.scalar(8), TS_U16)}, {{"left", false}});
    Value codes;
    if (cache.blocks->isSigned) {
      codes = g_.op("bit_cast", {cast(level, TS_I8)}, {{"to", TS_U8}});
    } else {
      codes = cast(g_.op("add", {level, g_.scalar(8)}), TS_U8);
      int64_t count = cache.blocks->elements / 2;
      Dims part = {t_, number(cache.heads), number(cache.blocksOfHead()), number(count)};
      Value high =
          g_.op("bit_shift", {g_.columns(codes, count, 1, part, TS_U8), cast(g_.scalar(4), TS_U8)});
      codes = g_.op("bitwise_or", {g_.columns(codes, 0, 1, part, TS_U8), high});
    }
    Value bytes =
        g_.op("concat", {cast(bits, TS_U8), cast(upper, TS_U8), codes}, {{"axis", int64_t(3)}});
    return g_.reshape(bytes, {t_, number(cache.heads), number(cache.bytesOfHead())}, TS_U8);
  }

  /// q [t, heads, size], each row to what is kept and to the run's own; what is not in pages is
  /// one.
  Value attend(Value q, int64_t layer) {
    const CacheFormat &cache = options_.cache;
    auto at = size_t(2 * layer);
    Dims page = {"1", "past", number(a_.keyHeads), number(cache.rowOfHead())};
    auto pages = [&](Value past) {
      return isPaged() ? past : g_.reshape(past, page, cache.type());
    };
    std::string format = cache.blocks ? std::string(cache.blocks->name) : "";
    Value y = g_.op("cached_attention",
                    {q, pages(pasts_[at]), pages(pasts_[at + 1]), table_, lengths_, firsts_,
                     news_[at], news_[at + 1]},
                    {{"format", format},
                     {"scale", a_.scoreScale},
                     {"softcap", a_.scoreCap},
                     {"window", a_.hasWindow(layer) ? a_.window : 0},
                     {"q_bits", int64_t(options_.exact ? 0 : 8)}});
    return g_.reshape(y, {t_, number(a_.heads * a_.headSize)});
  }

  Value activated(Value x) {
    if (a_.family->activation == Activation::Silu)
      return g_.op("mul", {x, g_.op("sigmoid", {x})});
    // x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
    Value cube = g_.op("mul", {g_.op("mul", {x, x}), x});
    Value inner = g_.op("add", {x, g_.op("mul", {cube, g_.scalar(0.044715)})});
    Value bent = g_.op("tanh", {g_.op("mul", {inner, g_.scalar(0.7978845608028654)})});
    return g_.op("mul", {g_.op("mul", {x, g_.scalar(0.5)}), g_.op("add", {bent, g_.scalar(1)})});
  }

  Value feedForward(Value x, const std::string &at) {
    const GgufTensor &down = file_.tensor(at + "ffn_down.weight");
    int64_t inner = down.shape.size() == 2 ? down.shape[1] : 0;
    Value gate, up;
    if (file_.find(at + "ffn_gate.weight")) {
      gate = linear(x, at + "ffn_gate", a_.width, inner);
      up = linear(x, at + "ffn_up", a_.width, inner);
    } else if (a_.family->isUngated) {
      return linear(activated(linear(x, at + "ffn_up", a_.width, inner)), at + "ffn_down", inner,
                    a_.width);
    } else {
      Value both = linear(x, at + "ffn_up", a_.width, 2 * inner);
      gate = g_.columns(both, 0, 1, {t_, number(inner)});
      up = g_.columns(both, inner, 1, {t_, number(inner)});
    }
    return linear(g_.op("mul", {activated(gate), up}), at + "ffn_down", inner, a_.width);
  }

  GraphOf &g_;
  const Architecture &a_;
  const GgufFile &file_;
  DecoderOptions options_;
  std::string t_; // tokens of all sequences
  Value table_ = TS_NO_VALUE, lengths_ = TS_NO_VALUE, firsts_ = TS_NO_VALUE;
  std::vector<Value> cosines_, sines_, pasts_, news_;
  std::map<std::string, Value> matrices_;
  DecoderInputs inputs_;
};

} // namespace

DecoderInputs buildDecoder(GraphOf &graph, const Architecture &architecture, const GgufFile &file,
                           const DecoderOptions &options) {
  return DecoderWriter(graph, architecture, file, options).write();
}

} // namespace tensmith::generation
