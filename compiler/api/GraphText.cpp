// Parses and checks the graph dialect's text; see GraphText.h.
#include "compiler/api/GraphText.h"

#include "compiler/api/TextScopes.h"
#include "compiler/graph/Constants.h"
#include "compiler/graph/Dialects.h"
#include "compiler/graph/Graph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;

namespace tensmith {
namespace {

std::string place(Location location) {
  if (auto file = dyn_cast<FileLineColLoc>(location))
    return file.getFilename().str() + ":" + std::to_string(file.getLine());
  std::string text;
  llvm::raw_string_ostream stream(text);
  location.print(stream);
  return text;
}

template <typename Printed> std::string quoted(const Printed &printed) {
  std::string text;
  llvm::raw_string_ostream(text) << printed;
  return "'" + text + "'";
}

Status invalid(Operation *op, const std::string &why) {
  return {StatusCode::InvalidModel,
          place(op->getLoc()) + ": " + quoted(op->getName().getStringRef()) + " " + why};
}

bool isTensor(Type type) {
  auto tensor = dyn_cast<TensorType>(type);
  if (!tensor || graph::dataType(tensor.getElementType()) == DataType::Undefined)
    return false;
  auto ranked = dyn_cast<RankedTensorType>(type);
  if (!ranked)
    return true;
  if (auto encoding = ranked.getEncoding()) {
    auto dims = dyn_cast<graph::DimsAttr>(encoding);
    if (!dims || int64_t(dims.getMap().getNumResults()) != ranked.getRank())
      return false;
  }
  Shape known;
  for (int64_t size : ranked.getShape())
    if (!ShapedType::isDynamic(size))
      known.push_back(size);
  return elementCount(known).has_value();
}

bool isValue(Type type) {
  if (auto sequence = dyn_cast<graph::SequenceType>(type))
    return isValue(sequence.getElement());
  if (auto optional = dyn_cast<graph::OptionalType>(type))
    return isValue(optional.getElement());
  if (auto map = dyn_cast<graph::MapType>(type))
    return (map.getKey().isSignlessInteger(64) || isa<graph::StringType>(map.getKey())) &&
           graph::dataType(map.getValue()) != DataType::Undefined;
  return isa<NoneType>(type) || isTensor(type);
}

Status checkTypes(Operation *op, TypeRange types) {
  for (Type type : types)
    if (!isValue(type))
      return invalid(op, "has a value of type " + quoted(type) +
                             ", which is no tensor, sequence, map or optional of known elements");
  return {};
}

Status checkRegions(Operation *op) {
  for (Region &region : op->getRegions()) {
    if (!region.hasOneBlock())
      return invalid(op, "has a region of " +
                             std::to_string(std::distance(region.begin(), region.end())) +
                             " blocks; it must have one");
    if (Status status = checkTypes(op, region.front().getArgumentTypes()); !status.ok())
      return status;
  }
  return {};
}

Status checkOperator(Operation *op) {
  if (!isa<func::ReturnOp>(op) && !graph::isOperator(op))
    return invalid(op, "is no operator of the graph dialect");
  if (Status status = checkTypes(op, op->getResultTypes()); !status.ok())
    return status;
  return checkRegions(op);
}

Status checkMain(func::FuncOp function) {
  if (function.getSymName() != "main")
    return invalid(function, "declares @" + function.getSymName().str() +
                                 "; a model has the function @main alone");
  if (function.isExternal())
    return invalid(function, "declares @main without a body");
  if (Status status = checkRegions(function); !status.ok())
    return status;
  Status status;
  function.getBody().walk([&](Operation *op) {
    status = checkOperator(op);
    return status.ok() ? WalkResult::advance() : WalkResult::interrupt();
  });
  return status;
}

Status checkModule(ModuleOp module, const std::string &name) {
  bool found = false;
  for (Operation &op : *module.getBody()) {
    auto function = dyn_cast<func::FuncOp>(op);
    Status status =
        function ? checkMain(function) : invalid(&op, "stands where a function is expected");
    if (!status.ok())
      return status;
    found = true;
  }
  return found ? Status() : Status(StatusCode::InvalidModel, name + ": has no function @main");
}

} // namespace

bool isGraphText(std::string_view bytes) {
  size_t start = bytes.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos)
    return false;
  std::string_view rest = bytes.substr(start);
  for (std::string_view word : {"//", "module", "func.func", "builtin.module", "#", "!"})
    if (rest.starts_with(word))
      return true;
  return false;
}

Result<OwningOpRef<ModuleOp>> parseGraphText(std::string_view text, const std::string &name,
                                             MLIRContext &context) {
  if (Status status = checkScopes(text, name); !status.ok())
    return status;
  std::string message;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (message.empty())
      message = place(diagnostic.getLocation()) + ": " + diagnostic.str();
    return success();
  });
  auto module = parseSourceString<ModuleOp>(StringRef(text.data(), text.size()), &context, name);
  if (!module)
    return Status(StatusCode::InvalidModel,
                  message.empty() ? name + ": is no text of the graph dialect" : message);
  if (Status status = checkModule(*module, name); !status.ok())
    return status;
  return module;
}

} // namespace tensmith
