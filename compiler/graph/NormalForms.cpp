// Normal forms of sizes, each computed once; see NormalForms.h.
#include "compiler/graph/NormalForms.h"

#include "mlir/IR/Dialect.h"

using namespace mlir;

namespace tensmith::graph {

NormalForms *NormalForms::of(MLIRContext *context) {
  Dialect *dialect = context->getLoadedDialect("graph");
  return dialect ? dialect->getRegisteredInterface<NormalForms>() : nullptr;
}

AffineExpr NormalForms::whole(AffineExpr size, llvm::function_ref<AffineExpr(AffineExpr)> compute) {
  {
    std::lock_guard lock(mutex_);
    if (AffineExpr known = whole_.lookup(size))
      return known;
  }
  AffineExpr found = compute(size);
  std::lock_guard lock(mutex_);
  return whole_.try_emplace(size, found).first->second;
}

Polynomial NormalForms::quotient(AffineExpr quotient,
                                 llvm::function_ref<Polynomial(AffineExpr)> compute) {
  const void *key = quotient.getAsOpaquePointer();
  auto known = [&]() -> const Polynomial * {
    std::lock_guard lock(mutex_);
    auto found = quotients_.find(key);
    return found == quotients_.end() ? nullptr : &found->second;
  };
  if (const Polynomial *found = known())
    return *found;
  Polynomial found = compute(quotient);
  std::lock_guard lock(mutex_);
  return quotients_.try_emplace(key, std::move(found)).first->second;
}

const std::string &NormalForms::text(AffineExpr expression) {
  std::lock_guard lock(mutex_);
  auto [known, isNew] = texts_.try_emplace(expression.getAsOpaquePointer());
  if (isNew)
    known->second = textOf(expression);
  return known->second;
}

} // namespace tensmith::graph
