// What exporting refuses that no program of a test's size comes to, and elements of two bits, which
// the opset has not.
#include "TestModels.h"

#include "frontends/onnx/Export.h"
#include "frontends/onnx/TensorData.h"

#include <sys/mman.h>

using namespace tensmith;
using onnx_test::Builder;

namespace {

TEST(Export, MoreThanAnOnnxFileCanHold) {
  Shape shape = {int64_t(1) << 28, 3};
  size_t bytes = size_t(shape[0] * shape[1]) * sizeof(float);
  // Never touched, so that it takes no memory.
  void *data =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(data, MAP_FAILED);
  Builder model;
  model.input("x", {3});
  model.input("w", shape);
  model.node("Add", {"x", "w"}, {"y"});
  model.output("y");
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = importBytes(onnx_test::span(model.bytes()), "model.onnx", context);
  ASSERT_TRUE(module.ok()) << module.status().message();
  auto exported = exportModel(**module, {{"w", HostTensor(DataType::F32, shape, data, nullptr)}});
  EXPECT_EQ(exported.status().code(), StatusCode::Unsupported);
  EXPECT_NE(exported.status().message().find("more than 2 GiB"), std::string::npos)
      << exported.status().message();
  ::munmap(data, bytes);
}

TEST(Export, ElementsOfTwoBitsArePacked) {
  int8_t values[] = {1, -2, 0, -1, 1};
  auto tensor = HostTensor::of<int8_t>(DataType::I2, {5}, values);
  std::string bytes = onnx_import::rawData(tensor);
  EXPECT_EQ(bytes, std::string("\xc9\x01", 2));
  auto again = onnx_import::tensorOfBytes(DataType::I2, {5}, onnx_test::span(bytes), nullptr);
  ASSERT_TRUE(again.ok()) << again.status().message();
  for (int64_t i = 0; i < 5; ++i)
    EXPECT_EQ(again->getInt(i), values[i]);
}

} // namespace
