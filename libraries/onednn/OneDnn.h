// What all operators by oneDNN share: primitives that are made once, their memory, and the steps
// behind an operator as oneDNN's post-ops.
//
// oneDNN is used by one thread at a time: its own would contend with the session's, so that each
// thread of the session that calls it is told to have one. A primitive works in scratch memory that
// it is given, and so can be executed by several threads at once.
#pragma once

#include "runtime/LibraryAbi.h"

#include <dnnl.hpp>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

namespace tensmith::onednn {

using Dims = dnnl::memory::dims;
using Arguments = std::unordered_map<int, dnnl::memory>;

const dnnl::engine &engine();
/// The calling thread's, which it makes single-threaded.
dnnl::stream &stream();

/// Of f32, with those strides, or dense.
dnnl::memory::desc describe(const Dims &dims, const Dims &strides);
dnnl::memory::desc describe(const Dims &dims);
/// Of the layout that a primitive chooses.
dnnl::memory::desc inAnyLayout(const Dims &dims);
dnnl::memory memoryAt(const dnnl::memory::desc &desc, const void *data);

/// A primitive with what has to be known to execute it.
struct Made {
  dnnl::primitive primitive;
  dnnl::memory::desc scratch, weights;
};
/// That of the key, or a new one.
std::shared_ptr<const Made> findOrMake(const std::vector<int64_t> &key,
                                       const std::function<Made()> &make);

template <typename Description> Made madeOf(const Description &description) {
  return {dnnl::primitive(description.get()), description.scratchpad_desc(), {}};
}

/// Weights as primitives want them: of one call, or, if they are kept, until their module is
/// unloaded, which takes as much memory again. Parts of other sizes may want other layouts: of one
/// that it did not choose itself, oneDNN makes the slowest of its loops.
class Weights {
public:
  Weights(const float *data, bool isKept);
  /// Brought from `plain` the first time. `key`: of the primitive that does so.
  const float *in(const dnnl::memory::desc &wanted, const dnnl::memory::desc &plain,
                  const std::vector<int64_t> &key);
  /// What is kept of weights in that memory.
  static void forget(const void *begin, const void *end);

private:
  struct Layouts;
  const float *data_;
  std::shared_ptr<Layouts> layouts_;
};

/// With as much scratch memory as it says.
void execute(const Made &made, Arguments arguments, void *scratch);

/// The steps of a call, on a part of its result.
class Steps {
public:
  /// `sizes`: their number, and what follows it; `operands`: of the steps, then the result.
  /// `scalesSums`: the operator has a scale of its own, as products have; convolutions of f32 have
  /// none.
  Steps(const int64_t *sizes, void *const *operands, bool scalesSums);

  /// Copies an addend that the result of so many elements is written over, unless the sum is the
  /// first thing that is done: products by oneDNN begin with it, wherever it stands.
  void keepAddend(int64_t elements);

  float *result() const { return result_; }
  /// The first step's, if it is a sum with columns: what oneDNN has as an operator's own bias.
  const float *bias() const { return bias_; }

  /// What the primitive depends on.
  void addTo(std::vector<int64_t> &key) const;
  /// For results of those dimensions, whose columns are dimension `channel`; in memory as
  /// `strides`.
  dnnl::primitive_attr attributes(const Dims &dims, const Dims &strides, size_t channel) const;
  /// Of a result that begins at `offset`, its columns at `column`.
  void addTo(Arguments &arguments, const Dims &dims, const Dims &strides, size_t channel,
             int64_t offset, int64_t column) const;

private:
  struct Step {
    int kind;
    float number;
    const float *operand;
  };
  static Dims ofColumns(const Dims &dims, size_t channel);

  std::vector<Step> steps_;
  float scale_ = 1; // of the sum of products, before everything else
  const float *bias_ = nullptr;
  float *result_;
  std::vector<float> kept_;
};

/// Runs the function; failures of oneDNN become those of the call.
int32_t guarded(const TensmithCall *call, const std::function<void()> &run);

} // namespace tensmith::onednn
