// Bins of dense rows in blocks on disk, for data larger than memory (the XGBoost paper, section
// 4.3): compressed, spread over several files, and read ahead by a thread for each file.
//
// A block has some thousands of rows, one row's bins after the other. So many that a node far down
// a tree, of which a block has one in thirty, still adds several rows to each line of its histogram
// before the next node's takes its place in the cache.
//
// On disk the lowest eight bits of all bins lie first, then planes of one bit each, for as many as
// bins have above: of 256 bins and one for missing values, one. Both parts are compressed where
// that saves an eighth; the bins of numbers are equally many by construction, and such bytes would
// take longer to unpack than to read. Readers keep a few blocks ready and no more, so memory does
// not depend on the data. Each block has a hash, so that damage is told and never trained on.
#pragma once

#include "base/Hash.h"
#include "trees/Cuts.h"

#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace tensmith::trees {

class BlockStore {
public:
  struct Block {
    int64_t firstRow, rows;
    int shard;
    int64_t offset;               // in the shard's file
    std::array<int64_t, 2> sizes; // there, of the bytes and of the bits above them
    Hash128 hash;

    int64_t size() const { return sizes[0] + sizes[1]; }
  };

  /// Writes the bins of all rows, in files within `folder` that have no name. `hasMissing`, by
  /// feature: a value may be missing.
  static Result<std::unique_ptr<BlockStore>> write(const std::string &folder, const Matrix &matrix,
                                                   const Cuts &cuts,
                                                   std::span<const uint8_t> hasMissing,
                                                   bool compresses, Threads &threads);
  ~BlockStore();
  BlockStore(const BlockStore &) = delete;
  BlockStore &operator=(const BlockStore &) = delete;

  bool isByte() const { return bitsAbove_ == 0; }
  int64_t features() const { return features_; }
  int64_t mostRows() const { return blockRows_; }
  const std::vector<Block> &blocks() const { return blocks_; }
  int64_t bytesOnDisk() const;

  /// Memory of one thread, which is used for one block after another.
  struct Bins {
    std::vector<uint8_t> bytes;  // where the store is one of bytes
    std::vector<uint16_t> words; // elsewhere
    std::vector<uint8_t> unpacked;
  };

  /// Blocks in the order in which they come from the disk. Several threads may ask.
  class Reader {
  public:
    explicit Reader(const BlockStore &store);
    ~Reader();
    Reader(const Reader &) = delete;
    Reader &operator=(const Reader &) = delete;
    /// The next block, whose bins are in `bins`; none at the end, or where something failed.
    std::optional<Block> next(Bins &bins);
    Status status();

  private:
    struct Packed {
      const Block *block;
      std::vector<uint8_t> bytes;
    };
    void read(int shard);
    void readBlocks(int shard);
    void fail(std::string message, StatusCode code = StatusCode::IoError);

    const BlockStore &store_;
    std::mutex mutex_;
    std::condition_variable ready_, room_;
    std::deque<Packed> queue_;
    std::vector<std::vector<uint8_t>> free_; // memory of blocks that were taken
    int reading_;
    bool ends_ = false;
    Status status_;
    std::vector<std::thread> threads_;
  };

private:
  BlockStore() = default;
  Status writeBlocks(const Matrix &matrix, const Cuts &cuts, Threads &threads);
  void pack(const Bins &bins, int64_t count, Block &block, std::vector<uint8_t> &packed) const;
  bool unpack(const Block &block, std::vector<uint8_t> &packed, Bins &bins) const;
  static int64_t planeBytes(int64_t count) { return (count + 7) / 8; }
  int64_t bitBytes(int64_t count) const { return bitsAbove_ * planeBytes(count); }

  std::string folder_;
  int64_t features_ = 0, blockRows_ = 0;
  int bitsAbove_ = 0; // of a bin, above the lowest eight
  bool compresses_ = true;
  std::vector<int> files_; // descriptors, by shard
  std::vector<Block> blocks_;
};

} // namespace tensmith::trees
