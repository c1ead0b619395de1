// What the compiler's library says of itself: the version of each part, for whoever reports a fault
// or looks for one.
#include "compiler/api/Boundary.h"
#include "runtime/Json.h"
#include "runtime/ModuleFormat.h"

#include <tensmith/compiler.h>
#include <tensmith/tensmith.h>

#include "llvm/Config/llvm-config.h"

using namespace tensmith;

ts_status *ts_describe_compiler(char **json) {
  return guarded([&]() -> Status {
    if (!json)
      return missing("the result");
    runtime::JsonWriter description;
    description.open('{');
    description.key("version").value(ts_version());
    description.key("llvm").value(LLVM_VERSION_STRING);
#ifdef NDEBUG
    description.key("assertions").raw("false");
#else
    description.key("assertions").raw("true");
#endif
    description.key("module_format")
        .value(std::to_string(runtime::kFormatMajor) + "." + std::to_string(runtime::kFormatMinor));
    return copyText(description.close('}').take(), json);
  });
}
