// Tables of procedures and of their versions; see Versions.h.
#include "compiler/program/Versions.h"

#include "compiler/graph/Dialects.h"
#include "compiler/graph/Graph.h"
#include "compiler/program/Program.h"

using namespace mlir;

namespace tensmith::program {

constexpr int64_t kShort = 200, kLong = 1 << 20; // operators

Sources::Sources(ModuleOp module) : holder_(ModuleOp::create(module.getLoc())) {
  module.walk([&](Operation *op) {
    auto call = dyn_cast<CallOp>(op);
    if (isa<ReferenceOp, ReadOp, WriteOp>(op) || (call && call.getEffectful()) ||
        (isa<ApplyOp>(op) && cast<ApplyOp>(op).getEffectful()))
      effectful_.insert(op->getParentOfType<func::FuncOp>().getName());
    ++size_;
  });
  for (auto function : module.getOps<func::FuncOp>())
    if (isProcedure(function))
      all_.push_back(function);
  for (func::FuncOp procedure : all_) {
    procedures_[procedure.getName()] = procedure;
    procedure->remove();
    holder_->push_back(procedure);
  }
}

bool Sources::isShort(StringRef symbol) { return lengthOf(symbol) <= kShort; }

/// kLong where it branches or calls what isn't known; so a recursion, which is met again.
int64_t Sources::lengthOf(StringRef symbol) {
  if (auto [found, isNew] = lengths_.try_emplace(symbol, kLong); !isNew)
    return found->second;
  int64_t length = 0;
  for (Operation &op : find(symbol).getBody().front().without_terminator()) {
    auto call = dyn_cast<CallOp>(&op);
    bool straight = graph::isOperator(&op) || isa<ConstructOp, FieldOp, ClosureOp>(op);
    length += call ? lengthOf(call.getProcedure()) : straight ? 1 : kLong;
    if (length > kShort)
      return kLong;
  }
  return lengths_[symbol] = length;
}

Version &Versions::of(func::FuncOp source, std::vector<Knowledge> known, Version *maker) {
  for (auto [index, one] : llvm::enumerate(known))
    if (one.isDynamic())
      one.type = source.getArgumentTypes()[index];
  bool generic = allDynamic(known);
  std::string name = source.getName().str(), key = generic ? name : name + keyOf(known);
  if (auto found = byKey_.find(key); found != byKey_.end())
    return *found->second;
  int &count = counts_[name];
  if (!generic && count >= bounds_.versions) {
    for (auto [index, one] : llvm::enumerate(known)) {
      one = {};
      one.type = source.getArgumentTypes()[index];
    }
    return of(source, std::move(known), maker);
  }
  Version &version = versions_.emplace_back();
  version.symbol = generic ? name : name + ".v" + std::to_string(count++);
  version.source = source;
  version.known = std::move(known);
  version.key = key;
  version.maker = maker;
  byKey_[key] = bySymbol_[version.symbol] = &version;
  return version;
}

Version *Versions::named(StringRef symbol) {
  if (Version *version = bySymbol_.lookup(symbol))
    return version;
  func::FuncOp source = sources_.find(symbol);
  if (!source)
    return nullptr;
  std::vector<Knowledge> nothing(source.getNumArguments());
  return &of(source, std::move(nothing), nullptr);
}

} // namespace tensmith::program
