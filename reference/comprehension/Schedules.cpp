// Which statement a line of a schedule belongs to; see Schedules.h.
#include "reference/comprehension/Schedules.h"

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
    auto misplaced = [&](const std::string &words) {
      messages.push_back({comment.place, "this schedule belongs to no statement: " + words});
    };
    const Definition *definition = definitionAt(module, comment.place);
    const StatementSyntax *statement =
        definition ? statementAt(*definition, comment.place) : nullptr;
    if (!definition)
      misplaced("it stands outside of a definition; write it behind the statement whose loops it "
                "orders, before the '}'");
    else if (!statement)
      misplaced("it stands before the first one of '" + definition->name +
                "'; write it behind the statement whose loops it orders");
    else if (isCall(module, *statement))
      misplaced("before it stands a call of '" + statement->value->text +
                "'; write it behind a statement of that definition");
    else {
      line->statement = statement->place;
      result.push_back(std::move(*line));
    }
  }
  return result;
}

} // namespace tensmith::comprehension
