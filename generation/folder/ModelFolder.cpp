// Reading a folder's files; see ModelFolder.h.
#include "generation/folder/ModelFolder.h"

#include "base/BlockEncoding.h"
#include "files/Failure.h"
#include "files/Files.h"
#include "generation/folder/HubTensors.h"
#include "generation/folder/QuantizedLayers.h"
#include "generation/tokenizer/Pipeline.h"
#include "train/Safetensors.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>

namespace tensmith::generation {
namespace {

namespace fs = std::filesystem;
using Json = JsonPart::Json;

constexpr const char *kIndex = "model.safetensors.index.json";

/// What tensors lie in, and what was made for them.
struct Memory {
  std::vector<std::shared_ptr<const void>> files;
  std::vector<std::vector<std::byte>> made;

  std::span<std::byte> make(size_t bytes) { return made.emplace_back(bytes); }
};

/// A JSON file and its name; null where there is none.
struct JsonFile {
  std::string path;
  Json json;
  JsonPart part() const { return {json, path}; }
};
JsonFile jsonFile(const fs::path &path) {
  return {path.string(), fs::exists(path) ? JsonPart::parse(path.string()) : Json()};
}

// ---- Tensors

std::vector<fs::path> weightFiles(const fs::path &folder) {
  fs::path whole = folder / "model.safetensors";
  JsonFile index = jsonFile(folder / kIndex);
  if (index.json.is_null() && !fs::exists(whole))
    fail(folder.string(), "has neither a model.safetensors nor an index of several; other formats "
                          "of weights are not read");
  if (index.json.is_null())
    return {whole};
  std::set<std::string> names;
  JsonPart map = index.part().at("weight_map");
  if (!map.json().is_object())
    map.wrong("is no object");
  for (const auto &[tensor, file] : map.json().items()) {
    bool isName = file.is_string() && !file.get<std::string>().empty() &&
                  fs::path(file.get<std::string>()).filename() == file.get<std::string>();
    if (!isName || file == ".." || file == ".")
      map.wrong("has no file of the folder for '" + tensor + "'");
    names.insert(file);
  }
  std::vector<fs::path> paths;
  for (const std::string &name : names)
    paths.push_back(folder / name);
  return paths;
}

const BlockFormat *formatOf(DataType type) {
  switch (type) {
  case DataType::F32:
    return findBlockFormat("f32");
  case DataType::F16:
    return findBlockFormat("f16");
  case DataType::BF16:
    return findBlockFormat("bf16");
  default:
    return nullptr;
  }
}

std::span<const std::byte> bytesOf(const HostTensor &tensor) {
  return {tensor.data(), size_t(tensor.bytes())};
}

/// A vector as f32, as all of them are multiplied or added.
void widen(GgufTensor &tensor, const HostTensor &from, double more, Memory &memory) {
  std::span<std::byte> bytes = memory.make(size_t(from.size()) * sizeof(float));
  for (int64_t i = 0; i < from.size(); ++i) {
    auto value = float(from.getDouble(i) + more);
    std::memcpy(bytes.data() + size_t(i) * sizeof value, &value, sizeof value);
  }
  tensor.format = findBlockFormat("f32");
  tensor.bytes = bytes;
}

void quantise(GgufTensor &tensor, const BlockFormat &format, Memory &memory) {
  int64_t columns = tensor.shape.back(), rows = tensor.rows();
  if (columns % format.elements)
    return;
  auto rowBytes = size_t(columns / format.elements * format.bytes);
  std::span<std::byte> to = memory.make(size_t(rows) * rowBytes);
  std::vector<float> numbers(static_cast<size_t>(columns));
  auto given = size_t(tensor.rowBytes());
  for (size_t row = 0; row < size_t(rows); ++row) {
    const std::byte *from = tensor.bytes.data() + row * given;
    for (size_t at = 0; at < size_t(columns) / tensor.format->elements; ++at)
      decodeBlock(*tensor.format, from + at * tensor.format->bytes,
                  numbers.data() + at * tensor.format->elements);
    encodeRow(format, numbers, to.data() + row * rowBytes);
  }
  tensor.format = &format;
  tensor.bytes = to;
}

const BlockFormat *formatOfBits(int weights) {
  if (!weights)
    return nullptr;
  if (weights != 4 && weights != 8)
    failUsage(fmt::format("weights are quantised to 4 or 8 bits, not to {}", weights));
  return findBlockFormat(weights == 4 ? "q4_0" : "q8_0");
}

GgufTensor tensorOf(const train::NamedTensor &named, const std::string &name,
                    const HubConfig &config, const std::string &file, Memory &memory) {
  GgufTensor tensor;
  tensor.name = name;
  tensor.shape = named.tensor.shape();
  tensor.format = formatOf(named.tensor.type());
  tensor.bytes = bytesOf(named.tensor);
  if (!tensor.format)
    fail(file, fmt::format("stores '{}' as {}; f32, f16 and bf16 are read", named.name,
                           tensmith::name(named.tensor.type())));
  if (tensor.shape.size() == 1)
    widen(tensor, named.tensor, config.addsOneToNorms && name.ends_with("norm.weight") ? 1.0 : 0.0,
          memory);
  return tensor;
}

std::vector<GgufTensor> tensorsOf(const fs::path &folder, const HubConfig &config,
                                  std::optional<LayerCodes> codes, const BlockFormat *weights,
                                  Memory &memory) {
  std::vector<GgufTensor> tensors;
  std::set<std::string> names;
  HubTensors wanted(config);
  QuantizedLayers layers(codes);
  std::vector<fs::path> files = weightFiles(folder);
  for (const fs::path &path : files) {
    train::Safetensors file = train::mapSafetensors(path);
    memory.files.push_back(file.owner);
    for (const train::NamedTensor &named : file.tensors) {
      if (layers.take(named.name, named.tensor, path.string(), wanted.has(named.name)))
        continue;
      std::string name = wanted.take(named.name, path.string());
      if (name.empty())
        continue;
      if (!names.insert(name).second)
        fail(path.string(), "has '" + named.name + "', which another file has, too");
      tensors.push_back(tensorOf(named, name, config, path.string(), memory));
      if (weights && tensors.back().shape.size() == 2)
        quantise(tensors.back(), *weights, memory);
    }
  }
  auto nameOf = [&](const std::string &name, const std::string &file) {
    std::string own = wanted.take(name, file);
    if (!names.insert(own).second)
      fail(file, "has a layer with both '" + name + "' and its codes");
    return own;
  };
  for (GgufTensor &tensor :
       layers.tensors(nameOf, [&](size_t bytes) { return memory.make(bytes); }))
    tensors.push_back(std::move(tensor));
  wanted.checkAll((files.size() == 1 ? files[0] : folder / kIndex).string());
  for (const auto &[name, factors] : config.frequencyFactors) {
    std::span<std::byte> bytes = memory.make(factors.size() * sizeof(float));
    std::memcpy(bytes.data(), factors.data(), bytes.size());
    tensors.push_back({name, {int64_t(factors.size())}, findBlockFormat("f32"), bytes});
  }
  return tensors;
}

// ---- Tokens

/// A token's name, which may stand in an object with more of it.
std::string nameIn(const JsonPart &config, const char *key) {
  if (!config.has(key))
    return "";
  JsonPart part = config.at(key);
  return part.json().is_object() ? part.text("content") : part.asText();
}

/// Numbers of tokens: one, or a list.
void addNumbers(const JsonPart &config, const char *key, size_t size, std::vector<Token> &to) {
  if (!config.has(key))
    return;
  JsonPart part = config.at(key);
  for (const JsonPart &number : part.json().is_array() ? part.parts() : std::vector{part}) {
    int64_t token = number.asInteger();
    if (token >= 0 && token < int64_t(size) && std::ranges::find(to, Token(token)) == to.end())
      to.push_back(Token(token));
  }
}

TokenRoles rolesOf(const TokenPipeline &pipeline, const JsonFile &tokens, const JsonFile &config,
                   const JsonFile &generation) {
  TokenRoles roles;
  const auto &texts = pipeline.texts();
  auto named = [&](const char *key) -> Token {
    std::string name = nameIn(tokens.part(), key);
    auto found = name.empty() ? texts.end() : std::ranges::find(texts, name);
    return found == texts.end() ? -1 : Token(found - texts.begin());
  };
  std::vector<Token> beginnings;
  if (Token token = named("bos_token"); token >= 0)
    beginnings.push_back(token);
  if (Token token = named("eos_token"); token >= 0)
    roles.ends.push_back(token);
  for (const JsonFile *file : {&generation, &config}) {
    addNumbers(file->part(), "bos_token_id", texts.size(), beginnings);
    addNumbers(file->part(), "eos_token_id", texts.size(), roles.ends);
  }
  roles.beginning = beginnings.empty() ? -1 : beginnings[0];
  roles.unknown = named("unk_token");
  roles.addsBeginning = roles.beginning >= 0 && tokens.part().flag("add_bos_token", false);
  return roles;
}

/// The one that has no name, or is called "default".
std::string chatTemplate(const fs::path &folder, const JsonFile &tokens) {
  fs::path own = folder / "chat_template.jinja";
  if (fs::exists(own)) {
    Bytes bytes = readFile(own.string());
    return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
  }
  if (!tokens.part().has("chat_template"))
    return "";
  JsonPart given = tokens.part().at("chat_template");
  if (!given.json().is_array())
    return given.asText();
  for (const JsonPart &each : given.parts())
    if (each.text("name") == "default")
      return each.text("template");
  return "";
}

void require(const fs::path &folder, const char *file) {
  if (!fs::exists(folder / file))
    fail(folder.string(), fmt::format("has no {}, which a model's folder needs", file));
}

std::shared_ptr<TokenPipeline> pipelineOf(const fs::path &file) {
  JsonFile steps = {file.string(), JsonPart::parse(file.string())};
  return std::make_shared<TokenPipeline>(steps.part());
}

Tokenizer tokenizerOfFolder(const fs::path &folder, const JsonFile &config) {
  require(folder, "tokenizer.json");
  JsonFile tokens = jsonFile(folder / "tokenizer_config.json");
  JsonFile generation = jsonFile(folder / "generation_config.json");
  auto pipeline = pipelineOf(folder / "tokenizer.json");
  TokenRoles roles = rolesOf(*pipeline, tokens, config, generation);
  return Tokenizer::of(std::move(pipeline), std::move(roles));
}

ModelFiles readFolder(const fs::path &folder, const BlockFormat *weights) {
  require(folder, "config.json");
  JsonFile config = jsonFile(folder / "config.json");
  JsonFile tokens = jsonFile(folder / "tokenizer_config.json");
  HubConfig hub = hubConfigOf(config.part());
  auto memory = std::make_shared<Memory>();
  std::vector<GgufTensor> tensors =
      tensorsOf(folder, hub, layerCodesOf(config.part()), weights, *memory);
  if (std::string chat = chatTemplate(folder, tokens); !chat.empty())
    hub.metadata["tokenizer.chat_template"] = chat;
  return {GgufFile::assembled(folder.string(), memory, std::move(hub.metadata), std::move(tensors)),
          tokenizerOfFolder(folder, config)};
}

} // namespace

ModelFiles readModel(const std::string &path, int weights) {
  const BlockFormat *format = formatOfBits(weights);
  if (fs::is_directory(path))
    return readFolder(path, format);
  if (format)
    failUsage("weights of a GGUF file are multiplied as they are; --weights is for folders");
  GgufFile file = GgufFile::open(path);
  Tokenizer tokenizer = Tokenizer::of(file);
  return {std::move(file), std::move(tokenizer)};
}

Tokenizer readTokenizer(const std::string &path) {
  if (fs::is_directory(path))
    return tokenizerOfFolder(path, jsonFile(fs::path(path) / "config.json"));
  if (fs::path(path).extension() == ".json")
    return Tokenizer::of(pipelineOf(path), {});
  return Tokenizer::of(GgufFile::open(path));
}

} // namespace tensmith::generation
