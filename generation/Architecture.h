// What a decoder is, as a file's metadata say: sizes, and how the families differ.
//
// Most differences show in which tensors a file has (biases, norms of heads, norms behind a block,
// one matrix for queries, keys and values), and are taken from there. What does not is a row of a
// table by the architecture's name: Llama and Mistral, Qwen 2 and 3, Gemma 1 to 3, Phi 2 and 3,
// StarCoder 2. Sources:
// the GGUF specification's keys; the families' model cards and reports (arXiv 2307.09288,
// 2310.06825, 2407.10671, 2505.09388, 2403.08295, 2408.00118, 2503.19786, 2404.14219).
#pragma once

#include "files/Gguf.h"

#include <vector>

namespace tensmith::generation {

/// Which numbers of a head are rotated together: neighbours, or those half a head apart.
enum class Rotation { Neighbours, Halves };
enum class Activation { Silu, Gelu };

struct Family {
  const char *name; // general.architecture
  Rotation rotation = Rotation::Halves;
  Activation activation = Activation::Silu;
  bool scalesEmbeddings = false; // by the root of their size
  bool isUngated = false;        // what feeds forward has one matrix before its activation
  bool isParallel = false;       // attention and feeding forward may read the same norm
  /// Of so many layers all but the last have the window; 1: all have it, 0: none.
  int windowPeriod = 1;
  double windowBase = 0; // of the rotation in layers with a window; 0: as in the others
  /// A model of so many layers scales scores by the size of the embedding over its heads instead
  /// of the size of a head.
  int64_t layersScaledByWidth = 0;
};

/// What a decoder is made of; sizes are positive and agree with one another.
struct Architecture {
  const Family *family = nullptr;
  Rotation rotation = Rotation::Halves;
  int64_t layers = 0, width = 0, heads = 0, keyHeads = 0, headSize = 0, rotated = 0, context = 0;
  int64_t vocabulary = 0;
  int64_t window = 0; // 0: every key is seen
  double epsilon = 1e-5, rotationBase = 10000, rotationScale = 1, scoreScale = 0;
  double scoreCap = 0, logitCap = 0; // 0: none
  double windowBase = 0;             // of the rotation in layers with a window; 0: as in the others
  std::vector<double> frequencyFactors; // divisors of pairs' frequencies; empty: 1
  std::vector<double> longFactors;      // those of contexts beyond the original; empty: the same
  int64_t originalContext = 0;
  double rotationMagnitude = 1; // of cosines and sines
  std::vector<bool> windowed;   // of layers, where the file says it; empty: as the family

  bool rotatesTwice() const { return windowBase > 0 && window > 0; }
  bool hasWindow(int64_t layer) const {
    if (!windowed.empty())
      return window > 0 && windowed[size_t(layer)];
    return window > 0 && family->windowPeriod > 0 &&
           (family->windowPeriod == 1 || layer % family->windowPeriod + 1 != family->windowPeriod);
  }
};

/// Throws Failure where the file is of a family that is not known, or its sizes disagree.
Architecture architectureOf(const GgufFile &file);

} // namespace tensmith::generation
