// Runs a module on random input from C++: `embed_cpp MODULE.so`. Prints the largest elements of
// each output.
#include <tensmith/tensmith.hpp>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <numeric>
#include <random>

namespace {

/// A size of the signature: a number, or a symbol, which may be any; 1 here.
int64_t sizeOf(const std::string &text) {
  bool number = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  return number ? std::stoll(text) : 1;
}

tensmith::Tensor randomInput(const tensmith::Port &port, std::mt19937 &random) {
  std::vector<int64_t> shape;
  for (const std::string &dim : port.dims)
    shape.push_back(sizeOf(dim));
  tensmith::Tensor tensor(port.type, shape);
  if (port.type != TS_F32) {
    std::memset(tensor.data(), 0, size_t(tensor.size()) * ts_type_bytes(port.type));
    return tensor;
  }
  std::uniform_real_distribution<float> distribution;
  std::generate_n(tensor.as<float>(), tensor.size(), [&] { return distribution(random); });
  return tensor;
}

void printTop(const std::string &name, const tensmith::Tensor &tensor) {
  std::cout << name << ": " << ts_type_name(tensor.type()) << ", " << tensor.size()
            << " elements\n";
  if (tensor.kind() != TS_TENSOR || tensor.type() != TS_F32)
    return;
  const float *values = tensor.as<float>();
  std::vector<int64_t> order(size_t(tensor.size()));
  std::iota(order.begin(), order.end(), 0);
  auto top = order.begin() + std::min<int64_t>(5, tensor.size());
  std::partial_sort(order.begin(), top, order.end(),
                    [&](int64_t a, int64_t b) { return values[a] > values[b]; });
  for (auto index = order.begin(); index != top; ++index)
    std::cout << "  [" << *index << "] " << values[*index] << "\n";
}

} // namespace

int main(int argc, char **argv) try {
  if (argc != 2) {
    std::cerr << "usage: " << argv[0] << " MODULE.so\n";
    return 2;
  }
  tensmith::Module module = tensmith::Module::load(argv[1]);
  tensmith::Session session(module);
  std::mt19937 random(1);
  std::vector<tensmith::Tensor> inputs;
  for (const tensmith::Port &port : module.inputs())
    inputs.push_back(randomInput(port, random));
  std::vector<tensmith::Tensor> outputs = session.run(inputs);
  for (size_t i = 0; i < outputs.size(); ++i)
    printTop(module.outputs()[i].name, outputs[i]);
  return 0;
} catch (const tensmith::Error &error) {
  std::cerr << "error: " << error.what() << "\n";
  return 1;
}
