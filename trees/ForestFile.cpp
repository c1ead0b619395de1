// The format of our own, and the choice among all; see ForestFile.h.
#include "trees/ForestFile.h"
#include "trees/ModelFormats.h"
#include "trees/ModelText.h"
#include "trees/Verification.h"

#include "base/Hash.h"
#include "files/Failure.h"
#include "files/Files.h"

#include <nlohmann/json.hpp>
#include <zstd.h>

#include <bit>
#include <cstring>
#include <fmt/format.h>

namespace tensmith::trees {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr char kMagic[8] = {'t', 's', 'f', 'o', 'r', 'e', 's', 't'};
constexpr uint32_t kVersion = 2, kOldestVersion = 1;
constexpr uint64_t kMostGrowth = 1024, kSmall = 1 << 16;
constexpr int kLevel = 6; // of zstd: 9 is 1 % smaller and takes twice the time

struct Prefix {
  char magic[8];
  uint32_t version, headerLength;
  uint64_t arraysLength;
  uint64_t hashHigh, hashLow;
};
static_assert(sizeof(Prefix) == 40);

/// Calls visit(array, name) for each array of nodes, in the order of the file.
template <typename AnyTree, typename Visit> void forEachArray(AnyTree &tree, const Visit &visit) {
  visit(tree.feature);
  visit(tree.threshold);
  visit(tree.left);
  visit(tree.right);
  visit(tree.missingLeft);
  visit(tree.value);
  visit(tree.gain);
  visit(tree.cover);
  visit(tree.categoryBegin);
  visit(tree.categoryEnd);
  visit(tree.categories);
}
constexpr int kArrays = 11;

Document headerOf(const Forest &forest) {
  Document features = Document::array(), sizes = Document::array(), sets = Document::array();
  for (const Feature &feature : forest.features)
    features.push_back({feature.name, feature.categories, feature.zeroIsMissing,
                        int(feature.levels.kind), feature.levels.names});
  for (const Tree &tree : forest.trees) {
    sizes.push_back(tree.size());
    sets.push_back(tree.categories.size());
  }
  return {{"objective", forest.objective},    {"features", std::move(features)},
          {"base_scores", forest.baseScores}, {"classes", forest.classes},
          {"class_names", forest.classNames}, {"best_round", forest.bestRound},
          {"channel", forest.channel},        {"scale", forest.scale},
          {"nodes", std::move(sizes)},        {"categories", std::move(sets)}};
}

std::string arraysOf(const Forest &forest) {
  std::string arrays;
  for (int kind = 0; kind < kArrays; ++kind)
    for (const Tree &tree : forest.trees) {
      int at = 0;
      forEachArray(tree, [&](const auto &array) {
        if (at++ == kind)
          arrays.append(reinterpret_cast<const char *>(array.data()),
                        array.size() * sizeof(array[0]));
      });
    }
  return arrays;
}

Status broken(std::string what) { return {StatusCode::InvalidModel, std::move(what)}; }

/// Sizes all arrays as the header says; gives back their bytes.
Result<uint64_t> shapeTrees(const Document &header, uint64_t most, Forest &forest) {
  const auto &nodes = header.at("nodes"), &sets = header.at("categories");
  if (nodes.size() != sets.size())
    return broken("has not a number of categories for each tree");
  uint64_t bytes = 0;
  std::vector<std::pair<uint64_t, uint64_t>> sizes;
  for (size_t i = 0; i < nodes.size(); ++i) {
    auto count = nodes[i].get<uint64_t>(), categories = sets[i].get<uint64_t>();
    if (count > uint64_t(kMostNodes) || categories > uint64_t(kMostNodes))
      return broken("has a tree of more than 2^30 nodes");
    sizes.emplace_back(count, categories);
    bytes += count * 37 + categories * 4;
    if (bytes > most)
      return broken("says that it holds more than its size allows");
  }
  forest.trees.resize(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    int at = 0;
    forEachArray(forest.trees[i], [&](auto &array) {
      array.resize(++at == kArrays ? sizes[i].second : sizes[i].first);
    });
  }
  return bytes;
}

Status unpackArrays(std::string_view packed, uint64_t bytes, Forest &forest) {
  std::string arrays(bytes, '\0');
  size_t size = ZSTD_decompress(arrays.data(), bytes, packed.data(), packed.size());
  if (ZSTD_isError(size) || size != bytes)
    return broken("its arrays are damaged");
  size_t offset = 0;
  for (int kind = 0; kind < kArrays; ++kind)
    for (Tree &tree : forest.trees) {
      int at = 0;
      forEachArray(tree, [&](auto &array) {
        if (at++ != kind || array.empty())
          return;
        std::memcpy(array.data(), arrays.data() + offset, array.size() * sizeof(array[0]));
        offset += array.size() * sizeof(array[0]);
      });
    }
  return {};
}

Feature featureOf(const Document &json, uint32_t version) {
  Feature feature{
      json.at(0).get<std::string>(), json.at(1).get<int64_t>(), json.at(2).get<bool>(), {}};
  if (version == 1)
    return feature;
  auto kind = json.at(3).get<int64_t>();
  feature.levels.kind = kind == 1   ? Levels::Kind::Whole
                        : kind == 2 ? Levels::Kind::Real
                                    : Levels::Kind::Text;
  feature.levels.names = json.at(4).get<std::vector<std::string>>();
  return feature;
}

void readHeader(const Document &header, uint32_t version, Forest &forest) {
  forest.objective = header.at("objective").get<std::string>();
  for (const Document &feature : header.at("features"))
    forest.features.push_back(featureOf(feature, version));
  if (version > 1)
    forest.classNames = header.at("class_names").get<std::vector<std::string>>();
  forest.baseScores = header.at("base_scores").get<std::vector<double>>();
  forest.classes = header.at("classes").get<std::vector<int64_t>>();
  forest.bestRound = header.at("best_round").get<int64_t>();
  forest.channel = header.at("channel").get<std::vector<int32_t>>();
  forest.scale = header.at("scale").get<std::vector<float>>();
}

std::string_view viewOf(const Bytes &bytes) {
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

} // namespace

std::string writeForest(const Forest &forest) {
  std::string header = headerOf(forest).dump(-1, ' ', false, Document::error_handler_t::replace);
  std::string arrays = arraysOf(forest), packed(ZSTD_compressBound(arrays.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), arrays.data(), arrays.size(), kLevel));
  Prefix prefix{};
  std::memcpy(prefix.magic, kMagic, sizeof kMagic);
  prefix.version = kVersion;
  prefix.headerLength = uint32_t(header.size());
  prefix.arraysLength = packed.size();
  Hash128 hash = hash128(header + packed);
  prefix.hashHigh = hash.high;
  prefix.hashLow = hash.low;
  return std::string(reinterpret_cast<const char *>(&prefix), sizeof prefix) + header + packed;
}

Result<Forest> readForest(std::string_view bytes) {
  Prefix prefix;
  if (bytes.size() < sizeof prefix)
    return broken("is cut off");
  std::memcpy(&prefix, bytes.data(), sizeof prefix);
  std::string_view rest = bytes.substr(sizeof prefix);
  if (std::memcmp(prefix.magic, kMagic, sizeof kMagic) != 0)
    return broken("is no forest");
  if (prefix.version < kOldestVersion || prefix.version > kVersion)
    return unsupported(fmt::format("is of version {}, and this program reads versions {} to {}; "
                                   "take a newer one, or have the file written again",
                                   prefix.version, kOldestVersion, kVersion));
  if (prefix.headerLength > rest.size() || prefix.arraysLength != rest.size() - prefix.headerLength)
    return broken("is cut off, or has more than it says");
  if (hash128(rest) != Hash128{prefix.hashHigh, prefix.hashLow})
    return broken("is damaged: its hash is not that of its contents");
  auto header = readJson(rest.substr(0, prefix.headerLength));
  if (!header.ok())
    return header.status();
  Forest forest;
  try {
    readHeader(*header, prefix.version, forest);
    auto size = shapeTrees(*header, kSmall + kMostGrowth * bytes.size(), forest);
    if (!size.ok())
      return size.status();
    if (Status status = unpackArrays(rest.substr(prefix.headerLength), *size, forest); !status.ok())
      return status;
  } catch (const Document::exception &error) {
    return broken(std::string("its header is damaged: ") + error.what());
  }
  if (Status status = verifyForest(forest); !status.ok())
    return status;
  return forest;
}

std::optional<FileFormat> formatNamed(std::string_view name) {
  static constexpr std::pair<std::string_view, FileFormat> kNames[] = {
      {"forest", FileFormat::Own},
      {"json", FileFormat::XgboostJson},
      {"ubj", FileFormat::XgboostUbjson},
      {"lightgbm", FileFormat::Lightgbm},
      {"onnx", FileFormat::Onnx}};
  for (auto [known, format] : kNames)
    if (name == known)
      return format;
  return std::nullopt;
}

FileFormat formatFor(std::string_view path) {
  return path.ends_with(".json")   ? FileFormat::XgboostJson
         : path.ends_with(".ubj")  ? FileFormat::XgboostUbjson
         : path.ends_with(".txt")  ? FileFormat::Lightgbm
         : path.ends_with(".onnx") ? FileFormat::Onnx
                                   : FileFormat::Own;
}

Result<Forest> parseForest(std::string_view bytes) {
  if (bytes.starts_with(std::string_view(kMagic, sizeof kMagic)))
    return readForest(bytes);
  if (bytes.starts_with("tree\n") || bytes.starts_with("tree\r\n"))
    return readLightgbm(bytes);
  size_t first = bytes.find_first_not_of(" \t\r\n");
  if (first != bytes.npos && bytes[first] == '{')
    return readXgboost(bytes.substr(first));
  return readOnnx(bytes);
}

Result<Forest> loadForest(const std::string &path) {
  try {
    Bytes bytes = readFile(path);
    auto forest = parseForest(viewOf(bytes));
    return forest.ok() ? std::move(forest) : Result<Forest>(forest.status().within(path));
  } catch (const Failure &failure) {
    return Status(StatusCode::IoError, failure.what());
  }
}

Result<std::string> formatForest(const Forest &forest, FileFormat format) {
  switch (format) {
  case FileFormat::XgboostJson:
    return writeXgboost(forest, XgboostForm::Json);
  case FileFormat::XgboostUbjson:
    return writeXgboost(forest, XgboostForm::Ubjson);
  case FileFormat::Lightgbm:
    return unsupported("LightGBM's text is read, but not written; save as .json or .ubj (XGBoost), "
                       ".onnx or .forest");
  case FileFormat::Onnx:
    return writeOnnx(forest);
  case FileFormat::Own:
    break;
  }
  if (Status status = verifyForest(forest); !status.ok())
    return status;
  return writeForest(forest);
}

Status saveForest(const Forest &forest, const std::string &path, std::optional<FileFormat> format) {
  auto bytes = formatForest(forest, format.value_or(formatFor(path)));
  if (!bytes.ok())
    return bytes.status().within(path);
  try {
    writeFile(path, std::string_view(*bytes));
  } catch (const Failure &failure) {
    return {StatusCode::IoError, failure.what()};
  }
  return {};
}

} // namespace tensmith::trees
