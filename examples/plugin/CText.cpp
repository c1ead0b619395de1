// Writes a module as C, an instruction a statement.
//
// A value is a variable of its function. A vector is a struct of its lanes, and an operation on it
// a loop over them: what a machine of vectors does in an instruction, C does one after the other.
// Integers are unsigned, since they wrap; an operation that looks at the sign casts. A phi is two
// variables: predecessors write the first, and its block copies that, so that phis that read one
// another have the values of before.
#include "CText.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/GetElementPtrTypeIterator.h"
#include "llvm/IR/InstVisitor.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Support/raw_ostream.h"

#include <set>

using namespace llvm;

namespace example {
namespace {

using tensmith::Result;

// What C has no operator for. A rounding adds and takes away 2^23 or 2^52, beyond which all are
// whole numbers.
constexpr char kPrelude[] = R"(#include <stdint.h>
#define REAL(T, I, most)                                                                           \
  static inline T T##_of(I bits) { T x; __builtin_memcpy(&x, &bits, sizeof x); return x; }         \
  static inline T T##_round(T x) {                                                                 \
    T size = x < 0 ? -x : x, whole = size < most ? (size + most) - most : size;                    \
    I sign = (I)1 << (sizeof(I) * 8 - 1), a, b;                                                    \
    __builtin_memcpy(&a, &whole, sizeof a); __builtin_memcpy(&b, &x, sizeof b);                    \
    return x == x ? T##_of((a & ~sign) | (b & sign)) : x; }                                        \
  static inline T T##_floor(T x) { T r = T##_round(x); return r > x ? r - 1 : r; }                 \
  static inline T T##_ceil(T x) { T r = T##_round(x); return r < x ? r + 1 : r; }                  \
  static inline T T##_trunc(T x) { return x < 0 ? T##_ceil(x) : T##_floor(x); }                    \
  static inline T T##_maximum(T a, T b) {                                                          \
    return a != a ? a : b != b ? b : a > b ? a : b > a ? b : __builtin_signbit(a) ? b : a; }       \
  static inline T T##_minimum(T a, T b) {                                                          \
    return a != a ? a : b != b ? b : a < b ? a : b < a ? b : __builtin_signbit(a) ? a : b; }       \
  static inline T T##_maxnum(T a, T b) { return a != a || b > a ? b : a; }                         \
  static inline T T##_minnum(T a, T b) { return a != a || b < a ? b : a; }
REAL(float, uint32_t, 0x1p23f)
REAL(double, uint64_t, 0x1p52)
)";

class Writer : public InstVisitor<Writer> {
public:
  Writer(const Module &module, StringRef entry, StringRef symbol)
      : module_(module), layout_(module.getDataLayout()), entry_(entry), symbol_(symbol) {}

  Result<std::string> run() {
    std::string all;
    for (const GlobalVariable &global : module_.globals())
      writeGlobal(global);
    for (const Function &function : module_)
      if (!function.isIntrinsic())
        declarations_ << signature(function) << ";\n";
    for (const Function &function : module_)
      if (!function.isDeclaration())
        all += write(const_cast<Function &>(function));
    if (!refused_.empty())
      return tensmith::unsupported("C has nothing for " + refused_ + " yet");
    return kPrelude + types_ + declared_ + all;
  }

  // ---- instructions ----

  void visitInstruction(Instruction &op) { refuse(op); }
  void visitUnreachableInst(UnreachableInst &) { line("__builtin_unreachable()"); }
  void visitFreezeInst(FreezeInst &op) { assign(op, lane(op.getOperand(0))); }
  void visitReturnInst(ReturnInst &op) {
    line(op.getReturnValue() ? "return " + text(op.getReturnValue()) : "return");
  }
  void visitBranchInst(BranchInst &op) {
    if (op.isUnconditional())
      return jump(op.getParent(), op.getSuccessor(0));
    body_ << "  if (" << text(op.getCondition()) << ") {\n";
    jump(op.getParent(), op.getSuccessor(0));
    body_ << "  } else {\n";
    jump(op.getParent(), op.getSuccessor(1));
    body_ << "  }\n";
  }
  void visitSwitchInst(SwitchInst &op) {
    for (auto choice : op.cases()) {
      body_ << "  if (" << text(op.getCondition()) << " == " << text(choice.getCaseValue())
            << ") {\n";
      jump(op.getParent(), choice.getCaseSuccessor());
      body_ << "  }\n";
    }
    jump(op.getParent(), op.getDefaultDest());
  }
  void visitPHINode(PHINode &op) { line(text(&op) + " = " + text(&op) + "_next"); }

  void visitUnaryOperator(UnaryOperator &op) { assign(op, "-" + lane(op.getOperand(0))); }
  void visitBinaryOperator(BinaryOperator &op) {
    Type *type = op.getType()->getScalarType();
    std::string a = lane(op.getOperand(0)), b = lane(op.getOperand(1));
    std::string sa = asSigned(op.getOperand(0)), sb = asSigned(op.getOperand(1));
    auto wide = [&](const char *sign) { return "(uint64_t)" + a + sign + "(uint64_t)" + b; };
    std::string value;
    switch (op.getOpcode()) {
    case Instruction::FAdd:
      return assign(op, a + " + " + b);
    case Instruction::FSub:
      return assign(op, a + " - " + b);
    case Instruction::FMul:
      return assign(op, a + " * " + b);
    case Instruction::FDiv:
      return assign(op, a + " / " + b);
    case Instruction::Add:
      value = wide(" + ");
      break;
    case Instruction::Sub:
      value = wide(" - ");
      break;
    case Instruction::Mul:
      value = wide(" * ");
      break;
    case Instruction::And:
      value = wide(" & ");
      break;
    case Instruction::Or:
      value = wide(" | ");
      break;
    case Instruction::Xor:
      value = wide(" ^ ");
      break;
    case Instruction::Shl:
      value = wide(" << ");
      break;
    case Instruction::LShr:
      value = a + " >> " + b;
      break;
    case Instruction::AShr:
      value = sa + " >> " + b;
      break;
    case Instruction::UDiv:
      value = a + " / " + b;
      break;
    case Instruction::URem:
      value = a + " % " + b;
      break;
    case Instruction::SDiv:
      value = sa + " / " + sb;
      break;
    case Instruction::SRem:
      value = sa + " % " + sb;
      break;
    default:
      return refuse(op);
    }
    assign(op, narrow(type, value));
  }
  void visitICmpInst(ICmpInst &op) {
    bool isSigned = op.isSigned();
    auto operand = [&](unsigned n) {
      return isSigned ? asSigned(op.getOperand(n)) : lane(op.getOperand(n));
    };
    assign(op, operand(0) + signOf(op.getUnsignedPredicate()) + operand(1));
  }
  void visitFCmpInst(FCmpInst &op) {
    std::string a = lane(op.getOperand(0)), b = lane(op.getOperand(1));
    auto is = [&](const char *sign) { return "(" + a + sign + b + ")"; };
    std::string unordered = "(" + a + " != " + a + " || " + b + " != " + b + ")";
    switch (op.getPredicate()) {
    case CmpInst::FCMP_OEQ:
      return assign(op, is(" == "));
    case CmpInst::FCMP_OGT:
      return assign(op, is(" > "));
    case CmpInst::FCMP_OGE:
      return assign(op, is(" >= "));
    case CmpInst::FCMP_OLT:
      return assign(op, is(" < "));
    case CmpInst::FCMP_OLE:
      return assign(op, is(" <= "));
    case CmpInst::FCMP_ONE:
      return assign(op, is(" < ") + " || " + is(" > "));
    case CmpInst::FCMP_ORD:
      return assign(op, "!" + unordered);
    case CmpInst::FCMP_UNO:
      return assign(op, unordered);
    case CmpInst::FCMP_UEQ:
      return assign(op, "!(" + is(" < ") + " || " + is(" > ") + ")");
    case CmpInst::FCMP_UGT:
      return assign(op, "!" + is(" <= "));
    case CmpInst::FCMP_UGE:
      return assign(op, "!" + is(" < "));
    case CmpInst::FCMP_ULT:
      return assign(op, "!" + is(" >= "));
    case CmpInst::FCMP_ULE:
      return assign(op, "!" + is(" > "));
    case CmpInst::FCMP_UNE:
      return assign(op, is(" != "));
    default:
      return refuse(op);
    }
  }
  void visitSelectInst(SelectInst &op) {
    assign(op, lane(op.getCondition()) + " ? " + lane(op.getTrueValue()) + " : " +
                   lane(op.getFalseValue()));
  }
  void visitCastInst(CastInst &op) {
    Type *from = op.getSrcTy()->getScalarType(), *to = op.getType()->getScalarType();
    std::string value = lane(op.getOperand(0)), sign = asSigned(op.getOperand(0));
    switch (op.getOpcode()) {
    case Instruction::Trunc:
    case Instruction::ZExt:
      return assign(op, narrow(to, value));
    case Instruction::SExt:
      return assign(op, narrow(to, "(int64_t)" + sign));
    case Instruction::FPToUI:
      return assign(op, narrow(to, "(uint64_t)" + value));
    case Instruction::FPToSI:
      return assign(op, narrow(to, "(int64_t)" + value));
    case Instruction::UIToFP:
      return assign(op, "(" + name(to) + ")" + value);
    case Instruction::SIToFP:
      return assign(op, "(" + name(to) + ")" + sign);
    case Instruction::FPTrunc:
    case Instruction::FPExt:
      return assign(op, "(" + name(to) + ")" + value);
    case Instruction::PtrToInt:
      return assign(op, narrow(to, "(uint64_t)" + value));
    case Instruction::IntToPtr:
      return assign(op, "(char *)" + value);
    case Instruction::BitCast:
      if (from->isIntegerTy(1) != to->isIntegerTy(1)) // whose lanes are bytes here
        return refuse(op);
      return copyBytes("&" + text(&op), "&" + variable(op.getOperand(0)), op.getType());
    default:
      return refuse(op);
    }
  }

  void visitLoadInst(LoadInst &op) {
    if (isMask(op.getType()))
      return refuse(op);
    copyBytes("&" + text(&op), text(op.getPointerOperand()), op.getType());
  }
  void visitStoreInst(StoreInst &op) {
    Value *value = op.getValueOperand();
    if (isMask(value->getType()))
      return refuse(op);
    copyBytes(text(op.getPointerOperand()), "&" + variable(value), value->getType());
  }
  void visitAllocaInst(AllocaInst &op) {
    auto bytes = op.getAllocationSize(layout_);
    if (!bytes)
      return refuse(op);
    std::string memory = text(&op) + "_memory";
    locals_ << "  char " << memory << "[" << bytes->getFixedValue()
            << "] __attribute__((aligned(64)));\n";
    line(text(&op) + " = " + memory);
  }
  void visitGetElementPtrInst(GetElementPtrInst &op) {
    std::string place = lane(op.getPointerOperand());
    for (auto it = gep_type_begin(op), end = gep_type_end(op); it != end; ++it) {
      if (StructType *type = it.getStructTypeOrNull()) {
        auto field = cast<ConstantInt>(it.getOperand())->getZExtValue();
        place += " + " + utostr(layout_.getStructLayout(type)->getElementOffset(unsigned(field)));
        continue;
      }
      auto bytes = it.getSequentialElementStride(layout_).getFixedValue();
      place += " + (int64_t)" + asSigned(it.getOperand()) + " * " + utostr(bytes);
    }
    assign(op, place);
  }

  void visitExtractElementInst(ExtractElementInst &op) {
    line(text(&op) + " = " + variable(op.getVectorOperand()) + ".e[" + text(op.getIndexOperand()) +
         "]");
  }
  void visitInsertElementInst(InsertElementInst &op) {
    line(text(&op) + " = " + text(op.getOperand(0)));
    line(text(&op) + ".e[" + text(op.getOperand(2)) + "] = " + text(op.getOperand(1)));
  }
  void visitShuffleVectorInst(ShuffleVectorInst &op) {
    auto lanes = int(cast<FixedVectorType>(op.getOperand(0)->getType())->getNumElements());
    for (auto [to, from] : enumerate(op.getShuffleMask()))
      if (from >= 0)
        line(text(&op) + ".e[" + utostr(to) +
             "] = " + variable(op.getOperand(from < lanes ? 0 : 1)) + ".e[" +
             utostr(unsigned(from % lanes)) + "]");
  }

  void visitCallInst(CallInst &op) {
    if (op.isInlineAsm())
      return refuse(op);
    std::vector<std::string> arguments, types;
    for (Value *argument : op.args()) {
      arguments.push_back(text(argument));
      types.push_back(name(argument->getType()));
    }
    std::string call = "((" + name(op.getType()) + " (*)(" + join(types, ", ") + "))" +
                       text(op.getCalledOperand()) + ")(" + join(arguments, ", ") + ")";
    line(op.getType()->isVoidTy() ? call : text(&op) + " = " + call);
  }
  void visitIntrinsicInst(IntrinsicInst &op) {
    Type *type = op.getType()->getScalarType();
    auto argument = [&](unsigned n) { return lane(op.getArgOperand(n)); };
    auto real = [&](const char *function) {
      std::string operands;
      for (unsigned n = 0; n < op.arg_size(); ++n)
        operands += (n ? ", " : "") + argument(n);
      assign(op, name(type) + "_" + function + "(" + operands + ")");
    };
    auto builtin = [&](const char *function, const std::string &operands) {
      assign(op, std::string("__builtin_") + function + (type->isFloatTy() ? "f" : "") + "(" +
                     operands + ")");
    };
    auto choice = [&](const char *sign, bool isSigned) {
      auto operand = [&](unsigned n) {
        return isSigned ? asSigned(op.getArgOperand(n)) : argument(n);
      };
      assign(op, operand(0) + sign + operand(1) + " ? " + argument(0) + " : " + argument(1));
    };
    switch (op.getIntrinsicID()) {
    case Intrinsic::assume:
    case Intrinsic::prefetch:
    case Intrinsic::lifetime_start:
    case Intrinsic::lifetime_end:
    case Intrinsic::experimental_noalias_scope_decl:
      return;
    case Intrinsic::fmuladd:
      return assign(op, argument(0) + " * " + argument(1) + " + " + argument(2));
    case Intrinsic::fabs:
      return builtin("fabs", argument(0));
    case Intrinsic::sqrt:
      return builtin("sqrt", argument(0));
    case Intrinsic::copysign:
      return builtin("copysign", argument(0) + ", " + argument(1));
    case Intrinsic::floor:
      return real("floor");
    case Intrinsic::ceil:
      return real("ceil");
    case Intrinsic::trunc:
      return real("trunc");
    case Intrinsic::rint:
    case Intrinsic::nearbyint:
    case Intrinsic::roundeven:
      return real("round");
    case Intrinsic::maximum:
      return real("maximum");
    case Intrinsic::minimum:
      return real("minimum");
    case Intrinsic::maxnum:
      return real("maxnum");
    case Intrinsic::minnum:
      return real("minnum");
    case Intrinsic::smax:
      return choice(" > ", true);
    case Intrinsic::smin:
      return choice(" < ", true);
    case Intrinsic::umax:
      return choice(" > ", false);
    case Intrinsic::umin:
      return choice(" < ", false);
    case Intrinsic::abs: {
      std::string value = argument(0);
      return assign(op, asSigned(op.getArgOperand(0)) + " < 0 ? " +
                            narrow(type, "-(uint64_t)" + value) + " : " + value);
    }
    case Intrinsic::masked_load:
    case Intrinsic::masked_gather:
      return readMasked(op);
    case Intrinsic::masked_store:
    case Intrinsic::masked_scatter:
      return writeMasked(op);
    default:
      return reduce(op);
    }
  }

private:
  // ---- vectors in memory, and their reductions ----

  std::string addressOf(Value *pointer, Type *element) {
    return lane(pointer) + (pointer->getType()->isVectorTy()
                                ? ""
                                : " + i * " + utostr(layout_.getTypeStoreSize(element)));
  }
  void loop(Type *vector, const std::string &statement) {
    body_ << "  for (int i = 0; i < " << cast<FixedVectorType>(vector)->getNumElements()
          << "; ++i) " << statement << "\n";
  }
  void readMasked(IntrinsicInst &op) {
    Type *element = op.getType()->getScalarType();
    assign(op, lane(op.getArgOperand(3)));
    loop(op.getType(), "if (" + lane(op.getArgOperand(2)) + ") __builtin_memcpy(&" + text(&op) +
                           ".e[i], " + addressOf(op.getArgOperand(0), element) + ", sizeof(" +
                           name(element) + "));");
  }
  void writeMasked(IntrinsicInst &op) {
    Value *value = op.getArgOperand(0);
    Type *element = value->getType()->getScalarType();
    std::string from = variable(value);
    loop(value->getType(), "if (" + lane(op.getArgOperand(3)) + ") __builtin_memcpy(" +
                               addressOf(op.getArgOperand(1), element) + ", &" + from +
                               ".e[i], sizeof(" + name(element) + "));");
  }
  void reduce(IntrinsicInst &op) {
    Type *type = op.getType();
    unsigned last = unsigned(op.arg_size()) - 1;
    std::string sum = text(&op), each = lane(op.getArgOperand(last));
    auto fold = [&](const std::string &start, const std::string &next) {
      line(sum + " = " + start);
      loop(op.getArgOperand(last)->getType(), sum + " = " + next + ";");
    };
    auto wrapped = [&](const char *sign, const char *start) {
      fold(start, narrow(type, "(uint64_t)" + sum + sign + "(uint64_t)" + each));
    };
    auto chosen = [&](const char *function) {
      fold(variable(op.getArgOperand(last)) + ".e[0]",
           name(type) + "_" + function + "(" + sum + ", " + each + ")");
    };
    auto compared = [&](const char *sign, bool isSigned) {
      std::string cast = isSigned ? "(" + signedName(type) + ")" : "";
      fold(variable(op.getArgOperand(last)) + ".e[0]",
           cast + sum + sign + cast + each + " ? " + sum + " : " + each);
    };
    switch (op.getIntrinsicID()) {
    case Intrinsic::vector_reduce_fadd:
      return fold(text(op.getArgOperand(0)), sum + " + " + each);
    case Intrinsic::vector_reduce_fmul:
      return fold(text(op.getArgOperand(0)), sum + " * " + each);
    case Intrinsic::vector_reduce_add:
      return wrapped(" + ", "0");
    case Intrinsic::vector_reduce_mul:
      return wrapped(" * ", "1");
    case Intrinsic::vector_reduce_or:
      return wrapped(" | ", "0");
    case Intrinsic::vector_reduce_xor:
      return wrapped(" ^ ", "0");
    case Intrinsic::vector_reduce_and:
      return wrapped(" & ", "-1");
    case Intrinsic::vector_reduce_fmax:
      return chosen("maxnum");
    case Intrinsic::vector_reduce_fmin:
      return chosen("minnum");
    case Intrinsic::vector_reduce_fmaximum:
      return chosen("maximum");
    case Intrinsic::vector_reduce_fminimum:
      return chosen("minimum");
    case Intrinsic::vector_reduce_smax:
      return compared(" > ", true);
    case Intrinsic::vector_reduce_smin:
      return compared(" < ", true);
    case Intrinsic::vector_reduce_umax:
      return compared(" > ", false);
    case Intrinsic::vector_reduce_umin:
      return compared(" < ", false);
    default:
      return refuse(op);
    }
  }

  // ---- types and values ----

  static const char *signOf(CmpInst::Predicate predicate) {
    switch (predicate) {
    case CmpInst::ICMP_EQ:
      return " == ";
    case CmpInst::ICMP_NE:
      return " != ";
    case CmpInst::ICMP_UGT:
      return " > ";
    case CmpInst::ICMP_UGE:
      return " >= ";
    case CmpInst::ICMP_ULT:
      return " < ";
    default:
      return " <= ";
    }
  }
  static bool isMask(Type *type) {
    return type->isVectorTy() && type->getScalarType()->isIntegerTy(1);
  }

  std::string name(Type *type) {
    if (type->isVoidTy())
      return "void";
    if (type->isPointerTy())
      return "char *";
    if (type->isFloatTy() || type->isDoubleTy())
      return type->isFloatTy() ? "float" : "double";
    unsigned width = type->isIntegerTy() ? type->getIntegerBitWidth() : 0;
    if (width == 1 || width == 8 || width == 16 || width == 32 || width == 64)
      return "uint" + utostr(std::max(width, 8u)) + "_t";
    if (auto *vector = dyn_cast<FixedVectorType>(type))
      return vectorName(vector);
    std::string description;
    raw_string_ostream(description) << "the type " << *type;
    refused_ = description;
    return "int";
  }
  std::string vectorName(FixedVectorType *type) {
    std::string lane = name(type->getElementType());
    std::string own = "lanes" + utostr(type->getNumElements()) + "_" +
                      (lane == "char *" ? "pointer" : lane) +
                      (type->getElementType()->isIntegerTy(1) ? "_mask" : "");
    if (known_.insert(own).second)
      types_ += "typedef struct { " + lane + " e[" + utostr(type->getNumElements()) + "]; } " +
                own + ";\n";
    return own;
  }
  std::string signedName(Type *type) { return name(type).substr(1); } // without the u
  /// An integer expression in the type's width.
  std::string narrow(Type *type, const std::string &value) {
    std::string cast = "(" + name(type) + ")(" + value + ")";
    return type->isIntegerTy(1) ? "(" + cast + " & 1)" : cast;
  }
  std::string asSigned(Value *value) {
    Type *type = value->getType()->getScalarType();
    return type->isPointerTy()    ? lane(value)
           : type->isIntegerTy(1) ? "(-(int8_t)" + lane(value) + ")"
                                  : "((" + signedName(type) + ")" + lane(value) + ")";
  }

  std::string constant(const Constant *value) {
    Type *type = value->getType();
    if (auto *integer = dyn_cast<ConstantInt>(value))
      return "(" + name(type) + ")" + utostr(integer->getZExtValue()) + "u" +
             (type->getIntegerBitWidth() > 32 ? "l" : "");
    if (auto *real = dyn_cast<ConstantFP>(value))
      return name(type) + "_of(" + utostr(real->getValueAPF().bitcastToAPInt().getZExtValue()) +
             "u" + (type->isDoubleTy() ? "l" : "") + ")";
    if (auto *function = dyn_cast<Function>(value))
      return "(char *)" + nameOf(*function);
    if (isa<GlobalVariable>(value))
      return "(char *)" + globalName(*cast<GlobalVariable>(value));
    if (type->isVectorTy())
      return "(" + name(type) + "){{" + elements(value) + "}}";
    if (isa<UndefValue>(value) || value->isNullValue())
      return "(" + name(type) + ")0";
    refused_ = "a constant expression";
    return "0";
  }
  std::string elements(const Constant *value) {
    unsigned count = cast<FixedVectorType>(value->getType())->getNumElements();
    std::string all;
    for (unsigned i = 0; i < count; ++i)
      all += (i ? ", " : "") + constant(value->getAggregateElement(i));
    return all;
  }

  /// An expression; of a vector as a whole.
  std::string text(const Value *value) {
    if (auto *known = dyn_cast<Constant>(value))
      return constant(known);
    auto [it, isNew] = numbers_.try_emplace(value, numbers_.size());
    return "t" + utostr(it->second);
  }
  /// One that has an address, and lanes.
  std::string variable(const Value *value) {
    if (!isa<Constant>(value))
      return text(value);
    std::string own = "c" + utostr(constants_++);
    locals_ << "  const " << name(value->getType()) << " " << own << " = " << text(value) << ";\n";
    return own;
  }
  /// Of lane `i`, or of the only one.
  std::string lane(Value *value) {
    if (!value->getType()->isVectorTy())
      return text(value);
    if (auto *known = dyn_cast<Constant>(value))
      if (Constant *splat = known->getSplatValue())
        return text(splat);
    return variable(value) + ".e[i]";
  }

  // ---- statements ----

  void line(const std::string &statement) { body_ << "  " << statement << ";\n"; }
  void assign(Instruction &op, const std::string &value) {
    if (op.getType()->isVectorTy())
      loop(op.getType(), text(&op) + ".e[i] = " + value + ";");
    else
      line(text(&op) + " = " + value);
  }
  void copyBytes(const std::string &to, const std::string &from, Type *type) {
    line("__builtin_memcpy(" + to + ", " + from + ", sizeof(" + name(type) + "))");
  }
  void jump(BasicBlock *from, BasicBlock *to) {
    for (PHINode &phi : to->phis())
      line(text(&phi) + "_next = " + text(phi.getIncomingValueForBlock(from)));
    line("goto " + label(to));
  }
  std::string label(const BasicBlock *block) {
    return "b" + utostr(blocks_.try_emplace(block, blocks_.size()).first->second);
  }
  void refuse(const Instruction &op) { raw_string_ostream(refused_ = "") << "'" << op << "'"; }

  // ---- functions and globals ----

  std::string nameOf(const Function &function) {
    return function.getName() == entry_ ? symbol_.str() : cName(function.getName());
  }
  std::string cName(StringRef name) {
    std::string own = symbol_.str() + "_";
    for (char letter : name)
      own += isAlnum(letter) ? letter : '_';
    return own;
  }
  std::string globalName(const GlobalVariable &global) { return cName(global.getName()); }
  std::string signature(const Function &function) {
    std::string parameters;
    for (const Argument &argument : function.args())
      parameters +=
          (parameters.empty() ? "" : ", ") + name(argument.getType()) + " " + text(&argument);
    return (function.getName() == entry_ ? "" : "static ") + name(function.getReturnType()) + " " +
           nameOf(function) + "(" + parameters + ")";
  }
  void writeGlobal(const GlobalVariable &global) {
    if (global.getName().starts_with("llvm."))
      return;
    auto *data =
        global.hasInitializer() ? dyn_cast<ConstantDataArray>(global.getInitializer()) : nullptr;
    if (!data) {
      refused_ = "the contents of the global '" + global.getName().str() + "'";
      return;
    }
    declarations_ << "static const char " << globalName(global)
                  << "[] __attribute__((aligned(64))) = {";
    for (char byte : data->getRawDataValues())
      declarations_ << int(byte) << ",";
    declarations_ << "};\n";
  }
  std::string write(Function &function) {
    bodyText_.clear();
    localsText_.clear();
    for (BasicBlock &block : function) {
      body_ << label(&block) << ":;\n";
      visit(block);
    }
    std::string variables;
    for (BasicBlock &block : function)
      for (Instruction &op : block)
        if (!op.getType()->isVoidTy())
          variables +=
              "  " + name(op.getType()) + " " + text(&op) + ";\n" +
              (isa<PHINode>(op) ? "  " + name(op.getType()) + " " + text(&op) + "_next;\n" : "");
    return signature(function) + " {\n" + variables + localsText_ + bodyText_ + "}\n";
  }

  const Module &module_;
  const DataLayout &layout_;
  StringRef entry_, symbol_;
  std::string types_, declared_, bodyText_, localsText_, refused_;
  raw_string_ostream declarations_{declared_}, body_{bodyText_}, locals_{localsText_};
  DenseMap<const Value *, size_t> numbers_;
  DenseMap<const BasicBlock *, size_t> blocks_;
  std::set<std::string> known_;
  size_t constants_ = 0;
};

} // namespace

Result<std::string> cText(const Module &module, StringRef entry, StringRef symbol) {
  return Writer(module, entry, symbol).run();
}

} // namespace example
