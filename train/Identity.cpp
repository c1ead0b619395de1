// Hashes of what there is to tell apart; see Identity.h.
#include "train/Identity.h"

#include "base/Hash.h"
#include "files/Files.h"
#include "train/Schedule.h"
#include "train/SettingTable.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace tensmith::train {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kModules = "modules 1"; // what is hashed of them, and how

/// The paths in quotes behind a word; what stands in a comment does no harm.
std::vector<std::string> quotedAfter(const std::string &text, const std::string &word) {
  std::vector<std::string> paths;
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += word.size()) {
    size_t begin = text.find('"', at), end = text.find_first_of("\"\n", begin + 1);
    if (begin != std::string::npos && end != std::string::npos && text[end] == '"')
      paths.push_back(text.substr(begin + 1, end - begin - 1));
  }
  return paths;
}

void addProgram(Hasher &hasher, const fs::path &path, const std::string &layers,
                std::set<fs::path> &seen) {
  std::error_code none;
  if (!seen.insert(path.lexically_normal()).second || !fs::is_regular_file(path, none))
    return;
  Bytes bytes = readFile(path);
  std::string text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  hasher.add(text);
  for (const char *word : {"import", "load"})
    for (const std::string &named : quotedAfter(text, word)) {
      if (named.starts_with("tensmith/"))
        hasher.add(layers);
      addProgram(hasher, path.parent_path() / named, layers, seen);
    }
}

bool isOfRun(const std::string &name) {
  auto numbered = [&](std::string_view stem) {
    return name.starts_with(stem) && name.ends_with(".so") && name.size() > stem.size() + 3 &&
           name.find_first_not_of("0123456789", stem.size()) == name.size() - 3;
  };
  static const std::set<std::string> names = {"metrics.jsonl", "curves.html", "model.onnx",
                                              "model.tsm",     "model.so",    "step.so",
                                              "forward.so",    "rest.so",     "update.so"};
  return names.contains(name) || numbered("gradients-") || numbered("forward-");
}

bool isEventFile(const std::string &name) { return name.starts_with("events.out.tfevents."); }

bool isCheckpoint(const std::string &name) {
  return name.starts_with("step-") && name.ends_with(".safetensors");
}

void removeFiles(const fs::path &folder, bool (*isOne)(const std::string &), const fs::path &but) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (isOne(it->path().filename()) && !fs::equivalent(it->path(), but, error))
      found.push_back(it->path());
  for (const fs::path &path : found)
    fs::remove(path, error);
}

} // namespace

std::string hashOf(const Dataset &data) {
  Hasher hasher;
  hasher.add(data.rows);
  hasher.add(int64_t(data.target));
  for (const std::string &name : data.classes)
    hasher.add(name);
  for (const auto &column : data.columns) {
    hasher.add(column->name);
    hasher.add(info(column->type).name);
    for (int64_t size : column->shape)
      hasher.add(size);
    column->addTo(hasher, data.rows);
  }
  return toHex(hasher.finish());
}

bool writesOver(const fs::path &folder, const std::string &program) {
  Hasher unused;
  std::set<fs::path> files;
  addProgram(unused, program, "", files);
  auto isWritten = [&](const fs::path &file) {
    std::error_code none;
    return fs::equivalent(file, folder / "model.tsm", none) ||
           fs::equivalent(file.parent_path(), folder / "weights", none);
  };
  return std::any_of(files.begin(), files.end(), isWritten);
}

std::string layersVersion() { return TENSMITH_LAYERS; }

std::string hashOfProgram(const std::string &program, const std::string &layers) {
  if (!program.ends_with(".tsm"))
    return program;
  Hasher hasher;
  std::set<fs::path> seen;
  addProgram(hasher, program, layers, seen);
  return toHex(hasher.finish());
}

std::string hashOfModules(const Settings &settings, const std::string &modelHash,
                          int64_t stepsInEpoch, int64_t processes) {
  Hasher hasher;
  hasher.add(kModules);
  hasher.add(modelHash);
  hasher.add(processes);
  for (const Setting &setting : settingTable())
    if (setting.onResume == OnResume::MayNot && !setting.path) {
      hasher.add(setting.option);
      hasher.add(valueOf(settings, setting).dump(-1, ' ', false, Json::error_handler_t::replace));
    }
  for (const auto &[name, value] :
       scheduleConstants(settings, stepsInEpoch * settings.epochs, stepsInEpoch)) {
    hasher.add(name);
    hasher.addBytes(std::as_bytes(std::span(&value, 1)));
  }
  hasher.add(hashOfProgram(settings.optimiser));
  hasher.add(hashOfProgram(settings.schedule));
  return toHex(hasher.finish());
}

namespace {

/// Those that a trained program names.
void removeWeights(const fs::path &folder) {
  std::error_code error;
  if (!fs::is_regular_file(folder / "model.tsm", error))
    return;
  Bytes bytes = readFile(folder / "model.tsm");
  std::string text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  for (const std::string &named : quotedAfter(text, "load"))
    if (fs::path file = folder / named; file.parent_path() == folder / "weights")
      fs::remove(file, error);
}

} // namespace

void removeRun(const fs::path &folder, const fs::path &model) {
  removeWeights(folder);
  removeFiles(folder, isOfRun, model);
  removeFiles(folder / "checkpoints", isCheckpoint, model);
  removeFiles(folder / "tensorboard", isEventFile, model);
}

} // namespace tensmith::train
