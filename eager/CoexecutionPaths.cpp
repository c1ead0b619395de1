// A recorded step as a path: each of its segments is the program of a tape that is told the
// segment's deeds. What the tape reads from outside are the segment's inputs.
//
// Paths that are the same to the end of a segment share it, with the outputs of them all: until
// there, nobody needs to know which of them a step is on.
#include "eager/Coexecution.h"

#include "eager/Dispatch.h"

#include <algorithm>

namespace tensmith::eager {
namespace {

/// Beyond, the one that was run the longest ago is given up.
constexpr size_t kMostPaths = 32;

bool areSame(const Path &a, const Path &b, size_t end) {
  return a.meanings.size() >= end && b.meanings.size() >= end &&
         std::equal(a.meanings.begin(), a.meanings.begin() + ptrdiff_t(end), b.meanings.begin(),
                    [](const auto &x, const auto &y) { return x->signature == y->signature; });
}

/// Segments end where a read is, or where the step ends.
bool endsWithRead(const Path &path, const Segment &segment) {
  return segment.end < path.meanings.size();
}

/// Whether a segment of `other` is one of `path`, too. What is read at its end decides which deeds
/// belong to it.
bool isShared(const Segment &segment, const Path &path, const Segment &of, const Path &other) {
  bool isRead = endsWithRead(path, segment);
  return of.begin == segment.begin && of.end == segment.end && endsWithRead(other, of) == isRead &&
         areSame(path, other, segment.end + isRead);
}

} // namespace

// ---- from a step to what is kept of it

/// What was made and nobody holds any more is no output of a block that ends here or later.
void Coexecution::noteDeaths() {
  waitForEngine();
  for (; lookedAt_ < known_.size(); ++lookedAt_)
    if (known_[lookedAt_].isMade)
      living_.push_back(int(lookedAt_));
  std::erase_if(living_, [&](int number) {
    Known &known = known_[size_t(number)];
    bool isDead = known.storage.expired();
    if (isDead)
      known.diedBefore = deeds_.size();
    return isDead;
  });
}

/// The step, all of whose deeds are done, on storages without memory.
Trace Coexecution::trace() {
  std::vector<std::shared_ptr<Storage>> outlines(known_.size());
  auto of = [&](int number) {
    std::shared_ptr<Storage> &outline = outlines[size_t(number)];
    if (!outline) {
      const Known &known = known_[size_t(number)];
      outline = std::make_shared<Storage>();
      outline->bytes = known.bytes;
      outline->steps = 1;
      if (known.leaf)
        outline->leaf = std::make_shared<Leaf>(Leaf{*known.leaf, {}});
    }
    return outline;
  };
  for (Deed &deed : deeds_) {
    size_t i = 0;
    for (auto *list : {&deed.operands, &deed.results})
      for (Array &array : *list)
        if (int number = deed.numbers[i++]; number >= 0)
          array = array.on(of(number));
  }
  Trace trace(std::move(deeds_));
  for (Known &known : known_) {
    known.asMet = known.asMet.on(of(known.number));
    if (known.diedBefore)
      trace.diedBefore[known.asMet.storage().get()] = *known.diedBefore;
  }
  return trace;
}

/// For each segment what it makes that is held by Python at its end, read, or used later.
std::vector<std::set<int>> Coexecution::wantedOf(const Trace &trace) const {
  std::vector<std::set<int>> wanted = alive_;
  wanted.resize(segment_ + 1);
  for (const Deed &deed : trace.deeds) {
    if (deed.kind == Deed::Kind::View)
      continue;
    for (int number : deed.numbers) {
      if (number < 0)
        continue;
      const Known &known = known_[size_t(number)];
      bool isRead = deed.kind == Deed::Kind::Read;
      if (known.isMade && (isRead || known.madeBy != size_t(deed.segment)))
        wanted[known.madeBy].insert(known.number);
    }
  }
  return wanted;
}

Status Coexecution::addPath(const Trace &trace) {
  auto path = std::make_shared<Path>();
  size_t begin = 0;
  auto close = [&] {
    auto segment = std::make_shared<Segment>();
    segment->begin = begin;
    segment->end = path->meanings.size();
    path->segments.push_back(std::move(segment));
  };
  for (const Deed &deed : trace.deeds) {
    if (deed.kind == Deed::Kind::Read) {
      close();
      begin = path->meanings.size() + 1;
    }
    if (deed.kind == Deed::Kind::View)
      continue;
    path->meanings.push_back(deed.meaning);
    path->places.push_back(deed.place);
    path->stacks.push_back(deed.stack);
  }
  close();
  path->way = wayOf(trace.deeds);
  std::vector<std::set<int>> wanted = wantedOf(trace);
  std::vector<std::vector<const Deed *>> deeds(path->segments.size());
  for (const Deed &deed : trace.deeds)
    if (deed.computes())
      deeds[size_t(deed.segment)].push_back(&deed);
  std::unordered_map<const Storage *, int> numbers;
  for (const Known &known : known_)
    numbers[known.asMet.storage().get()] = known.number;
  for (size_t i = 0; i < path->segments.size(); ++i) {
    std::shared_ptr<Segment> &segment = path->segments[i];
    for (const std::shared_ptr<Path> &other : paths_)
      if (i < other->segments.size() && isShared(*segment, *path, *other->segments[i], *other)) {
        segment = other->segments[i];
        break;
      }
    size_t before = segment->wanted.size();
    segment->wanted.insert(wanted[i].begin(), wanted[i].end());
    if (segment->wanted.size() == before && !segment->text.empty())
      continue;
    SegmentSource source{
        std::move(deeds[i]),
        trace.views,
        numbers,
        [&](int number) -> const Array & { return known_[size_t(number)].asMet; },
        [&](int number) {
          const Known &known = known_[size_t(number)];
          return known.isMade && known.madeBy == i;
        },
        [&](int number) { return known_[size_t(number)].lastMetBefore(segment->end); }};
    if (Status status = build(*segment, source); !status.ok())
      return status;
  }
  auto known = std::find_if(paths_.begin(), paths_.end(), [&](const auto &other) {
    return other->meanings.size() == path->meanings.size() &&
           areSame(*other, *path, path->meanings.size());
  });
  path->lastRun = counts_.steps;
  if (known != paths_.end()) {
    (*known)->lastRun = path->lastRun;
    return {};
  }
  if (paths_.size() >= kMostPaths)
    paths_.erase(std::min_element(paths_.begin(), paths_.end(), [](const auto &a, const auto &b) {
      return a->lastRun < b->lastRun;
    }));
  paths_.push_back(std::move(path));
  return {};
}

std::vector<std::shared_ptr<Segment>> Coexecution::uncompiled() const {
  std::vector<std::shared_ptr<Segment>> found;
  for (const std::shared_ptr<Path> &path : paths_)
    for (const std::shared_ptr<Segment> &segment : path->segments)
      if (!segment->isReady())
        found.push_back(segment);
  for (const BlockRef &block : graph_.blocks())
    if (!block->segment->isReady())
      found.push_back(block->segment);
  return found;
}

} // namespace tensmith::eager
