// The parameters that convolutions and pooling share.
#pragma once

#include "frontends/onnx/NodeImport.h"

namespace tensmith::onnx_import {

struct Window {
  Ints kernel, strides, dilations;
  Ints pads; ///< all lows, then all highs

  SmallVector<NamedAttribute> attributes(NodeImport &n) const {
    return {n.integers("strides", strides), n.integers("pads", pads),
            n.integers("dilations", dilations)};
  }
};

/// From the node's attributes; automatic padding is resolved for the operand x. Fails with an
/// error. `kernel`: of the weights, where the attribute is absent.
FailureOr<Window> windowOf(NodeImport &n, Value x, ArrayRef<int64_t> kernel = {});

} // namespace tensmith::onnx_import
