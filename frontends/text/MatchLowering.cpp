// Lets and matches: patterns to a tree of decisions, by columns (Maranget, "Compiling pattern
// matching to good decision trees", 2008): each value is looked at once on each way down.
#include "frontends/text/Lowering.h"

#include "compiler/program/Program.h"

using namespace mlir;

namespace tensmith::text {

static bool isOpen(const Pattern *pattern) {
  return !pattern || pattern->kind == Pattern::Kind::Wildcard ||
         pattern->kind == Pattern::Kind::Name;
}

Value Lowering::lowerLet(const Expr &expr) {
  size_t before = locals_.size();
  const Expr *let = &expr;
  for (; let->kind == Expr::Kind::Let; let = let->parts[0].get()) {
    const Pattern &pattern = let->cases[0].pattern;
    Value value = lower(*let->cases[0].body);
    if (!value)
      return {};
    // A pattern of a let has one way to match: its parts are fields.
    std::vector<std::pair<const Pattern *, Value>> waiting = {{&pattern, value}};
    while (!waiting.empty()) {
      auto [part, whole] = waiting.back();
      waiting.pop_back();
      if (part->kind == Pattern::Kind::Name)
        bind(part->name, whole);
      for (size_t i = 0; i < part->parts.size(); ++i) {
        Value field = builder_.create<program::FieldOp>(
            whole.getLoc(), lowerType(typing_.patterns.at(&part->parts[i])), whole, i);
        waiting.push_back({&part->parts[i], field});
      }
    }
  }
  Value result = lower(*let);
  locals_.resize(before);
  return result;
}

Value Lowering::lowerMatch(const Expr &expr) {
  Value value = lower(*expr.parts[0]);
  if (!value)
    return {};
  std::vector<Row> rows;
  for (const Case &one : expr.cases)
    rows.push_back({{&one.pattern}, {}, one.body.get()});
  return lowerRows(std::move(rows), {{value, typeOf(*expr.parts[0])}}, typeOf(expr),
                   locate(expr, "match"));
}

Value Lowering::lowerRows(std::vector<Row> rows, std::vector<Column> columns, Term *type,
                          Location location) {
  if (rows.empty() && error_.empty())
    error_ = "a match has no case for a value"; // inference has seen to it that there is none such
  if (!error_.empty())
    return {};
  Row &first = rows[0];
  size_t column = 0;
  while (column < columns.size() && isOpen(first.patterns[column]))
    ++column;
  auto nameIn = [&](Row &row, size_t index) {
    if (row.patterns[index] && row.patterns[index]->kind == Pattern::Kind::Name)
      row.bindings.push_back({row.patterns[index]->name, columns[index].value});
  };
  if (column == columns.size()) {
    size_t before = locals_.size();
    for (size_t i = 0; i < columns.size(); ++i)
      nameIn(first, i);
    for (auto &[name, value] : first.bindings)
      bind(name, value);
    Value result = lower(*first.body);
    locals_.resize(before);
    return result;
  }
  for (Row &row : rows)
    if (isOpen(row.patterns[column]))
      nameIn(row, column);

  // The rows that a constructor (or the tuple) is left with, its fields in the column's place.
  Column chosen = columns[column];
  auto below = [&](const std::string &name, const std::vector<Term *> &fields, uint32_t tag = 0) {
    std::vector<Row> rest;
    for (const Row &row : rows) {
      const Pattern *pattern = row.patterns[column];
      if (!isOpen(pattern) && pattern->name != name)
        continue;
      Row narrowed = row;
      narrowed.patterns.erase(narrowed.patterns.begin() + ptrdiff_t(column));
      for (size_t i = 0; i < fields.size(); ++i)
        narrowed.patterns.push_back(isOpen(pattern) ? nullptr : &pattern->parts[i]);
      rest.push_back(std::move(narrowed));
    }
    std::vector<Column> wider = columns;
    wider.erase(wider.begin() + ptrdiff_t(column));
    for (size_t i = 0; i < fields.size(); ++i)
      wider.push_back(
          {builder_.create<program::FieldOp>(location, lowerType(fields[i]), chosen.value, i, tag),
           fields[i]});
    return lowerRows(std::move(rest), std::move(wider), type, location);
  };
  const Pattern &shape = *first.patterns[column];
  if (shape.kind == Pattern::Kind::Tuple)
    return below("", Types::find(chosen.type)->parts);

  const TypeDecl &decl = *names_.constructors.at(shape.name).type;
  auto op = builder_.create<program::MatchOp>(location, lowerType(type), chosen.value,
                                              unsigned(decl.constructors.size()));
  OpBuilder::InsertionGuard guard(builder_);
  for (uint32_t tag = 0; tag < decl.constructors.size(); ++tag) {
    builder_.createBlock(&op->getRegion(tag));
    Value value = below(decl.constructors[tag].name,
                        inference_.fields({&decl, tag}, Types::find(chosen.type)), tag);
    if (!value)
      return {};
    builder_.create<program::YieldOp>(location, value);
  }
  return op.getResult();
}

} // namespace tensmith::text
