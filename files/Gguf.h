// GGUF files, in which language models are distributed: metadata under names, and tensors, mostly
// in blocks of few bits (base/BlockFormats.h).
//
// The file is mapped and its tensors are views of it: what nobody reads of a model of many
// gigabytes stays on the disk. Files are hostile: counts are held against the bytes that are left
// before anything is made for them, so that memory is bounded by a few times the file's size;
// tensors lie within the file and apart from one another. Source: the GGUF specification
// (ggml-org/ggml, docs/gguf.md), versions 2 and 3.
#pragma once

#include "base/BlockFormats.h"
#include "base/FileMapping.h"
#include "base/HostTensor.h"

#include <map>
#include <string>
#include <variant>
#include <vector>

namespace tensmith {

/// A list of booleans is one of integers.
using GgufValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>,
                               std::vector<double>, std::vector<std::string>>;

struct GgufTensor {
  std::string name;
  Shape shape; // outermost first; the last is a row's numbers
  /// How rows are stored; null: they are no floats.
  const BlockFormat *format = nullptr;
  std::span<const std::byte> bytes;

  /// Of the last dimension.
  int64_t rowBytes() const { return int64_t(bytes.size()) / (rows() ? rows() : 1); }
  /// The same as whole blocks, which rows of plain floats needn't be.
  int64_t blockBytes() const {
    return (shape.back() + format->elements - 1) / format->elements * format->bytes;
  }
  int64_t rows() const {
    int64_t count = 1;
    for (size_t i = 0; i + 1 < shape.size(); ++i)
      count *= shape[i];
    return count;
  }
};

class GgufFile {
public:
  /// Maps the file. Throws Failure, with the path and what is wrong where.
  static GgufFile open(const std::string &path);
  /// Of bytes that `owner` keeps; `name` stands for the file in messages.
  static GgufFile read(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                       const std::string &name);

  /// What other files say, in GGUF's words. Tensors' names are all different; `owner` keeps their
  /// bytes.
  static GgufFile assembled(const std::string &name, std::shared_ptr<const void> owner,
                            std::map<std::string, GgufValue> metadata,
                            std::vector<GgufTensor> tensors);

  const std::string &name() const { return name_; }
  const std::map<std::string, GgufValue> &metadata() const { return metadata_; }
  const std::vector<GgufTensor> &tensors() const { return tensors_; }
  /// Null where there is none of that name.
  const GgufTensor *find(const std::string &name) const;
  /// The same; throws where it is missing.
  const GgufTensor &tensor(const std::string &name) const;

  bool has(const std::string &key) const { return metadata_.count(key) != 0; }
  // Metadata; without `otherwise` they throw where there is none. Of another kind they always do.
  int64_t integer(const std::string &key) const;
  int64_t integer(const std::string &key, int64_t otherwise) const;
  double real(const std::string &key, double otherwise) const;
  bool flag(const std::string &key, bool otherwise) const;
  std::string text(const std::string &key) const;
  std::string text(const std::string &key, const std::string &otherwise) const;
  /// Empty where there is none.
  const std::vector<std::string> &texts(const std::string &key) const;
  const std::vector<int64_t> &integers(const std::string &key) const;
  const std::vector<double> &reals(const std::string &key) const;

private:
  template <typename T> const T *get(const std::string &key, const char *kind) const;

  std::string name_;
  std::shared_ptr<const void> owner_;
  std::map<std::string, GgufValue> metadata_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, size_t> byName_;
};

} // namespace tensmith
