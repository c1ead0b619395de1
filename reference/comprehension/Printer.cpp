// A module as text in one layout: a statement a line, its `where` on the next where both are long.
#include "reference/comprehension/Schedules.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

namespace tensmith::comprehension {
namespace {

constexpr size_t kWidth = 100;
constexpr int kSelect = 0, kUnary = 6, kPrimary = 7;

int levelOf(const std::string &sign) {
  static const std::map<std::string, int> levels = {{"||", 1}, {"&&", 2}, {"+", 4}, {"-", 4},
                                                    {"*", 5},  {"/", 5},  {"%", 5}};
  auto found = levels.find(sign);
  return found == levels.end() ? 3 : found->second;
}

std::string realText(double value) {
  char buffer[32];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, std::fabs(value)).ptr;
  std::string text(buffer, end);
  // Infinity and NaN have no literals.
  if (std::isnan(value))
    return "(0.0 / 0.0)";
  if (std::isinf(value))
    return value < 0 ? "(-1.0 / 0.0)" : "(1.0 / 0.0)";
  if (text.find_first_of(".e") == text.npos)
    text += ".0";
  if (size_t e = text.find('e'); e != text.npos && text.find('.') == text.npos)
    text.insert(e, ".0");
  return std::signbit(value) ? "-" + text : text;
}

template <typename Each>
std::string joined(const std::vector<Each> &all, std::string (*text)(const Each &)) {
  std::string result;
  for (const Each &one : all)
    result += (result.empty() ? "" : ", ") + text(one);
  return result;
}

std::string printAt(const Expr &expr, int level);
std::string printAll(const ExprRef &part) { return printAt(*part, kSelect); }

std::string binaryText(const Expr &expr, int &own) {
  if (expr.text == "min" || expr.text == "max")
    return expr.text + "(" + joined(expr.parts, printAll) + ")";
  own = levelOf(expr.text);
  return printAt(*expr.parts[0], own) + " " + expr.text + " " + printAt(*expr.parts[1], own + 1);
}

/// In parentheses where it binds less than `level`.
std::string printAt(const Expr &expr, int level) {
  int own = kPrimary;
  std::string text;
  switch (expr.kind) {
  case Expr::Kind::Integer:
    text = std::to_string(expr.integer);
    own = expr.integer < 0 ? kUnary : kPrimary;
    break;
  case Expr::Kind::Real:
    text = realText(expr.number);
    own = text[0] == '-' ? kUnary : kPrimary;
    break;
  case Expr::Kind::Boolean:
    text = expr.integer ? "true" : "false";
    break;
  case Expr::Kind::Name:
  case Expr::Kind::Index:
  case Expr::Kind::Size:
    text = expr.text;
    break;
  case Expr::Kind::Extent:
    text = expr.text + "." + std::to_string(expr.integer);
    break;
  case Expr::Kind::Read:
    if (expr.parts.empty())
      return expr.text;
    [[fallthrough]];
  case Expr::Kind::Call:
  case Expr::Kind::Function:
    text = expr.text + "(" + joined(expr.parts, printAll) + ")";
    break;
  case Expr::Kind::Cast:
    text = typeName(expr.type) + "(" + printAll(expr.parts[0]) + ")";
    break;
  case Expr::Kind::Unary:
    own = kUnary;
    text = expr.text + printAt(*expr.parts[0], kUnary + (expr.text == "-"));
    break;
  case Expr::Kind::Binary:
    text = binaryText(expr, own);
    break;
  case Expr::Kind::Select:
    own = kSelect;
    text = printAt(*expr.parts[0], 1) + " ? " + printAll(expr.parts[1]) + " : " +
           printAll(expr.parts[2]);
    break;
  }
  return own < level ? "(" + text + ")" : text;
}

std::string signOf(const StatementSyntax &statement) {
  static const char *signs[] = {"=", "+=", "*=", "min=", "max="};
  return std::string(signs[size_t(statement.assignment)]) + (statement.initialises ? "!" : "");
}

std::string clauseText(const Clause &clause) {
  switch (clause.kind) {
  case Clause::Kind::Exists:
    return "exists " + print(*clause.low);
  case Clause::Kind::Let:
    return clause.name + " = " + print(*clause.low);
  case Clause::Kind::Range:
    break;
  }
  return clause.name + " in " + printAt(*clause.low, 1) + ":" + print(*clause.high);
}

std::string parameterText(const ParameterSyntax &parameter) {
  std::string text = parameter.type == DataType::Undefined ? "" : typeName(parameter.type);
  if (!parameter.dims.empty())
    text += "(" + joined(parameter.dims, printAll) + ")";
  return text + (text.empty() ? "" : " ") + parameter.name;
}

std::string nameText(const Named &named) { return named.name; }

std::string headText(const Definition &definition) {
  return "def " + definition.name + "(" + joined(definition.parameters, parameterText) + ") -> (" +
         joined(definition.results, parameterText) + ") {";
}

bool isBefore(Place a, Place b) {
  return a.line < b.line || (a.line == b.line && a.column < b.column);
}

/// Comments in the order of their places, each given once.
class CommentReader {
public:
  explicit CommentReader(const std::vector<Comment> &comments) : comments_(comments) {}

  /// Those before the place, a line each.
  std::string before(Place place, const std::string &indent) {
    std::string text;
    while (next_ < comments_.size() && isBefore(comments_[next_].place, place))
      text += indent + comments_[next_++].text + "\n";
    return text;
  }
  /// Of those before the place the lines of a schedule, which belong behind the statement that they
  /// stand in, and the others.
  std::string within(Place end, const std::string &indent, std::string &schedule) {
    std::string text;
    for (; next_ < comments_.size() && isBefore(comments_[next_].place, end); ++next_)
      (scheduleLine(comments_[next_]) ? schedule : text) += indent + comments_[next_].text + "\n";
    return text;
  }
  /// One that ends the line, on which no more begins before it.
  std::string after(Place end, Place next) {
    bool isThere = next_ < comments_.size() && comments_[next_].place.line == end.line &&
                   isBefore(comments_[next_].place, next);
    return isThere ? "  " + comments_[next_++].text : "";
  }
  std::string rest() {
    std::string text;
    while (next_ < comments_.size())
      text += comments_[next_++].text + "\n";
    return text;
  }

private:
  const std::vector<Comment> &comments_;
  size_t next_ = 0;
};

std::string definitionText(const Definition &definition, Place next, CommentReader &comments) {
  std::string text = comments.before(definition.place, "") + headText(definition) + "\n";
  const auto &statements = definition.statements;
  for (size_t i = 0; i < statements.size(); ++i) {
    Place behind = i + 1 < statements.size() ? statements[i + 1].place : definition.end;
    std::string schedule;
    text += comments.before(statements[i].place, "  ");
    text += comments.within(statements[i].end, "  ", schedule) + print(statements[i]);
    text += schedule.empty() ? comments.after(statements[i].end, behind) + "\n" : "\n" + schedule;
  }
  return text + comments.before(definition.end, "  ") + "}" + comments.after(definition.end, next) +
         "\n";
}

constexpr Place kEnd = {std::numeric_limits<uint32_t>::max(), 1};

} // namespace

std::string print(const Expr &expr) { return printAt(expr, kSelect); }

std::string print(const StatementSyntax &statement) {
  std::string text = "  " + joined(statement.targets, nameText);
  if (statement.hasIndices)
    text += "(" + joined(statement.indices, nameText) + ")";
  text += " " + signOf(statement) + " " + print(*statement.value);
  if (statement.where.empty())
    return text;
  std::string where = "where " + joined(statement.where, clauseText);
  return text + (text.size() + where.size() < kWidth ? " " : "\n    ") + where;
}

std::string print(const Definition &definition, const std::vector<Comment> &all) {
  std::vector<Comment> own;
  std::copy_if(all.begin(), all.end(), std::back_inserter(own), [&](const Comment &each) {
    return isBefore(definition.place, each.place) && isBefore(each.place, definition.end);
  });
  CommentReader comments(own);
  return definitionText(definition, kEnd, comments);
}

std::string print(const Module &module, const std::vector<Comment> &all) {
  CommentReader comments(all);
  std::string text;
  for (size_t i = 0; i < module.definitions.size(); ++i) {
    Place next = i + 1 < module.definitions.size() ? module.definitions[i + 1].place : kEnd;
    text += (text.empty() ? "" : "\n") + definitionText(module.definitions[i], next, comments);
  }
  return text + comments.rest();
}

} // namespace tensmith::comprehension
