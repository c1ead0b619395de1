// Mutated texts of the graph dialect through the parser and the compiler; see Stages.h and
// TextMutator.h.
#include "compiler/api/GraphText.h"
#include "compiler/graph/Graph.h"
#include "tests/fuzz/Stages.h"
#include "tests/fuzz/TextMutator.h"

using namespace tensmith;

const fuzz::Vocabulary &fuzz::vocabulary() {
  static const fuzz::Vocabulary words = [] {
    fuzz::Vocabulary found;
    for (mlir::RegisteredOperationName name : fuzz::context().getRegisteredOperations())
      if (name.getDialectNamespace() == graph::GraphDialect::getDialectNamespace())
        found.operators.push_back(name.getStringRef().str());
    found.types = {"f32", "f16", "bf16", "f64",          "i64",           "i32",   "ui8",
                   "i8",  "i1",  "ui64", "complex<f32>", "!graph.string", "index", "none"};
    found.shortest = "func.func @main(%0: tensor<2x3xf32>) -> tensor<2x3xf32> {\n  return %0 : "
                     "tensor<2x3xf32>\n}\n";
    return found;
  }();
  return words;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view input(reinterpret_cast<const char *>(data), size);
  fuzz::count(fuzz::Stage::Given);
  ResourceScope limits = fuzz::limits();
  auto module = parseGraphText(input, "fuzz.mlir", fuzz::context());
  if (!module.ok())
    return 0;
  fuzz::count(fuzz::Stage::Accepted);
  fuzz::compileAndRun(**module, input);
  return 0;
}
