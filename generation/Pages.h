// Which page of memory holds which positions of which sequence: keys and values of language models
// are kept in pages, blocks of a fixed number of positions, that sequences share.
//
// A page counts the sequences that hold it. Pages that nobody holds keep what they have until they
// are needed, the longest unused first, and a new sequence takes over those that it begins with.
// All that were computed stand in a tree: a page's place is what precedes it, so a match compares
// tokens, and never a hash of them alone. A page that somebody else reads, or that holds more than
// its sequence has come to, is copied before it is written. Here are numbers alone: the memory, and
// the copying, are the caller's (Batch.h).
//
// Invariant: a page's tokens, behind its parents', are those that its keys and values were computed
// of. Sources: PagedAttention (arXiv 2309.06180), RadixAttention (arXiv 2312.07104).
#pragma once

#include "generation/Tokenizer.h"

#include <list>
#include <span>
#include <unordered_map>
#include <vector>

namespace tensmith::generation {

using Page = int32_t;

/// What a sequence holds: positions [0, length) are in its pages, in order.
struct PagedSequence {
  std::vector<Page> pages;
  int64_t length = 0;
};

/// A page that is about to be written; `from` is -1, or what its first `positions` are copied of.
/// Its other positions hold nothing of worth and are to be cleared.
struct FreshPage {
  Page page = 0, from = -1;
  int64_t positions = 0;
};

class PagePool {
public:
  /// Pages 1 to `pages`: page 0 is never given away, and stands for none.
  PagePool(int64_t pages, int64_t positions);

  int64_t positions() const { return positions_; }
  int64_t pages() const { return int64_t(entries_.size()) - 1; }
  int64_t held() const { return held_; } // by sequences
  /// Pages that can be had now, those included that keep what nobody holds.
  int64_t available() const { return pages() - held_; }

  /// An empty sequence takes over the longest beginning of `tokens` that is there.
  void adopt(PagedSequence &sequence, std::span<const Token> tokens);
  /// Makes positions [length, end) of the sequence writable. False where there are too few pages,
  /// and then nothing has changed.
  bool reserve(PagedSequence &sequence, int64_t end, std::vector<FreshPage> &fresh);
  /// Notes that the tokens were computed at the sequence's end, in pages that are reserved.
  void append(PagedSequence &sequence, std::span<const Token> tokens);
  /// Gives all pages back. The sequence is empty then.
  void release(PagedSequence &sequence);
  /// Pages that `reserve` would take.
  int64_t missing(const PagedSequence &sequence, int64_t end) const;

private:
  struct Entry {
    int64_t holders = 0;
    uint64_t serial = 0, parent = 0; // of what it holds, and of what precedes that; 0: none
    std::vector<Token> tokens;
    std::list<Page>::iterator unused; // where nobody holds it
  };
  Page take();
  void forget(Page page);
  void hold(Page page);
  void drop(Page page);
  bool mustCopy(const PagedSequence &sequence) const;
  uint64_t serialBefore(const PagedSequence &sequence, size_t index) const;

  int64_t positions_, held_ = 0;
  uint64_t serials_ = 0;
  std::vector<Entry> entries_;
  std::list<Page> unused_; // the longest unused first
  std::unordered_multimap<uint64_t, Page> children_;
};

} // namespace tensmith::generation
