// The rest of a step whose gradients are computed elsewhere, as a module of its own; see Updates.h.
//
// Between the two halves of a step the gradients of several processes are summed, and a process may
// update a part of the parameters alone: a slice of a vector that has several of them one after the
// other. What an optimiser does to an element must then not depend on the others.
#include "compiler/training/Updates.h"

#include "compiler/graph/Graph.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;

namespace tensmith::training {
namespace {

using graph::GraphCode;

/// The first operator that mixes elements of what has any dimension; null where there is none.
Operation *mixing(Block &block) {
  for (Operation &op : block.without_terminator()) {
    bool scalar = llvm::all_of(op.getOperandTypes(), [](Type type) {
      auto ranked = dyn_cast<RankedTensorType>(type);
      return ranked && ranked.getRank() == 0;
    });
    if (!scalar && !isa<graph::Elementwise>(op))
      return &op;
  }
  return nullptr;
}

struct Gradients {
  std::vector<Parameter> parameters;
  SmallVector<Value> gradients;
};

Result<Gradients> addTensors(StepFunction &function, ArrayRef<Updated> tensors, GraphCode &code) {
  Gradients result;
  std::vector<Value> given;
  for (const Updated &tensor : tensors) {
    auto gradient = function.addInput("gradient." + tensor.name, tensor.type);
    if (!gradient.ok())
      return gradient.status();
    given.push_back(*gradient);
  }
  auto scale = function.addInput("scale", RankedTensorType::get({}, code.builder.getF32Type()));
  if (!scale.ok())
    return scale.status();
  for (auto [tensor, gradient] : llvm::zip_equal(tensors, given)) {
    auto state = function.addState(tensor.name, tensor.type, StateKind::Parameter, {});
    if (!state.ok())
      return state.status();
    result.parameters.push_back({tensor.name, *state});
    result.gradients.push_back(code.mul(gradient, code.cast(*scale, GraphCode::element(gradient))));
  }
  return result;
}

Status build(func::FuncOp main, ArrayRef<Updated> tensors, const Options &options) {
  StepFunction function(main);
  OpBuilder builder = OpBuilder::atBlockTerminator(&function.block());
  graph::ShapeContext shapes(main.getContext());
  graph::GraphBuilder graph(builder, shapes, main.getLoc());
  GraphCode code(graph);
  auto added = addTensors(function, tensors, code);
  if (!added.ok())
    return added.status();
  auto count = function.addState("step", RankedTensorType::get({}, builder.getI64Type()),
                                 StateKind::Step, {});
  if (!count.ok())
    return count.status();
  Options unclipped = options;
  unclipped.clipNorm = 0;
  auto programs = readPrograms(unclipped, main.getContext());
  if (!programs.ok())
    return programs.status();
  return addUpdates(function, {added->parameters, added->gradients, {}}, *count, unclipped,
                    *programs, code);
}

} // namespace

Result<OwningOpRef<ModuleOp>> makeUpdate(ArrayRef<Updated> tensors, const Options &options,
                                         bool parts, MLIRContext &context) {
  std::string problem;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (problem.empty())
      problem = diagnostic.str();
    return success();
  });
  Location location = UnknownLoc::get(&context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(location);
  OpBuilder builder(module->getBodyRegion());
  auto main = builder.create<func::FuncOp>(location, "main", builder.getFunctionType({}, {}));
  builder.setInsertionPointToStart(main.addEntryBlock());
  builder.create<func::ReturnOp>(location);
  if (Status status = build(main, tensors, options); !status.ok())
    return status;
  if (!problem.empty())
    return Status(StatusCode::Internal, problem);
  if (Operation *op = parts ? mixing(main.getBody().front()) : nullptr)
    return unsupported("the optimiser " + options.optimiser + " reads several elements of a " +
                       "parameter to update one (" + op->getName().getStringRef().str() +
                       "), and so can't update a part of it by itself");
  return std::move(module);
}

} // namespace tensmith::training
