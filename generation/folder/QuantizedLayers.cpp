// Reading GPTQ's and AWQ's layers; see QuantizedLayers.h.
#include "generation/folder/QuantizedLayers.h"

#include "base/AffineBlocks.h"
#include "files/Failure.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <fmt/format.h>

namespace tensmith::generation {
namespace {

constexpr int64_t kWord = 32; // bits
constexpr std::array<const char *, 4> kParts = {"qweight", "qzeros", "scales", "g_idx"};

/// A code's number among those that AWQ has in an i32.
constexpr std::array<int64_t, 8> kAwqPlaces = {0, 4, 1, 5, 2, 6, 3, 7};

uint32_t wordAt(const HostTensor &tensor, int64_t index) {
  uint32_t word;
  std::memcpy(&word, tensor.data() + index * int64_t(sizeof word), sizeof word);
  return word;
}

/// Number `index` of a stream of codes, whose words are so many apart.
unsigned streamed(const HostTensor &words, int64_t first, int64_t apart, int64_t index, int bits) {
  int64_t bit = index * bits, at = first + bit / kWord * apart;
  auto shift = int(bit % kWord);
  unsigned code = wordAt(words, at) >> shift;
  if (shift + bits > kWord)
    code |= wordAt(words, at + apart) << (kWord - shift);
  return code & ((1u << bits) - 1);
}

bool isZero(const HostTensor &tensor) {
  int64_t i = 0;
  while (i < tensor.size() && tensor.getDouble(i) == 0)
    ++i;
  return i == tensor.size();
}

} // namespace

std::optional<LayerCodes> layerCodesOf(const JsonPart &config) {
  if (!config.has("quantization_config"))
    return std::nullopt;
  JsonPart part = config.at("quantization_config");
  std::string method = part.text("quant_method", "");
  LayerCodes codes;
  codes.isAwq = method == "awq";
  if (!codes.isAwq && method != "gptq")
    part.wrong("asks for weights quantised by '" + method +
               "'; of folders those of gptq and awq are read, and floats");
  codes.bits = int(part.integer("bits", part.integer("w_bit", 4)));
  int64_t group = part.integer("group_size", part.integer("q_group_size", -1));
  codes.group = std::max<int64_t>(group, 0);
  bool areBits = codes.isAwq ? codes.bits == 4 : std::ranges::count(kAffineBits, codes.bits) > 0;
  if (!areBits)
    part.wrong(fmt::format("asks for {} bits, which are not read of {}", codes.bits, method));
  std::string format =
      codes.isAwq ? part.text("version", "gemm") : part.text("checkpoint_format", "gptq");
  for (char &letter : format)
    letter = char(std::tolower(letter));
  if (format != "gemm" && format != "gptq" && format != "gptq_v2")
    part.wrong("packs its weights as '" + format +
               "'; of awq 'gemm' is read, and of gptq 'gptq' and 'gptq_v2'");
  codes.addedToZero = format == "gptq" ? 1 : 0;
  return codes;
}

bool QuantizedLayers::take(const std::string &name, const HostTensor &tensor,
                           const std::string &file, bool isWanted) {
  size_t dot = name.rfind('.');
  if (!codes_ || dot == std::string::npos)
    return false;
  std::string kind = name.substr(dot + 1);
  if (kind == "bias" && !isWanted)
    return isZero(tensor);
  if (std::ranges::find(kParts, kind) == kParts.end())
    return false;
  Layer &layer = layers_[name.substr(0, dot)];
  layer.file = file;
  if (!layer.parts.try_emplace(kind, tensor).second)
    fail(file, "has '" + name + "', which another file has, too");
  return true;
}

/// One layer, whose parts are checked as they are looked at.
class QuantizedLayers::Reader {
public:
  Reader(const LayerCodes &codes, const std::string &name, const Layer &layer)
      : codes_(codes), name_(name), layer_(layer), weight_(part("qweight", 2)),
        zeros_(part("qzeros", 2)), scales_(part("scales", 2)) {
    const Shape &shape = weight_.shape();
    columns_ = codes.isAwq ? shape[0] : shape[0] * kWord / codes.bits;
    rows_ = codes.isAwq ? shape[1] * kWord / codes.bits : shape[1];
    if (rows_ < 1 || columns_ < 1)
      wrong("qweight", "has no codes");
    group_ = codes.group ? codes.group : columns_;
    groups_ = (columns_ + group_ - 1) / group_;
    require("qweight", weight_.type() == DataType::I32);
    require("qzeros",
            zeros_.type() == DataType::I32 &&
                zeros_.shape() == Shape{groups_, (rows_ * codes.bits + kWord - 1) / kWord});
    require("scales", isFloat(scales_.type()) && scales_.shape() == Shape{groups_, rows_});
  }

  void read(const std::string &weightName, const Make &make, std::vector<GgufTensor> &to) const {
    std::vector<int64_t> order = orderOfColumns();
    AffineWeights weights{rows_, columns_, group_, codes_.bits};
    if (scales_.type() == DataType::F16)
      weights.scaleType = DataType::F16;
    weights.code = [&](int64_t row, int64_t column) { return codeAt(row, column); };
    weights.scale = [&](int64_t row, int64_t group) {
      return float(scales_.getDouble(group * rows_ + row));
    };
    weights.zero = [&](int64_t row, int64_t group) { return float(zeroAt(row, group)); };
    AffineBlocks blocks = affineBlocks(weights, order);
    if (!blocks.format || blocks.columns != columns_)
      wrong("qweight", fmt::format("has {} columns in groups of {}, which are no whole blocks of "
                                   "16 to 256",
                                   columns_, group_));
    std::span<std::byte> bytes = make(blocks.bytes.size());
    std::memcpy(bytes.data(), blocks.bytes.data(), bytes.size());
    to.push_back({weightName, {rows_, columns_}, blocks.format, bytes});
    if (!order.empty())
      to.push_back(orderTensor(weightName, order, make));
  }

private:
  const HostTensor &part(const char *kind, int64_t rank) const {
    auto found = layer_.parts.find(kind);
    if (found == layer_.parts.end())
      fail(layer_.file,
           fmt::format("has parts of the layer '{}', but no '{}.{}'", name_, name_, kind));
    if (found->second.rank() != rank)
      wrong(kind, fmt::format("has {} dimensions instead of {}", found->second.rank(), rank));
    return found->second;
  }
  void require(const char *kind, bool fits) const {
    if (!fits)
      wrong(kind,
            fmt::format("is {} of {}, which doesn't fit a qweight of {} with {} bits in groups "
                        "of {}",
                        name(part(kind, 2).type()), toString(part(kind, 2).shape()),
                        toString(weight_.shape()), codes_.bits, group_));
  }
  [[noreturn]] void wrong(const char *kind, const std::string &what) const {
    fail(layer_.file, fmt::format("'{}.{}' {}", name_, kind, what));
  }
  static std::string_view name(DataType type) { return tensmith::name(type); }

  unsigned codeAt(int64_t row, int64_t column) const {
    return codes_.isAwq ? awqAt(weight_, column, row)
                        : streamed(weight_, row, rows_, column, codes_.bits);
  }
  unsigned zeroAt(int64_t row, int64_t group) const {
    if (codes_.isAwq)
      return awqAt(zeros_, group, row);
    unsigned stored = streamed(zeros_, group * zeros_.shape()[1], 1, row, codes_.bits);
    return (stored + codes_.addedToZero) & ((1u << codes_.bits) - 1);
  }
  unsigned awqAt(const HostTensor &words, int64_t line, int64_t row) const {
    int64_t place = row / 8 * 8 + kAwqPlaces[size_t(row % 8)];
    return streamed(words, line * words.shape()[1], 1, place, codes_.bits);
  }

  std::vector<int64_t> orderOfColumns() const {
    if (!layer_.parts.count("g_idx"))
      return {};
    const HostTensor &given = part("g_idx", 1);
    std::vector<int64_t> groups;
    if (given.type() != DataType::I32 || given.size() != columns_)
      wrong("g_idx", fmt::format("is no list of {} numbers of i32", columns_));
    for (int64_t i = 0; i < columns_; ++i)
      groups.push_back(int32_t(wordAt(given, i)));
    auto order = orderOfGroups(groups, group_);
    if (!order)
      wrong("g_idx", fmt::format("doesn't make groups of {} columns each", group_));
    return *order;
  }

  static GgufTensor orderTensor(const std::string &weightName, const std::vector<int64_t> &order,
                                const Make &make) {
    std::span<std::byte> bytes = make(order.size() * sizeof(float));
    for (size_t i = 0; i < order.size(); ++i) {
      auto column = float(order[i]);
      std::memcpy(bytes.data() + i * sizeof column, &column, sizeof column);
    }
    constexpr std::string_view kWeight = ".weight";
    std::string stem = weightName.substr(0, weightName.size() - kWeight.size());
    return {stem + ".order", {int64_t(order.size())}, findBlockFormat("f32"), bytes};
  }

  const LayerCodes &codes_;
  const std::string &name_;
  const Layer &layer_;
  const HostTensor &weight_, &zeros_, &scales_;
  int64_t rows_ = 0, columns_ = 0, group_ = 0, groups_ = 0;
};

std::vector<GgufTensor> QuantizedLayers::tensors(
    const std::function<std::string(const std::string &, const std::string &)> &nameOf,
    const Make &make) const {
  std::vector<GgufTensor> tensors;
  for (const auto &[name, layer] : layers_)
    Reader(*codes_, name, layer).read(nameOf(name + ".weight", layer.file), make, tensors);
  return tensors;
}

} // namespace tensmith::generation
