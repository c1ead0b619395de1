// Mutated files of forests, of every format, through the reader; what is read is used.
//
// A forest that was read has been verified, so prediction, contributions, pictures and writers
// follow its indices without a look: this is where a number that verification let pass shows. Our
// own files have a hash in front, under which the mutator changes the header or the unpacked
// arrays; texts get other numbers in the place of theirs; all formats get libFuzzer's own changes
// of bytes.
#include "base/Hash.h"
#include "tests/fuzz/Draw.h"
#include "tests/fuzz/ModuleRun.h"
#include "trees/Contributions.h"
#include "trees/Drawing.h"
#include "trees/ForestFile.h"
#include "trees/ModelFormats.h"
#include "trees/Verification.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <zstd.h>

using namespace tensmith;
using namespace tensmith::trees;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace {

constexpr int64_t kMostNumbers = 1 << 16; // of a batch, or of its results
constexpr int64_t kRows = 5;

[[noreturn]] void broken(const char *what, const Status &status) {
  std::fprintf(stderr, "broken: %s: %s\n", what, status.message().c_str());
  std::abort();
}

/// Rows of numbers, categories, missing values and what no category is.
std::vector<float> rowsOf(int64_t features) {
  constexpr float kNumbers[] = {0, 1, -1, 3, 0.5f, 7, 1e9f, -1e30f, INFINITY, NAN};
  std::vector<float> values;
  for (int64_t at = 0; at < kRows * features; ++at)
    values.push_back(kNumbers[(at * 7 + at / features) % std::ssize(kNumbers)]);
  return values;
}

void predict(const Forest &forest) {
  auto features = int64_t(forest.features.size());
  int64_t results = forest.channels() * (features + 1) + int64_t(forest.trees.size());
  if (features > kMostNumbers / kRows || results > kMostNumbers / kRows)
    return;
  auto predictor = Predictor::of(forest);
  if (!predictor)
    broken("a forest that was read is not predicted", predictor.status());
  std::vector<float> values = rowsOf(features);
  std::vector<float> outputs(size_t(kRows * forest.channels()));
  std::vector<int32_t> leaves(size_t(kRows * predictor->trees()));
  std::vector<float> shares(size_t(kRows * forest.channels() * (features + 1)));
  DenseRows rows{values.data(), kRows, features, features};
  if (Status status = predictor->outputs(rows, outputs); !status.ok())
    broken("outputs", status);
  if (Status status = predictor->leaves(rows, leaves); !status.ok())
    broken("leaves", status);
  (void)contributions(forest, rows, shares); // there may be no covers
  fuzz::count(fuzz::Stage::Ran);
}

void write(const Forest &forest) {
  auto own = formatForest(forest, FileFormat::Own);
  if (!own)
    broken("a forest that was read is not written", own.status());
  auto again = parseForest(*own);
  if (!again)
    broken("what was written is not read", again.status());
  if (writeForest(*again) != *own)
    broken("what was written is read as another forest", Status());
  for (FileFormat format : {FileFormat::XgboostJson, FileFormat::XgboostUbjson, FileFormat::Onnx})
    if (auto bytes = formatForest(forest, format); bytes.ok())
      (void)parseForest(*bytes);
  (void)dumpText(forest);
  (void)forestPage(forest, 0, Importance::Gain);
}

/// A number of the text becomes another one.
void changeNumber(std::string &text, fuzz::Draw &draw) {
  size_t at = text.find_first_of("0123456789", size_t(draw.below(text.size())));
  if (at == text.npos)
    return;
  size_t end = text.find_first_not_of("0123456789.eE+-", at);
  std::string number;
  if (draw.oneIn(3))
    number = draw.oneIn(4) ? "NaN" : draw.oneIn(3) ? "1e999" : std::to_string(draw.real());
  else
    number = std::to_string(draw.integer());
  text.replace(at, end == text.npos ? text.npos : end - at, number);
}

void changeBytes(std::string &bytes, size_t most) {
  size_t size = bytes.size();
  bytes.resize(std::max(most, size));
  bytes.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t *>(bytes.data()), size, bytes.size()));
}

/// The parts of a file of our own (trees/ForestFile.h): 40 bytes, the header, and the arrays.
struct OwnFile {
  static constexpr size_t kPrefix = 40, kHeaderLength = 12, kArraysLength = 16, kHash = 24;
  std::string prefix, header, arrays;

  bool take(std::string_view file) {
    if (!file.starts_with("tsforest") || file.size() < kPrefix)
      return false;
    uint32_t length = 0;
    std::memcpy(&length, file.data() + kHeaderLength, sizeof length);
    if (length > file.size() - kPrefix)
      return false;
    prefix = file.substr(0, kPrefix), header = file.substr(kPrefix, length);
    std::string_view packed = file.substr(kPrefix + length);
    unsigned long long size = ZSTD_getFrameContentSize(packed.data(), packed.size());
    if (size > 1 << 20) // not known, too
      return false;
    arrays.resize(size);
    return ZSTD_decompress(arrays.data(), size, packed.data(), packed.size()) == size;
  }
  std::string give() {
    std::string packed(ZSTD_compressBound(arrays.size()), '\0');
    packed.resize(ZSTD_compress(packed.data(), packed.size(), arrays.data(), arrays.size(), 1));
    auto headerLength = uint32_t(header.size());
    auto arraysLength = uint64_t(packed.size());
    Hash128 hash = hash128(header + packed);
    std::memcpy(prefix.data() + kHeaderLength, &headerLength, sizeof headerLength);
    std::memcpy(prefix.data() + kArraysLength, &arraysLength, sizeof arraysLength);
    std::memcpy(prefix.data() + kHash, &hash.high, sizeof hash.high);
    std::memcpy(prefix.data() + kHash + 8, &hash.low, sizeof hash.low);
    return prefix + header + packed;
  }
};

/// A number of 4 bytes, as most of the arrays have.
void changeElement(std::string &arrays, fuzz::Draw &draw) {
  if (arrays.size() < 4)
    return;
  auto whole = int32_t(draw.integer());
  auto real = float(draw.real());
  std::memcpy(arrays.data() + draw.below(arrays.size() / 4) * 4,
              draw.oneIn(3) ? static_cast<void *>(&real) : &whole, 4);
}

std::string changed(std::string file, size_t most, fuzz::Draw &draw) {
  OwnFile own;
  if (!draw.oneIn(8) && own.take(file)) {
    for (uint64_t count = draw.below(3); count < 3; ++count)
      if (draw.oneIn(2))
        changeElement(own.arrays, draw);
      else if (draw.oneIn(4))
        changeBytes(draw.oneIn(2) ? own.header : own.arrays, most);
      else
        changeNumber(own.header, draw);
    return own.give();
  }
  bool isText = file.starts_with("tree") || file.starts_with("{\"");
  if (isText && !draw.oneIn(3))
    for (uint64_t count = draw.below(4); count < 4 && !file.empty(); ++count)
      changeNumber(file, draw);
  else
    changeBytes(file, most);
  return file;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::count(fuzz::Stage::Given);
  auto forest = parseForest(std::string_view(reinterpret_cast<const char *>(data), size));
  if (!forest)
    return 0;
  fuzz::count(fuzz::Stage::Accepted);
  predict(*forest);
  write(*forest);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned int seed) {
  return fuzz::changeBytes(data, size, maxSize, seed, changed);
}
