// Programs of several files: `import "path"` has the declarations of another file stand in front.
#pragma once

#include "frontends/text/Ast.h"

#include <set>

namespace tensmith::text {

struct SourceFile {
  std::string name; // for messages
  Place importedAt; // by the program's own file, directly or through others
};
/// By Place::file; the first is the program's own.
using Files = std::vector<SourceFile>;

/// The module with what it imports in front of its own declarations, each file once and without its
/// main. Paths are relative to the file that has them, and those below "tensmith/" are modules of
/// the library (layers/*.tsm); no other file outside of `folder` is read, and none at all where
/// that is empty. What is wrong is told in `messages`.
Module withImports(Module module, const std::string &folder, Files &files,
                   std::vector<Message> &messages);

/// What stands in an imported file means what it means there: `visible` has, for each file, the
/// functions and constants that it and its imports declare. Another one's name is an operator's
/// there ("graph.conv"), or none.
void hideNames(Module &module, const std::vector<std::set<std::string>> &visible,
               std::vector<Message> &messages);

} // namespace tensmith::text
