// The code of a tile that is one instruction: its operands as vectors, and its rows of results; see
// NestCode.h and Tensorize.h.
#include "compiler/nest/NestCode.h"
#include "compiler/nest/Tensorize.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tensmith::nest {
namespace {

int64_t lengthOf(Value vector) { return cast<VectorType>(vector.getType()).getNumElements(); }

Value chosen(OpBuilder &builder, Location location, Value a, Value b, ArrayRef<int64_t> places) {
  return builder.createOrFold<vector::ShuffleOp>(location, a, b, places);
}

/// One behind the other. Neighbours of one length are joined, so that all are two vectors'
/// shuffles.
Value joined(OpBuilder &builder, Location location, SmallVector<Value> parts) {
  while (parts.size() > 1) {
    SmallVector<Value> next;
    for (size_t at = 0; at < parts.size(); at += 2) {
      if (at + 1 == parts.size()) {
        next.push_back(parts[at]);
        continue;
      }
      auto all =
          llvm::to_vector(llvm::seq<int64_t>(0, lengthOf(parts[at]) + lengthOf(parts[at + 1])));
      next.push_back(chosen(builder, location, parts[at], parts[at + 1], all));
    }
    parts = std::move(next);
  }
  return parts[0];
}

/// Each run of so many elements is repeated that often.
Value repeated(OpBuilder &builder, Location location, Value vector, int64_t length, int64_t times) {
  SmallVector<int64_t> places;
  for (int64_t run = 0; run < lengthOf(vector); run += length)
    for (int64_t time = 0; time < times; ++time)
      for (int64_t at = 0; at < length; ++at)
        places.push_back(run + at);
  auto type = cast<VectorType>(vector.getType());
  int64_t bits = length * type.getElementTypeBitWidth();
  bool isWord = length == lengthOf(vector) && bits <= 64 && llvm::isPowerOf2_64(uint64_t(bits));
  if (!isWord)
    return chosen(builder, location, vector, vector, places);
  // One word for all lanes, which machines load as such.
  Type word = length == 1 ? type.getElementType() : builder.getIntegerType(unsigned(bits));
  Value one = builder.createOrFold<vector::ExtractOp>(
      location,
      length == 1
          ? vector
          : builder.createOrFold<LLVM::BitcastOp>(location, VectorType::get({1}, word), vector),
      int64_t(0));
  Value all = builder.create<vector::BroadcastOp>(location, VectorType::get({times}, word), one);
  auto whole = VectorType::get({times * length}, type.getElementType());
  return length == 1 ? all : builder.createOrFold<LLVM::BitcastOp>(location, whole, all);
}

/// What an operand's elements are in registers.
Type bitsOf(OpBuilder &builder, DataType type) {
  if (type == DataType::F32)
    return builder.getF32Type();
  if (type == DataType::F64)
    return builder.getF64Type();
  return builder.getIntegerType(unsigned(8 * byteSize(type)));
}

} // namespace

Value NestCode::loadBits(const Expression &load, const Step &tile, int64_t count) {
  auto &builder = emitter_.builder();
  const Tensor &tensor = *nest_.tensor(load.tensor);
  Place place = placeOf(load.tensor, load.operands, rankOf(load), *nest_.statement(tile.statement),
                        tile.arguments);
  Type element = bitsOf(builder, tensor.type);
  Value at = builder.create<LLVM::GEPOp>(
      math_.location, LLVM::LLVMPointerType::get(builder.getContext()), element,
      pointers.at(tensor.name), ValueRange{math_.toI64(offset(tensor, place.indices))}, true);
  return builder.create<LLVM::LoadOp>(math_.location, VectorType::get({count}, element), at,
                                      unsigned(byteSize(tensor.type)));
}

Value NestCode::tileOperand(const Step &step, size_t input) {
  auto &builder = emitter_.builder();
  const Tile &tile = *step.tile;
  const TileIntrinsic &intrinsic = *tile.intrinsic;
  const TileIntrinsic::Operand &operand = intrinsic.inputs[input];
  const Expression &load = *tile.inputs[input];
  Place place = placeOf(load.tensor, load.operands, rankOf(load), *nest_.statement(step.statement),
                        step.arguments);
  auto depends = [&](size_t dim) {
    return llvm::any_of(place.indices, [&](const Affine &each) {
      return involves(program_, each, tile.variables[dim]);
    });
  };
  // Rows that may lie apart are loaded one by one.
  bool isApart = operand.hasPitch && !operand.dims.empty() && depends(operand.dims[0]);
  int64_t rows = isApart ? intrinsic.sizes[operand.dims[0]] : 1, count = 1;
  for (size_t at = isApart ? 1 : 0; at < operand.dims.size(); ++at)
    count *= depends(operand.dims[at]) ? intrinsic.sizes[operand.dims[at]] : 1;
  SmallVector<Value> parts;
  for (int64_t row = 0; row < rows; ++row) {
    if (isApart)
      variables[tile.variables[operand.dims[0]]] = math_.constant(row);
    parts.push_back(loadBits(load, step, count));
  }
  if (isApart)
    variables[tile.variables[operand.dims[0]]] = math_.constant(0);
  Value result = joined(builder, math_.location, std::move(parts));
  // From inside out: what doesn't depend on a dimension is the same along it.
  int64_t inside = 1;
  for (size_t at = operand.dims.size(); at-- > 0;) {
    int64_t size = intrinsic.sizes[operand.dims[at]];
    if (!depends(operand.dims[at]))
      result = repeated(builder, math_.location, result, inside, size);
    inside *= size;
  }
  return result;
}

void NestCode::emitTile(const Step &step) {
  auto &builder = emitter_.builder();
  const Tile &tile = *step.tile;
  const Statement &statement = *nest_.statement(step.statement);
  const Tensor &tensor = *nest_.tensor(statement.tensor);
  Lanes lanes = lanesOf(step);
  for (const std::string &each : tile.variables)
    variables[each] = math_.constant(0);
  lanes_ = &lanes;
  SmallVector<Place> places;
  SmallVector<Value> sums, inputs;
  for (const std::vector<Affine> &row : rowsOf(step)) {
    places.push_back(
        placeOf(statement.tensor, statement.indices, statement.indices.size(), statement, row));
    sums.push_back(loadPlace(tensor, places.back(), Along::Contiguous, {}));
  }
  for (size_t input = 0; input < tile.inputs.size(); ++input)
    inputs.push_back(tileOperand(step, input));
  Value sum = joined(builder, math_.location, std::move(sums));
  Value result = tile.intrinsic->emit(builder, math_.location, inputs, sum);
  for (auto [number, place] : llvm::enumerate(places)) {
    int64_t first = int64_t(number) * lanes.count;
    Value own = result;
    if (places.size() > 1)
      own = chosen(builder, math_.location, result, result,
                   llvm::to_vector(llvm::seq(first, first + lanes.count)));
    if (Register *held = find(place, Along::Contiguous, Reduction::None))
      held->value = own;
    else
      emitter_.store(pointers.at(tensor.name), element(tensor.type), offset(tensor, place.indices),
                     own);
  }
  lanes_ = nullptr;
  for (const std::string &each : tile.variables)
    variables.erase(each);
}

} // namespace tensmith::nest
