// Loops, branches and registers; see NestCode.h.
#include "compiler/nest/NestCode.h"

#include "compiler/kernel/KernelFrame.h"
#include "compiler/nest/Layout.h"
#include "compiler/nest/Tensorize.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tensmith::nest {

NestCode::NestCode(kernel::ElementEmitter &emitter, const Nest &nest, LoopProgram &program,
                   Launch launch)
    : emitter_(emitter), math_(emitter.math), nest_(nest), program_(program),
      launch_(std::move(launch)) {}

void NestCode::emit(const Step &step) {
  switch (step.kind) {
  case Step::Kind::Block:
    for (const Step &each : step.body)
      emit(each);
    return;
  case Step::Kind::If:
    return emitBranch(
        condition(step.condition),
        [&] {
          for (const Step &each : step.body)
            emit(each);
        },
        [&] {
          for (const Step &each : step.otherwise)
            emit(each);
        });
  case Step::Kind::For:
    if (step.execution == Execution::Vector && !lanes_)
      return emitVector(step);
    if (step.execution == Execution::Parallel && launch_ && registers_.empty() && !lanes_)
      return launch_(step);
    return emitLoop(step);
  case Step::Kind::Point:
    return emitPoint(step);
  case Step::Kind::Tile:
    return emitTile(step);
  }
}

//===-- Values of affine expressions ---------------------------------------------------------===//

Value NestCode::value(const Affine &affine) {
  Value result;
  for (const auto &[name, factor] : affine.terms) {
    auto found = variables.find(name);
    Value own = found == variables.end() ? definition(name) : found->second;
    Value term = factor == 1 ? own : math_.mul(own, factor);
    result = result ? math_.add(result, term) : term;
  }
  if (!result)
    return math_.constant(affine.constant);
  return affine.constant ? math_.add(result, affine.constant) : result;
}

Value NestCode::definition(const std::string &name) {
  auto &builder = emitter_.builder();
  auto found = program_.definitions.find(name);
  if (found == program_.definitions.end()) {
    problem = "the variable '" + name + "' has no value";
    return math_.constant(0);
  }
  const Definition definition = found->second;
  using Kind = Definition::Kind;
  if (definition.kind == Kind::Minimum || definition.kind == Kind::Maximum)
    return extremum(definition.operands, definition.kind == Kind::Minimum);
  if (definition.kind == Kind::Select)
    return math_.select(condition(*definition.condition), value(definition.operands[0]),
                        value(definition.operands[1]));
  Value dividend = value(definition.operands[0]);
  Value divisor = math_.constant(definition.divisor);
  Value quotient = builder.createOrFold<arith::FloorDivSIOp>(math_.location, dividend, divisor);
  return definition.kind == Kind::FloorQuotient ? quotient
                                                : math_.sub(dividend, math_.mul(quotient, divisor));
}

Value NestCode::extremum(const std::vector<Affine> &all, bool isMinimum) {
  auto &builder = emitter_.builder();
  Value result;
  for (const Affine &each : all) {
    Value own = value(each);
    result = !result     ? own
             : isMinimum ? builder.createOrFold<arith::MinSIOp>(math_.location, result, own)
                         : builder.createOrFold<arith::MaxSIOp>(math_.location, result, own);
  }
  return result;
}

Value NestCode::condition(const Condition &condition) {
  auto &builder = emitter_.builder();
  using Kind = Condition::Kind;
  if (condition.kind == Kind::NotNegative || condition.kind == Kind::Zero) {
    auto predicate =
        condition.kind == Kind::Zero ? arith::CmpIPredicate::eq : arith::CmpIPredicate::sge;
    return builder.createOrFold<arith::CmpIOp>(math_.location, predicate, value(condition.value),
                                               math_.constant(0));
  }
  bool isAnd = condition.kind == Kind::And;
  Value result = builder.create<arith::ConstantIntOp>(math_.location, isAnd, 1);
  for (const Condition &part : condition.parts) {
    Value own = this->condition(part);
    result = isAnd ? builder.createOrFold<arith::AndIOp>(math_.location, result, own)
                   : builder.createOrFold<arith::OrIOp>(math_.location, result, own);
  }
  return result;
}

Value NestCode::lowerBound(const Step &loop) { return extremum(loop.lower, false); }
Value NestCode::upperBound(const Step &loop) { return math_.add(extremum(loop.upper, true), 1); }

Value NestCode::size(const Tensor &tensor) {
  // An extent is affine in the sizes, and negative where nothing is touched.
  Value result = math_.constant(1), none = math_.constant(0);
  for (const LayoutDimension &entry : layoutOf(tensor)) {
    Value extent = extentOf(tensor, entry);
    result =
        math_.mul(result, math_.builder.createOrFold<arith::MaxSIOp>(math_.location, extent, none));
  }
  return result;
}

Value NestCode::work(const Step &step) {
  if (step.kind == Step::Kind::Point)
    return math_.constant(1);
  if (step.kind == Step::Kind::Tile)
    return math_.constant(step.tile->points());
  Value result = math_.constant(0); // of the two sides of a branch one is done
  for (const Step &each : step.body)
    result = math_.add(result, work(each));
  if (step.kind != Step::Kind::For)
    return result;
  // Bounds by variables within are not known here: some iterations are assumed.
  constexpr int64_t kAssumed = 8;
  std::function<bool(const Affine &)> isKnown = [&](const Affine &affine) {
    return llvm::all_of(affine.terms, [&](const auto &term) {
      if (variables.count(term.first))
        return true;
      auto found = program_.definitions.find(term.first);
      return found != program_.definitions.end() && !found->second.condition &&
             llvm::all_of(found->second.operands, isKnown);
    });
  };
  bool known = llvm::all_of(step.lower, isKnown) && llvm::all_of(step.upper, isKnown);
  Value count = math_.constant(kAssumed);
  if (known)
    count = emitter_.builder().createOrFold<arith::MaxSIOp>(
        math_.location, math_.sub(upperBound(step), lowerBound(step)), math_.constant(0));
  return math_.mul(result, count);
}

//===-- Loops --------------------------------------------------------------------------------===//

SmallVector<Value> NestCode::registerValues() const {
  SmallVector<Value> result;
  for (const Register &each : registers_)
    result.push_back(each.value);
  return result;
}

void NestCode::setRegisters(ValueRange values) {
  for (auto [own, value] : llvm::zip_equal(registers_, values))
    own.value = value;
}

void NestCode::emitBranch(Value condition, llvm::function_ref<void()> then,
                          llvm::function_ref<void()> otherwise) {
  if (auto known = kernel::constantIndex(condition))
    return *known ? then() : otherwise();
  auto &builder = emitter_.builder();
  SmallVector<Value> before = registerValues();
  auto branch = builder.create<scf::IfOp>(math_.location, ValueRange(before).getTypes(), condition,
                                          /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  const Step *around = std::exchange(innermost_, nullptr);
  auto fill = [&](Block *block, llvm::function_ref<void()> run) {
    setRegisters(before);
    if (block->mightHaveTerminator())
      block->getTerminator()->erase();
    builder.setInsertionPointToEnd(block);
    run();
    builder.create<scf::YieldOp>(math_.location, registerValues());
  };
  fill(branch.thenBlock(), then);
  fill(branch.elseBlock(), otherwise);
  innermost_ = around;
  setRegisters(branch.getResults());
}

void NestCode::emitCarried(const Step &loop, Value lower, Value upper) {
  auto outer = variables.find(loop.variable);
  std::optional<Value> before;
  if (outer != variables.end())
    before = outer->second;
  const Step *around = std::exchange(innermost_, &loop);
  SmallVector<Value> last =
      kernel::emitReduction(math_, lower, upper, math_.constant(loop.step), registerValues(),
                            [&](Value index, ValueRange carried) {
                              variables[loop.variable] = index;
                              if (!registers_.empty())
                                setRegisters(carried);
                              for (const Step &each : loop.body)
                                emit(each);
                              return registerValues();
                            });
  innermost_ = around;
  if (!registers_.empty())
    setRegisters(last);
  variables.erase(loop.variable);
  if (before)
    variables[loop.variable] = *before;
}

void NestCode::emitLoop(const Step &loop) {
  Value lower = lowerBound(loop), upper = upperBound(loop);
  if (loop.accumulators.empty() || !registers_.empty())
    return emitCarried(loop, lower, upper);
  // Without an iteration the elements may not be there.
  Value runs = emitter_.builder().createOrFold<arith::CmpIOp>(
      math_.location, arith::CmpIPredicate::slt, lower, upper);
  emitBranch(
      runs,
      [&] {
        for (const Accumulator &place : loop.accumulators) {
          Register own{place, {}};
          loadRegister(own);
          registers_.push_back(own);
        }
        emitCarried(loop, lower, upper);
        std::vector<Register> done = std::move(registers_);
        registers_.clear();
        for (const Register &each : done)
          storeRegister(each);
      },
      [] {});
}

void NestCode::emitVector(const Step &loop) {
  lanes_ = &loop.lanes;
  variables[loop.variable] = math_.constant(loop.lanes.least);
  auto run = [&] {
    mask_ = maskOf(loop.lanes);
    for (const Step &each : loop.body)
      emit(each);
    mask_ = {};
  };
  if (loop.lanes.lower.empty() && loop.lanes.upper.empty()) {
    run();
  } else {
    Value any = emitter_.builder().createOrFold<arith::CmpIOp>(
        math_.location, arith::CmpIPredicate::slt, lowerBound(loop), upperBound(loop));
    emitBranch(any, run, [] {});
  }
  variables.erase(loop.variable);
  lanes_ = nullptr;
}

Value NestCode::maskOf(const Lanes &lanes) {
  auto &builder = emitter_.builder();
  auto location = math_.location;
  Value result;
  if (!lanes.upper.empty()) {
    Value count = math_.sub(math_.add(extremum(lanes.upper, true), 1), math_.constant(lanes.least));
    result = emitter_.maskBelow(count, lanes.count);
  }
  if (!lanes.lower.empty()) {
    Value skipped = math_.sub(extremum(lanes.lower, false), math_.constant(lanes.least));
    Value below = emitter_.maskBelow(skipped, lanes.count);
    Value all = builder.create<arith::ConstantOp>(
        location, DenseElementsAttr::get(cast<VectorType>(below.getType()), true));
    Value above = builder.create<arith::XOrIOp>(location, below, all);
    result = result ? Value(builder.create<arith::AndIOp>(location, result, above)) : above;
  }
  return result;
}

//===-- Registers ----------------------------------------------------------------------------===//

NestCode::Register *NestCode::find(const Place &place, Along along, Reduction reduction) {
  if (!place.isAffine)
    return nullptr;
  for (Register &each : registers_) {
    const Accumulator &own = each.place;
    if (own.tensor != place.tensor)
      continue;
    std::vector<Affine> indices = own.indices;
    bool isVector = !own.lanes.variable.empty();
    if (isVector != (along == Along::Contiguous || (lanes_ && own.isSpread)))
      continue;
    if (isVector) {
      if (!lanes_ || own.lanes.count != lanes_->count || own.lanes.least != lanes_->least ||
          own.lanes.lower != lanes_->lower || own.lanes.upper != lanes_->upper ||
          (own.isSpread && own.reduction != reduction))
        continue;
      for (Affine &index : indices)
        if (int64_t factor = index.coefficient(own.lanes.variable)) {
          index.terms.erase(own.lanes.variable);
          index = index + factor * Affine(lanes_->variable);
        }
    }
    if (indices == place.indices)
      return &each;
  }
  return nullptr;
}

Value NestCode::isThere(const Accumulator &place) {
  auto &builder = emitter_.builder();
  Value result;
  auto require = [&](Value own) {
    result = result ? builder.createOrFold<arith::AndIOp>(math_.location, result, own) : own;
  };
  for (const Condition &each : place.conditions)
    require(condition(each));
  const Tensor &tensor = *nest_.tensor(place.tensor);
  bool isVector = !place.lanes.variable.empty() && !place.isSpread;
  size_t dims = place.indices.size() - (isVector ? 1 : 0);
  for (size_t dim = tensor.instances; dim < (place.isLookedAt ? dims : 0); ++dim)
    require(math_.less(value(place.indices[dim]), value(tensor.extents[dim])));
  return result;
}

void NestCode::loadRegister(Register &into) {
  const Accumulator &place = into.place;
  const Tensor &tensor = *nest_.tensor(place.tensor);
  if (place.isSpread) {
    into.value = identity(place.reduction, tensor.type, place.lanes.count);
    return;
  }
  into.value =
      readWhere(isThere(place), tensor.type, place.lanes.variable.empty() ? 0 : place.lanes.count,
                [&] { return loadedRegister(place); });
}

Value NestCode::readWhere(Value holds, DataType of, int64_t lanes,
                          llvm::function_ref<Value()> read) {
  if (!holds)
    return read();
  auto &builder = emitter_.builder();
  Type type = graph::kernelElementType(element(of));
  if (lanes)
    type = VectorType::get({lanes}, type);
  auto branch = builder.create<scf::IfOp>(math_.location, TypeRange(type), holds, true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(branch.elseBlock());
  Value zero = builder.create<arith::ConstantOp>(math_.location, builder.getZeroAttr(type));
  builder.create<scf::YieldOp>(math_.location, zero);
  builder.setInsertionPointToEnd(branch.thenBlock());
  builder.create<scf::YieldOp>(math_.location, read());
  return branch.getResult(0);
}

Value NestCode::loadedRegister(const Accumulator &place) {
  const Tensor &tensor = *nest_.tensor(place.tensor);
  const Lanes &lanes = place.lanes;
  bool isWithin = lanes_ && lanes_->variable == lanes.variable;
  if (!lanes.variable.empty())
    variables[lanes.variable] = math_.constant(lanes.least);
  Value result = emitter_.load(pointers.at(tensor.name), element(tensor.type),
                               offset(tensor, place.indices), lanes.count, maskOf(lanes));
  if (!isWithin)
    variables.erase(lanes.variable);
  return result;
}

void NestCode::storeRegister(const Register &from) {
  Value there = isThere(from.place);
  if (!there)
    return storePlace(from);
  kernel::emitIf(math_, there, [&] { storePlace(from); });
}

void NestCode::storePlace(const Register &from) {
  const Accumulator &place = from.place;
  const Tensor &tensor = *nest_.tensor(place.tensor);
  const Lanes &lanes = place.lanes;
  bool isWithin = lanes_ && lanes_->variable == lanes.variable;
  if (!lanes.variable.empty() && !place.isSpread)
    variables[lanes.variable] = math_.constant(lanes.least);
  Value at = offset(tensor, place.indices), value = from.value, mask;
  if (place.isSpread) {
    Statement like;
    like.reduction = place.reduction;
    like.tensor = place.tensor;
    Value old = emitter_.load(pointers.at(tensor.name), element(tensor.type), at);
    value = combine(like, old, reduceLanes(place.reduction, tensor.type, value));
  } else {
    mask = maskOf(lanes);
  }
  emitter_.store(pointers.at(tensor.name), element(tensor.type), at, value, mask);
  if (!isWithin)
    variables.erase(lanes.variable);
}

} // namespace tensmith::nest
