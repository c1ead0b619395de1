// Depth first over imports, so that a file stands behind what it imports; see Modules.h.
#include "frontends/text/Modules.h"

#include "base/FilesRead.h"
#include "base/Spelling.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string_view>

namespace tensmith::text {
namespace {

namespace fs = std::filesystem;

/// What comes with Tensmith, in the folder "tensmith" of every program.
struct LibraryModule {
  std::string_view path, text;
};
constexpr LibraryModule kLibrary[] = {
#include "frontends/text/layers.inc"
};
constexpr std::string_view kLibraryFolder = "tensmith/";

constexpr size_t kMostFiles = 200;
constexpr uintmax_t kLargestFile = 4 << 20;

bool isBelow(const fs::path &relative) {
  return !relative.empty() && !relative.is_absolute() && *relative.begin() != "..";
}

using Seen = std::set<std::string>;

class Reader {
public:
  Reader(const std::string &folder, Files &files, std::vector<Message> &messages)
      : folder_(folder), files_(files), messages_(messages) {
    states_[fs::path(files[0].name).filename().string()] = {};
  }

  /// The functions and constants that the file sees.
  Seen read(Module module, const fs::path &below, Module &all) {
    Seen seen;
    for (const ImportDecl &import : module.imports)
      seen.merge(importFile(import, below, all));
    for (TypeDecl &type : module.types)
      all.types.push_back(std::move(type));
    for (FunctionDecl &function : module.functions) {
      bool own = function.place.file == 0;
      if (!own && function.name == "main" && !function.constant)
        continue;
      if (!below.empty() && function.body)
        moveLoads(*function.body, below);
      seen.insert(function.name);
      all.functions.push_back(std::move(function));
    }
    return seen;
  }

  /// By Place::file.
  std::vector<Seen> visible;

private:
  struct State {
    bool done = false;
    uint32_t file = 0;
  };

  Seen fail(const ImportDecl &import, const std::string &why) {
    messages_.push_back({import.place, "'" + import.path + "' can't be imported: " + why});
    return {};
  }

  Seen importFile(const ImportDecl &import, const fs::path &below, Module &all) {
    if (import.path.starts_with(kLibraryFolder))
      return importLibrary(import, all);
    fs::path path = (below / import.path).lexically_normal();
    if (folder_.empty() || import.path.empty() || fs::path(import.path).is_absolute() ||
        !isBelow(path))
      return fail(import, "only files beside the program, or below, can");
    auto found = states_.find(path.string());
    if (found != states_.end() && !found->second.done)
      return fail(import, "it imports this file itself, directly or through others");
    if (found != states_.end())
      return visible[found->second.file];
    if (files_.size() > kMostFiles)
      return fail(import, "a program has no more than " + std::to_string(kMostFiles) + " files");
    std::string text;
    if (std::string why = contents(path, text); !why.empty())
      return fail(import, why);
    std::string name = (fs::path(files_[0].name).parent_path() / path).string();
    return add(import, path.string(), std::move(name), text, path.parent_path(), all);
  }

  Seen add(const ImportDecl &import, const std::string &key, std::string name,
           const std::string &text, const fs::path &below, Module &all) {
    Place at = import.place.file ? files_[import.place.file].importedAt : import.place;
    auto file = uint32_t(files_.size());
    files_.push_back({std::move(name), at});
    states_[key] = {false, file};
    Seen seen = read(parse(text, messages_, nullptr, file), below, all);
    states_[key].done = true;
    visible.resize(files_.size());
    return visible[file] = std::move(seen);
  }

  Seen importLibrary(ImportDecl import, Module &all) {
    std::vector<std::string> paths;
    for (const LibraryModule &module : kLibrary)
      paths.emplace_back(module.path);
    import.path = knownSpelling(import.path, paths); // also "tensmith/normalization.tsm"
    if (auto found = states_.find(import.path); found != states_.end())
      return visible[found->second.file];
    std::string known;
    for (const LibraryModule &module : kLibrary) {
      if (module.path == import.path)
        return add(import, import.path, import.path, std::string(module.text), {}, all);
      known += (known.empty() ? "" : ", ") + std::string(module.path);
    }
    return fail(import, "Tensmith has no such module; it has " + known);
  }

  /// The reason where it can't be had.
  std::string contents(const fs::path &path, std::string &text) {
    std::error_code error;
    fs::path whole = fs::canonical(fs::path(folder_) / path, error);
    if (error)
      return error.message();
    fs::path root = fs::canonical(folder_, error);
    if (error || !isBelow(whole.lexically_relative(root)))
      return "it is a link to a file that is not beside the program, or below";
    if (!fs::is_regular_file(whole, error) || fs::file_size(whole, error) > kLargestFile)
      return "it is no file of text of up to 4 MiB";
    FilesRead::note(whole.string());
    std::ifstream stream(whole, std::ios::binary);
    text.assign(std::istreambuf_iterator<char>(stream), {});
    return stream.bad() || !stream.is_open() ? "it can't be read" : "";
  }

  /// Tensors lie beside the file that loads them.
  static void moveLoads(Expr &expr, const fs::path &below) {
    if (expr.kind == Expr::Kind::Load && !fs::path(expr.text).is_absolute())
      expr.text = (below / expr.text).lexically_normal().string();
    for (ExprPointer &part : expr.parts)
      moveLoads(*part, below);
    for (Argument &argument : expr.arguments)
      moveLoads(*argument.value, below);
    for (Case &one : expr.cases)
      moveLoads(*one.body, below);
  }

  const std::string &folder_;
  Files &files_;
  std::vector<Message> &messages_;
  std::map<std::string, State> states_;
};

} // namespace

Module withImports(Module module, const std::string &folder, Files &files,
                   std::vector<Message> &messages) {
  Module all;
  Reader reader(folder, files, messages);
  reader.read(std::move(module), {}, all);
  reader.visible.resize(files.size());
  hideNames(all, reader.visible, messages);
  return all;
}

} // namespace tensmith::text
