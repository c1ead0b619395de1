// Memory of constants that a module no longer has.
#include "compiler/graph/Constants.h"

#include "compiler/graph/Dialects.h"

#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <numeric>

using namespace mlir;

namespace tensmith::graph {
namespace {

HostTensor numbers(int64_t count, float first) {
  std::vector<float> values(size_t(count), 0);
  std::iota(values.begin(), values.end(), first);
  return HostTensor::of<float>(DataType::F32, {count}, values);
}

class ConstantScopes : public ::testing::Test {
protected:
  ConstantScopes() {
    DialectRegistry registry;
    registerDialects(registry);
    context_.appendDialectRegistry(registry);
    context_.loadAllAvailableDialects();
    module_ = ModuleOp::create(UnknownLoc::get(&context_));
  }

  static bool hasMemory(ElementsAttr constant) {
    auto *blob = cast<DenseResourceElementsAttr>(constant).getRawHandle().getBlob();
    return blob && !blob->getData().empty();
  }

  MLIRContext context_;
  OwningOpRef<ModuleOp> module_;
};

TEST_F(ConstantScopes, WhatTheModuleHasStays) {
  ConstantScope scope;
  ElementsAttr kept = elementsAttr(&context_, numbers(1000, 1));
  ElementsAttr dropped = elementsAttr(&context_, numbers(1000, 2));
  module_->getOperation()->setAttr("kept", kept);
  scope.release(*module_);
  EXPECT_TRUE(hasMemory(kept));
  EXPECT_FALSE(hasMemory(dropped));
  EXPECT_FALSE(hostTensor(dropped).ok());
}

/// Breaks where a tensor that shares a released one's memory reads what is no longer there.
TEST_F(ConstantScopes, SharedMemoryStays) {
  ConstantScope scope;
  ElementsAttr flat = elementsAttr(&context_, numbers(1000, 3));
  auto tensor = hostTensor(flat);
  ASSERT_TRUE(tensor.ok());
  ElementsAttr square = elementsAttr(&context_, HostTensor(DataType::F32, {10, 100}, tensor->data(),
                                                           std::make_shared<HostTensor>(*tensor)));
  tensor = Status(StatusCode::Internal, "forgotten");
  module_->getOperation()->setAttr("square", square);
  scope.release(*module_);
  EXPECT_FALSE(hasMemory(flat));
  std::vector<HostTensor> others; // take the place of what was given back
  for (int i = 0; i < 100; ++i)
    others.push_back(numbers(1000, -1));
  auto shared = hostTensor(square);
  ASSERT_TRUE(shared.ok());
  EXPECT_EQ(shared->getDouble(0), 3);
  EXPECT_EQ(shared->getDouble(999), 1002);
}

/// Constants of a compilation around another are none of the inner one's.
TEST_F(ConstantScopes, AnInnerScopeKnowsItsOwn) {
  ConstantScope outer;
  ElementsAttr before = elementsAttr(&context_, numbers(1000, 4));
  {
    ConstantScope inner;
    ElementsAttr within = elementsAttr(&context_, numbers(1000, 5));
    inner.release(*module_);
    EXPECT_TRUE(hasMemory(before));
    EXPECT_FALSE(hasMemory(within));
  }
  outer.release(*module_);
  EXPECT_FALSE(hasMemory(before));
}

} // namespace
} // namespace tensmith::graph
