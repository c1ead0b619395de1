// Layers that GPTQ or AWQ has quantised, as Hugging Face's folders keep them: codes of a layer in
// `qweight`, zero points in `qzeros`, both packed into i32, `scales`, and of GPTQ the group of each
// column in `g_idx`. They are put together into blocks (base/AffineBlocks.h).
//
//   weight(n, k) = scales(g, n) * (code(k, n) - zero(g, n)), g the group of k
//
// GPTQ packs codes along k and zero points along n, as streams of bits, the lowest first; its first
// format keeps zero points less 1. AWQ packs both along n, eight to an i32 in the order 0, 2, 4, 6,
// 1, 3, 5, 7. Sources: AutoGPTQ's qlinear_cuda.py and GPTQModel (`checkpoint_format`), AutoAWQ's
// gemm.py, and what `transformers` writes into "quantization_config".
#pragma once

#include "base/HostTensor.h"
#include "files/Gguf.h"
#include "generation/tokenizer/JsonPart.h"

#include <functional>
#include <optional>

namespace tensmith::generation {

struct LayerCodes {
  bool isAwq = false;
  int bits = 4;
  int64_t group = 0;        // columns; 0: all
  unsigned addedToZero = 0; // to what is stored
};

/// Of config.json; null where its weights are floats. Throws Failure where they are quantised in
/// another way.
std::optional<LayerCodes> layerCodesOf(const JsonPart &config);

class QuantizedLayers {
public:
  using Make = std::function<std::span<std::byte>(size_t bytes)>;

  explicit QuantizedLayers(std::optional<LayerCodes> codes) : codes_(codes) {}

  /// Whether the tensor is a part of a layer, which is kept then. `file` is where it lies. AutoGPTQ
  /// gives every layer a bias: one that the decoder doesn't want is passed over if it is 0.
  bool take(const std::string &name, const HostTensor &tensor, const std::string &file,
            bool isWanted);
  /// The layers as matrices of blocks; `nameOf` has the names of weights in GGUF's words. Where a
  /// layer's groups are no neighbours, a vector of f32 says which column stands at each place: its
  /// name has ".order" in place of ".weight". Throws Failure where parts are missing or don't fit.
  std::vector<GgufTensor> tensors(
      const std::function<std::string(const std::string &name, const std::string &file)> &nameOf,
      const Make &make) const;

private:
  struct Layer {
    std::string file;
    std::map<std::string, HostTensor> parts;
  };
  class Reader;

  std::optional<LayerCodes> codes_;
  std::map<std::string, Layer> layers_;
};

} // namespace tensmith::generation
