// Names in the types of parameters; see NamedSizes.h.
#include "frontends/text/NamedSizes.h"

#include <map>

namespace tensmith::text {

std::vector<AgreeingSizes> agreeingSizes(const FunctionDecl &function) {
  std::vector<AgreeingSizes> result;
  std::map<std::string, ParameterSize> known;
  for (size_t i = 0; i < function.params.size(); ++i) {
    const TypeExpr *type = function.params[i].type.get();
    if (!type || type->kind != TypeExpr::Kind::Tensor)
      continue;
    for (size_t dim = 0; dim < type->dims.size(); ++dim) {
      const DimExpr &size = type->dims[dim];
      if (size.kind != DimExpr::Kind::Name)
        continue;
      ParameterSize here{i, int64_t(dim)};
      auto [first, isNew] = known.try_emplace(size.name, here);
      if (!isNew)
        result.push_back({size.name, first->second, here});
    }
  }
  return result;
}

} // namespace tensmith::text
