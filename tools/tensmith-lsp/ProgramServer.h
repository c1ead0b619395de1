// A language server for programs of the language (.tsm) and comprehensions (.tc): messages as they
// are written, types under the cursor, names to go on with, and the layout (the Language Server
// Protocol 3.17, over stdin and stdout).
#pragma once

namespace tensmith::lsp {

/// Serves until the client says exit or goes away. 0 where it had said shutdown before.
int serve();

} // namespace tensmith::lsp
