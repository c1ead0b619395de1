// Pages that sequences share; see Pages.h.
#include "generation/Pages.h"

#include <algorithm>

namespace tensmith::generation {

PagePool::PagePool(int64_t pages, int64_t positions)
    : positions_(positions), entries_(size_t(pages) + 1) {
  for (Page page = 1; page <= pages; ++page)
    entries_[size_t(page)].unused = unused_.insert(unused_.end(), page);
}

void PagePool::hold(Page page) {
  Entry &entry = entries_[size_t(page)];
  if (entry.holders++)
    return;
  unused_.erase(entry.unused);
  ++held_;
}

void PagePool::drop(Page page) {
  Entry &entry = entries_[size_t(page)];
  if (--entry.holders)
    return;
  // One without tokens is of no use to anybody.
  entry.unused = unused_.insert(entry.tokens.empty() ? unused_.begin() : unused_.end(), page);
  --held_;
}

void PagePool::forget(Page page) {
  Entry &entry = entries_[size_t(page)];
  auto [begin, end] = children_.equal_range(entry.parent);
  auto found = std::find_if(begin, end, [&](const auto &child) { return child.second == page; });
  if (found != end)
    children_.erase(found);
  entry.tokens.clear();
  entry.serial = entry.parent = 0;
}

/// The longest unused page, empty.
Page PagePool::take() {
  Page page = unused_.front();
  forget(page);
  hold(page);
  return page;
}

void PagePool::adopt(PagedSequence &sequence, std::span<const Token> tokens) {
  uint64_t parent = 0;
  while (!tokens.empty()) {
    Page best = 0;
    size_t most = 0;
    auto [begin, end] = children_.equal_range(parent);
    for (auto child = begin; child != end && most < tokens.size(); ++child) {
      const std::vector<Token> &have = entries_[size_t(child->second)].tokens;
      auto same = size_t(std::ranges::mismatch(have, tokens).in1 - have.begin());
      if (same > most)
        best = child->second, most = same;
    }
    if (!most)
      return;
    hold(best);
    sequence.pages.push_back(best);
    sequence.length += int64_t(most);
    tokens = tokens.subspan(most);
    if (most < size_t(positions_))
      return;
    parent = entries_[size_t(best)].serial;
  }
}

/// Whether the page that is written next holds what others read, or will.
bool PagePool::mustCopy(const PagedSequence &sequence) const {
  int64_t filled = sequence.length % positions_;
  auto index = size_t(sequence.length / positions_);
  if (!filled || index >= sequence.pages.size())
    return false;
  const Entry &entry = entries_[size_t(sequence.pages[index])];
  return entry.holders > 1 || int64_t(entry.tokens.size()) != filled;
}

int64_t PagePool::missing(const PagedSequence &sequence, int64_t end) const {
  int64_t want = (end + positions_ - 1) / positions_;
  return std::max<int64_t>(want - int64_t(sequence.pages.size()), 0) +
         (end > sequence.length && mustCopy(sequence));
}

bool PagePool::reserve(PagedSequence &sequence, int64_t end, std::vector<FreshPage> &fresh) {
  if (missing(sequence, end) > available())
    return false;
  if (end > sequence.length && mustCopy(sequence)) {
    Page &last = sequence.pages[size_t(sequence.length / positions_)];
    int64_t filled = sequence.length % positions_;
    Page copy = take(), from = last;
    Entry &entry = entries_[size_t(copy)];
    const Entry &old = entries_[size_t(from)];
    entry.tokens.assign(old.tokens.begin(), old.tokens.begin() + filled);
    entry.serial = ++serials_, entry.parent = old.parent;
    children_.emplace(entry.parent, copy);
    fresh.push_back({copy, from, filled});
    last = copy;
    drop(from);
  }
  while (int64_t(sequence.pages.size()) * positions_ < end) {
    sequence.pages.push_back(take());
    fresh.push_back({sequence.pages.back(), -1, 0});
  }
  return true;
}

uint64_t PagePool::serialBefore(const PagedSequence &sequence, size_t index) const {
  return index ? entries_[size_t(sequence.pages[index - 1])].serial : 0;
}

void PagePool::append(PagedSequence &sequence, std::span<const Token> tokens) {
  for (Token token : tokens) {
    auto index = size_t(sequence.length / positions_);
    Page page = sequence.pages[index];
    Entry &entry = entries_[size_t(page)];
    if (entry.tokens.empty()) {
      entry.serial = ++serials_, entry.parent = serialBefore(sequence, index);
      children_.emplace(entry.parent, page);
    }
    entry.tokens.push_back(token);
    ++sequence.length;
  }
}

void PagePool::release(PagedSequence &sequence) {
  // The last ones are of the least use to others, and go first.
  for (auto page = sequence.pages.rbegin(); page != sequence.pages.rend(); ++page)
    drop(*page);
  sequence.pages.clear();
  sequence.length = 0;
}

} // namespace tensmith::generation
