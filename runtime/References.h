// The references of a run: values that its program can change.
//
// They may refer to one another in circles, which counts never end, so the run keeps them all, and
// empties them when it ends; what of them is left in a result is the absent value. A lock guards
// each access: compiled programs never touch references from two threads, but a module is not
// trusted to.
#pragma once

#include "runtime/Tensor.h"

#include <mutex>

namespace tensmith::runtime {

class References {
public:
  References() = default;
  References(const References &) = delete;
  References &operator=(const References &) = delete;
  ~References();

  /// Null where there is no memory.
  TensorRef make(TensorRef value);
  TensorRef read(Tensor &reference);
  /// What it referred to before.
  TensorRef write(Tensor &reference, TensorRef value);

private:
  std::mutex lock_;
  std::vector<TensorRef> all_;
};

} // namespace tensmith::runtime
