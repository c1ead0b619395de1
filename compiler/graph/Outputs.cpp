// More results for a function; see Outputs.h.
#include "compiler/graph/Outputs.h"

#include "compiler/graph/Evaluate.h"
#include "compiler/graph/Graph.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace tensmith::graph {

static FileLineColLoc placeOf(Location location) {
  FileLineColLoc place;
  location->walk([&](Location part) {
    place = dyn_cast<FileLineColLoc>(part);
    return place ? WalkResult::interrupt() : WalkResult::advance();
  });
  return place;
}

bool isIntermediate(Value value, func::FuncOp function) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getParentOp() != function || isa<ConstantOp>(op) ||
      !isa<TensorType, SequenceType>(value.getType()))
    return false;
  return llvm::none_of(value.getUsers(), [](Operation *user) { return isa<func::ReturnOp>(user); });
}

std::vector<NamedValue> intermediatesByPlace(func::FuncOp function) {
  std::vector<NamedValue> result;
  for (Operation &op : function.getBody().front().without_terminator())
    for (OpResult value : op.getResults()) {
      if (!isIntermediate(value, function))
        continue;
      FileLineColLoc place = placeOf(op.getLoc());
      std::string name =
          place ? std::to_string(place.getLine()) + ":" + std::to_string(place.getColumn())
                : describe(op.getLoc());
      if (value.getResultNumber())
        name += "#" + std::to_string(value.getResultNumber());
      result.push_back({std::move(name), value});
    }
  return result;
}

std::string sourceOf(Value value) {
  FileLineColLoc place = placeOf(value.getLoc());
  if (!place)
    return describe(value.getLoc());
  std::string file = place.getFilename().str(), line = std::to_string(place.getLine());
  if (isa<NameLoc>(value.getLoc()))
    return describe(value.getLoc()) + ", number " + line + " of " + file;
  return file + ":" + line + ":" + std::to_string(place.getColumn());
}

void addOutputs(func::FuncOp function, std::vector<NamedValue> values) {
  // What no operator computes is there from the beginning.
  auto before = [](const NamedValue &a, const NamedValue &b) {
    Operation *first = a.value.getDefiningOp(), *second = b.value.getDefiningOp();
    return first && second && first != second ? first->isBeforeInBlock(second) : !first && second;
  };
  llvm::stable_sort(values, before);
  Operation *exit = function.getBody().front().getTerminator();
  SmallVector<Type> types(function.getResultTypes());
  size_t own = types.size();
  for (const NamedValue &named : values) {
    exit->insertOperands(exit->getNumOperands(), named.value);
    types.push_back(named.value.getType());
  }
  SmallVector<DictionaryAttr> attributes;
  function.getAllResultAttrs(attributes);
  attributes.resize(types.size(), DictionaryAttr::get(function.getContext()));
  function.setFunctionType(
      FunctionType::get(function.getContext(), function.getArgumentTypes(), types));
  function.setAllResultAttrs(attributes);
  Builder builder(function.getContext());
  for (auto [i, named] : llvm::enumerate(values)) {
    auto index = unsigned(own + i);
    function.setResultAttr(index, "graph.name", builder.getStringAttr(named.name));
  }
}

OwningOpRef<ModuleOp> moduleOf(ArrayRef<Operation *> operators, ValueRange inputs,
                               ValueRange results) {
  Location location = results.front().getLoc();
  OwningOpRef<ModuleOp> module = ModuleOp::create(location);
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  auto type = builder.getFunctionType(inputs.getTypes(), results.getTypes());
  auto function = builder.create<func::FuncOp>(location, "main", type);
  Block *block = function.addEntryBlock();
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    function.setArgAttr(i, "graph.name", builder.getStringAttr("x" + Twine(i)));
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    function.setResultAttr(i, "graph.name",
                           builder.getStringAttr(Twine("y") + (i ? Twine(i) : Twine())));
  builder.setInsertionPointToEnd(block);
  IRMapping copies;
  copies.map(inputs, block->getArguments());
  for (Operation *op : operators)
    builder.clone(*op, copies);
  SmallVector<Value> given;
  for (Value result : results)
    given.push_back(copies.lookup(result));
  builder.create<func::ReturnOp>(location, given);
  return module;
}

} // namespace tensmith::graph
