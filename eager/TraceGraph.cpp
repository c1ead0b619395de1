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
    return tape.record(deed.op->name, deed.attributes(), deed.operands, deed.results);
  case Deed::Kind::Concat:
    return tape.record("concat", deed.attributes(), deed.operands, deed.results);
  case Deed::Kind::Program:
    return tape.record("program", textAttribute(deed.program->text), deed.operands, deed.results);
  case Deed::Kind::Write:
    for (size_t i = 0; i < deed.results.size(); ++i)
      if (Status status = tape.write(deed.results[i], deed.operands[i]); !status.ok())
        return status;
    return {};
  case Deed::Kind::View:
  case Deed::Kind::Read:
    return {};
  }
  return {};
}

bool areSame(const Trace &a, const Trace &b) {
  return std::equal(a.deeds.begin(), a.deeds.end(), b.deeds.begin(), b.deeds.end(),
                    [](const Deed &a, const Deed &b) {
                      return a.kind == b.kind && a.stack == b.stack &&
                             a.signature() == b.signature();
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

const Meaning Deed::kNone;

Views::Views(std::span<const Deed> deeds) {
  for (const Deed &deed : deeds)
    if (deed.kind == Deed::Kind::View)
      first_.try_emplace({deed.results[0].storage().get(), Geometry(deed.results[0])}, &deed);
}

/// What a view is of was seen before it was, which ends the way up.
void Views::tell(Tape &tape, const Array &array) const {
  std::vector<const Deed *> chain;
  const Storage *storage = array.storage().get();
  for (auto found = first_.find({storage, Geometry(array)});
       found != first_.end() && (chain.empty() || found->second < chain.back());
       found = first_.find({storage, Geometry(chain.back()->operands[0])}))
    chain.push_back(found->second);
  for (; !chain.empty(); chain.pop_back())
    tape.view(chain.back()->operands[0], chain.back()->results[0], *chain.back()->view);
}

Status build(Segment &segment, const SegmentSource &of) {
  auto tape = std::make_shared<Tape>(/*isStrict=*/false, /*isWhole=*/true);
  std::set<int> written;
  for (const Deed *deed : of.deeds) {
    for (const auto *list : {&deed->operands, &deed->results})
      for (const Array &array : *list)
        of.views.tell(*tape, array);
    if (Status status = tell(*tape, *deed); !status.ok())
      return status;
    if (deed->kind == Deed::Kind::Write)
      for (const Array &to : deed->results)
        written.insert(of.numbers.at(to.storage().get()));
  }
  segment.outputs.clear();
  std::vector<Tape::Number> numbers;
  std::set<Tape::Number> given;
  auto give = [&](int storage, const Array &as, Tape::Number value, bool isMade) {
    if (!given.insert(value).second || !tape->isComputed(value))
      value = tape->add("identity", {}, {value}, {{as.type(), as.shape()}});
    numbers.push_back(value);
    segment.outputs.push_back({storage, as.on(nullptr), isMade});
  };
  for (int storage : segment.wanted) {
    const Array &array = of.array(storage);
    Result<Tape::Number> value = tape->read(array);
    if (!value.ok())
      return value.status();
    give(storage, array, *value, true);
    written.erase(storage);
  }
  for (int storage : written)
    if (auto base = tape->baseOf(of.array(storage)); base && !of.isMade(storage)) {
      const auto &[as, value] = *base;
      give(storage, of.array(storage).view(as.shape, as.strides, as.offset), value, false);
    }
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
        {found == of.numbers.end() ? -1 : found->second, input.on(nullptr), false});
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
    mix(std::hash<std::string>()(deed.signature().what));
    for (int each : deed.signature().which)
      mix(size_t(each));
  }
  return way;
}

int TraceGraph::node(const Deed &deed) const {
  auto found = nodes_.find({deed.signature().what, deed.stack});
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

Status TraceGraph::add(Trace trace) {
  if (std::none_of(traces_.begin(), traces_.end(),
                   [&](const Trace &each) { return areSame(each, trace); }))
    traces_.push_back(std::move(trace));
  if (traces_.size() > kMostTraces)
    traces_.erase(traces_.begin());
  if (traces_.size() < 2) // its path is all that is needed
    return {};
  link();
  blocks_.clear();
  ByFirst earlier = std::exchange(byFirst_, {});
  for (const Piece &piece : cut())
    if (Status status = include(piece, earlier); !status.ok())
      return status;
  return {};
}

/// The nodes of all steps, and which follow which. Those that no kept step has go.
void TraceGraph::link() {
  std::map<Key, int> known = std::exchange(nodes_, {});
  neighbours_.clear();
  cutAfter_.clear();
  auto nodeOf = [&](const Deed &deed) {
    Key key(deed.signature().what, deed.stack);
    if (auto found = nodes_.find(key); found != nodes_.end())
      return found->second;
    auto before = known.find(key);
    int node = before == known.end() ? nextNode_++ : before->second;
    nodes_.emplace(std::move(key), node);
    return node;
  };
  for (const Trace &trace : traces_) {
    int last = kOutside;
    auto join = [&](int next) {
      if (last != kOutside)
        neighbours_[last].after.insert(next);
      if (next != kOutside)
        neighbours_[next].before.insert(last);
      last = next;
    };
    for (const Deed &deed : trace.deeds) {
      if (deed.kind == Deed::Kind::Read && last != kOutside)
        cutAfter_.insert(last);
      if (deed.computes())
        join(nodeOf(deed));
    }
    if (last != kOutside)
      cutAfter_.insert(last);
    join(kOutside);
  }
}

bool TraceGraph::isCut(int before, int after) const {
  return neighbours_.at(before).after.size() > 1 || neighbours_.at(after).before.size() > 1 ||
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
Status TraceGraph::include(const Piece &piece, const ByFirst &earlier) {
  const std::vector<Deed> &deeds = piece.trace->deeds;
  Numbering numbering;
  Block block;
  for (size_t at = 0; at < piece.deeds.size(); ++at) {
    const Deed &deed = deeds[piece.deeds[at]];
    std::vector<int> &which = block.which.emplace_back();
    bool isWrite = deed.kind == Deed::Kind::Write;
    for (const Array &operand : deed.operands)
      if (operand.storage()->steps > 0)
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
  auto among = [&](const ByFirst &blocks) -> BlockRef {
    auto [first, last] = blocks.equal_range(block.nodes[0]);
    auto found = std::find_if(first, last, [&](const auto &each) {
      return each.second->nodes == block.nodes && each.second->which == block.which;
    });
    return found == last ? nullptr : found->second;
  };
  BlockRef kept = among(byFirst_);
  if (!kept) {
    kept = among(earlier);
    if (!kept) {
      kept = std::make_shared<Block>(std::move(block));
      kept->segment = std::make_shared<Segment>();
    }
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
      piece.trace->views,
      numbering.numbers,
      [&](int number) -> const Array & { return numbering.arrays[size_t(number)]; },
      [&](int number) -> bool { return numbering.isMade[size_t(number)]; },
      [&](int number) { return numbering.metAt[size_t(number)]; }};
  for (size_t i : piece.deeds)
    source.deeds.push_back(&deeds[i]);
  return build(segment, source);
}

} // namespace tensmith::eager
