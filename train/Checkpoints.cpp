// Numbers in the metadata are text: integers as they are, doubles in hexadecimal, which is exact.
#include "train/Checkpoints.h"

#include "files/Failure.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace tensmith::train {

namespace fs = std::filesystem;

namespace {

constexpr const char *kFormat = "1";
constexpr std::string_view kPrefix = "step-", kEnding = ".safetensors";

const std::string &entry(const Metadata &metadata, const char *key, const std::string &where) {
  auto found = metadata.find(key);
  if (found == metadata.end())
    fail(where, std::string("has no '") + key + "' in its metadata; it is no checkpoint of a run");
  return found->second;
}

int64_t wholeNumber(const Metadata &metadata, const char *key, const std::string &where) {
  const std::string &text = entry(metadata, key, where);
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    fail(where, std::string("'") + key + "' in its metadata is no number");
  return value;
}

double number(const Metadata &metadata, const char *key, const std::string &where) {
  const std::string &text = entry(metadata, key, where);
  char *end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end)
    fail(where, std::string("'") + key + "' in its metadata is no number");
  return value;
}

} // namespace

Metadata Position::toMetadata() const {
  Metadata metadata = {{"tensmith.checkpoint", kFormat},
                       {"step", std::to_string(step)},
                       {"epoch", std::to_string(epoch)},
                       {"batch", std::to_string(batch)},
                       {"seconds", fmt::format("{:a}", seconds)}};
  for (auto [name, sums] : {std::pair("epoch", &ofEpoch), std::pair("log", &ofLog)}) {
    metadata[fmt::format("{}.loss", name)] = fmt::format("{:a}", sums->loss);
    metadata[fmt::format("{}.correct", name)] = fmt::format("{:a}", sums->correct);
    metadata[fmt::format("{}.samples", name)] = std::to_string(sums->samples);
  }
  return metadata;
}

Position Position::fromMetadata(const Metadata &metadata, const std::string &where) {
  if (entry(metadata, "tensmith.checkpoint", where) != kFormat)
    fail(where, "is a checkpoint of another version of tensmith");
  auto sums = [&](const std::string &name) {
    return Sums{number(metadata, (name + ".loss").c_str(), where),
                number(metadata, (name + ".correct").c_str(), where),
                wholeNumber(metadata, (name + ".samples").c_str(), where)};
  };
  return {wholeNumber(metadata, "step", where),
          wholeNumber(metadata, "epoch", where),
          wholeNumber(metadata, "batch", where),
          sums("epoch"),
          sums("log"),
          number(metadata, "seconds", where)};
}

Checkpoints::Checkpoints(fs::path folder, int64_t keep)
    : folder_(std::move(folder)), keep_(std::max<int64_t>(1, keep)) {}

fs::path Checkpoints::pathOf(int64_t step) const {
  return folder_ / fmt::format("{}{:09}{}", kPrefix, step, kEnding);
}

std::vector<int64_t> Checkpoints::steps() const {
  std::vector<int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename();
    if (!name.starts_with(kPrefix) || !name.ends_with(kEnding))
      continue;
    const char *begin = name.data() + kPrefix.size(), *last = name.data() + name.size();
    int64_t step = 0;
    if (auto [at, bad] = std::from_chars(begin, last, step);
        bad == std::errc() && std::string_view(at, size_t(last - at)) == kEnding)
      steps.push_back(step);
  }
  std::ranges::sort(steps, std::greater());
  return steps;
}

std::optional<Checkpoint>
Checkpoints::newest(const std::function<void(const std::string &)> &warn) const {
  for (int64_t step : steps())
    try {
      fs::path path = pathOf(step);
      Checkpoint checkpoint = {path, readSafetensors(path), {}};
      checkpoint.position = Position::fromMetadata(checkpoint.contents.metadata, path);
      return checkpoint;
    } catch (const Failure &failure) {
      warn(std::string(failure.what()) + "; the one before it is taken");
    }
  return std::nullopt;
}

fs::path Checkpoints::write(const std::vector<NamedTensor> &states, const Position &position,
                            Metadata metadata) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error)
    fail(folder_, "can't be made: " + error.message());
  metadata.merge(position.toMetadata());
  fs::path path = pathOf(position.step);
  writeSafetensors(path, states, std::move(metadata));
  std::vector<int64_t> all = steps();
  for (size_t i = size_t(keep_); i < all.size(); ++i)
    fs::remove(pathOf(all[i]), error);
  return path;
}

void Checkpoints::removeAll() {
  std::error_code none;
  for (int64_t step : steps())
    fs::remove(pathOf(step), none);
}

void Checkpoints::removePartial() {
  std::error_code error;
  std::vector<fs::path> left;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error))
    if (it->path().filename().string().find(".partial-") != std::string::npos)
      left.push_back(it->path());
  for (const fs::path &path : left)
    fs::remove(path, error);
}

} // namespace tensmith::train
