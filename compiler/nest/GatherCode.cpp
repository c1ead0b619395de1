// Loads at indices that are data: each is looked at, rows are read as vectors, and those of large
// tables are asked for in advance; see NestCode.h.
#include "compiler/graph/ScalarCode.h"
#include "compiler/nest/NestCode.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tensmith::nest {

Value NestCode::inRange(const Expression *load, const Tensor &tensor, size_t dim, Value index,
                        Value counts) {
  auto &builder = emitter_.builder();
  auto location = math_.location;
  Value isInside = builder.createOrFold<arith::CmpIOp>(location, arith::CmpIPredicate::ult, index,
                                                       value(tensor.extents[dim]));
  Report report{"index {} is outside of dimension " + std::to_string(dim) + " of '" + tensor.name +
                "'"};
  if (load && load->reports.count(dim))
    report = load->reports.at(dim);
  Value isFine = isInside;
  if (counts) {
    graph::ScalarCode code(builder, location);
    Value isIdle = code.bitXor(counts, code.boolean(counts, true));
    isFine = builder.createOrFold<arith::OrIOp>(location, isInside, isIdle);
  }
  emitter_.check(isFine, report.message, math_.add(index, value(report.low)));
  return isInside;
}

NestCode::Inside NestCode::putInside(const Expression &e, MutableArrayRef<Value> indices,
                                     Value counts) {
  const Tensor &tensor = *nest_.tensor(e.tensor);
  Inside result;
  for (size_t dim = 0; dim < indices.size(); ++dim) {
    if (e.operands[dim]->operation == Operation::Index)
      continue;
    Value holds = inRange(&e, tensor, dim, indices[dim], counts);
    indices[dim] = math_.select(holds, indices[dim], math_.constant(0));
    result.holds =
        result.holds
            ? emitter_.builder().createOrFold<arith::AndIOp>(math_.location, result.holds, holds)
            : holds;
    const Affine &extent = tensor.extents[dim];
    result.mayBeEmpty |= !extent.isConstant() || extent.constant == 0;
  }
  return result;
}

Value NestCode::loadChecked(const Expression &e, MutableArrayRef<Value> indices, Value counts) {
  const Tensor &tensor = *nest_.tensor(e.tensor);
  Inside inside = putInside(e, indices, counts);
  return readWhere(inside.required(), e.type, 0, [&] {
    return emitter_.load(pointers.at(tensor.name), element(tensor.type), offsetOf(tensor, indices));
  });
}

/// Whether the expression can be evaluated for a later iteration, which reports nothing then: it
/// reads without a guard, at affine indices.
static bool isPlain(const Expression &e) {
  if (e.operation == Operation::Check || e.operation == Operation::Function)
    return false;
  bool isLoad = e.operation == Operation::Load;
  return (!isLoad || e.guard.empty()) && llvm::all_of(e.operands, [&](const Expr &each) {
           return isLoad ? each->operation == Operation::Index : isPlain(*each);
         });
}

/// How often the loop runs at most; nothing where only the run knows.
static std::optional<int64_t> mostIterations(const Step &loop) {
  std::optional<int64_t> most;
  for (const Affine &upper : loop.upper)
    for (const Affine &lower : loop.lower)
      if (Affine rest = upper - lower; rest.isConstant()) {
        int64_t count = rest.constant < 0 ? 0 : rest.constant / loop.step + 1;
        most = std::min(most.value_or(count), count);
      }
  return most;
}

/// Asks for the row that the innermost loop reads some iterations later. Rows of a large table come
/// from memory, and where they lie is data, which no prefetcher foresees. Typical figures: memory
/// is 100 ns away, and an iteration that adds a row of a few lines takes 5 to 10 ns, so that
/// sixteen cover the way. A loop that never runs longer has nothing to ask for.
void NestCode::prefetchRun(const Expression &load, size_t rank, const Affine &along,
                           const Point &point) {
  constexpr int64_t kAhead = 16;
  constexpr int kRead = 0, kAllLevels = 3, kData = 1;
  const Tensor &tensor = *nest_.tensor(load.tensor);
  std::optional<int64_t> bytes = byteSize(tensor.type);
  for (const Affine &extent : tensor.extents)
    bytes = bytes && extent.isConstant() ? std::optional(*bytes * extent.constant) : std::nullopt;
  if (!innermost_ || tensor.role == Tensor::Role::Local || !tensor.layout.empty() ||
      nearBytes == 0 || (bytes && *bytes <= nearBytes) || load.isConditional ||
      mostIterations(*innermost_).value_or(kAhead + 1) <= kAhead)
    return;
  bool isOfLoop = false;
  for (const Expr &index : ArrayRef(load.operands).take_front(rank - 1)) {
    if (index->operation != Operation::Index && !isPlain(*index))
      return;
    Statement reads;
    reads.value = index;
    forEachLoad(reads, [&](const Expression &each, size_t indices) {
      for (const Expr &own : ArrayRef(each.operands).take_front(indices))
        isOfLoop |= involves(program_, composed(own->affine, point.statement, point.arguments),
                             innermost_->variable);
    });
  }
  if (!isOfLoop)
    return;
  auto &builder = emitter_.builder();
  Value now = variables.at(innermost_->variable);
  Value last = math_.sub(upperBound(*innermost_), math_.constant(1));
  Value ahead = math_.add(now, kAhead * innermost_->step);
  // The last iteration of a loop with a step may be before the bound.
  Value isThere =
      builder.createOrFold<arith::CmpIOp>(math_.location, arith::CmpIPredicate::sle, ahead, last);
  variables[innermost_->variable] = math_.select(isThere, ahead, now);
  Point later{point.statement, point.arguments};
  SmallVector<Value> indices;
  for (const Expr &index : ArrayRef(load.operands).take_front(rank - 1))
    indices.push_back(builder.createOrFold<arith::IndexCastOp>(
        math_.location, builder.getIndexType(), evaluate(index, later)));
  variables[innermost_->variable] = now;
  indices.push_back(value(along));
  Value address = kernel::elementPointer(math_, element(tensor.type), pointers.at(load.tensor),
                                         offsetOf(tensor, indices));
  builder.create<LLVM::Prefetch>(math_.location, address, kRead, kAllLevels, kData);
}

/// A row of a table: the last index runs along the lanes, and the others are one for all of them.
/// Nothing where it isn't so.
std::optional<Value> NestCode::loadRun(const Expression &e, size_t rank, Point &point, Value mask) {
  auto &builder = emitter_.builder();
  const Tensor &tensor = *nest_.tensor(e.tensor);
  if (!lanes_ || rank == 0 || e.operands[rank - 1]->operation != Operation::Index)
    return std::nullopt;
  // The row is one for all lanes: any will do to ask whether they go along it.
  Place last = placeOf(e.tensor, {e.operands[rank - 1]}, 1, point.statement, point.arguments);
  last.indices.insert(last.indices.begin(), rank - 1, Affine(0));
  if (alongLanes(program_, tensor, last, *lanes_) != Along::Contiguous)
    return std::nullopt;
  SmallVector<Value> indices;
  for (size_t dim = 0; dim + 1 < rank; ++dim)
    indices.push_back(evaluate(e.operands[dim], point));
  Value counts = e.isConditional ? evaluate(e.operands.back(), point) : Value();
  auto isVector = [](Value each) { return each && isa<VectorType>(each.getType()); };
  if (llvm::any_of(indices, isVector) || isVector(counts))
    return std::nullopt;
  for (Value &each : indices)
    each = builder.createOrFold<arith::IndexCastOp>(math_.location, builder.getIndexType(), each);
  prefetchRun(e, rank, last.indices.back(), point);
  Inside inside = putInside(e, indices, counts);
  indices.push_back(value(last.indices.back()));
  return readWhere(inside.required(), e.type, lanes() > 1 ? lanes() : 0, [&] {
    return emitter_.load(pointers.at(tensor.name), element(tensor.type), offsetOf(tensor, indices),
                         lanes(), mask);
  });
}

Value NestCode::loadGathered(const Expression &e, size_t rank, Point &point, Value mask) {
  auto &builder = emitter_.builder();
  if (std::optional<Value> run = loadRun(e, rank, point, mask))
    return *run;
  SmallVector<Value> indices;
  Value counts = e.isConditional ? evaluate(e.operands.back(), point) : Value();
  bool isVector = counts && isa<VectorType>(counts.getType());
  for (size_t dim = 0; dim < rank; ++dim) {
    indices.push_back(evaluate(e.operands[dim], point));
    isVector |= isa<VectorType>(indices.back().getType());
  }
  auto loadAt = [&](int64_t number) {
    SmallVector<Value> own;
    Value isCounted = counts ? lane(counts, number) : Value();
    Value isDone = mask && isVector ? lane(mask, number) : Value();
    if (isDone) // of a lane that isn't done the index may be anything
      isCounted = isCounted ? builder.createOrFold<arith::AndIOp>(math_.location, isCounted, isDone)
                            : isDone;
    for (size_t dim = 0; dim < rank; ++dim) {
      Value index = builder.createOrFold<arith::IndexCastOp>(math_.location, builder.getIndexType(),
                                                             lane(indices[dim], number));
      own.push_back(isDone ? math_.select(isDone, index, math_.constant(0)) : index);
    }
    return loadChecked(e, own, isCounted);
  };
  if (!isVector)
    return loadAt(0);
  Value result;
  for (int64_t number = 0; number < lanes(); ++number) {
    Value own = loadAt(number);
    if (!result)
      result = builder.create<arith::ConstantOp>(
          math_.location, builder.getZeroAttr(VectorType::get({lanes()}, own.getType())));
    result = builder.create<vector::InsertOp>(math_.location, own, result, number);
  }
  return result;
}

} // namespace tensmith::nest
