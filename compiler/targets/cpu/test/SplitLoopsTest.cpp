// That loops which are cut at their tests do the same in the same order, and that the tests are
// gone from where the elements are.
#include "compiler/targets/cpu/codegen/SplitLoops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <random>

namespace tensmith::targets::cpu {
namespace {

using namespace mlir;

class SplitLoops : public testing::Test {
protected:
  OwningOpRef<ModuleOp> parse(const std::string &loop) {
    auto module = parseSourceString<ModuleOp>(
        "func.func @f() {\n  %one = arith.constant 1 : index\n" + loop + "  return\n}\n",
        &context_);
    EXPECT_TRUE(module) << loop;
    return module;
  }
  static SmallVector<scf::ForOp> loops(ModuleOp module) {
    SmallVector<scf::ForOp> found;
    module.walk([&](scf::ForOp loop) { found.push_back(loop); });
    return found;
  }

  /// What the operations `use` are given, in the order in which the loops run.
  static std::vector<int64_t> trace(ModuleOp module) {
    std::vector<int64_t> used;
    llvm::DenseMap<Value, Attribute> values;
    auto evaluate = [&](Operation *op) {
      SmallVector<Attribute> operands;
      for (Value operand : op->getOperands())
        operands.push_back(values.lookup(operand));
      if (op->getName().getStringRef() == "test.use") {
        for (Attribute operand : operands)
          used.push_back(cast<IntegerAttr>(operand).getInt());
      } else if (op->getNumResults()) {
        SmallVector<OpFoldResult> results;
        EXPECT_TRUE(succeeded(op->fold(operands, results)));
        auto value = dyn_cast<Value>(results[0]);
        values[op->getResult(0)] = value ? values.lookup(value) : cast<Attribute>(results[0]);
      }
    };
    module.walk<WalkOrder::PreOrder>([&](Operation *op) {
      auto loop = dyn_cast<scf::ForOp>(op);
      if (!loop) {
        if (op->hasTrait<OpTrait::ConstantLike>())
          evaluate(op);
        return WalkResult::advance();
      }
      int64_t end = *getConstantIntValue(loop.getUpperBound());
      for (int64_t i = *getConstantIntValue(loop.getLowerBound()); i < end; ++i) {
        values[loop.getInductionVar()] = OpBuilder(loop).getIndexAttr(i);
        for (Operation &inner : loop.getBody()->without_terminator())
          evaluate(&inner);
      }
      return WalkResult::skip();
    });
    return used;
  }

  SplitLoops() {
    context_.loadDialect<arith::ArithDialect, func::FuncDialect, scf::SCFDialect>();
    context_.allowUnregisteredDialects();
  }
  MLIRContext context_;
};

constexpr const char *kPadded = R"(
  %low = arith.constant 0 : index
  %high = arith.constant 226 : index
  %last = arith.constant 223 : index
  %size = arith.constant 224 : index
  scf.for %i = %low to %high step %one {
    %x = arith.subi %i, %one : index
    %inside = arith.cmpi ult, %x, %size : index
    %below = arith.minsi %x, %last : index
    %clamped = arith.maxsi %below, %low : index
    "test.use"(%inside, %clamped) : (i1, index) -> ()
  }
)";

// Breaks if the elements inside are still read at a clamped index, or parts are cut where nothing
// changes.
TEST_F(SplitLoops, PaddingIsALoopOfItsOwn) {
  auto module = parse(kPadded);
  auto before = trace(*module);
  splitLoops(*module);
  EXPECT_EQ(trace(*module), before);
  auto parts = loops(*module);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(getConstantIntValue(parts[1].getLowerBound()), 1);
  EXPECT_EQ(getConstantIntValue(parts[1].getUpperBound()), 225);
  Operation *use = parts[1].getBody()->getTerminator()->getPrevNode();
  EXPECT_EQ(getConstantIntValue(use->getOperand(0)), -1); // i1 true
  EXPECT_TRUE(isa<arith::SubIOp>(use->getOperand(1).getDefiningOp()));
}

TEST_F(SplitLoops, ShortLoopsStay) {
  std::string text = kPadded;
  text.replace(text.find("226"), 3, "12");
  auto module = parse(text);
  splitLoops(*module);
  EXPECT_EQ(loops(*module).size(), 1u);
}

// Breaks if any kind of test is taken to change elsewhere than it does, negative numbers compared
// without a sign included.
TEST_F(SplitLoops, AnyTestsDoTheSame) {
  std::mt19937 random(7);
  auto draw = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  const char *predicates[] = {"eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"};
  size_t cut = 0;
  for (int round = 0; round < 300; ++round) {
    int low = draw(-5, 5);
    std::string text = "  %low = arith.constant " + std::to_string(low) + " : index\n" +
                       "  %high = arith.constant " + std::to_string(low + draw(0, 70)) +
                       " : index\n";
    std::string body, uses, types;
    int count = draw(1, 4);
    for (int number = 0; number < count; ++number) {
      std::string n = std::to_string(number);
      text += "  %c" + n + " = arith.constant " + std::to_string(draw(-20, 20)) + " : index\n";
      text += "  %k" + n + " = arith.constant " + std::to_string(draw(-10, 60)) + " : index\n";
      bool adds = draw(0, 1), least = draw(0, 1);
      std::string of = number && draw(0, 1) ? "%m" + std::to_string(number - 1) : "%i";
      body +=
          "    %x" + n + " = arith." + (adds ? "addi " : "subi ") + of + ", %c" + n + " : index\n";
      body += "    %m" + n + " = arith." + (least ? "minsi" : "maxsi") + " %x" + n + ", %k" + n +
              " : index\n";
      body += "    %t" + n + " = arith.cmpi " + predicates[draw(0, 9)] + ", " +
              (draw(0, 1) ? "%x" : "%m") + n + ", %k" + n + " : index\n";
      uses += (number ? ", %t" : "%t") + n + ", %m" + n;
      types += number ? ", i1, index" : "i1, index";
    }
    auto module = parse(text + "  scf.for %i = %low to %high step %one {\n" + body +
                        "    \"test.use\"(" + uses + ") : (" + types + ") -> ()\n  }\n");
    auto before = trace(*module);
    splitLoops(*module);
    EXPECT_EQ(trace(*module), before) << text << body;
    cut += loops(*module).size() > 1;
  }
  EXPECT_GT(cut, 100u);
}

// Breaks if what is behind the largest number, or beyond it at an index, wraps round to a small
// one.
TEST_F(SplitLoops, TestsAgainstTheLargestNumberAreNotCut) {
  auto module = parse(R"(
  %low = arith.constant 0 : index
  %high = arith.constant 100 : index
  %most = arith.constant 9223372036854775807 : index
  scf.for %i = %low to %high step %one {
    %x = arith.addi %i, %most : index
    %y = arith.subi %i, %most : index
    %a = arith.cmpi sle, %i, %most : index
    %b = arith.cmpi slt, %x, %low : index
    %c = arith.minsi %y, %most : index
    "test.use"(%a, %b, %c) : (i1, i1, index) -> ()
  }
)");
  auto before = trace(*module);
  splitLoops(*module);
  EXPECT_EQ(trace(*module), before);
}

} // namespace
} // namespace tensmith::targets::cpu
