// Mutated programs of the language through its front end and the compiler; see Stages.h and
// TextMutator.h.
//
// The folder that `load` reads from does not exist.
#include "frontends/text/Import.h"
#include "frontends/text/Operators.h"
#include "tests/fuzz/Stages.h"
#include "tests/fuzz/TextMutator.h"

using namespace tensmith;

const fuzz::Vocabulary &fuzz::vocabulary() {
  static const fuzz::Vocabulary words = [] {
    fuzz::Vocabulary found;
    for (const text::OperatorInfo &info : text::allOperators())
      found.operators.push_back(std::string(info.name));
    found.types = {"f32", "f64",   "i64", "i32",  "bool",   "u8",     "f16", "n",   "?",    "a",
                   "b",   "match", "fn",  "type", "let",    "if",     "ref", "Ref", "List", "Cons",
                   "Nil", "Some",  "map", "fold", "unfold", "String", "(",   ")",   "[",    "]"};
    found.shortest = "fn main(x: f32[n]) = x + 1.0\n";
    return found;
  }();
  return words;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string input(reinterpret_cast<const char *>(data), size);
  fuzz::count(fuzz::Stage::Given);
  ResourceScope limits = fuzz::limits();
  text::ImportOptions options;
  options.folder = "/nonexistent";
  auto module = text::import(input, "fuzz.tsm", fuzz::context(), options);
  if (!module.ok())
    return 0;
  fuzz::count(fuzz::Stage::Accepted);
  fuzz::compileAndRun(**module, input);
  return 0;
}
