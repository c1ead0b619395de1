// Writing and reading of blocks: zstd at its fastest level where that saves something.
#include "trees/BlockStore.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <new>
#include <unistd.h>
#include <zstd.h>

namespace tensmith::trees {

namespace {

constexpr int kShards = 2;
/// Rows of a block, and its most bytes: BlockStore.h says what for.
constexpr int64_t kRows = 1 << 13, kMostBytes = 1 << 23;
constexpr int64_t kLeastBytes = 1 << 18; // of blocks of few columns, which are not read one by one
constexpr size_t kReady = 3;             // blocks that wait to be taken

/// Feature by feature, since the cuts of one are few enough for the nearest cache.
template <typename Bin>
void fillBins(const Matrix &matrix, const Cuts &cuts, int64_t begin, int64_t end, Bin *bins) {
  for (int64_t feature = 0; feature < matrix.columns; ++feature)
    for (int64_t row = begin; row < end; ++row) {
      float value = matrix.dense[row * matrix.columns + feature];
      bins[(row - begin) * matrix.columns + feature] =
          Bin(std::isnan(value) ? cuts.bins(feature) : cuts.binOf(feature, value));
    }
}

/// Bit `bit` of each word, eight to a byte.
void takeBits(std::span<const uint16_t> words, int bit, uint8_t *bits) {
  for (size_t at = 0; at < words.size(); at += 8) {
    uint8_t byte = 0;
    for (size_t next = 0; next < std::min<size_t>(8, words.size() - at); ++next)
      byte |= uint8_t((words[at + next] >> bit & 1) << next);
    *bits++ = byte;
  }
}

using EightWords = std::array<uint16_t, 8>;
/// By byte: a word for each of its bits.
constexpr std::array<EightWords, 256> kWordsOfBits = [] {
  std::array<EightWords, 256> table{};
  for (size_t byte = 0; byte < 256; ++byte)
    for (size_t bit = 0; bit < 8; ++bit)
      table[byte][bit] = uint16_t(byte >> bit & 1);
  return table;
}();

/// The other way: `words` are a multiple of eight.
void addBits(const uint8_t *bits, int bit, std::span<uint16_t> words) {
  for (size_t at = 0; at < words.size(); at += 8) {
    const EightWords &more = kWordsOfBits[*bits++];
    for (size_t next = 0; next < 8; ++next)
      words[at + next] |= uint16_t(more[next] << bit);
  }
}

/// Behind what `packed` has; gives the size.
int64_t append(std::span<const uint8_t> bytes, bool compresses, std::vector<uint8_t> &packed) {
  size_t before = packed.size();
  if (compresses && !bytes.empty()) {
    packed.resize(before + ZSTD_compressBound(bytes.size()));
    size_t size = ZSTD_compress(packed.data() + before, packed.size() - before, bytes.data(),
                                bytes.size(), 1);
    if (!ZSTD_isError(size) && size < bytes.size() - bytes.size() / 8) {
      packed.resize(before + size);
      return int64_t(size);
    }
    packed.resize(before);
  }
  packed.insert(packed.end(), bytes.begin(), bytes.end());
  return int64_t(bytes.size());
}

/// Where so many bytes lie that were appended; null: they are damaged.
const uint8_t *taken(std::span<const uint8_t> packed, size_t size, std::vector<uint8_t> &unpacked) {
  if (packed.size() == size)
    return packed.data();
  unpacked.resize(std::max(unpacked.size(), size));
  return ZSTD_decompress(unpacked.data(), size, packed.data(), packed.size()) == size
             ? unpacked.data()
             : nullptr;
}

bool readFully(int file, uint8_t *to, int64_t size, int64_t offset) {
  while (size > 0) {
    ssize_t got = pread(file, to, size_t(size), offset);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return false;
    to += got, size -= got, offset += got;
  }
  return true;
}

bool writeFully(int file, const uint8_t *from, int64_t size, int64_t offset) {
  while (size > 0) {
    ssize_t put = pwrite(file, from, size_t(size), offset);
    if (put < 0 && errno == EINTR)
      continue;
    if (put <= 0)
      return false;
    from += put, size -= put, offset += put;
  }
  return true;
}

Hash128 hashOf(const std::vector<uint8_t> &bytes) {
  return hash128(std::as_bytes(std::span(bytes)));
}

} // namespace

Result<std::unique_ptr<BlockStore>> BlockStore::write(const std::string &folder,
                                                      const Matrix &matrix, const Cuts &cuts,
                                                      std::span<const uint8_t> hasMissing,
                                                      bool compresses, Threads &threads) {
  std::unique_ptr<BlockStore> store(new BlockStore);
  store->features_ = matrix.columns;
  store->compresses_ = compresses;
  int64_t most = 0; // bin
  for (int64_t feature = 0; feature < matrix.columns; ++feature)
    most = std::max(most, cuts.bins(feature) + hasMissing[feature] - 1);
  store->bitsAbove_ = std::max(int(std::bit_width(uint64_t(most))) - 8, 0);
  int64_t row = matrix.columns * (store->isByte() ? 1 : 2);
  store->blockRows_ = std::clamp<int64_t>(std::max(kRows, kLeastBytes / row), 1,
                                          std::max<int64_t>(kMostBytes / row, 64));
  std::string place = folder + "/tensmith-blocks-XXXXXX";
  for (int shard = 0; shard < kShards; ++shard) {
    std::string path = place;
    int file = mkostemp(path.data(), O_CLOEXEC);
    if (file < 0)
      return Status(
          StatusCode::IoError,
          fmt::format("blocks can't be written to {}: {}; name a folder that exists and has room",
                      folder, std::strerror(errno)));
    unlink(path.c_str()); // the file goes when this process does, however that ends
    store->files_.push_back(file);
  }
  store->folder_ = folder;
  if (Status status = store->writeBlocks(matrix, cuts, threads); !status.ok())
    return status;
  return store;
}

Status BlockStore::writeBlocks(const Matrix &matrix, const Cuts &cuts, Threads &threads) {
  int64_t count = (matrix.rows + blockRows_ - 1) / blockRows_;
  std::vector<int64_t> ends(files_.size(), 0);
  int64_t together = threads.count();
  std::vector<Bins> bins(together);
  std::vector<std::vector<uint8_t>> packed(together);
  std::vector<Block> blocks(together);
  for (int64_t first = 0; first < count; first += together) {
    int64_t number = std::min(together, count - first);
    threads.parts(number, [&](int64_t at, int) {
      int64_t begin = (first + at) * blockRows_, end = std::min(begin + blockRows_, matrix.rows);
      int64_t size = (end - begin) * features_;
      blocks[at].firstRow = begin, blocks[at].rows = end - begin;
      bins[at].bytes.resize(size);
      bins[at].words.resize(isByte() ? 0 : size);
      if (isByte())
        fillBins(matrix, cuts, begin, end, bins[at].bytes.data());
      else
        fillBins(matrix, cuts, begin, end, bins[at].words.data());
      pack(bins[at], size, blocks[at], packed[at]);
    });
    for (int64_t at = 0; at < number; ++at) {
      Block &block = blocks[at];
      block.shard = int((first + at) % int64_t(files_.size()));
      block.offset = ends[block.shard];
      if (!writeFully(files_[block.shard], packed[at].data(), block.size(), block.offset))
        return {StatusCode::IoError,
                fmt::format("blocks can't be written to {}: {}; name a folder with more room",
                            folder_, std::strerror(errno))};
      ends[block.shard] += block.size();
      blocks_.push_back(block);
    }
  }
  return {};
}

void BlockStore::pack(const Bins &bins, int64_t count, Block &block,
                      std::vector<uint8_t> &packed) const {
  packed.clear();
  std::vector<uint8_t> low(bins.words.begin(), bins.words.end()), bits(bitBytes(count));
  for (int bit = 0; bit < bitsAbove_; ++bit)
    takeBits(bins.words, 8 + bit, bits.data() + bit * size_t(planeBytes(int64_t(count))));
  block.sizes[0] = append(isByte() ? bins.bytes : low, compresses_, packed);
  block.sizes[1] = append(bits, compresses_, packed);
  block.hash = hashOf(packed);
}

bool BlockStore::unpack(const Block &block, std::vector<uint8_t> &packed, Bins &bins) const {
  auto count = size_t(block.rows * features_);
  if (!(hashOf(packed) == block.hash))
    return false;
  if (isByte()) {
    if (packed.size() == count) {
      bins.bytes.swap(packed);
      return true;
    }
    bins.bytes.resize(count);
    return ZSTD_decompress(bins.bytes.data(), count, packed.data(), packed.size()) == count;
  }
  auto parts = std::span<const uint8_t>(packed);
  const uint8_t *low = taken(parts.first(size_t(block.sizes[0])), count, bins.unpacked);
  if (!low)
    return false;
  bins.words.resize(std::max(bins.words.size(), size_t(8 * planeBytes(int64_t(count)))));
  std::copy_n(low, count, bins.words.data());
  const uint8_t *bits =
      taken(parts.subspan(size_t(block.sizes[0])), size_t(bitBytes(int64_t(count))), bins.unpacked);
  for (int bit = 0; bits && bit < bitsAbove_; ++bit)
    addBits(bits + size_t(bit) * size_t(planeBytes(int64_t(count))), 8 + bit,
            std::span(bins.words).first(size_t(8 * planeBytes(int64_t(count)))));
  return bits != nullptr;
}

BlockStore::~BlockStore() {
  for (int file : files_)
    close(file);
}

int64_t BlockStore::bytesOnDisk() const {
  int64_t sum = 0;
  for (const Block &block : blocks_)
    sum += block.size();
  return sum;
}

BlockStore::Reader::Reader(const BlockStore &store)
    : store_(store), reading_(int(store.files_.size())) {
  for (int shard = 0; shard < int(store.files_.size()); ++shard)
    threads_.emplace_back([this, shard] { read(shard); });
}

BlockStore::Reader::~Reader() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
  }
  room_.notify_all();
  for (std::thread &thread : threads_)
    thread.join();
}

void BlockStore::Reader::fail(std::string message, StatusCode code) {
  std::lock_guard lock(mutex_);
  if (status_.ok())
    status_ = {code, std::move(message)};
  ends_ = true;
  ready_.notify_all();
  room_.notify_all();
}

void BlockStore::Reader::read(int shard) {
  try {
    readBlocks(shard);
  } catch (const std::bad_alloc &) {
    fail("there is not enough memory to read blocks", StatusCode::ResourceExhausted);
  }
}

void BlockStore::Reader::readBlocks(int shard) {
  for (const Block &block : store_.blocks_) {
    if (block.shard != shard)
      continue;
    std::vector<uint8_t> bytes;
    {
      std::unique_lock lock(mutex_);
      room_.wait(lock, [this] { return ends_ || queue_.size() < kReady; });
      if (ends_)
        return;
      if (!free_.empty()) {
        bytes = std::move(free_.back());
        free_.pop_back();
      }
    }
    bytes.resize(size_t(block.size()));
    if (!readFully(store_.files_[shard], bytes.data(), block.size(), block.offset)) {
      fail(fmt::format("blocks in {} can't be read: {}; start the training again", store_.folder_,
                       std::strerror(errno)));
      return;
    }
    std::lock_guard lock(mutex_);
    queue_.push_back({&block, std::move(bytes)});
    ready_.notify_one();
  }
  std::lock_guard lock(mutex_);
  --reading_;
  ready_.notify_all();
}

std::optional<BlockStore::Block> BlockStore::Reader::next(Bins &bins) {
  Packed packed;
  {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [this] { return ends_ || !queue_.empty() || reading_ == 0; });
    if (ends_ || queue_.empty())
      return std::nullopt;
    packed = std::move(queue_.front());
    queue_.pop_front();
  }
  room_.notify_all();
  if (store_.unpack(*packed.block, packed.bytes, bins)) {
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(packed.bytes));
    return *packed.block;
  }
  fail(fmt::format("a block in {} is damaged; check the disk, and start the training again",
                   store_.folder_));
  return std::nullopt;
}

Status BlockStore::Reader::status() {
  std::lock_guard lock(mutex_);
  return status_;
}

} // namespace tensmith::trees
