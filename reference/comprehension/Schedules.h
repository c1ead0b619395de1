// Schedules in comments: "# schedule: parallel m" behind the statement whose loops it orders, up to
// the next one; or in front of a definition's first statement, for the loops of all. What the lines
// say is compiler/nest's; where they may stand is the language's.
#pragma once

#include "reference/comprehension/Syntax.h"

namespace tensmith::comprehension {

struct ScheduleLine {
  Place statement; // where it begins; of a whole definition that one
  Place place;     // of the line's words
  std::string text;
  bool isWhole = false;

  /// Whether it is of the statement or definition that begins there.
  bool isOf(Place begin) const {
    return statement.line == begin.line && statement.column == begin.column;
  }
};

/// What comes near to a line of a schedule, as "#Schedule: ", and would be taken for a note.
bool isAlmostSchedule(const Comment &comment);

/// The words of a comment that is a line of a schedule; nothing where it is another comment.
std::optional<ScheduleLine> scheduleLine(const Comment &comment);

/// All lines, in their order. Those that belong to no statement, or only look like one, are
/// messages.
std::vector<ScheduleLine> schedulesOf(const Module &module, const std::vector<Comment> &comments,
                                      std::vector<Message> &messages);

} // namespace tensmith::comprehension
