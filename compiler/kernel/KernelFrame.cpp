// The functions around a template's loops; see KernelFrame.h.
#include "compiler/kernel/KernelFrame.h"

#include "compiler/kernel/Redundancy.h"
#include "runtime/KernelAbi.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <cmath>
#include <set>

using namespace mlir;

namespace tensmith::kernel {
namespace {

constexpr char kBodySymbol[] = "tensmith_kernel.body";
constexpr char kInnerSymbol[] = "tensmith_kernel.inner";

struct Frame {
  OpBuilder builder;
  Location location;
  ModuleOp module;
  std::vector<StringAttr> symbols;
  size_t operandCount;
  Type pointer, i64;

  Frame(graph::KernelOp kernel)
      : builder(kernel.getContext()), location(builder.getUnknownLoc()),
        module(ModuleOp::create(location)), symbols(kernelSymbols(kernel)),
        operandCount(kernel.getInputs().size() + kernel.getNumResults()),
        pointer(LLVM::LLVMPointerType::get(kernel.getContext())), i64(builder.getI64Type()) {}

  LLVM::LLVMFuncOp function(StringRef name, Type result, ArrayRef<Type> arguments) {
    builder.setInsertionPointToEnd(module.getBody());
    auto type = LLVM::LLVMFunctionType::get(result, arguments);
    auto function = builder.create<LLVM::LLVMFuncOp>(location, name, type);
    builder.setInsertionPointToStart(function.addEntryBlock(builder));
    return function;
  }

  /// The symbols' values, from the call's `sizes`.
  SizeValues loadSizes(IndexMath &math, Value call) {
    SizeValues sizes;
    if (symbols.empty())
      return sizes;
    Value array = loadPointerField(math, call, offsetof(TensmithCall, sizes));
    for (auto [number, symbol] : llvm::enumerate(symbols)) {
      Value at = builder.create<LLVM::GEPOp>(location, pointer, i64, array,
                                             ArrayRef<LLVM::GEPArg>{int32_t(number)}, true);
      Value size = builder.create<LLVM::LoadOp>(location, i64, at);
      sizes[symbol] = builder.create<arith::IndexCastOp>(location, builder.getIndexType(), size);
    }
    return sizes;
  }

  func::FuncOp declareInner(size_t variant) {
    SmallVector<Type> arguments(1 + operandCount, pointer);
    arguments.append(symbols.size() + 2, builder.getIndexType());
    builder.setInsertionPointToEnd(module.getBody());
    std::string name = kInnerSymbol;
    if (variant > 0)
      name += "." + std::to_string(variant);
    auto inner =
        builder.create<func::FuncOp>(location, name, builder.getFunctionType(arguments, {}));
    inner.setPrivate();
    inner->setAttr("passthrough", builder.getArrayAttr({builder.getStringAttr("noinline")}));
    for (size_t operand = 0; operand < operandCount; ++operand)
      inner.setArgAttr(1 + operand, "llvm.noalias", builder.getUnitAttr());
    return inner;
  }

  void declareExtent() {
    builder.setInsertionPointToEnd(module.getBody());
    auto type =
        LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()), {pointer, i64});
    builder.create<LLVM::LLVMFuncOp>(location, kExtentSymbol, type);
  }

  /// Whether the run's sizes are those of a variant before the one of that number.
  Value isBefore(IndexMath &math, const SizeValues &sizes, ArrayRef<Variant> variants,
                 size_t number) {
    double between =
        std::sqrt(productOf(variants[number - 1].sizes) * productOf(variants[number].sizes));
    Value product = math.constant(1);
    for (StringAttr symbol : symbols)
      product = math.mul(product, sizes.lookup(symbol));
    constexpr double kMost = double(int64_t(1) << 62);
    return math.less(product, math.constant(int64_t(std::min(std::ceil(between), kMost))));
  }

  void emitBody(ArrayRef<Variant> variants, ArrayRef<func::FuncOp> inner) {
    auto body =
        function(kBodySymbol, LLVM::LLVMVoidType::get(builder.getContext()), {pointer, i64, i64});
    body.setLinkage(LLVM::Linkage::Internal);
    IndexMath math(builder, location);
    Value call = body.getArgument(0);
    SmallVector<Value> arguments{call};
    Value operands = loadPointerField(math, call, offsetof(TensmithCall, operands));
    for (size_t operand = 0; operand < operandCount; ++operand)
      arguments.push_back(loadPointerField(math, operands, operand * sizeof(void *)));
    SizeValues sizes = loadSizes(math, call);
    for (StringAttr symbol : symbols)
      arguments.push_back(sizes[symbol]);
    for (unsigned bound : {1, 2})
      arguments.push_back(builder.create<arith::IndexCastOp>(location, builder.getIndexType(),
                                                             body.getArgument(bound)));
    std::function<void(size_t)> callFrom = [&](size_t number) {
      auto callIt = [&] { builder.create<func::CallOp>(location, inner[number], arguments); };
      if (number + 1 == variants.size())
        return callIt();
      emitIf(math, isBefore(math, sizes, variants, number + 1), callIt,
             [&] { callFrom(number + 1); });
    };
    callFrom(0);
    builder.create<LLVM::ReturnOp>(location, ValueRange{});
  }

  SmallVector<SizedPoint, 1> emitEntry(ArrayRef<Variant> variants) {
    auto entry = function(kKernelSymbol, builder.getI32Type(), {pointer});
    IndexMath math(builder, location);
    Value call = entry.getArgument(0);
    SizeValues sizes = loadSizes(math, call);
    SmallVector<SizedPoint, 1> points;
    WorkItems items;
    for (size_t number = variants.size(); number-- > 0;) {
      const KernelParts &parts = variants[number].parts;
      WorkItems own = parts.items(math, sizes);
      if (parts.grain) {
        own.grain = math.constant(*parts.grain);
        own.point.set(choice::grain, parts.grain);
      }
      points.insert(points.begin(), {own.point, variants[number].sizes});
      if (number + 1 < variants.size()) {
        Value isOwn = isBefore(math, sizes, variants, number + 1);
        own.count = math.select(isOwn, own.count, items.count);
        own.grain = math.select(isOwn, own.grain, items.grain);
      }
      items = own;
    }
    Value services = loadPointerField(math, call, offsetof(TensmithCall, services));
    Value parallelFor = loadPointerField(math, services, offsetof(TensmithServices, parallel_for));
    auto signature = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()),
                                                 {pointer, i64, i64, pointer, pointer});
    Value body = builder.create<LLVM::AddressOfOp>(location, pointer, kBodySymbol);
    builder.create<LLVM::CallOp>(location, signature,
                                 ValueRange{parallelFor, call, math.toI64(items.count),
                                            math.toI64(items.grain), body, call});
    Value zero = builder.create<LLVM::ConstantOp>(location, builder.getI32Type(), 0);
    builder.create<LLVM::ReturnOp>(location, zero);
    return points;
  }
};

/// Sums and extrema that a loop carries may be computed in any order: without it LLVM can't
/// vectorise them.
void relaxReductions(ModuleOp module) {
  auto flags =
      arith::FastMathFlags::reassoc | arith::FastMathFlags::nsz | arith::FastMathFlags::contract;
  module.walk([&](scf::ForOp loop) {
    auto yield = cast<scf::YieldOp>(loop.getBody()->getTerminator());
    for (auto [argument, next] : llvm::zip_equal(loop.getRegionIterArgs(), yield.getOperands())) {
      Operation *op = next.getDefiningOp();
      if (!op || !argument.hasOneUse() || *argument.user_begin() != op)
        continue;
      if (auto fast = dyn_cast<arith::ArithFastMathInterface>(op);
          fast && isa<arith::AddFOp, arith::MulFOp>(op))
        op->setAttr(fast.getFastMathAttrName(),
                    arith::FastMathFlagsAttr::get(op->getContext(), flags));
    }
  });
}

bool checksBounds(ElementEmitter &emitter) {
  auto module = emitter.builder().getInsertionBlock()->getParentOp()->getParentOfType<ModuleOp>();
  return module.lookupSymbol(kExtentSymbol) != nullptr;
}

void stateExtent(ElementEmitter &emitter, Value pointer, Value bytes) {
  emitter.builder().create<LLVM::CallOp>(emitter.math.location, TypeRange(), kExtentSymbol,
                                         ValueRange{pointer, emitter.math.toI64(bytes)});
}

/// Its rows lie `pitch` elements apart, and behind the last one there may be another value's.
void stateExtentOf(ElementEmitter &emitter, Value pointer, Value tensor,
                   std::optional<int64_t> pitch = {}) {
  Type storage = storageType(getElementTypeOrSelf(tensor.getType()));
  if (!storage)
    return;
  IndexMath &math = emitter.math;
  SmallVector<Value> dims = emitter.dims(tensor);
  Value elements = math.product(dims);
  if (pitch && !dims.empty()) {
    Value rows = math.product(ArrayRef(dims).drop_back());
    Value whole = math.sub(math.add(math.mul(rows, *pitch), dims.back()), math.constant(*pitch));
    elements = math.select(math.less(math.constant(0), elements), whole, elements);
  }
  int64_t bytes = (storage.getIntOrFloatBitWidth() + 7) / 8;
  stateExtent(emitter, pointer, math.mul(elements, bytes));
}

} // namespace

std::vector<StringAttr> kernelSymbols(graph::KernelOp kernel) {
  auto less = [](StringAttr a, StringAttr b) { return a.getValue() < b.getValue(); };
  std::set<StringAttr, decltype(less)> symbols(less);
  auto add = [&](Type type) {
    if (auto ranked = dyn_cast<RankedTensorType>(type))
      for (StringAttr name : graph::symbolNames(ranked))
        symbols.insert(name);
  };
  for (Value argument : kernel.getBody().getArguments())
    add(argument.getType());
  kernel.getBody().walk([&](Operation *op) { llvm::for_each(op->getResultTypes(), add); });
  return {symbols.begin(), symbols.end()};
}

Value grainOf(IndexMath &math, Value work) {
  constexpr int64_t kWorkOfThread = 32768;
  return math.ceilDiv(math.constant(kWorkOfThread), math.max(work, math.constant(1)));
}

/// Unsupported where an operator in it has no code for its types; Internal, with what is wrong,
/// where it has code of another type.
static Status emitInner(Frame &frame, graph::KernelOp kernel, const KernelParts &parts,
                        func::FuncOp inner, bool checksBounds, std::vector<std::string> &messages) {
  std::string problem;
  ScopedDiagnosticHandler handler(kernel.getContext(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
      return failure(); // others are told of it
    if (problem.empty())
      problem = diagnostic.str();
    return success();
  });
  auto &builder = frame.builder;
  Block *block = inner.addEntryBlock();
  builder.setInsertionPointToEnd(block);
  SizeValues sizes;
  for (auto [number, symbol] : llvm::enumerate(frame.symbols))
    sizes[symbol] = block->getArgument(1 + frame.operandCount + number);
  ElementEmitter emitter(builder, frame.location, sizes, block->getArgument(0), messages);
  size_t inputs = kernel.getInputs().size();
  for (size_t input = 0; input < inputs; ++input)
    emitter.defineBuffer(kernel.getBody().getArgument(input), block->getArgument(1 + input));
  ValueRange results = ValueRange(block->getArguments()).slice(1 + inputs, kernel.getNumResults());
  if (checksBounds) {
    for (auto [input, argument] : llvm::enumerate(kernel.getBody().getArguments()))
      stateExtentOf(emitter, block->getArgument(1 + input), argument);
    for (auto [result, pointer] : llvm::zip_equal(kernel.getResults(), results))
      stateExtentOf(emitter, pointer, result, kernel.getPitch());
  }
  size_t bounds = block->getNumArguments() - 2;
  parts.body(emitter, results, block->getArgument(bounds), block->getArgument(bounds + 1));
  builder.setInsertionPointToEnd(block);
  builder.create<func::ReturnOp>(frame.location);
  std::string name = "kernel '" + kernel.getLabel().str() + "': ";
  if (!problem.empty())
    return {StatusCode::Internal, name + problem};
  return emitter.failed ? unsupported(name + "an operator has no code for its element types")
                        : Status();
}

Result<EmittedKernel> emitFrame(graph::KernelOp kernel, ArrayRef<Variant> variants,
                                bool checksBounds) {
  Frame frame(kernel);
  if (checksBounds)
    frame.declareExtent();
  EmittedKernel result;
  result.module = frame.module;
  for (StringAttr symbol : frame.symbols)
    result.sizes.push_back(symbol.str());
  SmallVector<func::FuncOp, 1> inner;
  for (auto [number, variant] : llvm::enumerate(variants)) {
    inner.push_back(frame.declareInner(number));
    result.summary += (number ? "; or " : "") + variant.parts.summary;
    result.usesMatrixUnit |= variant.parts.usesMatrixUnit;
  }
  frame.emitBody(variants, inner);
  result.points = frame.emitEntry(variants);
  for (auto [variant, function] : llvm::zip_equal(variants, inner))
    if (Status status =
            emitInner(frame, kernel, variant.parts, function, checksBounds, result.messages);
        !status.ok())
      return status;
  relaxReductions(frame.module);
  eliminateRedundancy(frame.module);
  return result;
}

/// How often a loop runs, as far as that is known.
static std::optional<int64_t> trips(Value begin, Value end, Value step) {
  auto from = constantIndex(begin), to = constantIndex(end), by = constantIndex(step);
  if (from && to && *from >= *to)
    return 0;
  if (!from || !to || !by)
    return std::nullopt;
  return llvm::divideCeil(*to - *from, *by);
}

void emitFor(IndexMath &math, Value begin, Value end, Value step,
             llvm::function_ref<void(Value)> body) {
  auto known = trips(begin, end, step);
  if (known == 1)
    body(begin);
  if (known && *known <= 1)
    return;
  auto loop = math.builder.create<scf::ForOp>(math.location, begin, end, step);
  OpBuilder::InsertionGuard guard(math.builder);
  math.builder.setInsertionPoint(loop.getBody()->getTerminator());
  body(loop.getInductionVar());
}

SmallVector<Value> emitReduction(IndexMath &math, Value begin, Value end, Value step,
                                 ValueRange initial,
                                 llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  if (initial.empty()) {
    emitFor(math, begin, end, step, [&](Value index) { body(index, {}); });
    return {};
  }
  auto known = trips(begin, end, step);
  if (known == 0)
    return SmallVector<Value>(initial);
  if (known == 1)
    return body(begin, initial);
  auto loop = math.builder.create<scf::ForOp>(math.location, begin, end, step, initial);
  OpBuilder::InsertionGuard guard(math.builder);
  math.builder.setInsertionPointToEnd(loop.getBody());
  SmallVector<Value> next = body(loop.getInductionVar(), loop.getRegionIterArgs());
  math.builder.create<scf::YieldOp>(math.location, next);
  return SmallVector<Value>(loop.getResults());
}

void emitIf(IndexMath &math, Value condition, llvm::function_ref<void()> then,
            llvm::function_ref<void()> otherwise) {
  if (auto known = constantIndex(condition))
    return *known ? then() : otherwise ? otherwise() : void();
  auto branch = math.builder.create<scf::IfOp>(math.location, condition, bool(otherwise));
  OpBuilder::InsertionGuard guard(math.builder);
  math.builder.setInsertionPoint(branch.thenBlock()->getTerminator());
  then();
  if (!otherwise)
    return;
  math.builder.setInsertionPoint(branch.elseBlock()->getTerminator());
  otherwise();
}

Value pitchOf(ElementEmitter &emitter, graph::KernelOp kernel) {
  if (auto pitch = kernel.getPitch())
    return emitter.math.constant(int64_t(*pitch));
  SmallVector<Value> dims = emitter.dims(kernel.getResult(0));
  return dims.empty() ? emitter.math.constant(1) : dims.back();
}

void storeResults(ElementEmitter &emitter, graph::KernelOp kernel, ValueRange results,
                  const Position &at, Value row) {
  auto yield = cast<graph::YieldOp>(kernel.getBody().front().getTerminator());
  SmallVector<Value> elements;
  for (Value value : yield.getValues())
    elements.push_back(emitter.element(value, at));
  IndexMath &math = emitter.math;
  Value offset = math.mul(row, pitchOf(emitter, kernel));
  if (!at.indices.empty())
    offset = math.add(offset, at.indices.back());
  for (auto [value, element, pointer] : llvm::zip_equal(yield.getValues(), elements, results))
    emitter.store(pointer, getElementTypeOrSelf(value.getType()), offset, element, at.mask);
}

Value emitScratch(ElementEmitter &emitter, Value bytes, Value begin, Value &end) {
  IndexMath &math = emitter.math;
  auto &builder = emitter.builder();
  auto location = math.location;
  Type pointer = emitter.call.getType(), i64 = builder.getI64Type();
  Value services = loadPointerField(math, emitter.call, offsetof(TensmithCall, services));
  Value scratch = loadPointerField(math, services, offsetof(TensmithServices, scratch));
  auto signature = LLVM::LLVMFunctionType::get(pointer, {pointer, i64});
  Value memory = builder
                     .create<LLVM::CallOp>(location, signature,
                                           ValueRange{scratch, emitter.call, math.toI64(bytes)})
                     .getResult();
  Value null = builder.create<LLVM::ZeroOp>(location, pointer);
  Value given = builder.create<LLVM::ICmpOp>(location, LLVM::ICmpPredicate::ne, memory, null);
  emitter.reportUnless(given, TENSMITH_FAIL_NO_MEMORY);
  if (checksBounds(emitter))
    stateExtent(emitter, memory, bytes);
  end = math.select(given, end, begin);
  return memory;
}

} // namespace tensmith::kernel
