// A plug-in whose rows or operators make one mistake at a time: the rows the one that the
// environment's FAULT names, an operator that of its attribute. Tests say what is to be told of it.
#include "compiler/extend/Registry.h"
#include "compiler/graph/GraphCode.h"
#include "compiler/graph/IndexCode.h"
#include "compiler/graph/Inference.h"
#include "compiler/graph/ScalarCode.h"

#include <cstdlib>

#include "FaultyDialect.h.inc"
#define GET_OP_CLASSES
#include "FaultyOps.h.inc"

#include "FaultyDialect.cpp.inc"
#define GET_OP_CLASSES
#include "FaultyOps.cpp.inc"

using namespace mlir;
using namespace tensmith;

namespace faulty {

void FaultyDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "FaultyOps.cpp.inc"
      >();
}

static LogicalResult infer(Operation *op, StringRef mistake, graph::ShapeContext &shapes,
                           SmallVectorImpl<Type> &results) {
  if (mistake == "refused in silence")
    return failure();
  if (mistake == "no type")
    return success();
  graph::Inference infer(shapes, op, results);
  if (mistake == "two types" && failed(infer.giveSame(0)))
    return failure();
  return infer.giveSame(0);
}
LogicalResult ScalarOp::inferResults(graph::ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  return infer(*this, getMistake(), shapes, results);
}
LogicalResult ElementOp::inferResults(graph::ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  return infer(*this, getMistake(), shapes, results);
}
LogicalResult WholeOp::inferResults(graph::ShapeContext &shapes, SmallVectorImpl<Type> &results) {
  return infer(*this, getMistake(), shapes, results);
}

static Value twice(graph::ScalarCode code, StringRef mistake, Value x) {
  if (mistake == "truth")
    return code.less(x, code.real(x, 0));
  if (mistake == "wide")
    return code.toFloat(x, code.f64());
  if (mistake == "function")
    return code.make<math::CbrtOp>(x);
  return code.add(x, x);
}
Value ScalarOp::emitScalar(OpBuilder &builder, Location location, ValueRange operands) {
  return getMistake() == "reference" || getMistake() == "thrown"
             ? Value()
             : twice({builder, location}, getMistake(), operands[0]);
}
Value ElementOp::emitElement(graph::ElementContext &context, unsigned, ValueRange indices) {
  Value x = context.operand(0, getMistake() == "rank" ? indices.drop_front() : indices);
  return twice({context.builder, context.location}, getMistake(), x);
}
LogicalResult WholeOp::decompose(graph::GraphBuilder &graph, SmallVectorImpl<Value> &results) {
  graph::GraphCode code(graph);
  auto again = [&] {
    return graph.builder.create<WholeOp>(getLoc(), getType(), getX(), getMistake()).getResult();
  };
  if (getMistake() == "itself twice") {
    results.push_back(code.add(again(), again()));
    return success();
  }
  results.push_back(getMistake() == "itself" ? again() : code.add(getX(), getX()));
  return success();
}

static Result<std::vector<HostTensor>> reference(const reference::Invocation &invocation) {
  const HostTensor &x = invocation.operands[0];
  if (invocation.attributes.string("mistake", "") == "reference")
    throw std::runtime_error("out of luck");
  if (invocation.attributes.string("mistake", "") == "thrown")
    throw 7;
  HostTensor y(x.type(), x.shape());
  for (int64_t i = 0; i < y.size(); ++i)
    y.setDouble(i, 2 * x.getDouble(i));
  std::vector<HostTensor> results;
  results.push_back(std::move(y));
  return results;
}
static Value scale(const graph::GradientCode &code, Operation *, Value change, unsigned) {
  return code.add(change, change);
}

static LogicalResult refuse(func::FuncOp, const rewrite::Options &) {
  throw std::runtime_error("out of luck");
}
static LogicalResult mistype(func::FuncOp function, const rewrite::Options &) {
  function.walk([](ScalarOp op) {
    op->getResult(0).setType(RankedTensorType::get({7}, Float64Type::get(op->getContext())));
  });
  return success();
}

static Result<std::unique_ptr<targets::Target>> open(std::string_view) {
  return std::unique_ptr<targets::Target>();
}

static constexpr reference::Entry kReferences[] = {
    {"faulty.scalar", reference}, {"faulty.element", reference}, {"faulty.whole", reference}};
static constexpr graph::ModelName kNames[] = {{"faulty:Scalar", "faulty.scalar"},
                                              {"faulty:Element", "faulty.element"},
                                              {"faulty:Whole", "faulty.whole"}};
static constexpr reference::Entry kMisspelt[] = {{"faulty.skalar", reference}},
                                  kEmpty[] = {{"graph_of_none", nullptr}};
static constexpr graph::NamedGradientRule kMisspeltRule[] = {{"faulty.skalar",
                                                              graph::scaled(scale)}},
                                          kEmptyRule[] = {{"faulty.scalar", {}}};
static constexpr graph::ModelName kMisspeltName[] = {{"faulty:Skalar", "faulty.skalar"}};
static constexpr rewrite::Rewrite kEmptyRewrite[] = {{"faulty-none", "", nullptr,
                                                      "graph-simplify"}},
                                  kThrows[] = {{"faulty-throws", "", refuse, "graph-simplify"}},
                                  kMistypes[] = {
                                      {"faulty-mistypes", "", mistype, "graph-simplify"}};
static constexpr targets::TargetKind kHost[] = {{"host", open}}, kFamily[] = {{"aarch64", open}},
                                     kCpu[] = {{"znver3", open}}, kColon[] = {{"a:b", open}},
                                     kUnopened[] = {{"shut", nullptr}}, kNone[] = {{"none", open}};

} // namespace faulty

TENSMITH_PLUGIN(registry) {
  using namespace faulty;
  const char *fault = std::getenv("FAULT");
  StringRef name = fault ? fault : "";
  if (name == "throws")
    throw std::runtime_error("out of luck");
  registry.addDialect<FaultyDialect>();
  registry.add(kNames);
  if (name != "no reference")
    registry.add(kReferences);
  auto add = [&](StringRef one, const auto &rows) {
    if (name == one)
      registry.add(rows);
  };
  add("misspelt reference", kMisspelt);
  add("empty reference", kEmpty);
  add("misspelt gradient", kMisspeltRule);
  add("empty gradient", kEmptyRule);
  add("misspelt name", kMisspeltName);
  add("empty rewrite", kEmptyRewrite);
  add("rewrite throws", kThrows);
  add("rewrite mistypes", kMistypes);
  add("host", kHost);
  add("family", kFamily);
  add("cpu", kCpu);
  add("colon", kColon);
  add("unopened target", kUnopened);
  add("no target", kNone);
}
