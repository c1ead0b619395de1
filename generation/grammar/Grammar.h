// Which bytes a text may go on with: a context-free grammar over bytes, run byte by byte.
//
// A grammar is rules of alternatives, each a sequence of sets of bytes and of other rules.
// Characters beyond ASCII are sequences of bytes, so that a token may end in the middle of one.
// What may come is a set of stacks of places in rules (an LL parser that follows all alternatives
// at a time). Stacks share their tails, and equal sets are one state: a state, and where each byte
// leads from it, is found once, as a lazily built automaton's is.
//
// Bounded: rules, stacks of a state, their depth and all states have limits. A grammar that calls a
// rule before a byte of it was read, and so has no end (left recursion), is refused, but for
// repetitions of what may be empty: those end where nothing was read.
#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tensmith::generation {

using Bytes256 = std::bitset<256>;

/// A set of bytes, or a rule where `rule` is not below 0.
struct GrammarItem {
  Bytes256 bytes;
  int rule = -1;
};
using GrammarSequence = std::vector<GrammarItem>;
using GrammarRule = std::vector<GrammarSequence>; // alternatives

/// Rules; the first is what the whole text is.
struct Grammar {
  std::vector<GrammarRule> rules;

  /// A rule's number. Throws Failure where there are too many, or items of them.
  int add(GrammarRule rule = {});
  /// Counts items that are about to be made. Throws Failure where they are too many.
  void count(size_t items);
  static constexpr int64_t kMostRepeats = 4096;
  /// `item` from `least` to `most` times; most below 0: any number.
  int addRepeated(const GrammarSequence &item, int64_t least, int64_t most);
  /// Throws Failure where it has left recursion.
  void check() const;

private:
  size_t items_ = 0;
};

/// Sequences of bytes of the characters from `first` to `last` (Unicode's numbers, surrogates left
/// out), as UTF-8 has them.
std::vector<GrammarSequence> characterRange(uint32_t first, uint32_t last);

/// A grammar as an automaton. Used by one thread at a time.
class GrammarStates {
public:
  using State = int32_t;
  static constexpr State kNowhere = 0;

  /// Throws Failure as Grammar::check.
  explicit GrammarStates(Grammar grammar);

  State start() const { return start_; }
  /// kNowhere where the text can't go on so. Throws Failure where a limit is reached.
  State next(State state, uint8_t byte);
  /// Whether the text may end there.
  bool mayEnd(State state) const { return states_[size_t(state)].mayEnd; }

private:
  /// A place before an item of a sequence, and what follows that sequence; 0: nothing more.
  struct Stack {
    int32_t rule, sequence, item, below;
    auto operator<=>(const Stack &) const = default;
  };
  struct StateOf {
    std::vector<int32_t> stacks; // each before a set of bytes, in order
    bool mayEnd = false;
    std::unordered_map<uint8_t, State> next;
  };
  int32_t stack(const Stack &stack);
  const GrammarItem *itemAt(const Stack &stack) const;
  bool isNewTo(int32_t stack);
  void close(int32_t stack, std::vector<int32_t> &to, bool &mayEnd);
  State stateOf(std::vector<int32_t> stacks, bool mayEnd);

  Grammar grammar_;
  std::vector<Stack> stacks_;
  std::map<Stack, int32_t> numbers_;
  std::vector<int32_t> depths_;
  std::vector<StateOf> states_;
  std::map<std::pair<std::vector<int32_t>, bool>, State> known_;
  std::vector<uint32_t> seen_; // of each stack: the last search that came to it
  uint32_t search_ = 0;
  uint64_t work_ = 0; // steps of all searches
  State start_ = kNowhere;
};

} // namespace tensmith::generation
