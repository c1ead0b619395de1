// The table that generate_operators.py makes of the records.
#include "frontends/text/Operators.h"

#include "frontends/text/Ast.h"

#include <algorithm>

namespace tensmith::text {

const std::vector<OperatorInfo> &allOperators() {
  static const std::vector<OperatorInfo> operators = {
#include "frontends/text/operators.inc"
  };
  return operators;
}

const OperatorInfo *findOperator(std::string_view name) {
  const auto &operators = allOperators();
  if (name.starts_with(kOperatorPrefix))
    name.remove_prefix(sizeof(kOperatorPrefix) - 1);
  auto found = std::find_if(operators.begin(), operators.end(),
                            [&](const OperatorInfo &info) { return info.name == name; });
  return found == operators.end() ? nullptr : &*found;
}

} // namespace tensmith::text
