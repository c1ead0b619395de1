// Samples: rows of named columns, each row of a column an array of one type and shape.
//
// Whatever the files are, a reader for each format makes this of them, with every size checked
// against the file; a file that is broken is named with what is wrong with it.
#pragma once

#include "base/Hash.h"
#include "base/HostTensor.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tensmith::train {

struct Settings;

/// May be read from several threads at once.
class Column {
public:
  Column(std::string name, DataType type, Shape shape)
      : name(std::move(name)), type(type), shape(std::move(shape)) {}
  virtual ~Column() = default;
  /// The elements of one row, dense and in order; throws Failure where its file is broken.
  virtual void read(int64_t row, std::byte *into) const = 0;
  /// What tells its first `rows` rows from others.
  virtual void addTo(Hasher &hasher, int64_t rows) const;

  int64_t rowBytes() const { return *elementCount(shape) * byteSize(type); }

  const std::string name;
  const DataType type;
  const Shape shape;         // of a row
  bool channelsLast = false; // pictures, as they are decoded
};

struct Dataset {
  std::string where; // for messages
  int64_t rows = 0;
  std::vector<std::shared_ptr<const Column>> columns;
  int target = -1; // the column that the files say is it
  std::vector<std::string> classes;
};

/// Refuses what would take more than half of the machine's memory; `bytes` below 0: more than can
/// be counted.
void checkFits(int64_t bytes, const std::string &where);

/// An array whose first dimension are the rows.
std::shared_ptr<const Column> arrayColumn(std::string name, HostTensor array);

/// A column of text, which is the target: names of classes become their numbers in the order of the
/// alphabet. Fails where there is one already.
void addClasses(Dataset &data, const std::string &name, const std::vector<std::string> &rows);

/// Arrays whose first dimension are the samples, by name; without names (all empty) inputs and
/// targets. Throws Failure.
Dataset arraysDataset(std::vector<std::pair<std::string, HostTensor>> arrays,
                      const std::string &where);

/// What a picture that is decoded for an input shall be.
struct PictureSize {
  int height, width, channels;
};
using SizeOf = std::function<PictureSize(const std::string &where)>;

struct DataPaths {
  std::vector<std::string> train, test; // test may be empty: there is none
};
/// The settings' paths, and what a folder of them says by its names: IDX files with the names that
/// MNIST's have, folders `train` and `test`.
DataPaths findData(const Settings &settings);

/// Opens what the paths name; `size` is asked where there are pictures.
Dataset openDataset(const std::vector<std::string> &paths, const std::string &format, bool test,
                    const SizeOf &size);

// The readers, a file each.
Dataset openIdx(const std::string &images, const std::string &labels);
/// The IDX file of a folder whose name has both words: train, images.
std::optional<std::string> findIdx(const std::string &folder, bool test, const std::string &what);
Dataset openArrays(const std::vector<std::string> &paths); // .npz, or .npy files
Dataset openCsv(const std::string &path);
Dataset openPictures(const std::string &folder, const SizeOf &size);
Dataset openParquet(const std::string &path);

} // namespace tensmith::train
