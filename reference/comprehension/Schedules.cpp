// Which statement or definition a line of a schedule belongs to; see Schedules.h.
#include "reference/comprehension/Schedules.h"

#include <algorithm>
#include <cctype>

namespace tensmith::comprehension {
namespace {

constexpr std::string_view kMark = "# schedule:";

bool isBefore(Place a, Place b) {
  return a.line < b.line || (a.line == b.line && a.column < b.column);
}

const Definition *definitionAt(const Module &module, Place place) {
  for (const Definition &each : module.definitions)
    if (isBefore(each.place, place) && isBefore(place, each.end))
      return &each;
  return nullptr;
}

/// The last that begins before the place.
const StatementSyntax *statementAt(const Definition &definition, Place place) {
  const StatementSyntax *result = nullptr;
  for (const StatementSyntax &each : definition.statements)
    if (isBefore(each.place, place))
      result = &each;
  return result;
}

/// Whether it calls another definition, and so has no loops.
bool isCall(const Module &module, const StatementSyntax &statement) {
  return !statement.hasIndices && statement.value && statement.value->kind == Expr::Kind::Call &&
         module.find(statement.value->text);
}

} // namespace

bool isAlmostSchedule(const Comment &comment) {
  std::string_view text = comment.text;
  if (text.starts_with(kMark))
    return false;
  std::string letters;
  for (char each : text.substr(0, text.find(':') + 1))
    if (each != ' ' && each != '\t')
      letters += char(std::tolower(static_cast<unsigned char>(each)));
  return letters == "#schedule:";
}

std::optional<ScheduleLine> scheduleLine(const Comment &comment) {
  std::string_view text = comment.text;
  if (!text.starts_with(kMark))
    return std::nullopt;
  size_t begin = text.find_first_not_of(" \t", kMark.size());
  size_t end = text.find_last_not_of(" \t\r");
  ScheduleLine result;
  result.place = comment.place;
  if (begin == std::string_view::npos)
    return result;
  result.place.column += uint32_t(begin);
  result.text = text.substr(begin, end + 1 - begin);
  return result;
}

namespace {

/// What the line orders; else why it orders nothing.
std::string placeLine(const Module &module, ScheduleLine &line, Place comment) {
  const Definition *definition = definitionAt(module, comment);
  if (!definition)
    return "this schedule belongs to no statement: it stands outside of a definition; write it "
           "behind the statement whose loops it orders, before the '}'";
  const StatementSyntax *statement = statementAt(*definition, comment);
  line.isWhole = !statement;
  line.statement = statement ? statement->place : definition->place;
  if (statement && isCall(module, *statement))
    return "this schedule belongs to no statement: before it stands a call of '" +
           statement->value->text + "'; write it behind a statement of that definition";
  return {};
}

/// A definition that is ordered as a whole has no other order for one of its statements.
bool isOrderedTwice(const Module &module, const std::vector<ScheduleLine> &before, Place comment) {
  const Definition *definition = definitionAt(module, comment);
  return std::any_of(before.begin(), before.end(), [&](const ScheduleLine &each) {
    return each.isWhole && each.isOf(definition->place);
  });
}

} // namespace

std::vector<ScheduleLine> schedulesOf(const Module &module, const std::vector<Comment> &comments,
                                      std::vector<Message> &messages) {
  std::vector<ScheduleLine> result;
  for (const Comment &comment : comments) {
    if (isAlmostSchedule(comment))
      messages.push_back(
          {comment.place, "a line of a schedule begins with '# schedule:', written so"});
    std::optional<ScheduleLine> line = scheduleLine(comment);
    if (!line)
      continue;
    std::string problem = placeLine(module, *line, comment.place);
    if (problem.empty() && !line->isWhole && isOrderedTwice(module, result, comment.place))
      problem = "the definition has a schedule for all of its statements, in front of the first "
                "one; write this line there, too";
    if (problem.empty())
      result.push_back(std::move(*line));
    else
      messages.push_back({comment.place, problem});
  }
  return result;
}

} // namespace tensmith::comprehension
