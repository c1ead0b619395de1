// Reference evaluation of cached_attention: single queries, keys and values in pages and of the
// same run.
#include "base/BlockFormats.h"
#include "reference/Blocks.h"
#include "reference/Workspace.h"

#include <cmath>

namespace tensmith::reference {
namespace {

/// Keys or values, [rows, heads, a head's numbers as they are kept].
struct Heads {
  const HostTensor &kept;
  const BlockFormat *format; // null: floats
  int64_t heads, stored, size;

  Heads(Workspace &workspace, const HostTensor &kept, std::string_view name,
        const BlockFormat *format)
      : kept(kept), format(format), heads(kept.shape()[size_t(kept.rank() - 2)]),
        stored(kept.shape().back()), size(stored) {
    bool isBytes = kept.type() == DataType::U8;
    workspace.require(isBytes ? format && stored % format->bytes == 0 : !format, name,
                      "must be floats, or rows of whole blocks of u8 with a format");
    if (isBytes && workspace.ok())
      size = stored / format->bytes * format->elements;
  }

  std::vector<float> at(int64_t row, int64_t head) const {
    std::vector<float> numbers(static_cast<size_t>(size));
    int64_t first = (row * heads + head) * stored;
    if (format)
      for (int64_t at = 0; at < stored / format->bytes; ++at)
        decodeBlock(*format, kept.data() + first + at * format->bytes,
                    numbers.data() + at * format->elements);
    else
      for (int64_t i = 0; i < size; ++i)
        numbers[size_t(i)] = float(kept.getDouble(first + i));
    return numbers;
  }
};

struct Attention {
  const HostTensor &q, &table, &lengths, &firsts;
  Heads keys, values, newKeys, newValues;
  int64_t pages, positions, window;
  double scale, cap;

  /// What is wrong with a row's numbers; null: nothing.
  const char *wrongOf(int64_t row) const {
    int64_t length = lengths.getInt(row), first = firsts.getInt(row);
    if (first < 0 || first > row)
      return "has a first row behind its own";
    if (length < 0 || length > table.shape()[1] * positions)
      return "has a length that is more than its pages hold";
    for (int64_t p = 0; p < length; p += positions)
      if (int64_t page = table.getInt(row * table.shape()[1] + p / positions);
          page < 0 || page >= pages)
        return "has a page that is not there";
    return nullptr;
  }

  /// Of position p of a row, in the pages or in what is new.
  std::vector<float> at(const Heads &kept, const Heads &fresh, int64_t row, int64_t p,
                        int64_t head) const {
    int64_t length = lengths.getInt(row);
    if (p >= length)
      return fresh.at(firsts.getInt(row) + p - length, head);
    int64_t page = table.getInt(row * table.shape()[1] + p / positions);
    return kept.at(page * positions + p % positions, head);
  }

  void attend(int64_t row, int64_t head, HostTensor &y) const {
    int64_t heads = q.shape()[1], keyHead = head / (heads / keys.heads), at = row * heads + head;
    int64_t end = lengths.getInt(row) + row - firsts.getInt(row) + 1;
    int64_t begin = window ? std::max<int64_t>(end - window, 0) : 0;
    std::vector<double> scores, sums(static_cast<size_t>(values.size), 0.0);
    for (int64_t p = begin; p < end; ++p) {
      std::vector<float> key = this->at(keys, newKeys, row, p, keyHead);
      double score = 0;
      for (int64_t i = 0; i < keys.size; ++i)
        score += q.getDouble(at * keys.size + i) * double(key[size_t(i)]);
      score *= scale;
      scores.push_back(cap != 0 ? cap * std::tanh(score / cap) : score);
    }
    double largest = *std::max_element(scores.begin(), scores.end()), total = 0;
    for (int64_t p = begin; p < end; ++p) {
      double weight = std::exp(scores[size_t(p - begin)] - largest);
      std::vector<float> value = this->at(values, newValues, row, p, keyHead);
      for (int64_t i = 0; i < values.size; ++i)
        sums[size_t(i)] += weight * double(value[size_t(i)]);
      total += weight;
    }
    for (int64_t i = 0; i < values.size; ++i)
      y.setDouble(at * values.size + i, sums[size_t(i)] / total);
  }
};

} // namespace

Outcome evaluateCachedAttention(const Invocation &invocation) {
  Workspace workspace(invocation);
  const HostTensor &q = workspace.floatOperand(0, "q", 3);
  const HostTensor &keys = workspace.operand(1, "keys", 4);
  const HostTensor &values = workspace.operand(2, "values", 4);
  const HostTensor &table = workspace.operand(3, "table", 2);
  const HostTensor &lengths = workspace.operand(4, "lengths", 1);
  const HostTensor &firsts = workspace.operand(5, "firsts", 1);
  const HostTensor &newKeys = workspace.operand(6, "new_keys", 3);
  const HostTensor &newValues = workspace.operand(7, "new_values", 3);
  if (!workspace.ok())
    return workspace.status();
  std::string name = invocation.attributes.string("format");
  const BlockFormat *format = name.empty() ? nullptr : findBlockFormat(name);
  Attention of{q,
               table,
               lengths,
               firsts,
               Heads(workspace, keys, "keys", format),
               Heads(workspace, values, "values", format),
               Heads(workspace, newKeys, "new_keys", format),
               Heads(workspace, newValues, "new_values", format),
               keys.shape()[0],
               keys.shape()[1],
               invocation.attributes.integer("window"),
               invocation.attributes.real("scale"),
               invocation.attributes.real("softcap")};
  int64_t rows = q.shape()[0], heads = q.shape()[1], keyHeads = keys.shape()[2];
  const int64_t ofQ[] = {rows, heads, of.keys.size}, perRow[] = {rows};
  const int64_t ofNewKeys[] = {rows, keyHeads, of.keys.stored};
  const int64_t ofNewValues[] = {rows, keyHeads, of.values.stored};
  const int64_t ofValues[] = {of.pages, of.positions, keyHeads, of.values.stored};
  workspace.expectShape(q, "q", ofQ);
  workspace.expectShape(values, "values", ofValues);
  workspace.expectShape(lengths, "lengths", perRow);
  workspace.expectShape(firsts, "firsts", perRow);
  workspace.expectShape(newKeys, "new_keys", ofNewKeys);
  workspace.expectShape(newValues, "new_values", ofNewValues);
  workspace.require(table.shape()[0] == rows, "table", "must have a list for each query");
  workspace.require(keyHeads > 0 && heads % keyHeads == 0, "q",
                    "must have a multiple of the heads of keys");
  for (int64_t row = 0; workspace.ok() && row < rows; ++row)
    if (const char *wrong = of.wrongOf(row))
      workspace.reject("lengths", "row " + std::to_string(row) + " " + wrong);
  HostTensor y = workspace.allocate(DataType::F32, {rows, heads, of.values.size});
  for (int64_t row = 0; workspace.ok() && row < rows; ++row)
    for (int64_t head = 0; head < heads; ++head)
      of.attend(row, head, y);
  return workspace.finish(std::move(y));
}

} // namespace tensmith::reference
