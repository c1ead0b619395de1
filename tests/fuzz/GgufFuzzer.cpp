// Mutated GGUF files through the reader, the architecture and the tokenizer; what is read is used.
//
// A file that was read has had its counts, types and places looked at, so tokenizers follow their
// indices and blocks are decoded without a look: this is where a number that was let pass shows.
// The mutator knows where a file has numbers (counts, lengths, types, values, sizes, places), and
// gives these others; names and everything else get libFuzzer's own changes of bytes.
#include "files/Failure.h"
#include "generation/LanguageModel.h"
#include "generation/Rotations.h"
#include "tests/fuzz/Draw.h"
#include "tests/fuzz/ModuleRun.h"

#include <cstring>

using namespace tensmith;
using namespace tensmith::generation;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace {

/// Where the header of a file has its numbers, as far as it can be followed.
class Numbers {
public:
  struct Place {
    size_t at, size;
  };

  explicit Numbers(std::string_view file) : file_(file) {
    take(4), number(4); // the magic, the version
    uint64_t tensors = number(8), entries = number(8);
    for (; entries && isThere_; --entries)
      text(), value(number(4), 0);
    for (; tensors && isThere_; --tensors) {
      text();
      for (uint64_t rank = number(4); rank && isThere_; --rank)
        number(8);
      number(4), number(8); // the type, and where it begins
    }
  }
  const std::vector<Place> &places() const { return places_; }

private:
  static constexpr uint64_t kText = 8, kList = 9;
  static constexpr uint64_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

  const char *take(uint64_t bytes) {
    isThere_ = isThere_ && bytes <= file_.size() - at_;
    const char *from = file_.data() + at_;
    at_ += isThere_ ? size_t(bytes) : 0;
    return isThere_ ? from : nullptr;
  }
  uint64_t number(uint64_t size) {
    size_t at = at_;
    uint64_t value = 0;
    if (const char *from = take(size)) {
      std::memcpy(&value, from, size_t(size));
      places_.push_back({at, size_t(size)});
    }
    return value;
  }
  void text() { take(number(8)); }
  void value(uint64_t type, int depth) {
    if (type == kText)
      return text();
    if (type != kList) {
      isThere_ = isThere_ && type < std::size(kSizes);
      number(isThere_ ? kSizes[type] : 0);
      return;
    }
    uint64_t inner = number(4);
    for (uint64_t count = number(8); count && isThere_ && depth < 4; --count)
      value(inner, depth + 1);
  }

  std::string_view file_;
  std::vector<Place> places_;
  size_t at_ = 0;
  bool isThere_ = true;
};

void changeNumber(std::string &file, fuzz::Draw &draw) {
  Numbers numbers(file);
  if (numbers.places().empty())
    return;
  Numbers::Place place = draw.among(numbers.places());
  int64_t whole = draw.integer();
  auto real = float(draw.real());
  bool isReal = place.size == 4 && draw.oneIn(5);
  std::memcpy(file.data() + place.at, isReal ? static_cast<void *>(&real) : &whole, place.size);
}

std::string changed(std::string file, size_t most, fuzz::Draw &draw) {
  for (uint64_t count = draw.below(3); count < 3; ++count) {
    if (!draw.oneIn(4)) {
      changeNumber(file, draw);
      continue;
    }
    size_t size = file.size();
    file.resize(std::max(most, size));
    file.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t *>(file.data()), size, file.size()));
  }
  return file;
}

void useTokenizer(const GgufFile &file, const Architecture &architecture) {
  Tokenizer tokenizer = Tokenizer::of(file);
  if (int64_t(tokenizer.size()) > architecture.vocabulary || architecture.vocabulary > 1 << 16)
    return;
  tokenizer.fill(size_t(architecture.vocabulary));
  for (bool control : {false, true}) {
    auto tokens = tokenizer.encode("the and <s>a\xff\xe6 <0x41>ab", control, true);
    (void)tokenizer.decode(tokens);
  }
  for (Token token = 0; token < Token(tokenizer.size()); ++token)
    (void)tokenizer.bytesOf(token), (void)tokenizer.ends(token);
  fuzz::count(fuzz::Stage::Ran);
}

void useRotations(Architecture architecture) {
  chooseRotations(architecture, std::min<int64_t>(architecture.context, 4096));
  std::vector<float> cosines(size_t(architecture.rotated)), sines(cosines.size());
  for (bool windowed : {false, true})
    rotations(architecture, windowed, 3, 2, cosines.data(), sines.data());
}

/// The first and the last block of each tensor.
void decode(const GgufFile &file) {
  for (const GgufTensor &tensor : file.tensors()) {
    if (!tensor.format || tensor.bytes.empty())
      continue;
    std::vector<float> numbers(tensor.format->elements);
    decodeBlock(*tensor.format, tensor.bytes.data(), numbers.data());
    decodeBlock(*tensor.format, tensor.bytes.data() + tensor.bytes.size() - tensor.format->bytes,
                numbers.data());
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::count(fuzz::Stage::Given);
  // On the heap, where reads behind its end are seen.
  std::vector<std::byte> bytes(size);
  if (size)
    std::memcpy(bytes.data(), data, size);
  try {
    GgufFile file = GgufFile::read(bytes, nullptr, "model.gguf");
    decode(file);
    Architecture architecture = architectureOf(file);
    fuzz::count(fuzz::Stage::Accepted);
    useRotations(architecture);
    useTokenizer(file, architecture);
  } catch (const Failure &failure) {
    if (!*failure.what()) {
      std::fprintf(stderr, "broken: a failure without words\n");
      std::abort();
    }
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned int seed) {
  return fuzz::changeBytes(data, size, maxSize, seed, changed);
}
