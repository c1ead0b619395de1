// onnx_eval MODEL [--print] [DATA_FOLDER...]: imports a model, evaluates it by the reference on
// input_*.pb of each folder and compares with output_*.pb, as the tests of onnx.backend.test lie on
// disk. Prints "pass", or one line that says what failed; the exit status is 0 only after passes.
#include "compiler/graph/Evaluate.h"
#include "compiler/graph/Graph.h"
#include "frontends/onnx/Import.h"
#include "frontends/onnx/TensorData.h"
#include "values.pb.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

using namespace tensmith;
using graph::RuntimeValue;

namespace {

double relativeTolerance = 1e-3, absoluteTolerance = 1e-7;

std::optional<std::string> contentsOf(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return std::nullopt;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Result<RuntimeValue> tensorValue(const onnx::TensorProto &proto) {
  auto tensor = onnx_import::readTensor(proto, {});
  if (!tensor.ok())
    return tensor.status();
  // The proto dies with the file: keep a copy.
  if (tensor->type() == DataType::String || tensor->size() == 0)
    return RuntimeValue(*tensor);
  HostTensor copy(tensor->type(), tensor->shape());
  std::memcpy(copy.mutableData(), tensor->data(), size_t(tensor->bytes()));
  return RuntimeValue(std::move(copy));
}

Result<RuntimeValue> sequenceValue(const onnx_values::Sequence &proto) {
  std::vector<RuntimeValue> elements;
  for (const auto &tensor : proto.tensor_values()) {
    auto value = tensorValue(tensor);
    if (!value.ok())
      return value;
    elements.push_back(*value);
  }
  return RuntimeValue::sequence(std::move(elements));
}

Result<RuntimeValue> readValue(const std::string &bytes, mlir::Type type) {
  Status bad(StatusCode::InvalidArgument, "a data file is damaged");
  if (llvm::isa<graph::OptionalType>(type)) {
    onnx_values::Optional proto;
    if (!proto.ParseFromString(bytes))
      return bad;
    if (proto.has_tensor_value())
      return tensorValue(proto.tensor_value());
    if (proto.has_sequence_value())
      return sequenceValue(proto.sequence_value());
    return RuntimeValue();
  }
  if (llvm::isa<graph::SequenceType>(type)) {
    onnx_values::Sequence proto;
    return proto.ParseFromString(bytes) ? sequenceValue(proto) : Result<RuntimeValue>(bad);
  }
  onnx::TensorProto proto;
  return proto.ParseFromString(bytes) ? tensorValue(proto) : Result<RuntimeValue>(bad);
}

bool close(double a, double b, DataType type) {
  if (std::isnan(a) || std::isnan(b))
    return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b))
    return a == b;
  // Two units in the last place of bf16, as ONNX's own runner allows.
  double relative =
      type == DataType::BF16 ? std::max(relativeTolerance, 0x1p-6) : relativeTolerance;
  return std::abs(a - b) <= absoluteTolerance + relative * std::abs(b);
}

std::string differenceOf(const HostTensor &got, const HostTensor &want) {
  if (got.type() != want.type())
    return "has type " + std::string(name(got.type())) + ", not " + std::string(name(want.type()));
  if (got.shape() != want.shape())
    return "has shape " + toString(got.shape()) + ", not " + toString(want.shape());
  if (info(got.type()).kind == TypeClass::Complex)
    return std::memcmp(got.data(), want.data(), size_t(got.bytes())) == 0 ? "" : "differs";
  for (int64_t i = 0; i < got.size(); ++i) {
    if (got.type() == DataType::String) {
      if (got.getString(i) != want.getString(i))
        return "is '" + got.getString(i) + "' at " + std::to_string(i) + ", not '" +
               want.getString(i) + "'";
    } else if (!close(got.getDouble(i), want.getDouble(i), got.type()))
      return "is " + std::to_string(got.getDouble(i)) + " at " + std::to_string(i) + ", not " +
             std::to_string(want.getDouble(i));
  }
  return "";
}

std::string differenceOf(const RuntimeValue &got, const RuntimeValue &want) {
  if (got.kind != want.kind)
    return "is of another kind";
  if (got.kind == RuntimeValue::Kind::Tensor)
    return differenceOf(got.tensor, want.tensor);
  if (got.kind == RuntimeValue::Kind::None)
    return "";
  if (got.elements->size() != want.elements->size())
    return "has " + std::to_string(got.elements->size()) + " elements, not " +
           std::to_string(want.elements->size());
  for (size_t i = 0; i < got.elements->size(); ++i)
    if (std::string text = differenceOf((*got.elements)[i], (*want.elements)[i]); !text.empty())
      return "'s element " + std::to_string(i) + " " + text;
  return "";
}

std::string fileName(const std::string &folder, const char *kind, size_t number) {
  return folder + "/" + kind + "_" + std::to_string(number) + ".pb";
}

std::string runFolder(mlir::func::FuncOp function, const std::string &folder) {
  std::vector<RuntimeValue> arguments;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto bytes = contentsOf(fileName(folder, "input", i));
    if (!bytes)
      return "has no data for input " + std::to_string(i);
    auto value = readValue(*bytes, function.getArgument(i).getType());
    if (!value.ok())
      return value.status().message();
    arguments.push_back(*value);
  }
  auto results = graph::evaluate(function, std::move(arguments));
  if (!results.ok())
    return "evaluation: " + results.status().message();
  for (size_t i = 0; i < results->size(); ++i) {
    auto bytes = contentsOf(fileName(folder, "output", i));
    if (!bytes)
      return "has no data for output " + std::to_string(i);
    auto want = readValue(*bytes, function.getResultTypes()[i]);
    if (!want.ok())
      return want.status().message();
    if (std::string text = differenceOf((*results)[i], *want); !text.empty())
      return "output " + std::to_string(i) + " " + text;
  }
  return "";
}

} // namespace

int main(int count, char **arguments) {
  if (count < 2) {
    std::cerr << "usage: onnx_eval MODEL [--print] [--rtol=R] [--atol=A] [DATA_FOLDER...]\n";
    return 2;
  }
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = importFile(arguments[1], context);
  if (!module.ok()) {
    std::cout << "import: " << module.status().message() << "\n";
    return 1;
  }
  auto function = (*module)->lookupSymbol<mlir::func::FuncOp>("main");
  for (int i = 2; i < count; ++i) {
    std::string argument = arguments[i];
    if (argument == "--print") {
      (*module)->print(llvm::outs(), mlir::OpPrintingFlags().elideLargeResourceString(8));
    } else if (argument.starts_with("--rtol=")) {
      relativeTolerance = std::atof(argument.c_str() + 7);
    } else if (argument.starts_with("--atol=")) {
      absoluteTolerance = std::atof(argument.c_str() + 7);
    } else if (std::string text = runFolder(function, argument); !text.empty()) {
      std::cout << text << "\n";
      return 1;
    }
  }
  std::cout << "pass\n";
  return 0;
}
