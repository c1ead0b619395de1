// Reference evaluation of regex_full_match, by RE2: its time is linear in the text for any pattern.
#include "reference/Text.h"

#ifdef TENSMITH_RE2
#include <re2/re2.h>
#endif

namespace tensmith::reference {

Outcome evaluateRegexFullMatch(const Invocation &invocation) {
#ifdef TENSMITH_RE2
  Workspace workspace(invocation);
  const HostTensor &x = stringOperand(workspace, 0, "x");
  HostTensor y = workspace.allocate(DataType::Bool, x.shape());
  re2::RE2::Options options;
  options.set_log_errors(false);
  re2::RE2 pattern(invocation.attributes.string("pattern"), options);
  if (!pattern.ok())
    workspace.rejectAttribute("pattern", "is no regular expression: " + pattern.error());
  for (int64_t i = 0; workspace.ok() && i < x.size(); ++i)
    y.setInt(i, re2::RE2::FullMatch(x.getString(i), pattern));
  return workspace.finish(std::move(y));
#else
  (void)invocation;
  return unsupported("regex_full_match: this build has no RE2; install libre2-dev and build again");
#endif
}

} // namespace tensmith::reference
