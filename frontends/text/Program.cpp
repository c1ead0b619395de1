// The program's own text behind the prelude's, typed; see Program.h.
#include "frontends/text/Program.h"

#include "frontends/text/Npy.h"

#include <algorithm>
#include <filesystem>
#include <tuple>

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

} // namespace

Program::Program(const std::string &text, std::string name, std::string folder,
                 mlir::MLIRContext &context)
    : name(std::move(name)), files{{this->name, {}}},
      module(withPrelude(withImports(parse(text, messages), folder, files, messages))),
      names(collectNames(module, messages)), types(&context), relations(types),
      loader([this](const std::string &path, std::string &error) { return load(path, error); }),
      inference(module, names, types, relations, loader, messages), folder_(std::move(folder)) {
  if (module.functions.size() > kMostFunctions)
    messages.push_back(
        {module.functions.back().place,
         "a program has no more than " + std::to_string(kMostFunctions) + " functions"});
  if (messages.empty())
    inference.check();
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
  auto tensor = readNpy((std::filesystem::path(folder_) / relative).string());
  if (!tensor.ok()) {
    error = "'" + path + "' can't be loaded: " + tensor.status().message();
    return nullptr;
  }
  return &loaded_.emplace(path, std::move(*tensor)).first->second;
}

} // namespace tensmith::text
