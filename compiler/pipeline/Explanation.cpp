// A walk over the kernels before they are planned; see Explanation.h.
#include "compiler/pipeline/Explanation.h"

#include "compiler/graph/Dialects.h"
#include "compiler/graph/Evaluate.h"
#include "compiler/graph/Graph.h"
#include "compiler/kernel/Kernel.h"
#include "compiler/libraries/Libraries.h"
#include "compiler/rewrite/Rewrites.h"

#include "llvm/Support/JSON.h"

#include <set>

using namespace mlir;

namespace tensmith::pipeline {
namespace {

namespace json = llvm::json;

json::Array nodesOf(Operation *op) {
  json::Array names;
  for (StringAttr name : graph::nodeNames(op->getLoc()))
    names.push_back(name.getValue());
  return names;
}

std::string nameOf(Operation *op) {
  auto kernel = dyn_cast<graph::KernelOp>(op);
  std::string name = kernel ? kernel.getLabel().str() : graph::operatorName(op).str();
  auto nodes = graph::nodeNames(op->getLoc());
  return nodes.empty() ? name : name + " (" + nodes.front().str() + ")";
}

/// What of an operand that fusion didn't ask about.
std::string reasonOf(Value operand) {
  Operation *producer = operand.getDefiningOp();
  if (!producer)
    return isa<func::FuncOp>(operand.getParentBlock()->getParentOp())
               ? "it is an input of the model"
               : "the loop or branch gives it";
  if (isa<graph::ConstantOp, graph::NoneOp>(producer))
    return "it is a constant";
  if (isa<graph::ReshapeOp>(producer))
    return "a reshape of what lies in memory costs nothing";
  if (auto kernel = dyn_cast<graph::KernelOp>(producer))
    return libraries::libraryOf(kernel).empty()
               ? "the kernel of " + kernel.getKind().str() + " before it was made as a whole"
               : "a library computes it";
  return producer->getNumRegions() ? "it is control flow" : "it is evaluated by reference";
}

json::Array operandsOf(graph::KernelOp kernel) {
  auto refusals = kernel->getAttrOfType<ArrayAttr>(rewrite::kRefusalsAttribute);
  json::Array operands;
  llvm::DenseSet<Value> seen;
  for (auto [number, operand] : llvm::enumerate(kernel.getInputs())) {
    Operation *producer = operand.getDefiningOp();
    if (isa_and_nonnull<graph::ConstantOp, graph::NoneOp>(producer) || !seen.insert(operand).second)
      continue; // weights, which no kernel computes
    StringRef why =
        refusals && number < refusals.size() ? cast<StringAttr>(refusals[number]).getValue() : "";
    operands.push_back(json::Object{{"from", producer ? nameOf(producer) : "an input"},
                                    {"why", why.empty() ? reasonOf(operand) : why.str()}});
  }
  return operands;
}

} // namespace

LibraryRefusal::LibraryRefusal(Operation *op, StringRef library, StringRef why)
    : op(graph::operatorName(op).str()), library(library.str()), why(why.str()) {
  for (StringAttr name : graph::nodeNames(op->getLoc()))
    nodes.push_back(name.str());
}

std::string explanation(ArrayRef<func::FuncOp> functions, const vm::PlanInput &plan,
                        const kernel::Schedules &schedules, ArrayRef<LibraryRefusal> refusals,
                        const kernel::Machine &machine) {
  json::Array kernels, byReference;
  std::set<std::string> keys; // of kernels: what else was chosen was decided
  for (func::FuncOp function : functions)
    function.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (auto kernel = dyn_cast<graph::KernelOp>(op)) {
        StringRef library = libraries::libraryOf(kernel);
        keys.insert(kernel::keyOf(kernel, schedules.conditions()));
        kernels.push_back(
            json::Object{{"kernel", kernel.getLabel()},
                         {"nodes", nodesOf(op)},
                         {"by", library.empty() ? plan.kernel(kernel).schedule : library.str()},
                         {"operands", operandsOf(kernel)}});
        return WalkResult::skip();
      }
      bool isPart = isa<graph::ConstantOp, graph::NoneOp, graph::ReshapeOp, graph::CheckOp,
                        graph::YieldOp, graph::LoopOp, graph::IfOp>(op);
      if (graph::isOperator(op) && !isPart)
        byReference.push_back(json::Object{
            {"operator", graph::operatorName(op)},
            {"nodes", nodesOf(op)},
            {"why", !rewrite::hasKnownSizes(op)    ? "its sizes are known only once it has run"
                    : kernel::canEmit(op, machine) ? "its kernel could not be emitted for its types"
                                                   : "there is no kernel's code for it"}});
      return WalkResult::advance();
    });
  auto chosen = json::parse(schedules.json());
  json::Array decisions;
  for (json::Value &entry : *chosen->getAsArray())
    if (const json::Object *object = entry.getAsObject();
        !keys.contains(object->getString("key").value_or("").str()))
      decisions.push_back(std::move(entry));
  json::Array libraries;
  for (const LibraryRefusal &refusal : refusals)
    libraries.push_back(json::Object{{"operator", refusal.op},
                                     {"nodes", json::Array(refusal.nodes)},
                                     {"library", refusal.library},
                                     {"why", refusal.why}});
  std::string text;
  llvm::raw_string_ostream(text) << json::Value(
      json::Object{{"kernels", std::move(kernels)},
                   {"by_reference", std::move(byReference)},
                   {"libraries", std::move(libraries)},
                   {"decisions", std::move(decisions)}});
  return text;
}

} // namespace tensmith::pipeline
