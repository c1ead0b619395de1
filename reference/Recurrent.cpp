// Reference evaluation of recurrent layers: rnn, gru and lstm as ONNX defines them.
#include "reference/Reference.h"

namespace tensmith::reference {

std::span<const Entry> recurrentEntries() { return {}; }

} // namespace tensmith::reference
