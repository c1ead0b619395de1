// Reference evaluation of ONNX NonMaxSuppression: of boxes that overlap, the one with the highest
// score is kept.
//
// For each batch and class, boxes are taken by descending score (equal ones by index) and kept
// unless their intersection over union with one that was kept exceeds the threshold.
#include "reference/Selection.h"

#include <algorithm>

namespace tensmith::reference {
namespace {

struct Box {
  double low[2], high[2];
  double area() const { return (high[0] - low[0]) * (high[1] - low[1]); }
};

/// Corners in any order, or a centre and sizes.
Box boxAt(const HostTensor &boxes, int64_t offset, bool centered) {
  Box box;
  for (int64_t k = 0; k < 2; ++k) {
    double a = boxes.getDouble(offset + k), b = boxes.getDouble(offset + 2 + k);
    if (centered) {
      double half = b / 2;
      b = a + half;
      a = a - half;
    }
    box.low[k] = std::min(a, b);
    box.high[k] = std::max(a, b);
  }
  return box;
}

bool overlaps(const Box &a, const Box &b, double threshold) {
  double sides[2];
  for (int k = 0; k < 2; ++k) {
    sides[k] = std::min(a.high[k], b.high[k]) - std::max(a.low[k], b.low[k]);
    if (!(sides[k] > 0))
      return false;
  }
  double intersection = sides[0] * sides[1];
  double together = a.area() + b.area() - intersection;
  return together > 0 && intersection / together > threshold;
}

struct Limits {
  int64_t perClass = 0;
  double overlap = 0;
  std::optional<double> score;
  bool centered = false;
};

/// The boxes kept of one class, in the order of their scores.
std::vector<int64_t> keptBoxes(std::span<const Box> boxes, const HostTensor &scores,
                               int64_t firstScore, const Limits &limits) {
  std::vector<int64_t> candidates, kept;
  for (int64_t i = 0; i < int64_t(boxes.size()); ++i)
    if (double score = scores.getDouble(firstScore + i);
        score == score && (!limits.score || score > *limits.score))
      candidates.push_back(i);
  std::sort(candidates.begin(), candidates.end(), [&](int64_t a, int64_t b) {
    double x = scores.getDouble(firstScore + a), y = scores.getDouble(firstScore + b);
    return x != y ? x > y : a < b;
  });
  for (int64_t candidate : candidates) {
    if (int64_t(kept.size()) >= limits.perClass)
      break;
    bool isCovered = std::any_of(kept.begin(), kept.end(), [&](int64_t other) {
      return overlaps(boxes[size_t(candidate)], boxes[size_t(other)], limits.overlap);
    });
    if (!isCovered)
      kept.push_back(candidate);
  }
  return kept;
}

} // namespace

Outcome evaluateNonMaxSuppression(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &boxes = workspace.floatOperand(0, "boxes", 3);
  const HostTensor &scores = workspace.floatOperand(1, "scores", 3);
  Limits limits;
  if (invocation.present(2))
    limits.perClass = workspace.integer(2, "max_output_boxes_per_class");
  if (invocation.present(3))
    limits.overlap = workspace.real(3, "iou_threshold");
  if (invocation.present(4))
    limits.score = workspace.real(4, "score_threshold");
  limits.centered = invocation.attributes.integer("center_point_box") != 0;
  if (workspace.ok() && (boxes.shape()[2] != 4 || scores.shape()[0] != boxes.shape()[0] ||
                         scores.shape()[2] != boxes.shape()[1]))
    workspace.reject("scores", "of shape " + toString(scores.shape()) +
                                   " don't fit boxes of shape " + toString(boxes.shape()));
  workspace.require(limits.overlap >= 0 && limits.overlap <= 1, "iou_threshold",
                    "must be in [0, 1]");
  if (!workspace.ok())
    return workspace.status();
  int64_t batches = scores.size() == 0 ? 0 : scores.shape()[0], count = boxes.shape()[1];
  std::vector<int64_t> selected;
  for (int64_t batch = 0; batch < batches; ++batch) {
    std::vector<Box> corners;
    for (int64_t i = 0; i < count; ++i)
      corners.push_back(boxAt(boxes, (batch * count + i) * 4, limits.centered));
    for (int64_t kind = 0; kind < scores.shape()[1]; ++kind)
      for (int64_t box :
           keptBoxes(corners, scores, (batch * scores.shape()[1] + kind) * count, limits))
        selected.insert(selected.end(), {batch, kind, box});
  }
  HostTensor y = workspace.allocateResult(0, DataType::I64, {int64_t(selected.size() / 3), 3});
  if (workspace.ok())
    std::copy(selected.begin(), selected.end(), y.as<int64_t>().begin());
  return workspace.finish(std::move(y));
}

} // namespace tensmith::reference
