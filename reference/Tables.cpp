// Reference evaluation of what is looked up by value: tables of keys and values, and n-grams of a
// pool.
//
// Keys become integers first, equal for equal keys, so that strings and numbers are treated alike.
#include "reference/Text.h"

#include <bit>
#include <cmath>
#include <map>
#include <unordered_map>

namespace tensmith::reference {
namespace {

/// Numbers the distinct elements that it has seen.
class Vocabulary {
public:
  int64_t add(const HostTensor &x, int64_t index) {
    return isText(x) ? texts_.try_emplace(x.getString(index), next()).first->second
                     : numbers_.try_emplace(bitsOf(x, index), next()).first->second;
  }
  /// -1 of an element that was not added.
  int64_t find(const HostTensor &x, int64_t index) const {
    if (isText(x)) {
      auto it = texts_.find(x.getString(index));
      return it == texts_.end() ? -1 : it->second;
    }
    auto it = numbers_.find(bitsOf(x, index));
    return it == numbers_.end() ? -1 : it->second;
  }
  int64_t size() const { return next(); }

private:
  static bool isText(const HostTensor &x) { return x.type() == DataType::String; }
  /// One pattern for both zeros, and one for all NaN.
  static uint64_t bitsOf(const HostTensor &x, int64_t index) {
    if (!isFloat(x.type()))
      return uint64_t(x.getInt(index));
    double value = x.getDouble(index);
    return std::bit_cast<uint64_t>(std::isnan(value) ? std::nan("") : value == 0 ? 0.0 : value);
  }
  int64_t next() const { return int64_t(texts_.size() + numbers_.size()); }

  std::unordered_map<std::string, int64_t> texts_;
  std::unordered_map<uint64_t, int64_t> numbers_;
};

void copyElement(HostTensor &to, int64_t at, const HostTensor &from, int64_t index) {
  if (to.type() == DataType::String)
    to.setString(at, from.getString(index));
  else
    std::memcpy(to.mutableData() + at * byteSize(to.type()),
                from.data() + index * byteSize(to.type()), size_t(byteSize(to.type())));
}

// ---- count_ngrams

using Ngram = std::vector<int64_t>; // numbers of a vocabulary

struct Pool {
  Vocabulary vocabulary;
  std::map<Ngram, size_t> ngrams; // which of them
};

/// The pool's n-grams: `starts[n - 1]` is where those of n elements begin.
Pool readPool(Workspace &workspace, const HostTensor &elements, std::span<const int64_t> starts,
              size_t count) {
  Pool pool;
  size_t number = 0;
  for (size_t n = 1; n <= starts.size(); ++n) {
    int64_t begin = starts[n - 1], end = n < starts.size() ? starts[n] : elements.size();
    if (begin < 0 || end < begin || end > elements.size() || (end - begin) % int64_t(n) != 0) {
      workspace.rejectAttribute("starts", "don't divide the pool into n-grams");
      return pool;
    }
    for (int64_t at = begin; at < end; at += int64_t(n), ++number) {
      Ngram ngram;
      for (size_t i = 0; i < n; ++i)
        ngram.push_back(pool.vocabulary.add(elements, at + int64_t(i)));
      pool.ngrams[ngram] = number;
    }
  }
  if (number != count)
    workspace.rejectAttribute("columns", "are not as many as the pool has n-grams");
  return pool;
}

struct Search {
  int64_t least, most, skips;
};

/// Calls `found` with the number of each of the pool's n-grams in a row. Single elements are found
/// once, since no skip lies within them.
template <typename Found>
void searchRow(const Pool &pool, std::span<const int64_t> row, const Search &search, Found found) {
  int64_t length = int64_t(row.size());
  for (int64_t distance = 1; distance <= search.skips + 1 && distance <= length; ++distance)
    for (int64_t start = 0; start < length; ++start) {
      Ngram ngram;
      for (int64_t at = start; at < length && int64_t(ngram.size()) < search.most; at += distance) {
        if (row[size_t(at)] < 0)
          break;
        ngram.push_back(row[size_t(at)]);
        int64_t n = int64_t(ngram.size());
        if (n < search.least || (n == 1 && distance > 1))
          continue;
        if (auto it = pool.ngrams.find(ngram); it != pool.ngrams.end())
          found(it->second);
      }
    }
}

} // namespace

Outcome evaluateCountNgrams(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x"), &elements = workspace.anyOperand(1, "pool");
  const Attributes &attributes = invocation.attributes;
  const std::vector<int64_t> starts = attributes.integers("starts"),
                             columns = attributes.integers("columns");
  const auto weights = attributes.get<std::vector<double>>("weights");
  const Search search{attributes.integer("least", 1), attributes.integer("most", 1),
                      attributes.integer("skips")};
  const std::string mode = attributes.string("mode", "tf");
  workspace.require(!workspace.ok() || (x.rank() <= 2 && (x.type() == DataType::String) ==
                                                             (elements.type() == DataType::String)),
                    "x", "must have at most two dimensions and the pool's kind of elements");
  if (search.least < 1 || search.most < search.least || search.skips < 0)
    workspace.rejectAttribute("least", "must be at least 1 and at most 'most'");
  if (!weights.empty() && weights.size() != columns.size())
    workspace.rejectAttribute("weights", "are not as many as the columns");
  int64_t width = 0;
  for (int64_t column : columns) {
    if (column < 0 || column > kLargestExtent)
      workspace.rejectAttribute("columns", "are out of range");
    width = std::max(width, column + 1);
  }
  if (!workspace.ok())
    return workspace.status();
  const Pool pool = readPool(workspace, elements, starts, columns.size());
  int64_t rows = x.rank() == 2 ? x.shape()[0] : 1, length = x.rank() == 0 ? 1 : x.shape().back();
  std::span<double> counts = workspace.zeros<double>({rows, width});
  if (!workspace.ok())
    return workspace.status();
  auto weightOf = [&](size_t ngram) { return weights.empty() ? 1.0 : weights[ngram]; };
  Ngram row(size_t(x.size() == 0 ? 0 : length));
  for (int64_t r = 0; r < rows && !row.empty(); ++r) {
    for (int64_t i = 0; i < length; ++i)
      row[size_t(i)] = pool.vocabulary.find(x, r * length + i);
    searchRow(pool, row, search, [&](size_t ngram) {
      double &count = counts[size_t(r * width + columns[ngram])];
      count = mode == "idf" ? weightOf(ngram) : count + (mode == "tfidf" ? weightOf(ngram) : 1);
    });
  }
  Shape shape = x.rank() == 2 ? Shape{rows, width} : Shape{width};
  return workspace.finish(workspace.narrow<double>(counts, DataType::F32, shape));
}

// ---- look_up

Outcome evaluateLookUp(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &x = workspace.anyOperand(0, "x"), &keys = workspace.anyOperand(1, "keys");
  const HostTensor &values = workspace.anyOperand(2, "values");
  const HostTensor &otherwise = workspace.anyOperand(3, "otherwise");
  if (!workspace.ok())
    return workspace.status();
  workspace.require(x.type() == keys.type(), "keys", "are not of x's type");
  workspace.require(values.size() == keys.size(), "values", "are not as many as the keys");
  workspace.require(otherwise.type() == values.type() && otherwise.size() == 1, "otherwise",
                    "must be one element of the values' type");
  HostTensor y = workspace.allocate(values.type(), x.shape());
  Vocabulary vocabulary;
  std::vector<int64_t> positions;
  for (int64_t i = 0; workspace.ok() && i < keys.size(); ++i) {
    size_t number = size_t(vocabulary.add(keys, i));
    positions.resize(std::max(positions.size(), number + 1));
    positions[number] = i;
  }
  for (int64_t i = 0; workspace.ok() && i < x.size(); ++i) {
    int64_t number = vocabulary.find(x, i);
    if (number < 0)
      copyElement(y, i, otherwise, 0);
    else
      copyElement(y, i, values, positions[size_t(number)]);
  }
  return workspace.finish(std::move(y));
}

} // namespace tensmith::reference
