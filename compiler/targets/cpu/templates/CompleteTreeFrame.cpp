// Tables become constants of the image, each once for all points of a schedule.
// See CompleteTreeFrame.h.
#include "compiler/targets/cpu/templates/CompleteTreeFrame.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tensmith::kernel {

Value CompleteTreeFrame::table(StringRef name, ArrayRef<uint32_t> numbers) {
  auto module = builder_.getInsertionBlock()->getParentOp()->getParentOfType<ModuleOp>();
  std::string symbol = (Twine(kKernelSymbol) + "." + name).str();
  auto global = module.lookupSymbol<LLVM::GlobalOp>(symbol); // of another point
  if (!global) {
    auto type = RankedTensorType::get({int64_t(numbers.size())}, integer_);
    global = OpBuilder::atBlockBegin(module.getBody())
                 .create<LLVM::GlobalOp>(
                     math_.location, LLVM::LLVMArrayType::get(integer_, numbers.size()),
                     /*isConstant=*/true, LLVM::Linkage::Internal, symbol,
                     DenseElementsAttr::get(
                         type, ArrayRef(reinterpret_cast<const int32_t *>(numbers.data()),
                                        numbers.size())),
                     /*alignment=*/64);
  }
  return builder_.create<LLVM::AddressOfOp>(math_.location, global);
}

void CompleteTreeFrame::placeTables() {
  std::vector<uint32_t> leaves;
  for (float leaf : forest_.leaves)
    leaves.push_back(llvm::bit_cast<uint32_t>(leaf));
  leaves_ = table("leaves", leaves);
  targetTable_ =
      table("targets", std::vector<uint32_t>(forest_.target.begin(), forest_.target.end()));
}

Value CompleteTreeFrame::constant(Type type, int64_t value) {
  TypedAttr number = builder_.getIntegerAttr(getElementTypeOrSelf(type), value);
  if (auto vector = dyn_cast<VectorType>(type))
    number = DenseElementsAttr::get(vector, ArrayRef<mlir::Attribute>(number));
  return builder_.create<arith::ConstantOp>(math_.location, number);
}

CompleteTreeFrame::Key CompleteTreeFrame::keyAt(Value row, Value column) {
  Value x = loadElement(x_, math_.add(math_.mul(row, features_), entry(columns_, column)));
  Value isMissing = builder_.create<arith::CmpFOp>(math_.location, arith::CmpFPredicate::UNO, x, x);
  x = made<arith::AddFOp>(x, number(0));
  Value bits = builder_.create<arith::BitcastOp>(math_.location, integer_, x);
  Value sign = made<arith::ShRSIOp>(bits, constant(integer_, 31));
  Value turned = made<arith::OrIOp>(sign, constant(integer_, int32_t(0x80000000)));
  return {made<arith::XOrIOp>(bits, turned), isMissing};
}

} // namespace tensmith::kernel
