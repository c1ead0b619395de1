// The program's own text behind the prelude's, typed; see Program.h.
#include "frontends/text/Program.h"

#include "base/FilesRead.h"
#include "frontends/text/LocalPolymorphism.h"
#include "frontends/text/Npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <tuple>
#include <utility>

namespace tensmith::text {
namespace {

constexpr char kPrelude[] =
#include "frontends/text/prelude.inc"
    ;
constexpr size_t kMostMessages = 50, kMostFunctions = 5000;

Module withPrelude(Module module) {
  std::vector<Message> none;
  Module prelude = parse(kPrelude, none);
  for (FunctionDecl &function : prelude.functions)
    function.prelude = true;
  std::move(module.types.begin(), module.types.end(), std::back_inserter(prelude.types));
  std::move(module.functions.begin(), module.functions.end(),
            std::back_inserter(prelude.functions));
  return prelude;
}

ExprPointer realAt(double value, const Expr &like) {
  auto real = std::make_unique<Expr>();
  real->kind = Expr::Kind::Real;
  real->place = like.place;
  real->end = like.end;
  std::array<char, 32> text;
  auto end = std::to_chars(text.data(), text.data() + text.size(), std::abs(value),
                           std::chars_format::scientific);
  real->text = std::string(text.data(), end.ptr);
  if (!std::signbit(value))
    return real;
  auto negative = std::make_unique<Expr>();
  negative->kind = Expr::Kind::Operator;
  negative->text = "neg";
  negative->depth = 2;
  negative->place = like.place;
  negative->end = like.end;
  negative->parts.push_back(std::move(real));
  return negative;
}

Module withConstants(Module module, const std::map<std::string, double> &constants) {
  for (FunctionDecl &function : module.functions)
    if (auto found = constants.find(function.name); function.constant && found != constants.end())
      function.body = realAt(found->second, *function.body);
  return module;
}

} // namespace

Program::Program(const std::string &text, std::string name, std::string folder,
                 mlir::MLIRContext &context, const std::map<std::string, double> &constants,
                 DataType reals, const std::map<std::string, int64_t> &sizes)
    : name(std::move(name)), files{{this->name, {}}},
      module(withPrelude(
          withConstants(withImports(parse(text, messages), folder, files, messages), constants))),
      names(collectNames(module, messages)), types(&context, reals), relations(types),
      loader([this](const std::string &path, std::string &error) { return load(path, error); }),
      inference(module, names, types, relations, loader, messages), folder_(std::move(folder)) {
  inference.fixed = sizes;
  if (module.functions.size() > kMostFunctions)
    messages.push_back(
        {module.functions.back().place,
         "a program has no more than " + std::to_string(kMostFunctions) + " functions"});
  if (messages.empty() && !inference.check())
    inferWithCopies();
}

/// A program that has no types may have some where each use of a local value has its own.
void Program::inferWithCopies() {
  if (!copyLocalValues(module))
    return;
  std::vector<Message> before = std::exchange(messages, {});
  auto sizes = inference.fixed;
  names = collectNames(module, messages);
  std::destroy_at(&inference);
  std::construct_at(&inference, module, names, types, relations, loader, messages);
  inference.fixed = sizes;
  if (!inference.check())
    messages = std::move(before);
}

Status Program::status() const {
  std::vector<Message> ordered = messages;
  std::stable_sort(ordered.begin(), ordered.end(), [](const Message &a, const Message &b) {
    return std::tuple(a.place.file, a.place.line, a.place.column) <
           std::tuple(b.place.file, b.place.line, b.place.column);
  });
  std::string text;
  for (size_t i = 0; i < std::min(ordered.size(), kMostMessages); ++i)
    text += (i ? "\n" : "") + at(ordered[i].place) + ": " + ordered[i].text;
  return text.empty() ? Status() : Status(StatusCode::InvalidModel, text);
}

const FunctionDecl *Program::main() const {
  auto found = names.functions.find("main");
  return found == names.functions.end() || found->second->constant ? nullptr : found->second;
}

std::string Program::at(Place place) const {
  return files[place.file].name + ":" + std::to_string(place.line) + ":" +
         std::to_string(place.column);
}

/// Only what lies in the program's folder or below.
const HostTensor *Program::load(const std::string &path, std::string &error) {
  if (auto found = loaded_.find(path); found != loaded_.end())
    return &found->second;
  std::filesystem::path relative = std::filesystem::path(path).lexically_normal();
  if (folder_.empty() || path.empty() || relative.is_absolute() || *relative.begin() == "..") {
    error = "'" + path + "' can't be loaded: only files beside the program, or below, can";
    return nullptr;
  }
  std::string whole = (std::filesystem::path(folder_) / relative).string();
  FilesRead::note(whole);
  auto tensor = readNpy(whole);
  if (!tensor.ok()) {
    error = "'" + path + "' can't be loaded: " + tensor.status().message();
    return nullptr;
  }
  return &loaded_.emplace(path, std::move(*tensor)).first->second;
}

} // namespace tensmith::text
