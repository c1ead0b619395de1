// A planned function without kernels as the runtime loads it, and what its runs give.
#pragma once

#include "compiler/module/ModuleWriter.h"
#include "compiler/vm/test/PlannedFunction.h"
#include "runtime/Session.h"

namespace tensmith::vm {

inline std::shared_ptr<const runtime::Module> load(const PlannedFunction &planned) {
  modules::ModuleParts parts;
  parts.plan = std::as_bytes(std::span(planned.plan.bytes));
  parts.weightsBytes = planned.plan.weightsBytes;
  for (const PlanConstant &constant : planned.plan.constants)
    parts.weights.push_back(
        {constant.offset, {constant.tensor.data(), size_t(constant.tensor.bytes())}});
  auto bytes = modules::moduleBytes(parts);
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  auto module = runtime::Module::loadBytes(std::as_bytes(std::span(*bytes)), {});
  EXPECT_TRUE(module.ok()) << module.status().message();
  return module.ok() ? *module : nullptr;
}

inline void expectEqual(const HostTensor &actual, const HostTensor &expected) {
  ASSERT_EQ(actual.type(), expected.type());
  ASSERT_EQ(actual.shape(), expected.shape());
  for (int64_t i = 0; i < actual.size(); ++i)
    if (actual.type() == DataType::String)
      ASSERT_EQ(actual.getString(i), expected.getString(i));
    else
      ASSERT_EQ(actual.getDouble(i), expected.getDouble(i)) << "element " << i;
}

} // namespace tensmith::vm
