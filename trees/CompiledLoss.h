// A loss of one's own, in a few lines of the language: this system's autodiff differentiates it
// twice, and its compiler makes one module of the loss and both derivatives.
//
//     fn focal(output, label) = {
//       let margin = (2.0 * label - 1.0) * output;
//       pow(1.0 - sigmoid(margin), 2.0) * log(1.0 + exp(-margin))
//     }
//
// The function gives the loss of each row, of which boosting needs the gradient and the diagonal of
// the Hessian. A row's loss depends on that row alone, so the gradient of the sum over rows is
// every row's own, and the Hessian of the sum has a block for each row. Its product with e_k, the
// same unit vector in all rows, has entry k of each diagonal at k: one run for each channel
// (Pearlmutter, "Fast Exact Multiplication by the Hessian", 1994; here forward over reverse).
//
// Rows go through the module some thousands at a time: what it writes is still in the thread's
// cache when it is put where training wants it. Blocks are the same for any number of threads, and
// so are the bits.
#pragma once

#include "base/Status.h"
#include "trees/Gradients.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tensmith::trees {

/// Whether a word is a loss, not the name of an objective: "focal.tsm", "losses.tsm:focal", or a
/// program's text with a function called loss.
bool isLoss(const std::string &word);

class CompiledLoss {
public:
  ~CompiledLoss();

  /// The function takes outputs, f32[rows] or, of several channels, f32[rows, channels], and
  /// labels, f32[rows], and gives f32[rows]. Without a name after the file it is `loss`. Errors: of
  /// the program, with its line; a function with another result.
  static Result<std::unique_ptr<CompiledLoss>> compile(const std::string &loss, int64_t channels);
  /// Of a module whose inputs are output, label and tangent.output, and whose results are the loss
  /// by rows, its sum, and both derivatives of that.
  static Result<std::unique_ptr<CompiledLoss>> load(std::span<const std::byte> module,
                                                    int64_t channels);

  /// Gradients and the diagonals of Hessians, as many as `outputs`, rows × channels, unweighted.
  Status derive(std::span<const float> outputs, std::span<const float> labels,
                std::span<Gradient> gradients, Threads &threads);
  /// The loss of each row.
  Status evaluate(std::span<const float> outputs, std::span<const float> labels,
                  std::span<float> losses, Threads &threads);

private:
  CompiledLoss();
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

} // namespace tensmith::trees
