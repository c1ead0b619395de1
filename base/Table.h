// Tables that plug-ins add rows to.
//
// Operators' references and gradients, templates, rewrites and targets are rows of tables. The
// project's own families fill a table when it is first asked for; a plug-in adds rows to the same
// one, by the same function, and is found the same way.
//
// Rows are added seldom and looked up always, on any thread. So readers take the newest state of
// the table, which never changes, without a lock; whoever adds rows makes another state. Former
// states are kept, since somebody may still read them: there are as many as plug-ins.
#pragma once

#include "base/Status.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <initializer_list>
#include <mutex>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tensmith {

/// A row has a `name`, which no other row of the table has. Rows live as long as the process.
template <typename Row> class Table {
public:
  using Rows = std::vector<const Row *>;

  /// `what` a row is, for messages: "template". `last`: the row that stays behind all others.
  explicit Table(const char *what, std::string_view last = {}) : what_(what), last_(last) {
    states_.emplace_back();
    newest_ = &states_.back();
  }
  /// With rows whose names are known to be different.
  Table(const char *what, std::initializer_list<std::span<const Row>> families,
        std::string_view last = {})
      : Table(what, last) {
    Rows rows;
    for (std::span<const Row> family : families)
      for (const Row &row : family)
        rows.push_back(&row);
    addOwn(rows);
  }
  Table(const char *what, std::initializer_list<const Row *> own, std::string_view last = {})
      : Table(what, last) {
    addOwn(Rows(own));
  }

  /// Null where there is none of that name.
  const Row *find(std::string_view name) const {
    const State &state = *newest_.load(std::memory_order_acquire);
    auto found = state.byName.find(name);
    return found == state.byName.end() ? nullptr : found->second;
  }

  /// All rows, in order. What is returned stays as it is.
  const Rows &rows() const { return newest_.load(std::memory_order_acquire)->rows; }

  /// Whether the rows could be added now: InvalidArgument, with the name, where one is there.
  Status check(std::span<const Row *const> added) const {
    const State &state = *newest_.load(std::memory_order_acquire);
    for (size_t i = 0; i < added.size(); ++i) {
      std::string_view name(added[i]->name);
      auto isSame = [&](const Row *other) { return std::string_view(other->name) == name; };
      bool isTwice = std::any_of(added.begin(), added.begin() + ptrdiff_t(i), isSame);
      if (isTwice || state.byName.count(name))
        return invalidArgument("there is a " + std::string(what_) + " '" + std::string(name) +
                               "' already");
    }
    return {};
  }

  /// All of them or, where `check` fails, none: before the row of that name, or behind all but the
  /// last.
  Status add(std::span<const Row *const> added, std::string_view before = {}) {
    std::lock_guard lock(adding_);
    if (Status status = check(added); !status.ok())
      return status;
    State state = states_.back();
    auto isNamed = [&](std::string_view name) {
      return [name](const Row *row) { return std::string_view(row->name) == name; };
    };
    auto place = std::find_if(state.rows.begin(), state.rows.end(), isNamed(before));
    if (!before.empty() && place == state.rows.end())
      return invalidArgument("there is no " + std::string(what_) + " '" + std::string(before) +
                             "' to stand before");
    if (before.empty() && !last_.empty())
      place = std::find_if(state.rows.begin(), state.rows.end(), isNamed(last_));
    state.rows.insert(place, added.begin(), added.end());
    for (const Row *row : added)
      state.byName.emplace(std::string_view(row->name), row);
    states_.push_back(std::move(state));
    newest_.store(&states_.back(), std::memory_order_release);
    return {};
  }

private:
  struct State {
    Rows rows;
    std::unordered_map<std::string_view, const Row *> byName;
  };

  void addOwn(const Rows &rows) {
    [[maybe_unused]] Status status = add(rows);
    assert(status.ok() && "two rows of one name");
  }

  const char *what_;
  std::string_view last_;
  std::mutex adding_;
  std::deque<State> states_; // all that there were
  std::atomic<const State *> newest_;
};

} // namespace tensmith
