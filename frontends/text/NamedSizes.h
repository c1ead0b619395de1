// Sizes that a function's parameters have in common by name, as n in fn f(x: f32[n], y: f32[n]).
//
// Where a caller's types tell both, inference compares them. A caller that has `?` tells nothing:
// then the function itself looks, when it is called.
#pragma once

#include "frontends/text/Ast.h"

namespace tensmith::text {

struct ParameterSize {
  size_t parameter;
  int64_t dimension;
};
struct AgreeingSizes {
  std::string name;
  ParameterSize first, other;
};
/// Of each name the first place, and every other one.
std::vector<AgreeingSizes> agreeingSizes(const FunctionDecl &function);

} // namespace tensmith::text
