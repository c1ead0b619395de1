// Cuts by what is alive, copies on demand; see Replay.h.
#include "compiler/vm/Replay.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tensmith::vm {
namespace {

constexpr uint32_t kNone = ~0u;

} // namespace

Replayer::Replayer(const Tape &tape) : tape_(tape) {
  definition_.assign(tape.bytes.size(), kNone);
  lastForward_.assign(tape.bytes.size(), 0);
  written_.assign(tape.turn + 1, 0);
  for (uint32_t i = 0; i < tape.operators.size(); ++i) {
    const Tape::Operator &op = tape.operators[i];
    int64_t bytes = 0;
    for (uint32_t value : op.writes) {
      definition_[value] = i;
      lastForward_[value] = i;
      bytes += tape.bytes[value];
    }
    if (i >= tape.turn)
      continue;
    for (uint32_t value : op.reads)
      lastForward_[value] = i;
    written_[i + 1] = written_[i] + bytes;
    forwardCost_ += op.cost;
  }
  measureCuts();
}

/// The bytes that the rest of the way forward reads, behind each operator, and a table of the least
/// in runs of powers of two.
void Replayer::measureCuts() {
  std::vector<int64_t> change(tape_.turn + 1, 0);
  for (size_t value = 0; value < tape_.bytes.size(); ++value)
    if (definition_[value] < tape_.turn) {
      change[definition_[value]] += tape_.bytes[value];
      change[lastForward_[value]] -= tape_.bytes[value];
    }
  alive_.assign(tape_.turn, 0);
  std::vector<uint32_t> level(tape_.turn);
  for (size_t i = 0; i < tape_.turn; ++i) {
    alive_[i] = (i ? alive_[i - 1] : 0) + change[i];
    level[i] = uint32_t(i);
  }
  for (size_t width = 1; !level.empty(); width *= 2) {
    least_.push_back(level);
    if (level.size() <= width)
      break;
    for (size_t i = 0; i + width < level.size(); ++i)
      if (alive_[level[i + width]] < alive_[level[i]])
        level[i] = level[i + width];
    level.resize(level.size() - width);
  }
}

/// The operator in [first, last] behind which the least is alive.
size_t Replayer::leastAlive(size_t first, size_t last) const {
  size_t level = size_t(std::bit_width(last - first + 1)) - 1;
  size_t a = least_[level][first], b = least_[level][last + 1 - (size_t(1) << level)];
  return alive_[b] < alive_[a] ? b : a;
}

double Replayer::costPerByte(uint32_t number) const {
  int64_t bytes = 0;
  for (uint32_t value : tape_.operators[number].writes)
    bytes += tape_.bytes[value];
  return bytes ? tape_.operators[number].cost / double(bytes) : 0;
}

std::vector<double> Replayer::costsPerByte() const {
  std::vector<double> costs;
  for (uint32_t i = 0; i < tape_.turn; ++i)
    if (!tape_.operators[i].writes.empty())
      costs.push_back(costPerByte(i));
  std::sort(costs.begin(), costs.end());
  costs.erase(std::unique(costs.begin(), costs.end()), costs.end());
  return costs;
}

std::vector<bool> Replayer::dearValues(const Keeping &keeping) const {
  std::vector<bool> dear(tape_.bytes.size(), false), seen = dear;
  std::vector<uint32_t> needed;
  auto need = [&](const std::vector<uint32_t> &values) {
    for (uint32_t value : values)
      if (definition_[value] < tape_.turn && !seen[value]) {
        seen[value] = true;
        needed.push_back(value);
      }
  };
  for (size_t i = tape_.turn; i < tape_.operators.size(); ++i)
    need(tape_.operators[i].reads);
  double from = double(written_.back()) * (1 - keeping.part);
  while (!needed.empty()) {
    uint32_t value = needed.back(), op = definition_[value];
    needed.pop_back();
    if (double(written_[op + 1]) < from)
      continue;
    if (costPerByte(op) > keeping.dear || !tape_.operators[op].isPure)
      dear[value] = true;
    else
      need(tape_.operators[op].reads);
  }
  return dear;
}

size_t Replayer::cutsBetween(const Keeping &keeping, size_t first, size_t last,
                             std::vector<size_t> &cuts) const {
  int64_t leaf = std::max<int64_t>(1, written_.back() / int64_t(keeping.leaves));
  for (;;) {
    int64_t begin = written_[first], whole = written_[last + 1] - begin;
    size_t parts = std::min(keeping.cuts + 1, size_t((whole + leaf / 2) / leaf));
    if (parts < 2 || last - first < 2)
      return first;
    int64_t reach = whole / int64_t(parts) * 2 / 5;
    size_t next = first;
    for (size_t i = 1; i < parts && next < last; ++i) {
      int64_t at = begin + whole / int64_t(parts) * int64_t(i);
      auto operatorAt = [&](int64_t bytes) {
        auto it = std::upper_bound(written_.begin() + long(first),
                                   written_.begin() + long(last) + 1, bytes);
        return size_t(it - written_.begin()) - 1;
      };
      size_t low = std::max(next, operatorAt(at - reach)),
             high = std::min(last - 1, operatorAt(at + reach));
      if (low > high)
        continue;
      size_t cut = leastAlive(low, high);
      cuts.push_back(cut);
      next = cut + 1;
    }
    if (next == first)
      return first;
    first = next;
  }
}

/// One replay in the making.
class ReplayRun {
public:
  ReplayRun(const Replayer &replayer, const Keeping *keeping, double mostCost)
      : replayer_(replayer), tape_(replayer.tape_), keeping_(keeping), mostCost_(mostCost),
        instance_(tape_.bytes.size(), kNone), isThere_(tape_.bytes.size(), true),
        mark_(tape_.operators.size(), 0) {}

  Replay run() {
    for (uint32_t i = 0; i < tape_.operators.size(); ++i) {
      if (i == tape_.turn && keeping_)
        forget();
      if (i >= tape_.turn && keeping_ && !provide(tape_.operators[i].reads))
        return {};
      emit(i, false);
      drop();
    }
    measurePeak();
    return std::move(result_);
  }

private:
  struct Instance {
    uint32_t value, first, last;
  };

  void emit(uint32_t number, bool isCopy) {
    auto at = uint32_t(result_.steps.size());
    result_.steps.push_back({number, isCopy});
    const Tape::Operator &op = tape_.operators[number];
    for (uint32_t value : op.reads)
      instances_[instance_[value]].last = at;
    for (uint32_t value : op.writes) {
      instance_[value] = uint32_t(instances_.size());
      instances_.push_back({value, at, at});
      isThere_[value] = true;
    }
    if (isCopy) {
      result_.cost += op.cost;
      ++result_.copies;
    }
  }

  /// What the way forward leaves: what is alive at its cuts, its last leaf, and what is dear.
  void forget() {
    if (tape_.turn == 0)
      return;
    std::vector<bool> dear = replayer_.dearValues(*keeping_);
    retain(0, tape_.turn - 1);
    for (uint32_t value = 0; value < tape_.bytes.size(); ++value) {
      uint32_t op = replayer_.definition_[value];
      if (op < tape_.turn && tape_.operators[op].isPure)
        isThere_[value] = dear[value] || isRetained(value);
    }
  }

  void retain(size_t first, size_t last) {
    cuts_.clear();
    leaf_ = replayer_.cutsBetween(*keeping_, first, last, cuts_);
  }
  bool isRetained(uint32_t value) const {
    uint32_t op = replayer_.definition_[value];
    if (op >= leaf_)
      return true;
    auto cut = std::lower_bound(cuts_.begin(), cuts_.end(), op);
    return cut != cuts_.end() && *cut < replayer_.lastForward_[value];
  }

  /// Copies of what computes the values that are not there; false where that is too much.
  bool provide(const std::vector<uint32_t> &values) {
    slice_.clear();
    ++round_;
    auto visit = [&](const std::vector<uint32_t> &read) {
      for (uint32_t value : read)
        if (uint32_t op = replayer_.definition_[value]; !isThere_[value] && mark_[op] != round_) {
          mark_[op] = round_;
          slice_.push_back(op);
        }
    };
    visit(values);
    for (size_t next = 0; next < slice_.size(); ++next)
      visit(tape_.operators[slice_[next]].reads);
    if (slice_.empty())
      return true;
    std::sort(slice_.begin(), slice_.end());
    for (uint32_t op : slice_)
      emit(op, true);
    retain(slice_.front(), slice_.back());
    return result_.cost <= mostCost_;
  }

  /// What was computed again and is not to stay goes.
  void drop() {
    for (uint32_t op : slice_)
      for (uint32_t value : tape_.operators[op].writes)
        isThere_[value] = isRetained(value);
    slice_.clear();
  }

  void measurePeak() {
    std::vector<int64_t> change(result_.steps.size() + 1, 0);
    for (const Instance &instance : instances_) {
      change[instance.first] += tape_.bytes[instance.value];
      change[instance.last + 1] -= tape_.bytes[instance.value];
    }
    int64_t alive = 0;
    for (int64_t bytes : change)
      result_.peakBytes = std::max(result_.peakBytes, alive += bytes);
  }

  const Replayer &replayer_;
  const Tape &tape_;
  const Keeping *keeping_; // null: everything
  double mostCost_;
  Replay result_;
  std::vector<Instance> instances_;
  std::vector<uint32_t> instance_; // of each value, the newest
  std::vector<bool> isThere_;
  std::vector<uint32_t> mark_, slice_; // operators that are computed again
  uint32_t round_ = 0;
  std::vector<size_t> cuts_; // of what was computed last
  size_t leaf_ = 0;
};

Replay Replayer::original() const { return ReplayRun(*this, nullptr, 0).run(); }

Replay Replayer::replay(const Keeping &keeping, double mostCost) const {
  return ReplayRun(*this, &keeping, mostCost).run();
}

} // namespace tensmith::vm
