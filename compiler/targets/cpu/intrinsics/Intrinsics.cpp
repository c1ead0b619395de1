// Which of a family's instructions a machine has; see Intrinsics.h.
#include "compiler/targets/cpu/intrinsics/Intrinsics.h"

#include "compiler/targets/Target.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace tensmith::targets {

Table<IntrinsicFamily> &intrinsicFamilies() {
  static const IntrinsicFamily kOwn[] = {{"x86", "x86_64", cpu::x86Intrinsics()},
                                         {"arm", "aarch64", cpu::armIntrinsics()},
                                         {"riscv", "riscv64", cpu::riscvIntrinsics()}};
  static Table<IntrinsicFamily> all("family of instructions",
                                    {std::span<const IntrinsicFamily>(kOwn)});
  return all;
}

namespace cpu {

Value emitIntrinsic(OpBuilder &builder, Location location, llvm::StringRef name, Type result,
                    ValueRange operands) {
  return builder
      .create<LLVM::CallIntrinsicOp>(location, TypeRange(result), builder.getStringAttr(name),
                                     operands)
      .getResult(0);
}

llvm::SmallVector<const kernel::Intrinsic *, 4> intrinsicsOf(const Cpu &machine) {
  llvm::SmallVector<const kernel::Intrinsic *, 4> result;
  for (const IntrinsicFamily *family : intrinsicFamilies().rows()) {
    if (!machine.triple.starts_with(family->architecture))
      continue;
    for (const kernel::Intrinsic &one : family->rows) {
      llvm::SmallVector<llvm::StringRef> features;
      one.features.split(features, ',', -1, /*KeepEmpty=*/false);
      bool hasAll = llvm::all_of(features, [&](llvm::StringRef name) { return machine.has(name); });
      int64_t sums = machine.vectorBits / bitsOf(one.sum); // of a vector
      int64_t ofOne = one.lanes * (one.has(kernel::OfTiles) ? 1 : one.rows);
      bool fits = ofOne == 0 || sums == ofOne || (one.has(kernel::InBlocks) && sums % ofOne == 0);
      if (hasAll && fits)
        result.push_back(&one);
    }
  }
  return result;
}

void hold(OpBuilder &builder, Location location, MutableArrayRef<Value> values,
          llvm::StringRef vectorRegister) {
  std::string results, same;
  SmallVector<Type> types;
  for (auto [number, value] : llvm::enumerate(values)) {
    bool isVector = isa<VectorType>(value.getType());
    results += (number ? ",=" : "=") + (isVector ? vectorRegister.str() : "r");
    same += "," + std::to_string(number);
    types.push_back(value.getType());
  }
  Type type =
      types.size() == 1 ? types[0] : LLVM::LLVMStructType::getLiteral(builder.getContext(), types);
  Value all =
      builder
          .create<LLVM::InlineAsmOp>(location, type, ValueRange(SmallVector<Value>(values)), "",
                                     results + same, /*has_side_effects=*/false,
                                     /*is_align_stack=*/false, LLVM::AsmDialectAttr(), ArrayAttr())
          .getResult(0);
  if (types.size() == 1) {
    values[0] = all;
    return;
  }
  for (auto [number, value] : llvm::enumerate(values))
    value = builder.create<LLVM::ExtractValueOp>(location, all, int64_t(number));
}

kernel::Hold holdOf(const Cpu &machine) {
  // The letters of vector registers in constraints.
  llvm::StringRef triple = machine.triple;
  if (triple.starts_with("x86_64"))
    return [](OpBuilder &builder, Location location, MutableArrayRef<Value> values) {
      hold(builder, location, values, "v");
    };
  if (triple.starts_with("aarch64") || triple.starts_with("arm"))
    return [](OpBuilder &builder, Location location, MutableArrayRef<Value> values) {
      // Of vectors beyond 128 bits constraints take those alone whose length is the machine's.
      SmallVector<Value> registers(values);
      for (Value &value : registers)
        if (isScalable(value.getType()))
          value = asScalable(builder, location, value);
      hold(builder, location, registers, "w");
      for (auto [value, inRegister] : llvm::zip_equal(values, registers))
        value = asFixed(builder, location, inRegister, value.getType());
    };
  return nullptr;
}

} // namespace cpu
} // namespace tensmith::targets
