// Drawing operands, compiling and comparing; see TemplateCase.h.
#include "compiler/pipeline/test/TemplateCase.h"

#include "compiler/graph/Constants.h"
#include "compiler/graph/Dialects.h"
#include "compiler/graph/Evaluate.h"
#include "compiler/pipeline/Compile.h"
#include "compiler/targets/Target.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace tensmith::pipeline {
namespace {

/// One for all cases: what it has interned is small, and making one takes as long as a case.
MLIRContext *sharedContext() {
  static MLIRContext *context = [] {
    DialectRegistry registry;
    graph::registerDialects(registry);
    targets::registerDialects(registry);
    auto *made = new MLIRContext(registry, MLIRContext::Threading::DISABLED);
    made->loadAllAvailableDialects();
    return made;
  }();
  return context;
}

double drawReal(std::mt19937 &random) { return double(random() % 4096) / 1024 - 2; }

bool agree(double got, double wanted, double tolerance) {
  if (std::isnan(wanted) || std::isinf(wanted))
    return got == wanted || (std::isnan(got) && std::isnan(wanted));
  return std::abs(got - wanted) <= tolerance * (1 + std::abs(wanted));
}

/// The first element that differs, in words; empty where there is none.
std::string firstDifference(const HostTensor &got, const HostTensor &wanted, double tolerance) {
  if (got.type() != wanted.type() || got.shape() != wanted.shape())
    return "is " + runtime::describe(got.type(), got.shape()) + ", not " +
           runtime::describe(wanted.type(), wanted.shape());
  int64_t first = -1, count = 0;
  for (int64_t i = 0; i < got.size(); ++i) {
    bool equal = isFloat(got.type()) ? agree(got.getDouble(i), wanted.getDouble(i), tolerance)
                                     : got.getInt(i) == wanted.getInt(i);
    if (!equal && count++ == 0)
      first = i;
  }
  if (count == 0)
    return {};
  return std::to_string(count) + " elements of " + runtime::describe(got.type(), got.shape()) +
         " differ; number " + std::to_string(first) + " is " +
         std::to_string(got.getDouble(first)) + ", not " + std::to_string(wanted.getDouble(first));
}

std::string textOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, OpPrintingFlags().elideLargeElementsAttrs(8).elideLargeResourceString(8));
  return text;
}

} // namespace

Dims dimsOf(const Shape &shape) { return Dims(shape.begin(), shape.end()); }

double roundingOf(DataType type) {
  switch (type) {
  case DataType::F64:
    return 1e-12;
  case DataType::F16:
    return 0x1p-10;
  case DataType::BF16:
    return 0x1p-7;
  default:
    return 2e-6;
  }
}

TemplateCase::TemplateCase(unsigned seed)
    : random(seed), context(sharedContext()),
      module(ModuleOp::create(NameLoc::get(StringAttr::get(context, "case")))), builder(context),
      shapes(context), graph(builder, shapes, module->getLoc()), seed_(seed) {
  builder.setInsertionPointToEnd(module->getBody());
  function =
      builder.create<func::FuncOp>(module->getLoc(), "main", builder.getFunctionType({}, {}));
  builder.setInsertionPointToStart(function.addEntryBlock());
}

Value TemplateCase::input(DataType type, const Dims &dims, Fill fill, int64_t bound) {
  SmallVector<AffineExpr> sizes;
  for (const Dim &dim : dims)
    sizes.push_back(dim.symbol.empty() ? shapes.constant(dim.size)
                                       : shapes.symbol(builder.getStringAttr(dim.symbol)));
  inputs_.push_back({type, dims, fill, bound});
  return function.getBody().front().addArgument(
      shapes.tensorType(graph::elementType(context, type), sizes), module->getLoc());
}

Value TemplateCase::constant(DataType type, const Shape &shape, Fill fill, int64_t bound) {
  return graph.constant(draw(type, shape, fill, bound));
}

Value TemplateCase::scalar(DataType type, double value) {
  HostTensor tensor(type, {});
  isFloat(type) ? tensor.setDouble(0, value) : tensor.setInt(0, int64_t(value));
  return graph.constant(tensor);
}

Value TemplateCase::op(llvm::StringRef name, ValueRange operands,
                       ArrayRef<NamedAttribute> attributes) {
  Operation *made = nullptr;
  if (llvm::all_of(operands, [](Value value) { return bool(value); }))
    made = graph.create(("graph." + name).str(), operands, attributes);
  if (!made)
    broken_ = true;
  return made ? made->getResult(0) : Value();
}

Value TemplateCase::transposeLast(Value x) {
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, rank(x)));
  std::swap(order[order.size() - 2], order.back());
  return op("transpose", x, i64s("permutation", order));
}

Shape TemplateCase::shape(Value value) const {
  auto sizes = cast<RankedTensorType>(value.getType()).getShape();
  return {sizes.begin(), sizes.end()};
}
DataType TemplateCase::type(Value value) const {
  return graph::dataType(getElementTypeOrSelf(value.getType()));
}
NamedAttribute TemplateCase::i64(llvm::StringRef name, int64_t value) {
  return graph.named(name, builder.getI64IntegerAttr(value));
}
NamedAttribute TemplateCase::i64s(llvm::StringRef name, ArrayRef<int64_t> values) {
  return graph.named(name, builder.getDenseI64ArrayAttr(values));
}
NamedAttribute TemplateCase::flag(llvm::StringRef name, bool value) {
  return graph.named(name, builder.getBoolAttr(value));
}
NamedAttribute TemplateCase::text(llvm::StringRef name, llvm::StringRef value) {
  return graph.named(name, builder.getStringAttr(value));
}

HostTensor TemplateCase::draw(DataType type, const Shape &shape, Fill fill, int64_t bound) {
  HostTensor tensor(type, shape);
  bool isSigned = info(type).kind == TypeClass::Signed || isFloat(type);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    int64_t whole = isSigned ? between(-3, 3) : between(0, type == DataType::Bool ? 1 : 3);
    if (fill == Fill::Signs)
      whole = chance(4) ? 2 : isSigned && chance(50) ? -1 : 1;
    if (fill == Fill::Index)
      whole = between(-bound, bound - 1);
    double real = fill == Fill::Real || fill == Fill::Masked ? drawReal(random) : double(whole);
    if (fill == Fill::Masked && chance(25))
      real = -std::numeric_limits<double>::infinity();
    isFloat(type) ? tensor.setDouble(i, real) : tensor.setInt(i, whole);
  }
  return tensor;
}

void TemplateCase::evaluate(const Sizes &sizes, std::vector<Run> &runs) {
  Run run{sizes, {}, {}};
  for (const Input &input : inputs_) {
    Shape shape;
    for (const Dim &dim : input.dims)
      shape.push_back(dim.symbol.empty() ? dim.size : sizes.at(dim.symbol));
    run.inputs.push_back(draw(input.type, shape, input.fill, input.bound));
  }
  auto results = graph::evaluate(function, {run.inputs.begin(), run.inputs.end()});
  ASSERT_TRUE(results.ok()) << results.status().message() << "\n" << text_;
  for (graph::RuntimeValue &value : *results)
    run.expected.push_back(value.tensor);
  runs.push_back(std::move(run));
}

void TemplateCase::compare(std::span<const std::byte> bytes, std::span<const Run> runs,
                           double tolerance) {
  auto loaded = runtime::Module::loadBytes(bytes, {});
  ASSERT_TRUE(loaded.ok()) << loaded.status().message() << "\n" << text_;
  for (int threads : {1, 3}) {
    runtime::Session session(*loaded, threads);
    for (const Run &run : runs) {
      std::string at = std::to_string(threads) + (threads == 1 ? " thread" : " threads");
      for (const auto &[name, size] : run.sizes)
        at += ", " + name + " = " + std::to_string(size);
      at += ", " + text_;
      auto side = threads == 1 ? Against::End : Against::Begin;
      ASSERT_NO_FATAL_FAILURE(compare(session, run, side, tolerance, at));
    }
  }
}

void TemplateCase::compare(runtime::Session &session, const Run &run, Against side,
                           double tolerance, const std::string &at) {
  std::vector<runtime::TensorRef> inputs, outputs;
  for (const HostTensor &input : run.inputs) {
    inputs.push_back(guardedTensor(input.type(), input.shape(), side));
    ASSERT_TRUE(inputs.back());
    std::copy_n(input.data(), input.bytes(), inputs.back()->data());
  }
  const HostTensor &wanted = run.expected[0];
  outputs.push_back(guardedTensor(wanted.type(), wanted.shape(), side));
  ASSERT_TRUE(outputs.back());
  ReportOnFault report(at);
  Status status = session.run(inputs, outputs);
  ASSERT_TRUE(status.ok()) << status.message() << "\n" << at;
  ASSERT_EQ(firstDifference(runtime::toHostTensor(outputs[0]), wanted, tolerance), "") << at;
}

void TemplateCase::check(Value result, llvm::StringRef kind, double tolerance,
                         const std::vector<Sizes> &sizes) {
  ASSERT_FALSE(broken_ || !result) << "the case of seed " << seed_ << " is no graph\n"
                                   << textOf(*module);
  builder.create<func::ReturnOp>(module->getLoc(), result);
  function.setType(builder.getFunctionType(function.getBody().front().getArgumentTypes(),
                                           TypeRange(ValueRange(result))));
  text_ = "seed " + std::to_string(seed_) + "\n" + textOf(*module);
  std::vector<Run> runs;
  for (const Sizes &one : sizes)
    ASSERT_NO_FATAL_FAILURE(evaluate(one, runs));
  CompileOptions options;
  options.threads = 1;
  options.target = target;
  auto bytes = compileToBytes(*module, options);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message() << "\n" << text_;
  std::string kinds;
  bool found = kind.empty();
  function.walk([&](graph::KernelOp kernel) {
    kinds += " " + kernel.getKind().str();
    found |= kernel.getKind() == kind;
  });
  EXPECT_TRUE(found) << "no kernel is of kind " << kind.str() << ", but:" << kinds << "\n" << text_;
  compare(std::as_bytes(std::span(*bytes)), runs, tolerance);
}

} // namespace tensmith::pipeline
