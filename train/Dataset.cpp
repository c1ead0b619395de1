// Which reader a path is for.
#include "train/Dataset.h"

#include "files/Failure.h"
#include "files/Words.h"
#include "train/Settings.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <set>
#include <unistd.h>

namespace tensmith::train {
namespace {

namespace fs = std::filesystem;

class ArrayColumn : public Column {
public:
  ArrayColumn(std::string name, HostTensor array)
      : Column(std::move(name), array.type(),
               Shape(array.shape().begin() + 1, array.shape().end())),
        array_(std::move(array)) {}

  void read(int64_t row, std::byte *into) const override {
    int64_t bytes = rowBytes();
    std::memcpy(into, array_.data() + row * bytes, size_t(bytes));
  }
  void addTo(Hasher &hasher, int64_t rows) const override {
    hasher.addBytes({array_.data(), size_t(rows * rowBytes())});
  }

private:
  HostTensor array_;
};

bool isFolder(const std::string &path) {
  std::error_code none;
  return fs::is_directory(path, none);
}

std::string ending(const std::string &path) {
  std::string ending = fs::path(path).extension();
  for (char &c : ending)
    c = char(std::tolower(static_cast<unsigned char>(c)));
  return ending;
}

std::string formatOf(const std::vector<std::string> &paths, bool test) {
  const std::string &path = paths[0];
  if (isFolder(path))
    return findIdx(path, test, "images") ? "idx" : "pictures";
  std::string end = ending(path);
  if (end == ".npy" || end == ".npz")
    return "numpy";
  if (end == ".csv" || end == ".tsv")
    return "csv";
  if (end == ".parquet")
    return "parquet";
  if (path.find("-idx") != std::string::npos)
    return "idx";
  std::error_code none;
  fail(path, fs::exists(path, none)
                 ? "is no data by its name; .npy, .npz, .csv, .parquet, IDX files and folders are "
                   "(--data-format says which)"
                 : "is not there; check the path");
}

Dataset openIdxPaths(const std::vector<std::string> &paths, bool test) {
  if (paths.size() == 2)
    return openIdx(paths[0], paths[1]);
  if (paths.size() > 2 || !isFolder(paths[0]))
    fail(paths[0], "give the folder of the IDX files, or two files: images and labels");
  auto images = findIdx(paths[0], test, "images"), labels = findIdx(paths[0], test, "labels");
  if (!images || !labels)
    fail(paths[0],
         fmt::format("has no IDX files of {} and {}, with or without .gz",
                     test ? "t10k-images" : "train-images", test ? "t10k-labels" : "train-labels"));
  return openIdx(*images, *labels);
}

} // namespace

void Column::addTo(Hasher &hasher, int64_t rows) const {
  std::vector<std::byte> elements(static_cast<size_t>(rowBytes()));
  for (int64_t row = 0; row < rows; ++row) {
    read(row, elements.data());
    hasher.addBytes(elements);
  }
}

void checkFits(int64_t bytes, const std::string &where) {
  int64_t limit = int64_t(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE) / 2;
  if (bytes < 0 || bytes > limit)
    fail(where, fmt::format(
                    "would take {}, more than half of the machine's memory; train on a part of "
                    "it, or on a folder of pictures, which are read as they are needed",
                    bytes < 0 ? "more bytes than can be counted" : fmt::format("{} bytes", bytes)));
}

std::shared_ptr<const Column> arrayColumn(std::string name, HostTensor array) {
  return std::make_shared<ArrayColumn>(std::move(name), std::move(array));
}

void addClasses(Dataset &data, const std::string &name, const std::vector<std::string> &rows) {
  if (data.target >= 0)
    fail(data.where,
         fmt::format("the columns '{}' and '{}' are both text; only the target can be",
                     printable(data.columns[size_t(data.target)]->name), printable(name)));
  std::map<std::string, int64_t> numbers;
  for (const std::string &row : rows)
    numbers[row] = 0;
  for (auto &[text, number] : numbers) {
    number = int64_t(data.classes.size());
    data.classes.push_back(text);
  }
  HostTensor column(DataType::I64, {int64_t(rows.size())});
  for (size_t i = 0; i < rows.size(); ++i)
    column.setInt(int64_t(i), numbers[rows[i]]);
  data.target = int(data.columns.size());
  data.columns.push_back(arrayColumn(name, std::move(column)));
}

DataPaths findData(const Settings &settings) {
  DataPaths paths = {settings.data, settings.test};
  if (paths.train.size() != 1 || !isFolder(paths.train[0]))
    return paths;
  const std::string folder = paths.train[0];
  for (const char *name : {"test", "val", "validation"})
    if (isFolder(folder + "/train") && isFolder(folder + "/" + name)) {
      paths.train[0] = folder + "/train";
      if (paths.test.empty())
        paths.test = {folder + "/" + name};
      return paths;
    }
  if (paths.test.empty() && findIdx(folder, true, "images") && findIdx(folder, true, "labels"))
    paths.test = {folder};
  return paths;
}

Dataset openDataset(const std::vector<std::string> &paths, const std::string &format, bool test,
                    const SizeOf &size) {
  std::string kind = format == "auto" ? formatOf(paths, test) : format;
  bool single = kind == "csv" || kind == "pictures" || kind == "parquet";
  if (single && paths.size() != 1)
    fail(paths[1], "is one path too many; " + kind + " data is one file or folder");
  Dataset data = kind == "idx"        ? openIdxPaths(paths, test)
                 : kind == "numpy"    ? openArrays(paths)
                 : kind == "csv"      ? openCsv(paths[0])
                 : kind == "pictures" ? openPictures(paths[0], size)
                                      : openParquet(paths[0]);
  if (data.rows == 0)
    fail(data.where, "has no samples");
  std::set<std::string> names;
  for (const auto &column : data.columns)
    if (!column->name.empty() && !names.insert(column->name).second)
      fail(data.where, "has two columns '" + printable(column->name) + "'; rename one of them");
  return data;
}

} // namespace tensmith::train
