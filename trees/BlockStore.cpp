// Writing and reading of blocks: zstd at its fastest level, which costs less than the disk saves.
#include "trees/BlockStore.h"

#include <algorithm>
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
constexpr int64_t kBlockBytes = 1 << 18; // so that an unpacked block stays in a core's cache
constexpr size_t kReady = 4;             // blocks that wait to be taken

template <typename Bin>
void fillBins(const Matrix &matrix, const Cuts &cuts, int64_t begin, int64_t end, Bin *bins) {
  for (int64_t row = begin; row < end; ++row)
    for (int64_t feature = 0; feature < matrix.columns; ++feature) {
      float value = matrix.dense[row * matrix.columns + feature];
      *bins++ = Bin(std::isnan(value) ? cuts.bins(feature) : cuts.binOf(feature, value));
    }
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
                                                      bool compresses, Threads &threads) {
  std::unique_ptr<BlockStore> store(new BlockStore);
  store->features_ = matrix.columns;
  store->compresses_ = compresses;
  for (int64_t feature = 0; feature < matrix.columns; ++feature)
    store->isByte_ &= cuts.bins(feature) < 256; // with one for missing values
  store->blockRows_ =
      std::clamp<int64_t>(kBlockBytes / (matrix.columns * store->width()), 64, 1 << 17);
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
  std::vector<std::vector<uint8_t>> bins(together), packed(together);
  for (int64_t first = 0; first < count; first += together) {
    int64_t number = std::min(together, count - first);
    threads.parts(number, [&](int64_t at, int) {
      int64_t begin = (first + at) * blockRows_, end = std::min(begin + blockRows_, matrix.rows);
      bins[at].resize((end - begin) * features_ * width());
      if (isByte_)
        fillBins(matrix, cuts, begin, end, bins[at].data());
      else
        fillBins(matrix, cuts, begin, end, reinterpret_cast<uint16_t *>(bins[at].data()));
      if (!compresses_) {
        packed[at] = bins[at];
        return;
      }
      packed[at].resize(ZSTD_compressBound(bins[at].size()));
      packed[at].resize(
          ZSTD_compress(packed[at].data(), packed[at].size(), bins[at].data(), bins[at].size(), 1));
    });
    for (int64_t at = 0; at < number; ++at) {
      int64_t begin = (first + at) * blockRows_, size = int64_t(packed[at].size());
      int shard = int((first + at) % int64_t(files_.size()));
      if (!writeFully(files_[shard], packed[at].data(), size, ends[shard]))
        return {StatusCode::IoError,
                fmt::format("blocks can't be written to {}: {}; name a folder with more room",
                            folder_, std::strerror(errno))};
      blocks_.push_back({begin, std::min(blockRows_, matrix.rows - begin), shard, ends[shard], size,
                         hashOf(packed[at])});
      ends[shard] += size;
    }
  }
  return {};
}

BlockStore::~BlockStore() {
  for (int file : files_)
    close(file);
}

int64_t BlockStore::bytesOnDisk() const {
  int64_t sum = 0;
  for (const Block &block : blocks_)
    sum += block.size;
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
    {
      std::unique_lock lock(mutex_);
      room_.wait(lock, [this] { return ends_ || queue_.size() < kReady; });
      if (ends_)
        return;
    }
    std::vector<uint8_t> bytes(block.size);
    if (!readFully(store_.files_[shard], bytes.data(), block.size, block.offset)) {
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

bool BlockStore::Reader::unpack(const Packed &packed, std::vector<uint8_t> &bins) {
  size_t size = size_t(packed.block->rows * store_.features_ * store_.width());
  bins.resize(std::max(bins.size(), size + 64));
  if (!(hashOf(packed.bytes) == packed.block->hash))
    return false;
  if (!store_.compresses_) {
    std::copy(packed.bytes.begin(), packed.bytes.end(), bins.begin());
    return packed.bytes.size() == size;
  }
  return ZSTD_decompress(bins.data(), size, packed.bytes.data(), packed.bytes.size()) == size;
}

std::optional<BlockStore::Block> BlockStore::Reader::next(std::vector<uint8_t> &bins) {
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
  if (unpack(packed, bins))
    return *packed.block;
  fail(fmt::format("a block in {} is damaged; check the disk, and start the training again",
                   store_.folder_));
  return std::nullopt;
}

Status BlockStore::Reader::status() {
  std::lock_guard lock(mutex_);
  return status_;
}

} // namespace tensmith::trees
