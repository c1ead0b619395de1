// A program that is read and typed: what lowering, evaluation and editors begin with.
#pragma once

#include "frontends/text/Inference.h"
#include "frontends/text/Modules.h"

#include "base/Status.h"

namespace tensmith::text {

class Program {
public:
  /// `name` stands for the file in messages; `folder`: that `load` reads from, none where it is
  /// empty; `constants`: values of constants at the top that take the place of the text's; `reals`:
  /// what numbers with a point are where nothing else says it; `sizes`: of names of sizes in main's
  /// types, which they take the place of.
  Program(const std::string &text, std::string name, std::string folder, mlir::MLIRContext &context,
          const std::map<std::string, double> &constants = {}, DataType reals = DataType::F32,
          const std::map<std::string, int64_t> &sizes = {});
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  /// What is wrong with it: messages that are "name:line:column: what is wrong", one a line.
  Status status() const;
  /// Null where there is none.
  const FunctionDecl *main() const;
  /// "name:line:column".
  std::string at(Place place) const;

  // In this order, since each refers to those before it.
  std::string name;
  std::vector<Message> messages;
  Files files;
  Module module;
  Names names;
  Types types;
  Relations relations;
  Loader loader;
  Inference inference;

private:
  const HostTensor *load(const std::string &path, std::string &error);
  void inferWithCopies();

  std::string folder_;
  std::map<std::string, HostTensor> loaded_; // each file is read once
};

} // namespace tensmith::text
