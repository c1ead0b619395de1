// Walks are cut as a compiler finds basic blocks: a node that is entered from, or left to, several
// others begins or ends one. All of it is done again for each recorded step, of which there are
// few; a block that comes out as before keeps its program.
#include "eager/TraceGraph.h"

#include <algorithm>

namespace tensmith::eager {
namespace {

/// Beyond, the earliest is given up.
constexpr size_t kMostTraces = 64;

constexpr int kOutside = -1; // before the first deed, and after the last

Attributes textAttribute(const std::string &text) {
  Attributes attributes;
  attributes.set("text", text);
  return attributes;
}

Status tell(Tape &tape, const Deed &deed) {
  switch (deed.kind) {
  case Deed::Kind::Operation:
    return tape.record(deed.op->name, deed.attributes, deed.operands, deed.results);
  case Deed::Kind::Concat:
    return tape.record("concat", deed.attributes, deed.operands, deed.results);
  case Deed::Kind::Program:
    return tape.record("program", textAttribute(deed.program->text), deed.operands, deed.results);
  case Deed::Kind::Write:
    return tape.write(deed.results[0], deed.operands[0]);
  case Deed::Kind::View:
    tape.view(deed.operands[0], deed.results[0], deed.view);
    return {};
  case Deed::Kind::Read:
    return {};
  }
  return {};
}

/// Tensors like those of a step, that take no memory: what of a tensor a program depends on.
class Outlines {
public:
  explicit Outlines(Coexecution *owner) : owner_(owner) {}

  /// Other steps may have met it, too. What the step has met has a step for as long as it runs.
  static bool isOfStep(const Array &array) { return array.storage()->step; }

  /// `array` itself where it is a constant, which no step has met.
  Result<Array> of(const Array &array) {
    const Storage &storage = *array.storage();
    if (!isOfStep(array))
      return array;
    auto found = made_.find(&storage);
    if (found == made_.end()) {
      Result<Array> made = Array::later(array.type(), {storage.bytes / byteSize(array.type())});
      if (!made.ok())
        return made;
      made->storage()->step = owner_;
      if (storage.leaf)
        made->storage()->leaf = std::make_shared<Leaf>(Leaf{storage.leaf->shape, {}});
      found = made_.emplace(&storage, std::move(*made)).first;
    }
    return found->second.view(array.shape(), array.strides(), array.offset());
  }
  const std::unordered_map<const Storage *, Array> &made() const { return made_; }

private:
  Coexecution *owner_;
  std::unordered_map<const Storage *, Array> made_;
};

Result<Trace> outlined(Trace trace, Coexecution *owner) {
  Outlines outlines(owner);
  for (Deed &deed : trace.deeds) {
    if (deed.kind == Deed::Kind::View && !outlines.isOfStep(deed.operands[0])) {
      deed.operands.clear(); // of what no deed has used
      deed.results.clear();
    }
    for (auto *list : {&deed.operands, &deed.results})
      for (Array &array : *list) {
        Result<Array> outline = outlines.of(array);
        if (!outline.ok())
          return outline.status();
        array = std::move(*outline);
      }
  }
  std::unordered_map<const Storage *, size_t> died;
  for (const auto &[storage, array] : outlines.made())
    if (auto found = trace.diedBefore.find(storage); found != trace.diedBefore.end())
      died[array.storage().get()] = found->second;
  trace.diedBefore = std::move(died);
  return trace;
}

bool areSame(const Trace &a, const Trace &b) {
  return std::equal(a.deeds.begin(), a.deeds.end(), b.deeds.begin(), b.deeds.end(),
                    [](const Deed &a, const Deed &b) {
                      return a.kind == b.kind && a.stack == b.stack && a.signature == b.signature;
                    });
}

/// A block's own numbers of storages.
struct Numbering {
  std::unordered_map<const Storage *, int> numbers = {};
  std::vector<Array> arrays = {};
  std::vector<size_t> metAt = {};
  std::vector<bool> isMade = {};

  int meet(const Array &array, size_t at, bool makes) {
    auto [found, isNew] = numbers.emplace(array.storage().get(), int(arrays.size()));
    if (isNew) {
      arrays.push_back(array);
      metAt.push_back(at);
      isMade.push_back(makes);
    }
    return found->second;
  }
};

} // namespace

Status build(Segment &segment, const SegmentSource &of) {
  auto tape = std::make_shared<Tape>(/*isStrict=*/false, /*isWhole=*/true);
  std::set<int> written;
  for (const Deed *deed : of.deeds) {
    if (Status status = tell(*tape, *deed); !status.ok())
      return status;
    if (deed->kind == Deed::Kind::Write)
      written.insert(of.numbers.at(deed->results[0].storage().get()));
  }
  segment.outputs.clear();
  std::vector<Tape::Number> numbers;
  auto give = [&](int storage, const Geometry &geometry, Tape::Number value, bool isMade) {
    bool isGiven = std::find(numbers.begin(), numbers.end(), value) != numbers.end();
    if (isGiven || !tape->isComputed(value))
      value = tape->add("identity", {}, {value}, {{geometry.type, geometry.shape}});
    numbers.push_back(value);
    segment.outputs.push_back({storage, geometry, isMade});
  };
  for (int storage : segment.wanted) {
    const Array &array = of.array(storage);
    Result<Tape::Number> value = tape->read(array);
    if (!value.ok())
      return value.status();
    give(storage, Geometry(array), *value, true);
    written.erase(storage);
  }
  for (int storage : written)
    if (auto base = tape->baseOf(of.array(storage)); base && !of.isMade(storage))
      give(storage, base->first, base->second, false);
  Tape::Program program = tape->program(numbers);
  tape->release();
  segment.text = std::move(program.text);
  segment.compiled = nullptr;
  segment.inputs.clear();
  segment.constants.clear();
  segment.lastInput = 0;
  for (const Array &input : program.inputs) {
    auto found = of.numbers.find(input.storage().get());
    segment.inputs.push_back(
        {found == of.numbers.end() ? -1 : found->second, Geometry(input), false});
    if (found == of.numbers.end())
      segment.constants.push_back(input);
    else
      segment.lastInput = std::max(segment.lastInput, of.metAt(found->second) + 1);
  }
  return {};
}

size_t wayOf(std::span<const Deed> deeds) {
  size_t way = 0;
  auto mix = [&](size_t part) { way = (way ^ part) * 0x9E3779B97F4A7C15u + (way >> 29); };
  for (const Deed &deed : deeds) {
    if (!deed.computes())
      continue;
    mix(std::hash<std::string>()(deed.signature.what));
    for (int each : deed.signature.which)
      mix(size_t(each));
  }
  return way;
}

int TraceGraph::node(const Deed &deed) const {
  auto found = nodes_.find({deed.signature.what, deed.stack});
  return found == nodes_.end() ? -1 : found->second;
}

std::vector<BlockRef> TraceGraph::from(int node) const {
  std::vector<BlockRef> found;
  auto [first, last] = byFirst_.equal_range(node);
  for (auto each = first; each != last; ++each)
    if (each->second->segment->isReady())
      found.push_back(each->second);
  return found;
}

Status TraceGraph::add(Trace trace, Coexecution *owner) {
  Result<Trace> kept = outlined(std::move(trace), owner);
  if (!kept.ok())
    return kept.status();
  if (std::none_of(traces_.begin(), traces_.end(),
                   [&](const Trace &each) { return areSame(each, *kept); }))
    traces_.push_back(std::move(*kept));
  if (traces_.size() > kMostTraces)
    traces_.erase(traces_.begin());
  if (traces_.size() < 2) // its path is all that is needed
    return {};
  link();
  earlier_ = std::exchange(blocks_, {});
  byFirst_.clear();
  for (const Piece &piece : cut())
    if (Status status = include(piece); !status.ok())
      return status;
  earlier_.clear();
  return {};
}

/// The nodes of all steps, and which follow which.
void TraceGraph::link() {
  before_.assign(nodes_.size(), {});
  after_.assign(nodes_.size(), {});
  cutAfter_.clear();
  for (const Trace &trace : traces_) {
    int last = kOutside;
    auto join = [&](int next) {
      if (last != kOutside)
        after_[size_t(last)].insert(next);
      if (next != kOutside)
        before_[size_t(next)].insert(last);
      last = next;
    };
    for (const Deed &deed : trace.deeds) {
      if (deed.kind == Deed::Kind::Read && last != kOutside)
        cutAfter_.insert(last);
      if (!deed.computes())
        continue;
      int node =
          nodes_.emplace(Key(deed.signature.what, deed.stack), int(nodes_.size())).first->second;
      before_.resize(nodes_.size());
      after_.resize(nodes_.size());
      join(node);
    }
    if (last != kOutside)
      cutAfter_.insert(last);
    join(kOutside);
  }
}

bool TraceGraph::isCut(int before, int after) const {
  return after_[size_t(before)].size() > 1 || before_[size_t(after)].size() > 1 ||
         cutAfter_.contains(before);
}

std::vector<TraceGraph::Piece> TraceGraph::cut() const {
  std::vector<Piece> pieces;
  for (const Trace &trace : traces_) {
    Piece piece{&trace, {}, 0};
    auto close = [&](size_t end) {
      piece.end = end;
      if (!piece.deeds.empty())
        pieces.push_back(std::exchange(piece, Piece{&trace, {}, 0}));
    };
    for (size_t i = 0; i < trace.deeds.size(); ++i) {
      const Deed &deed = trace.deeds[i];
      if (deed.kind == Deed::Kind::View)
        continue;
      if (deed.kind == Deed::Kind::Read ||
          (!piece.deeds.empty() && isCut(node(trace.deeds[piece.deeds.back()]), node(deed))))
        close(i);
      if (deed.kind != Deed::Kind::Read)
        piece.deeds.push_back(i);
    }
    close(trace.deeds.size());
  }
  return pieces;
}

/// The block of a piece, which there may be already.
Status TraceGraph::include(const Piece &piece) {
  const std::vector<Deed> &deeds = piece.trace->deeds;
  Numbering numbering;
  Block block;
  for (size_t at = 0; at < piece.deeds.size(); ++at) {
    const Deed &deed = deeds[piece.deeds[at]];
    std::vector<int> &which = block.which.emplace_back();
    bool isWrite = deed.kind == Deed::Kind::Write;
    for (const Array &operand : deed.operands)
      if (operand.storage()->step)
        which.push_back(numbering.meet(operand, at, false));
    for (const Array &result : deed.results) {
      int number = numbering.meet(result, at, !isWrite);
      if (isWrite)
        which.push_back(number);
    }
    block.nodes.push_back(node(deed));
  }
  std::set<int> wanted;
  for (size_t i = 0; i < numbering.arrays.size(); ++i) {
    auto died = piece.trace->diedBefore.find(numbering.arrays[i].storage().get());
    if (numbering.isMade[i] && (died == piece.trace->diedBefore.end() || died->second > piece.end))
      wanted.insert(int(i));
  }
  auto isSame = [&](const BlockRef &each) {
    return each->nodes == block.nodes && each->which == block.which;
  };
  auto known = std::find_if(blocks_.begin(), blocks_.end(), isSame);
  bool isNew = known == blocks_.end();
  BlockRef kept;
  if (!isNew)
    kept = *known;
  else if (auto found = std::find_if(earlier_.begin(), earlier_.end(), isSame);
           found != earlier_.end())
    kept = *found;
  else {
    kept = std::make_shared<Block>(std::move(block));
    kept->segment = std::make_shared<Segment>();
  }
  if (isNew) {
    blocks_.push_back(kept);
    byFirst_.emplace(kept->nodes[0], kept);
  }
  Segment &segment = *kept->segment;
  size_t before = segment.wanted.size();
  segment.wanted.insert(wanted.begin(), wanted.end());
  if (segment.wanted.size() == before && !segment.text.empty())
    return {};
  SegmentSource source{
      {},
      numbering.numbers,
      [&](int number) -> const Array & { return numbering.arrays[size_t(number)]; },
      [&](int number) -> bool { return numbering.isMade[size_t(number)]; },
      [&](int number) { return numbering.metAt[size_t(number)]; }};
  auto isView = [&](const Deed &deed) {
    return deed.kind == Deed::Kind::View && !deed.operands.empty() &&
           numbering.numbers.contains(deed.operands[0].storage().get());
  };
  size_t next = 0;
  for (size_t i = 0; i < piece.end; ++i) {
    bool isNext = next < piece.deeds.size() && piece.deeds[next] == i;
    next += isNext;
    if (isNext || isView(deeds[i]))
      source.deeds.push_back(&deeds[i]);
  }
  return build(segment, source);
}

} // namespace tensmith::eager
