// Reference evaluation of regex_full_match: the expressions' library is loaded from beside this one
// when it is first needed.
#include "reference/Companion.h"
#include "reference/ExpressionMatcher.h"
#include "reference/Text.h"

namespace tensmith::reference {

Outcome evaluateRegexFullMatch(const Invocation &invocation) {
  constexpr const char *kLibrary = "libtensmith_expressions.so";
  static auto *match =
      reinterpret_cast<TensmithMatchTexts *>(companionFunction(kLibrary, "tensmithMatchTexts"));
  if (!match)
    return unsupported(std::string("regex_full_match: ") + kLibrary +
                       " is not beside the runtime; install it, or build it with the packages of "
                       "scripts/packages.debian");
  Workspace workspace(invocation);
  const HostTensor &x = stringOperand(workspace, 0, "x");
  HostTensor y = workspace.allocate(DataType::Bool, x.shape());
  if (!workspace.ok())
    return workspace.status();
  std::vector<std::string> strings;
  std::vector<const char *> texts;
  std::vector<size_t> sizes;
  for (int64_t i = 0; i < x.size(); ++i)
    strings.push_back(std::string(x.getString(i)));
  for (const std::string &text : strings) {
    texts.push_back(text.data());
    sizes.push_back(text.size());
  }
  std::vector<unsigned char> matches(strings.size());
  std::string pattern = invocation.attributes.string("pattern");
  if (const char *problem = match(pattern.data(), pattern.size(), texts.data(), sizes.data(),
                                  texts.size(), matches.data()))
    workspace.rejectAttribute("pattern", std::string("is no regular expression: ") + problem);
  for (int64_t i = 0; workspace.ok() && i < x.size(); ++i)
    y.setInt(i, matches[size_t(i)]);
  return workspace.finish(std::move(y));
}

} // namespace tensmith::reference
