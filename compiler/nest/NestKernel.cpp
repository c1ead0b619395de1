// The functions around a nest's loops; see NestKernel.h.
#include "compiler/nest/NestKernel.h"

#include "compiler/graph/Dialects.h"
#include "compiler/kernel/KernelFrame.h"
#include "compiler/kernel/Redundancy.h"
#include "compiler/nest/Instances.h"
#include "compiler/nest/NestCode.h"
#include "compiler/nest/Tensorize.h"
#include "runtime/KernelAbi.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tensmith::nest {
namespace {

class Frame {
public:
  Frame(Schedule &schedule, LoopProgram &program, MLIRContext &context, const KernelSizes *sizes)
      : nest_(schedule.nest()), program_(program), sizes_(sizes), builder_(&context),
        location_(builder_.getUnknownLoc()), module_(ModuleOp::create(location_)),
        pointer_(LLVM::LLVMPointerType::get(&context)), i64_(builder_.getI64Type()), noSizes_() {
    for (Tensor::Role role : {Tensor::Role::Input, Tensor::Role::Output, Tensor::Role::Local})
      for (const Tensor &each : nest_.tensors)
        if (each.role == role)
          tensors_.push_back(&each);
    const ScheduleState &state = schedule.state();
    private_ = parallelInstances(nest_, state.tree, *state.relations);
  }

  Result<kernel::EmittedKernel> emit() {
    if (sizes_ && sizes_->checksBounds)
      declareExtent();
    func::FuncOp inner = declareInner("tensmith_kernel.inner", {});
    emitEntry(inner);
    emitInner(inner, program_.root, {}, nullptr);
    if (!problem_.empty()) {
      module_->erase();
      return unsupported("nest '" + nest_.name + "': " + problem_);
    }
    kernel::EmittedKernel result;
    result.module = module_;
    result.sizes = sizeNames();
    result.messages = messages_;
    result.summary = "nest of " + std::to_string(nest_.statements.size()) + " statements";
    kernel::eliminateRedundancy(module_);
    return result;
  }

private:
  std::vector<std::string> sizeNames() const {
    if (sizes_)
      return sizes_->names;
    std::vector<std::string> names;
    for (const Parameter &each : nest_.parameters)
      names.push_back(each.name);
    return names;
  }

  size_t operandCount() const {
    return size_t(llvm::count_if(
        tensors_, [](const Tensor *each) { return each->role != Tensor::Role::Local; }));
  }

  LLVM::LLVMFuncOp function(StringRef name, Type result, ArrayRef<Type> arguments) {
    builder_.setInsertionPointToEnd(module_.getBody());
    auto type = LLVM::LLVMFunctionType::get(result, arguments);
    auto function = builder_.create<LLVM::LLVMFuncOp>(location_, name, type);
    builder_.setInsertionPointToStart(function.addEntryBlock(builder_));
    return function;
  }

  // As KernelFrame does for checks of bounds (EmittedKernel.h).
  void declareExtent() {
    builder_.setInsertionPointToEnd(module_.getBody());
    auto nothing = LLVM::LLVMVoidType::get(builder_.getContext());
    builder_.create<LLVM::LLVMFuncOp>(location_, kernel::kExtentSymbol,
                                      LLVM::LLVMFunctionType::get(nothing, {pointer_, i64_}));
  }
  void stateExtent(Value pointer, Value bytes, kernel::IndexMath &math) {
    builder_.create<LLVM::CallOp>(location_, TypeRange(), kernel::kExtentSymbol,
                                  ValueRange{pointer, math.toI64(bytes)});
  }

  /// Over the call, all tensors' pointers, the parameters and so many variables more.
  func::FuncOp declareInner(const std::string &name, ArrayRef<std::string> more) {
    SmallVector<Type> arguments(1 + tensors_.size(), pointer_);
    arguments.append(nest_.parameters.size() + more.size(), builder_.getIndexType());
    OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPointToEnd(module_.getBody());
    auto inner =
        builder_.create<func::FuncOp>(location_, name, builder_.getFunctionType(arguments, {}));
    inner.setPrivate();
    inner->setAttr("passthrough", builder_.getArrayAttr({builder_.getStringAttr("noinline")}));
    for (size_t number = 0; number < tensors_.size(); ++number)
      inner.setArgAttr(unsigned(1 + number), "llvm.noalias", builder_.getUnitAttr());
    return inner;
  }

  Value at(Value base, int64_t slot) {
    return builder_.create<LLVM::GEPOp>(location_, pointer_, i64_, base,
                                        ArrayRef<LLVM::GEPArg>{int32_t(slot)}, true);
  }

  void emitEntry(func::FuncOp inner) {
    auto entry = function(kernel::kKernelSymbol, builder_.getI32Type(), {pointer_});
    kernel::IndexMath math(builder_, location_);
    Value call = entry.getArgument(0);
    SmallVector<Value> arguments{call};
    Value operands = kernel::loadPointerField(math, call, offsetof(TensmithCall, operands));
    for (size_t number = 0; number < operandCount(); ++number)
      arguments.push_back(
          kernel::loadPointerField(math, operands, int64_t(number * sizeof(void *))));
    Value null = builder_.create<LLVM::ZeroOp>(location_, pointer_);
    arguments.append(tensors_.size() - operandCount(), null); // the inner function asks for them
    Value sizes = kernel::loadPointerField(math, call, offsetof(TensmithCall, sizes));
    kernel::SizeValues values;
    std::vector<std::string> names = sizeNames();
    for (size_t number = 0; number < names.size(); ++number) {
      Value size = builder_.create<LLVM::LoadOp>(location_, i64_, at(sizes, int64_t(number)));
      values[builder_.getStringAttr(names[number])] =
          builder_.create<arith::IndexCastOp>(location_, builder_.getIndexType(), size);
    }
    for (size_t number = 0; number < nest_.parameters.size(); ++number)
      arguments.push_back(sizes_ ? sizes_->parameter(math, values, number)
                                 : values.at(builder_.getStringAttr(names[number])));
    builder_.create<func::CallOp>(location_, inner, arguments);
    Value zero = builder_.create<LLVM::ConstantOp>(location_, builder_.getI32Type(), 0);
    builder_.create<LLVM::ReturnOp>(location_, zero);
  }

  /// Those that the body of the parallel loop has for itself; null: those of the whole nest.
  std::vector<const Tensor *> locals(const Step *parallel) const {
    std::vector<const Tensor *> result;
    for (auto each = tensors_.begin() + int64_t(operandCount()); each != tensors_.end(); ++each) {
      auto own = private_.find((*each)->name);
      if (own == private_.end() ? !parallel : parallel && parallel->loop == own->second)
        result.push_back(*each);
    }
    return result;
  }

  /// Memory for the tensors, in one request; null pointers stay where there is none, which was
  /// reported, and the condition is false.
  Value allocate(NestCode &code, kernel::ElementEmitter &emitter,
                 const std::vector<const Tensor *> &locals) {
    kernel::IndexMath &math = emitter.math;
    Value bytes = math.constant(0);
    SmallVector<Value> offsets;
    for (const Tensor *each : locals) {
      offsets.push_back(bytes);
      Value own = math.mul(code.size(*each), byteSize(each->type));
      constexpr int64_t kAlignment = 64;
      own = math.mul(math.ceilDiv(own, math.constant(kAlignment)), kAlignment);
      bytes = math.add(bytes, own);
    }
    Value begin = math.constant(0), end = math.constant(1);
    Value memory = kernel::emitScratch(emitter, bytes, begin, end);
    for (auto [each, offset] : llvm::zip_equal(locals, offsets))
      code.pointers[each->name] = builder_.create<LLVM::GEPOp>(
          location_, pointer_, builder_.getI8Type(), memory, ValueRange{math.toI64(offset)}, true);
    return math.less(begin, end);
  }

  /// The body of a function over the step; of a parallel loop its iterations.
  void emitInner(func::FuncOp inner, const Step &step, ArrayRef<std::string> more,
                 const Step *parallel) {
    OpBuilder::InsertionGuard guard(builder_);
    Block *block = inner.addEntryBlock();
    builder_.setInsertionPointToEnd(block);
    kernel::ElementEmitter emitter(builder_, location_, noSizes_, block->getArgument(0), messages_);
    NestCode::Launch launch;
    NestCode *current = nullptr;
    if (!parallel)
      launch = [&](const Step &loop) { this->launch(*current, emitter, loop); };
    NestCode code(emitter, nest_, program_, launch);
    current = &code;
    for (size_t number = 0; number < tensors_.size(); ++number)
      code.pointers[tensors_[number]->name] = block->getArgument(unsigned(1 + number));
    unsigned next = unsigned(1 + tensors_.size());
    for (const Parameter &each : nest_.parameters) {
      Value value = block->getArgument(next++);
      code.variables[each.name] =
          each.least == each.most ? emitter.math.constant(each.least) : value;
    }
    for (const std::string &name : more)
      code.variables[name] = block->getArgument(next++);
    // Local tensors of the whole nest come to the body of a parallel loop as operands do.
    auto isGiven = [&](const Tensor *each) {
      return each->role != Tensor::Role::Local || (parallel && !private_.count(each->name));
    };
    code.nearBytes = sizes_ ? sizes_->nearBytes : 0;
    if (sizes_ && sizes_->checksBounds)
      for (const Tensor *each : tensors_)
        if (isGiven(each))
          stateExtent(code.pointers.at(each->name),
                      emitter.math.mul(code.size(*each), byteSize(each->type)), emitter.math);
    std::vector<const Tensor *> own = locals(parallel);
    auto run = [&] {
      if (!parallel)
        return code.emit(step);
      Value begin = code.variables.at("begin."), end = code.variables.at("end.");
      code.variables.erase("begin.");
      code.variables.erase("end.");
      kernel::emitFor(emitter.math, begin, end, emitter.math.constant(1), [&](Value number) {
        Value first = code.lowerBound(step);
        code.variables[step.variable] =
            emitter.math.add(first, emitter.math.mul(number, step.step));
        for (const Step &each : step.body)
          code.emit(each);
        code.variables.erase(step.variable);
      });
    };
    if (own.empty())
      run();
    else
      kernel::emitIf(emitter.math, allocate(code, emitter, own), run);
    builder_.setInsertionPointToEnd(block);
    builder_.create<func::ReturnOp>(location_);
    if (!code.problem.empty())
      problem_ = code.problem;
  }

  /// A call of the runtime's parallel_for with all values in scope.
  void launch(NestCode &code, kernel::ElementEmitter &emitter, const Step &loop) {
    kernel::IndexMath &math = emitter.math;
    std::string number = std::to_string(launches_++);
    SmallVector<std::string> names;
    for (const auto &[name, value] : code.variables)
      if (llvm::none_of(nest_.parameters, [&](const Parameter &p) { return p.name == name; }))
        names.push_back(name);
    SmallVector<Value> packed{emitter.call};
    for (const Tensor *each : tensors_)
      packed.push_back(code.pointers.at(each->name));
    for (const Parameter &each : nest_.parameters)
      packed.push_back(math.toI64(code.variables.at(each.name)));
    for (const std::string &name : names)
      packed.push_back(math.toI64(code.variables.at(name)));
    Value count = builder_.create<LLVM::ConstantOp>(location_, i64_, int64_t(packed.size()));
    Value closure = builder_.create<LLVM::AllocaOp>(location_, pointer_, i64_, count);
    for (auto [slot, value] : llvm::enumerate(packed))
      builder_.create<LLVM::StoreOp>(location_, value, at(closure, int64_t(slot)));

    Value trips = math.sub(code.upperBound(loop), code.lowerBound(loop));
    trips = builder_.createOrFold<arith::MaxSIOp>(location_, trips, math.constant(0));
    trips = math.ceilDiv(trips, math.constant(loop.step));
    Value work = math.constant(0);
    for (const Step &each : loop.body)
      work = math.add(work, code.work(each));
    bool isAsked = sizes_ && sizes_->grain;
    Value grain = isAsked ? math.constant(*sizes_->grain) : kernel::grainOf(math, work);
    std::string body = "tensmith_kernel.body" + number;
    Value services = kernel::loadPointerField(math, emitter.call, offsetof(TensmithCall, services));
    Value parallelFor =
        kernel::loadPointerField(math, services, offsetof(TensmithServices, parallel_for));
    auto signature = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder_.getContext()),
                                                 {pointer_, i64_, i64_, pointer_, pointer_});
    Value address = builder_.create<LLVM::AddressOfOp>(location_, pointer_, body);
    builder_.create<LLVM::CallOp>(location_, signature,
                                  ValueRange{parallelFor, emitter.call, math.toI64(trips),
                                             math.toI64(grain), address, closure});
    emitBody(body, "tensmith_kernel.inner" + number, names, loop);
  }

  void emitBody(const std::string &name, const std::string &innerName,
                SmallVector<std::string> names, const Step &loop) {
    OpBuilder::InsertionGuard guard(builder_);
    names.append({"begin.", "end."});
    func::FuncOp inner = declareInner(innerName, names);
    auto body =
        function(name, LLVM::LLVMVoidType::get(builder_.getContext()), {pointer_, i64_, i64_});
    body.setLinkage(LLVM::Linkage::Internal);
    SmallVector<Value> arguments;
    auto index = [&](Value value) {
      return builder_.create<arith::IndexCastOp>(location_, builder_.getIndexType(), value);
    };
    size_t slot = 0;
    for (; slot < 1 + tensors_.size(); ++slot)
      arguments.push_back(builder_.create<LLVM::LoadOp>(location_, pointer_,
                                                        at(body.getArgument(0), int64_t(slot))));
    for (; slot < 1 + tensors_.size() + nest_.parameters.size() + names.size() - 2; ++slot)
      arguments.push_back(index(
          builder_.create<LLVM::LoadOp>(location_, i64_, at(body.getArgument(0), int64_t(slot)))));
    arguments.push_back(index(body.getArgument(1)));
    arguments.push_back(index(body.getArgument(2)));
    builder_.create<func::CallOp>(location_, inner, arguments);
    builder_.create<LLVM::ReturnOp>(location_, ValueRange{});
    emitInner(inner, loop, names, &loop);
  }

  const Nest &nest_;
  LoopProgram &program_;
  const KernelSizes *sizes_;
  OpBuilder builder_;
  Location location_;
  ModuleOp module_;
  Type pointer_, i64_;
  kernel::SizeValues noSizes_;
  std::vector<const Tensor *> tensors_;        // inputs, outputs, locals
  std::map<std::string, std::string> private_; // locals, by the parallel loop they are within
  std::vector<std::string> messages_;
  std::string problem_;
  int launches_ = 0;
};

Result<LoopProgram> finishedLoops(Schedule &schedule, CodeLimits limits) {
  Result<LoopProgram> program = generateLoops(schedule.state());
  if (program) {
    TileRefusal refused =
        formTiles(*program, schedule.nest(), schedule.state().tree, schedule.state().intrinsics);
    if (!refused.words.empty())
      return invalidArgument("nest '" + schedule.nest().name + "': " + refused.words);
    promoteAccumulators(*program, schedule.nest(), limits.accumulators);
  }
  return program;
}

} // namespace

Result<kernel::EmittedKernel> emitNest(Schedule &schedule, MLIRContext &context, CodeLimits limits,
                                       const KernelSizes *sizes) {
  Result<LoopProgram> program = finishedLoops(schedule, limits);
  if (!program)
    return program.status();
  context.loadDialect<arith::ArithDialect, func::FuncDialect, LLVM::LLVMDialect, math::MathDialect,
                      scf::SCFDialect, vector::VectorDialect, graph::GraphDialect>();
  return Frame(schedule, *program, context, sizes).emit();
}

Result<std::string> loopText(Schedule &schedule, CodeLimits limits) {
  Result<LoopProgram> program = finishedLoops(schedule, limits);
  if (!program)
    return program.status();
  return text(*program);
}

} // namespace tensmith::nest
