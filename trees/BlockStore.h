// Bins of dense rows in blocks on disk, for data larger than memory (the XGBoost paper, section
// 4.3): compressed, spread over several files, and read ahead by a thread for each file.
//
// A block has some thousands of rows, one row's bins after the other. Readers keep a few blocks
// ready and no more, so memory does not depend on the data. Each block has a hash, so that damage
// is told and never trained on.
#pragma once

#include "base/Hash.h"
#include "trees/Cuts.h"

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
    int64_t offset, size; // in the shard's file
    Hash128 hash;
  };

  /// Writes the bins of all rows, in a new folder within `folder` that is removed with this object.
  static Result<std::unique_ptr<BlockStore>> write(const std::string &folder, const Matrix &matrix,
                                                   const Cuts &cuts, bool compresses,
                                                   Threads &threads);
  ~BlockStore();
  BlockStore(const BlockStore &) = delete;
  BlockStore &operator=(const BlockStore &) = delete;

  bool isByte() const { return isByte_; }
  int64_t features() const { return features_; }
  int64_t mostRows() const { return blockRows_; }
  const std::vector<Block> &blocks() const { return blocks_; }
  int64_t bytesOnDisk() const;

  /// Blocks in the order in which they come from the disk. Several threads may ask.
  class Reader {
  public:
    explicit Reader(const BlockStore &store);
    ~Reader();
    Reader(const Reader &) = delete;
    Reader &operator=(const Reader &) = delete;
    /// The next block, unpacked to `bins` (which has room for the largest, and 64 bytes); none at
    /// the end, or where something failed.
    std::optional<Block> next(std::vector<uint8_t> &bins);
    Status status();

  private:
    struct Packed {
      const Block *block;
      std::vector<uint8_t> bytes;
    };
    void read(int shard);
    void readBlocks(int shard);
    bool unpack(const Packed &packed, std::vector<uint8_t> &bins);
    void fail(std::string message, StatusCode code = StatusCode::IoError);

    const BlockStore &store_;
    std::mutex mutex_;
    std::condition_variable ready_, room_;
    std::deque<Packed> queue_;
    int reading_;
    bool ends_ = false;
    Status status_;
    std::vector<std::thread> threads_;
  };

private:
  BlockStore() = default;
  Status writeBlocks(const Matrix &matrix, const Cuts &cuts, Threads &threads);
  int64_t width() const { return isByte_ ? 1 : 2; }

  std::string folder_;
  int64_t features_ = 0, blockRows_ = 0;
  bool isByte_ = true, compresses_ = true;
  std::vector<int> files_; // descriptors, by shard
  std::vector<Block> blocks_;
};

} // namespace tensmith::trees
