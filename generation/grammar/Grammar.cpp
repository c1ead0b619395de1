// Grammars and their states; see Grammar.h.
#include "generation/grammar/Grammar.h"

#include "files/Failure.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <utility>

namespace tensmith::generation {
namespace {

constexpr size_t kMostRules = 10000, kMostItems = 200000;
constexpr size_t kMostStacks = 2000;            // of a state
constexpr size_t kMostStates = size_t(1) << 16; // and stacks, of all states
constexpr int32_t kMostDepth = 1000;
constexpr uint64_t kMostWork = uint64_t(1)
                               << 25; // about a second of the thread that all texts share

/// Whether each rule may be empty.
std::vector<bool> emptyRules(const Grammar &grammar) {
  std::vector<bool> isEmpty(grammar.rules.size());
  for (bool changes = true; changes;) {
    changes = false;
    for (size_t r = 0; r < grammar.rules.size(); ++r) {
      bool may = std::ranges::any_of(grammar.rules[r], [&](const GrammarSequence &sequence) {
        return std::ranges::all_of(sequence, [&](const GrammarItem &item) {
          return item.rule >= 0 && isEmpty[size_t(item.rule)];
        });
      });
      changes |= may && !isEmpty[r];
      isEmpty[r] = may;
    }
  }
  return isEmpty;
}

/// Rules that each may begin with. Left out is a rule that calls itself at a sequence's end, behind
/// what may be empty: a repetition of that. One more time of nothing leads to where the text is,
/// and leaves nothing behind (GrammarStates::close).
std::vector<std::vector<int>> firstRules(const Grammar &grammar) {
  std::vector<bool> isEmpty = emptyRules(grammar);
  std::vector<std::vector<int>> first(grammar.rules.size());
  for (size_t r = 0; r < grammar.rules.size(); ++r)
    for (const GrammarSequence &sequence : grammar.rules[r])
      for (size_t i = 0; i < sequence.size() && sequence[i].rule >= 0; ++i) {
        int rule = sequence[i].rule;
        bool repeats = rule == int(r) && i > 0 && i + 1 == sequence.size();
        if (!repeats)
          first[r].push_back(rule);
        if (!isEmpty[size_t(rule)])
          break;
      }
  return first;
}

bool hasCycle(const std::vector<std::vector<int>> &next) {
  enum : uint8_t { New, Open, Done };
  std::vector<uint8_t> marks(next.size(), New);
  for (size_t root = 0; root < next.size(); ++root) {
    std::vector<std::pair<int, size_t>> path;
    if (marks[root] == New)
      path.push_back({int(root), 0}), marks[root] = Open;
    while (!path.empty()) {
      auto &[rule, at] = path.back();
      if (at == next[size_t(rule)].size()) {
        marks[size_t(rule)] = Done, path.pop_back();
        continue;
      }
      int to = next[size_t(rule)][at++];
      if (marks[size_t(to)] == Open)
        return true;
      if (marks[size_t(to)] == New)
        marks[size_t(to)] = Open, path.push_back({to, 0});
    }
  }
  return false;
}

Bytes256 byteRange(uint32_t first, uint32_t last) {
  Bytes256 bytes;
  for (uint32_t byte = first; byte <= last; ++byte)
    bytes.set(byte);
  return bytes;
}

/// Of characters that have `size` bytes each. A range is cut where the last bytes have all values.
void addRange(uint32_t first, uint32_t last, int size, std::vector<GrammarSequence> &to) {
  if (first > last)
    return;
  for (int i = 1; i < size; ++i) {
    uint32_t mask = (1u << 6 * i) - 1;
    if ((first & ~mask) == (last & ~mask))
      continue;
    if (first & mask) {
      addRange(first, first | mask, size, to);
      return addRange((first | mask) + 1, last, size, to);
    }
    if ((last & mask) != mask) {
      addRange(first, (last & ~mask) - 1, size, to);
      return addRange(last & ~mask, last, size, to);
    }
  }
  constexpr uint32_t kLeads[] = {0, 0, 0xc0, 0xe0, 0xf0};
  GrammarSequence sequence;
  for (int i = size - 1; i >= 0; --i) {
    uint32_t a = first >> 6 * i, b = last >> 6 * i;
    if (i < size - 1)
      a = (a & 63) | 0x80, b = (b & 63) | 0x80;
    else if (size > 1)
      a |= kLeads[size], b |= kLeads[size];
    sequence.push_back({byteRange(a, b), -1});
  }
  to.push_back(sequence);
}

} // namespace

std::vector<GrammarSequence> characterRange(uint32_t first, uint32_t last) {
  constexpr struct {
    uint32_t first, last;
    int size;
  } kParts[] = {{0, 0x7f, 1},
                {0x80, 0x7ff, 2},
                {0x800, 0xd7ff, 3},
                {0xe000, 0xffff, 3},
                {0x10000, 0x10ffff, 4}};
  std::vector<GrammarSequence> result;
  for (const auto &part : kParts)
    addRange(std::max(first, part.first), std::min(last, part.last), part.size, result);
  return result;
}

void Grammar::count(size_t items) {
  items_ += items;
  if (items_ > kMostItems)
    failUsage(fmt::format("the grammar has more than {} items in its rules", kMostItems));
}

int Grammar::add(GrammarRule rule) {
  for (const GrammarSequence &sequence : rule)
    count(sequence.size() + 1);
  if (rules.size() >= kMostRules)
    failUsage(fmt::format("the grammar has more than {} rules; repeat less", kMostRules));
  rules.push_back(std::move(rule));
  return int(rules.size()) - 1;
}

int Grammar::addRepeated(const GrammarSequence &item, int64_t least, int64_t most) {
  if (least < 0 || std::max(least, most) > kMostRepeats || (most >= 0 && most < least))
    failUsage(fmt::format("the grammar repeats something {} to {} times; 0 to {} can be", least,
                          most, kMostRepeats));
  auto before = [&](int rule) {
    GrammarSequence sequence = item;
    sequence.push_back({{}, rule});
    return sequence;
  };
  int rest = add({{}});
  if (most < 0)
    rules[size_t(rest)].push_back(before(rest));
  for (int64_t i = least; i < most; ++i)
    rest = add({{}, before(rest)});
  for (int64_t i = 0; i < least; ++i)
    rest = add({before(rest)});
  return rest;
}

void Grammar::check() const {
  if (hasCycle(firstRules(*this)))
    failUsage("the grammar has a rule that begins with itself (left recursion); put what it "
              "repeats first");
}

GrammarStates::GrammarStates(Grammar grammar) : grammar_(std::move(grammar)) {
  grammar_.check();
  stacks_.push_back({-1, 0, 0, 0}), depths_.push_back(0); // 0: nothing
  states_.emplace_back();                                 // kNowhere
  std::vector<int32_t> stacks;
  bool mayEnd = false;
  ++search_;
  for (size_t i = 0; i < grammar_.rules[0].size(); ++i)
    close(stack({0, int32_t(i), 0, 0}), stacks, mayEnd);
  start_ = stateOf(std::move(stacks), mayEnd);
}

int32_t GrammarStates::stack(const Stack &of) {
  if (auto found = numbers_.find(of); found != numbers_.end())
    return found->second;
  int32_t depth = depths_[size_t(of.below)] + 1;
  if (depth > kMostDepth || stacks_.size() > kMostStates)
    failUsage("the text is nested too deep for its grammar, or the grammar has too many states");
  auto number = int32_t(stacks_.size());
  stacks_.push_back(of), depths_.push_back(depth);
  numbers_.emplace(of, number);
  return number;
}

/// Null at a sequence's end.
const GrammarItem *GrammarStates::itemAt(const Stack &of) const {
  const GrammarSequence &sequence = grammar_.rules[size_t(of.rule)][size_t(of.sequence)];
  return size_t(of.item) < sequence.size() ? &sequence[size_t(of.item)] : nullptr;
}

/// Whether this search comes to the stack for the first time. The thread that runs grammars runs
/// all texts: one grammar may not keep it.
bool GrammarStates::isNewTo(int32_t stack) {
  if (++work_ > kMostWork)
    failUsage("the grammar takes too long; make its alternatives differ sooner");
  if (seen_.size() < stacks_.size())
    seen_.resize(stacks_.size());
  return std::exchange(seen_[size_t(stack)], search_) != search_;
}

/// The stacks that it becomes before the next byte, but for those that this search knows. A call at
/// a sequence's end leaves nothing of that behind, so that repetitions don't grow.
void GrammarStates::close(int32_t first, std::vector<int32_t> &to, bool &mayEnd) {
  std::vector<int32_t> waiting = {first};
  while (!waiting.empty()) {
    int32_t number = waiting.back();
    waiting.pop_back();
    if (!isNewTo(number))
      continue;
    if (to.size() > kMostStacks)
      failUsage("the grammar has too many ways to go on; make its alternatives differ sooner");
    if (number == 0) {
      mayEnd = true;
      continue;
    }
    Stack of = stacks_[size_t(number)];
    const GrammarItem *item = itemAt(of);
    if (!item) {
      waiting.push_back(of.below);
    } else if (item->rule < 0) {
      to.push_back(number);
    } else {
      Stack after = {of.rule, of.sequence, of.item + 1, of.below};
      int32_t below = itemAt(after) ? stack(after) : of.below;
      for (size_t i = 0; i < grammar_.rules[size_t(item->rule)].size(); ++i)
        waiting.push_back(stack({item->rule, int32_t(i), 0, below}));
    }
  }
}

GrammarStates::State GrammarStates::stateOf(std::vector<int32_t> stacks, bool mayEnd) {
  std::ranges::sort(stacks);
  stacks.erase(std::unique(stacks.begin(), stacks.end()), stacks.end());
  if (stacks.empty() && !mayEnd)
    return kNowhere;
  if (stacks.size() > kMostStacks)
    failUsage("the grammar has too many ways to go on; make its alternatives differ sooner");
  auto found = known_.find({stacks, mayEnd});
  if (found != known_.end())
    return found->second;
  if (states_.size() > kMostStates)
    failUsage("the grammar has too many states");
  auto state = State(states_.size());
  states_.push_back({stacks, mayEnd, {}});
  known_.emplace(std::pair(std::move(stacks), mayEnd), state);
  return state;
}

GrammarStates::State GrammarStates::next(State state, uint8_t byte) {
  if (auto known = states_[size_t(state)].next.find(byte);
      known != states_[size_t(state)].next.end())
    return known->second;
  std::vector<int32_t> from = states_[size_t(state)].stacks, to;
  bool mayEnd = false;
  ++search_;
  for (int32_t number : from) {
    Stack of = stacks_[size_t(number)];
    if (!itemAt(of)->bytes[byte])
      continue;
    ++of.item;
    close(itemAt(of) ? stack(of) : of.below, to, mayEnd);
  }
  State result = stateOf(std::move(to), mayEnd);
  states_[size_t(state)].next.emplace(byte, result);
  return result;
}

} // namespace tensmith::generation
