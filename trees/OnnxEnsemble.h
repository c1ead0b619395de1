// The attributes of ONNX's three operators of trees, in one form.
//
// TreeEnsembleRegressor and TreeEnsembleClassifier (ai.onnx.ml, opsets 1 to 4) name nodes by a
// tree's number and their own, leaves among them; TreeEnsemble (opset 5) counts splits and leaves
// apart. Here all nodes of all trees have one numbering, and leaves another.
#pragma once

#include "base/Status.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace onnx {
class NodeProto;
}

namespace tensmith::trees {

struct OnnxEnsemble {
  enum Mode : int64_t { LessOrEqual, Less, GreaterOrEqual, Greater, Equal, NotEqual, Member };
  /// Of a test that is passed, or not: a split's number, or -1 - a leaf's.
  struct Split {
    int64_t feature = 0, mode = LessOrEqual, yes = 0, no = 0;
    double threshold = 0;
    bool missingPasses = false;
    std::vector<double> members;
  };
  struct Weight {
    int64_t target;
    double value;
  };

  std::vector<Split> splits;
  std::vector<std::vector<Weight>> leaves;
  std::vector<int64_t> roots; // as of `yes`
  int64_t targets = 1;
  std::vector<double> base; // by target, or empty
  bool isAverage = false, isClassifier = false;
  std::string transform = "NONE";
  std::vector<int64_t> labels; // of a classifier; of one of texts their numbers
};

bool isTreeEnsemble(const onnx::NodeProto &node);
/// InvalidModel where attributes don't fit together or name a node that is not there; Unsupported
/// where trees are joined by minimum or maximum.
Result<OnnxEnsemble> readEnsemble(const onnx::NodeProto &node);

} // namespace tensmith::trees
