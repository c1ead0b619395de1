// Whether a match leaves a value out: Maranget's algorithm ("Warnings for pattern matching", 2007).
//
// A row of patterns is useful after others where a value matches it and none of them. The matrix is
// specialised by the constructors of its first column until nothing is left of it; a row of
// wildcards that is still useful is what no case covers.
#include "frontends/text/Inference.h"

namespace tensmith::text {
namespace {

using Row = std::vector<const Pattern *>; // null: a wildcard

class Usefulness {
public:
  explicit Usefulness(const Names &names) : names_(names) {}

  /// A value that the row matches and the matrix does not, one text for each column; or nothing.
  std::optional<std::vector<std::string>> find(const std::vector<Row> &matrix, const Row &row) {
    if (row.empty())
      return matrix.empty() ? std::optional(std::vector<std::string>()) : std::nullopt;
    if (++steps_ > kMostSteps)
      return std::nullopt; // the run would tell
    if (const Pattern *first = shaped(row[0]))
      return below(matrix, row, first);
    std::vector<const Pattern *> heads;
    for (const Row &other : matrix)
      if (shaped(other[0]))
        heads.push_back(shaped(other[0]));
    if (!heads.empty() && heads[0]->kind == Pattern::Kind::Tuple)
      return below(matrix, row, heads[0]);
    auto found =
        heads.empty() ? names_.constructors.end() : names_.constructors.find(heads[0]->name);
    if (found == names_.constructors.end())
      return withoutHead(matrix, row, "_");
    for (const ConstructorDecl &constructor : found->second.type->constructors) {
      Pattern wild;
      wild.kind = Pattern::Kind::Constructor;
      wild.name = constructor.name;
      wild.parts.resize(constructor.fields.size());
      if (auto value = below(matrix, row, &wild))
        return value;
    }
    return std::nullopt;
  }

private:
  static constexpr int kMostSteps = 100'000;

  static const Pattern *shaped(const Pattern *pattern) {
    bool open = !pattern || pattern->kind == Pattern::Kind::Wildcard ||
                pattern->kind == Pattern::Kind::Name;
    return open ? nullptr : pattern;
  }

  static std::optional<Row> specialize(const Row &row, const Pattern *head) {
    const Pattern *first = shaped(row[0]);
    if (first && (first->name != head->name || first->parts.size() != head->parts.size()))
      return std::nullopt;
    Row result;
    for (size_t i = 0; i < head->parts.size(); ++i)
      result.push_back(first ? &first->parts[i] : nullptr);
    result.insert(result.end(), row.begin() + 1, row.end());
    return result;
  }

  std::optional<std::vector<std::string>> below(const std::vector<Row> &matrix, const Row &row,
                                                const Pattern *head) {
    std::vector<Row> rest;
    for (const Row &other : matrix)
      if (auto special = specialize(other, head))
        rest.push_back(std::move(*special));
    auto own = specialize(row, head);
    auto value = own ? find(rest, *own) : std::nullopt;
    if (!value)
      return std::nullopt;
    bool tuple = head->kind == Pattern::Kind::Tuple;
    std::string text = tuple ? "(" : head->name + (head->parts.empty() ? "" : "(");
    for (size_t i = 0; i < head->parts.size(); ++i)
      text += (i ? ", " : "") + (*value)[i];
    text += tuple || !head->parts.empty() ? ")" : "";
    value->erase(value->begin(), value->begin() + ptrdiff_t(head->parts.size()));
    value->insert(value->begin(), text);
    return value;
  }

  std::optional<std::vector<std::string>> withoutHead(const std::vector<Row> &matrix,
                                                      const Row &row, const std::string &text) {
    std::vector<Row> rest;
    for (const Row &other : matrix)
      if (!shaped(other[0]))
        rest.emplace_back(other.begin() + 1, other.end());
    auto value = find(rest, Row(row.begin() + 1, row.end()));
    if (value)
      value->insert(value->begin(), text);
    return value;
  }

  const Names &names_;
  int steps_ = 0;
};

} // namespace

std::string uncovered(const std::vector<Case> &cases, const Names &names, size_t &unreached) {
  std::vector<Row> matrix;
  unreached = cases.size();
  for (size_t i = 0; i < cases.size(); ++i) {
    Row row = {&cases[i].pattern};
    if (unreached == cases.size() && !Usefulness(names).find(matrix, row))
      unreached = i;
    matrix.push_back(std::move(row));
  }
  auto value = Usefulness(names).find(matrix, {nullptr});
  return value ? (*value)[0] : "";
}

} // namespace tensmith::text
