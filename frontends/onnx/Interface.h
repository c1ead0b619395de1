// What a model's file declares of itself, without importing it: its inputs and outputs as their
// author wrote them, and its metadata.
//
// The import's own signature is another matter: it knows more of outputs than the file says, names
// dimensions that have no name, and has no inputs with initialisers. Programs that were written for
// other runtimes ask for the declared one.
#pragma once

#include "base/Status.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace tensmith {

struct DeclaredPort {
  std::string name;
  std::string type; ///< as ONNX writes it: "tensor(float)", "seq(tensor(int64))"; "" if undeclared
  bool ranked = false;
  std::vector<std::string> dims; ///< a size, a name, or "" where the model leaves it open
  bool initialized = false;      ///< an input that has a value where none is given
};

struct ModelInterface {
  std::string producer, domain, graph, description, graphDescription;
  int64_t version = 0;
  std::map<std::string, std::string> metadata;
  std::vector<DeclaredPort> inputs, outputs;
};

Result<ModelInterface> interfaceOfFile(const std::string &path);
/// `name` is what errors call the model.
Result<ModelInterface> interfaceOfBytes(std::span<const std::byte> bytes, const std::string &name);

} // namespace tensmith
