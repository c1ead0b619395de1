// Regular expressions by RE2, whose time is linear in the text for any pattern.
#include "reference/ExpressionMatcher.h"

#include <re2/re2.h>
#include <string>

extern "C" __attribute__((visibility("default"))) const char *
tensmithMatchTexts(const char *pattern, size_t patternSize, const char *const *texts,
                   const size_t *sizes, size_t count, unsigned char *matches) {
  static thread_local std::string problem;
  re2::RE2::Options options;
  options.set_log_errors(false);
  re2::RE2 expression(re2::StringPiece(pattern, patternSize), options);
  if (!expression.ok()) {
    problem = expression.error();
    return problem.c_str();
  }
  for (size_t i = 0; i < count; ++i)
    matches[i] = re2::RE2::FullMatch(re2::StringPiece(texts[i], sizes[i]), expression);
  return nullptr;
}
