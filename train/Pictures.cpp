// A folder with a folder of pictures for each class; the classes are numbered in the order of the
// alphabet. Pictures are decoded when a batch needs them, by the thread that makes it.
#include "files/Failure.h"
#include "files/Picture.h"
#include "files/Words.h"
#include "train/Dataset.h"

#include <algorithm>
#include <filesystem>

namespace tensmith::train {
namespace {

namespace fs = std::filesystem;

class PictureColumn : public Column {
public:
  PictureColumn(std::vector<std::string> files, PictureSize size)
      : Column("images", DataType::U8, {size.height, size.width, size.channels}),
        files_(std::move(files)), size_(size) {
    channelsLast = true;
  }

  void read(int64_t row, std::byte *into) const override {
    const std::string &file = files_[size_t(row)];
    Picture picture = resized(decodePicture(file, size_.channels), size_.height, size_.width, file);
    std::memcpy(into, picture.pixels.data(), picture.pixels.size());
  }

  /// Of their folder, the class, and their own names; the data may have moved as a whole.
  void addTo(Hasher &hasher, int64_t rows) const override {
    for (int64_t row = 0; row < rows; ++row) {
      fs::path path = files_[size_t(row)];
      std::error_code unknown;
      hasher.add((path.parent_path().filename() / path.filename()).native());
      hasher.add(int64_t(fs::file_size(path, unknown)));
    }
  }

private:
  std::vector<std::string> files_;
  PictureSize size_;
};

bool isPicture(const fs::path &path) {
  std::string end = path.extension();
  for (char &c : end)
    c = char(std::tolower(static_cast<unsigned char>(c)));
  return end == ".png" || end == ".jpg" || end == ".jpeg";
}

/// Names within the folder, in order; folders or pictures.
std::vector<std::string> entries(const std::string &folder, bool folders) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code none;
    bool wanted = folders ? it->is_directory(none) : isPicture(it->path());
    if (wanted && !it->path().filename().string().starts_with("."))
      names.push_back(it->path().filename());
  }
  if (error)
    fail(folder, error.message());
  std::ranges::sort(names);
  return names;
}

} // namespace

Dataset openPictures(const std::string &folder, const SizeOf &size) {
  Dataset data = {folder, 0, {}, 1, entries(folder, true)};
  if (data.classes.empty())
    fail(folder, "has no folders in it; pictures are expected in a folder for each class");
  std::vector<std::string> files;
  std::vector<int64_t> labels;
  for (size_t i = 0; i < data.classes.size(); ++i) {
    std::string within = folder + "/" + data.classes[i];
    for (const std::string &name : entries(within, false)) {
      files.push_back(within + "/" + name);
      labels.push_back(int64_t(i));
    }
  }
  if (files.empty())
    fail(folder, "has no PNG or JPEG pictures in its folders");
  data.rows = int64_t(files.size());
  data.columns.push_back(std::make_shared<PictureColumn>(std::move(files), size(folder)));
  data.columns.push_back(
      arrayColumn("labels", HostTensor::of<int64_t>(DataType::I64, {data.rows}, labels)));
  return data;
}

} // namespace tensmith::train
