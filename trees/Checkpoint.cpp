// Checkpoints to and from files; see Checkpoint.h.
#include "trees/Checkpoint.h"

#include "trees/ForestFile.h"
#include "trees/ModelText.h"

#include "files/Failure.h"
#include "files/Files.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tensmith::trees {
namespace {

constexpr char kMagic[8] = {'t', 's', 'c', 'h', 'e', 'c', 'k', 'p'};
constexpr uint32_t kVersion = 1;
constexpr int64_t kHashedRows = 1 << 16; // of large data
constexpr char kBefore[] = ".before";

struct Prefix {
  char magic[8];
  uint32_t version, headerLength;
  uint64_t forestLength;
  uint64_t hashHigh, hashLow;
};
static_assert(sizeof(Prefix) == 40);

/// JSON has no NaN, so numbers are kept as their bits.
Document roundJson(const Round &round) {
  Document metrics = Document::array();
  for (const Round::Value &value : round.metrics)
    metrics.push_back({value.set, value.metric, std::bit_cast<uint64_t>(value.value)});
  return {round.number, std::bit_cast<uint64_t>(round.seconds), std::move(metrics)};
}

Round roundOf(const Document &json) {
  Round round{json.at(0).get<int64_t>(), {}, std::bit_cast<double>(json.at(1).get<uint64_t>())};
  for (const Document &value : json.at(2))
    round.metrics.push_back({value.at(0).get<std::string>(), value.at(1).get<std::string>(),
                             std::bit_cast<double>(value.at(2).get<uint64_t>())});
  return round;
}

std::string headerOf(const Checkpoint &checkpoint) {
  Document rounds = Document::array(), sizes = Document::array();
  for (const Round &round : checkpoint.rounds)
    rounds.push_back(roundJson(round));
  for (const std::vector<float> &outputs : checkpoint.outputs)
    sizes.push_back(outputs.size());
  Document header = {{"training", {checkpoint.training.high, checkpoint.training.low}},
                     {"rounds", std::move(rounds)},
                     {"outputs", std::move(sizes)}};
  return header.dump(-1, ' ', false, Document::error_handler_t::replace);
}

Status broken(const std::string &path, const std::string &what) {
  return {StatusCode::InvalidModel, fmt::format("{}: {}; remove it to train from the beginning, "
                                                "or train without resume",
                                                path, what)};
}

/// The parts after the prefix; empty where they don't fit.
Status readParts(const std::string &path, std::string_view bytes, Checkpoint &checkpoint) {
  Prefix prefix;
  if (bytes.size() < sizeof prefix || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
    return broken(path, "is no checkpoint");
  std::memcpy(&prefix, bytes.data(), sizeof prefix);
  bytes.remove_prefix(sizeof prefix);
  if (prefix.version != kVersion)
    return broken(path, fmt::format("is of version {}, not {}", prefix.version, kVersion));
  if (hash128(bytes) != Hash128{prefix.hashHigh, prefix.hashLow} ||
      prefix.headerLength > bytes.size() ||
      prefix.forestLength > bytes.size() - prefix.headerLength)
    return broken(path, "is damaged");
  auto header = readJson(bytes.substr(0, prefix.headerLength));
  if (!header.ok())
    return broken(path, header.status().message());
  auto forest = readForest(bytes.substr(prefix.headerLength, prefix.forestLength));
  if (!forest.ok())
    return broken(path, forest.status().message());
  checkpoint.forest = std::move(*forest);
  bytes.remove_prefix(prefix.headerLength + prefix.forestLength);
  checkpoint.training = {header->at("training").at(0).get<uint64_t>(),
                         header->at("training").at(1).get<uint64_t>()};
  for (const Document &round : header->at("rounds"))
    checkpoint.rounds.push_back(roundOf(round));
  for (const Document &size : header->at("outputs")) {
    auto count = size.get<uint64_t>();
    if (count > bytes.size() / sizeof(float))
      return broken(path, "is damaged");
    std::vector<float> &outputs = checkpoint.outputs.emplace_back(count);
    std::memcpy(outputs.data(), bytes.data(), count * sizeof(float));
    bytes.remove_prefix(count * sizeof(float));
  }
  return {};
}

/// None where there is no file.
Result<std::optional<Checkpoint>> load(const std::string &path, const Hash128 &training) {
  std::error_code isUnknown;
  if (!std::filesystem::exists(path, isUnknown))
    return std::optional<Checkpoint>();
  try {
    Bytes bytes = readFile(path);
    Checkpoint checkpoint;
    std::string_view text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
    if (Status status = readParts(path, text, checkpoint); !status.ok())
      return status;
    if (checkpoint.training != training)
      return invalidArgument(
          path + " is of a training with other data or parameters; give those that it began with, "
                 "or name another checkpoint");
    return std::optional(std::move(checkpoint));
  } catch (const Failure &failure) {
    return Status(StatusCode::IoError, failure.what());
  } catch (const Document::exception &error) {
    return broken(path, error.what());
  }
}

int64_t roundsIn(const std::optional<Checkpoint> &checkpoint) {
  return checkpoint ? int64_t(checkpoint->rounds.size()) : 0;
}

template <typename T> void addArray(Hasher &hasher, std::span<const T> values) {
  hasher.add(int64_t(values.size()));
  hasher.addBytes(std::as_bytes(values));
}

void addMatrix(Hasher &hasher, const Matrix &matrix) {
  hasher.add(matrix.rows);
  hasher.add(matrix.columns);
  addArray<float>(hasher, matrix.labels);
  addArray<float>(hasher, matrix.weights);
  addArray<int64_t>(hasher, matrix.groups);
  addArray<float>(hasher, matrix.baseMargins);
  for (const Feature &feature : matrix.features) {
    hasher.add(feature.name);
    hasher.add(feature.categories);
    for (const std::string &level : feature.levels.names)
      hasher.add(level);
  }
  int64_t step = std::max<int64_t>(1, matrix.rows / kHashedRows);
  for (int64_t row = 0; row < matrix.rows; row += step)
    if (matrix.isSparse()) {
      int64_t begin = matrix.rowBegin[row], count = matrix.rowBegin[row + 1] - begin;
      addArray<int32_t>(hasher, {matrix.column + begin, size_t(count)});
      addArray<float>(hasher, {matrix.value + begin, size_t(count)});
    } else {
      addArray<float>(hasher, {matrix.dense + row * matrix.columns, size_t(matrix.columns)});
    }
}

} // namespace

Hash128 trainingHash(const TrainingInput &input, const Parameters &parameters) {
  Json json = toJson(parameters);
  for (const char *name : {"rounds", "threads", "subtraction", "prefetch", "blocks", "compression",
                           "checkpoint", "checkpoint_every", "resume"})
    json.erase(name);
  Hasher hasher;
  hasher.add(json.dump());
  hasher.add(int64_t(input.ownLoss != nullptr) + 2 * int64_t(!input.lossModule.empty()));
  hasher.add(int64_t(input.exchange ? input.exchange->size() : 1));
  addMatrix(hasher, *input.matrix);
  for (const Validation &set : input.validation) {
    hasher.add(set.name);
    addMatrix(hasher, *set.matrix);
  }
  hasher.add(input.continued ? writeForest(*input.continued) : "");
  if (input.cuts)
    addArray<float>(hasher, input.cuts->values);
  return hasher.finish();
}

std::string checkpointPath(const Parameters &parameters, const Exchange *exchange) {
  return exchange ? fmt::format("{}.{}", parameters.checkpoint, exchange->rank())
                  : parameters.checkpoint;
}

Status saveCheckpoint(const Checkpoint &checkpoint, const std::string &path, bool keepsLast) {
  std::string header = headerOf(checkpoint), forest = writeForest(checkpoint.forest);
  std::string rest = header + forest;
  for (const std::vector<float> &outputs : checkpoint.outputs)
    rest.append(reinterpret_cast<const char *>(outputs.data()), outputs.size() * sizeof(float));
  Prefix prefix{};
  std::memcpy(prefix.magic, kMagic, sizeof kMagic);
  prefix.version = kVersion;
  prefix.headerLength = uint32_t(header.size());
  prefix.forestLength = forest.size();
  Hash128 hash = hash128(rest);
  prefix.hashHigh = hash.high, prefix.hashLow = hash.low;
  try {
    std::error_code isNone; // the first has none before it
    if (keepsLast)
      std::filesystem::rename(path, path + kBefore, isNone);
    AtomicFile file(path);
    file.write(std::as_bytes(std::span(&prefix, 1)));
    file.write(std::as_bytes(std::span(rest)));
    file.commit(/*durable=*/true);
    return {};
  } catch (const Failure &failure) {
    return {StatusCode::IoError, failure.what()};
  }
}

Result<std::optional<Checkpoint>> findCheckpoint(const std::string &path, const Hash128 &training,
                                                 Exchange *exchange) {
  auto last = load(path, training);
  if (!last || !exchange)
    return last;
  auto before = load(path + kBefore, training);
  if (!before)
    return before;
  std::vector<double> own{double(roundsIn(*last)), double(roundsIn(*before))};
  std::vector<double> all(own.size() * size_t(exchange->size()));
  if (Status status = exchange->gather(own, all); !status.ok())
    return status;
  for (int64_t sought : {std::max(roundsIn(*last), roundsIn(*before)),
                         std::min(roundsIn(*last), roundsIn(*before))}) {
    bool isShared = true;
    for (size_t at = 0; at < all.size(); at += own.size())
      isShared &= all[at] == double(sought) || all[at + 1] == double(sought);
    if (isShared && sought > 0)
      return sought == roundsIn(*last) ? last : before;
  }
  return std::optional<Checkpoint>(); // some process has none: all begin anew
}

} // namespace tensmith::trees
