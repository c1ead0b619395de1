// One row at a time: read, window (augmentation), convert. Bytes to floats, as most pictures are,
// go through a table of 256 values for each channel.
#include "train/Feed.h"

#include "files/Failure.h"
#include "files/Words.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace tensmith::train {

/// Which part of the raw picture an augmented one shows: the element at (y, x) is the raw one's at
/// (y + dy, x + dx), from the right where it is mirrored, and 0 outside.
struct Feed::Window {
  int64_t dy = 0, dx = 0;
  bool mirrored = false;
  bool whole() const { return dy == 0 && dx == 0 && !mirrored; }
};

namespace {

int64_t countOf(const Shape &shape) { return *elementCount(shape); }

bool isWord(const std::string &name, std::initializer_list<const char *> words) {
  return std::ranges::any_of(words, [&](const char *word) { return name == word; });
}

bool looksLikeTarget(const std::string &name) {
  return isWord(name, {"target", "targets", "label", "labels", "y", "class"});
}

std::string typeText(const Column &column) {
  return fmt::format("{} {}", info(column.type).name, toString(column.shape));
}

std::string typeText(const FeedPort &port) {
  return fmt::format("{} {}", info(port.type).name, toString(port.shape));
}

} // namespace

Feed::Feed(FeedPort port, std::vector<std::shared_ptr<const Column>> columns, bool isTarget,
           const Normalisation &normalisation, const std::string &where)
    : port_(std::move(port)), columns_(std::move(columns)), where_(where),
      normalised_(!isTarget && isFloat(port_.type)) {
  int64_t there = 0;
  for (const auto &column : columns_)
    there += countOf(column->shape);
  if (there != countOf(port_.shape))
    fail(where, fmt::format("'{}' has {} for a sample, but the model's '{}' takes {}",
                            printable(columns_[0]->name),
                            columns_.size() == 1 ? typeText(*columns_[0])
                                                 : fmt::format("{} numbers with others", there),
                            printable(port_.name), typeText(port_)));
  if (!port_.shape.empty())
    width_ = port_.shape.back();
  if (port_.shape.size() >= 2) {
    height_ = port_.shape[port_.shape.size() - 2];
    channels_ = countOf(port_.shape) / std::max<int64_t>(1, width_ * height_);
  }
  if (!normalised_)
    return;
  scale_ = normalisation.scale.value_or(columns_[0]->type == DataType::U8 ? 1.0 / 255 : 1.0);
  mean_ = normalisation.mean.empty() ? std::vector<double>{0} : normalisation.mean;
  deviation_ = normalisation.deviation.empty() ? std::vector<double>{1} : normalisation.deviation;
  for (const auto *values : {&mean_, &deviation_})
    if (values->size() > 1 && int64_t(values->size()) != channels_)
      fail(where, fmt::format("{} values are given as the {}, but '{}' has {} channels; give one, "
                              "or one for each",
                              values->size(), values == &mean_ ? "mean" : "std",
                              printable(port_.name), channels_));
  if (columns_[0]->type == DataType::U8 && port_.type == DataType::F32)
    for (int64_t channel = 0; channel < channels_; ++channel)
      for (int value = 0; value < 256; ++value)
        bytes_.push_back(float(table(value, channel)));
}

double Feed::table(double value, int64_t channel) const {
  auto at = [&](const std::vector<double> &values) {
    return values[values.size() == 1 ? 0 : size_t(channel)];
  };
  return (value * scale_ - at(mean_)) / at(deviation_);
}

void Feed::augment(const Augmentation &augmentation) {
  if (augmentation.any() && (port_.shape.size() < 2 || columns_.size() != 1))
    fail(where_, "is augmented, but '" + printable(port_.name) + "' (" + typeText(port_) +
                     ") is no picture; leave out --crop and --flip");
  augmentation_ = augmentation;
}

Feed::Window Feed::windowOf(int64_t row, int64_t epoch) const {
  Window window;
  if (epoch < 0 || !augmentation_.any())
    return window;
  uint64_t seed = augmentation_.seed, index = uint64_t(row);
  if (augmentation_.crop > 0) {
    uint64_t bits = randomBits(seed, Stream::Crop, uint32_t(epoch), index);
    uint64_t choices = uint64_t(2 * augmentation_.crop + 1);
    window.dy = int64_t((bits >> 32) * choices >> 32) - augmentation_.crop;
    window.dx = int64_t((bits & 0xffffffff) * choices >> 32) - augmentation_.crop;
  }
  if (augmentation_.flip)
    window.mirrored = randomBits(seed, Stream::Flip, uint32_t(epoch), index) & 1;
  return window;
}

void Feed::convert(std::span<const std::byte> raw, const Window &window, std::byte *into) const {
  const Column &column = *columns_[0];
  HostTensor from(column.type, port_.shape, raw.data(), nullptr);
  HostTensor to(port_.type, port_.shape);
  bool last = column.channelsLast, fast = !bytes_.empty();
  auto *floats = reinterpret_cast<float *>(into);
  int64_t at = 0;
  for (int64_t c = 0; c < channels_; ++c)
    for (int64_t y = 0; y < height_; ++y)
      for (int64_t x = 0; x < width_; ++x, ++at) {
        int64_t fromY = y + window.dy;
        int64_t fromX = (window.mirrored ? width_ - 1 - x : x) + window.dx;
        bool inside = fromY >= 0 && fromY < height_ && fromX >= 0 && fromX < width_;
        int64_t index = last ? (fromY * width_ + fromX) * channels_ + c
                             : (c * height_ + fromY) * width_ + fromX;
        if (fast) {
          uint8_t value = inside ? uint8_t(raw[size_t(index)]) : 0;
          floats[at] = bytes_[size_t(c) * 256 + value];
        } else if (normalised_) {
          to.setDouble(at, table(inside ? from.getDouble(index) : 0, c));
        } else if (isFloat(column.type) || isFloat(port_.type)) {
          to.setDouble(at, inside ? from.getDouble(index) : 0);
        } else {
          to.setInt(at, inside ? from.getInt(index) : 0);
        }
      }
  if (!fast)
    std::memcpy(into, to.data(), size_t(to.bytes()));
}

void Feed::fillRow(int64_t row, int64_t epoch, std::span<std::byte> raw, std::byte *into) const {
  if (columns_.size() == 1) {
    columns_[0]->read(row, raw.data());
    return convert(raw, windowOf(row, epoch), into);
  }
  // Joined columns have one type each; they meet as doubles.
  HostTensor all(port_.type, port_.shape);
  int64_t at = 0;
  for (const auto &column : columns_) {
    column->read(row, raw.data());
    HostTensor part(column->type, column->shape, raw.data(), nullptr);
    for (int64_t i = 0; i < part.size(); ++i, ++at)
      all.setDouble(at, normalised_ ? table(part.getDouble(i), 0) : part.getDouble(i));
  }
  std::memcpy(into, all.data(), size_t(all.bytes()));
}

void Feed::checkClasses(std::span<const int64_t> rows, const std::byte *elements) const {
  int64_t each = countOf(port_.shape);
  HostTensor all(port_.type, {int64_t(rows.size()) * each}, elements, nullptr);
  for (int64_t i = 0; i < all.size(); ++i)
    if (int64_t label = all.getInt(i); label >= classes_)
      fail(where_, fmt::format("sample {} has the class {}, but the model tells {} apart, 0 to {}",
                               rows[size_t(i / each)], label, classes_, classes_ - 1));
}

/// Of classes that are floats, which as integers would be some class.
void Feed::checkWhole(std::span<const int64_t> rows) const {
  const Column &column = *columns_[0];
  if (!isFloat(column.type))
    return;
  std::vector<std::byte> elements(static_cast<size_t>(column.rowBytes()));
  HostTensor values(column.type, column.shape, elements.data(), nullptr);
  for (int64_t row : rows) {
    column.read(row, elements.data());
    for (int64_t i = 0; i < values.size(); ++i)
      if (double value = values.getDouble(i); !(std::isfinite(value) && value == std::floor(value)))
        fail(where_,
             fmt::format("sample {} (counted from 0) has {} in '{}', which is the number of "
                         "no class",
                         row, std::isnan(value) ? "nan" : fmt::format("{}", value),
                         printable(column.name)));
  }
}

void Feed::fill(std::span<const int64_t> rows, int64_t epoch, std::byte *into) const {
  int64_t longest = 0, each = countOf(port_.shape) * byteSize(port_.type);
  for (const auto &column : columns_)
    longest = std::max(longest, column->rowBytes());
  std::vector<std::byte> raw(static_cast<size_t>(longest));
  for (size_t i = 0; i < rows.size(); ++i)
    fillRow(rows[i], epoch, raw, into + int64_t(i) * each);
  if (classes_ > 0) {
    checkWhole(rows);
    checkClasses(rows, into);
  }
}

std::string Feed::firstNotFinite(std::span<const int64_t> rows) const {
  bool narrow = port_.type == DataType::F32;
  for (const auto &column : columns_) {
    if (!isFloat(column->type))
      continue;
    std::vector<std::byte> elements(static_cast<size_t>(column->rowBytes()));
    HostTensor values(column->type, column->shape, elements.data(), nullptr);
    for (int64_t row : rows) {
      column->read(row, elements.data());
      for (int64_t i = 0; i < values.size(); ++i) {
        double value = values.getDouble(i);
        bool fits = std::isfinite(value) && !(narrow && std::isinf(float(value)));
        if (!fits)
          return fmt::format("{}: sample {} (counted from 0) has {} in '{}'", where_, row,
                             std::isnan(value) ? "nan" : fmt::format("{}", value),
                             printable(column->name));
      }
    }
  }
  return "";
}

// ---- Which column is for which input ----

namespace {

using Columns = std::vector<std::shared_ptr<const Column>>;

std::string listed(const Columns &columns) {
  std::string names;
  for (const auto &column : columns)
    names += (names.empty() ? "" : ", ") + printable(column->name);
  return names.size() > 300 ? names.substr(0, 300) + ", ..." : names;
}

int columnNamed(const Dataset &data, const std::string &name) {
  for (size_t i = 0; i < data.columns.size(); ++i)
    if (data.columns[i]->name == name)
      return int(i);
  return -1;
}

Columns columnsFor(const FeedPort &port, const Dataset &data, const Columns &left, bool only) {
  if (int named = columnNamed(data, port.name); named >= 0)
    return {data.columns[size_t(named)]};
  if (!only || left.empty())
    fail(data.where, "has nothing for the model's input '" + printable(port.name) +
                         "'; name an array or a column like it (it has " + listed(data.columns) +
                         ")");
  bool scalars =
      std::ranges::all_of(left, [](const auto &column) { return countOf(column->shape) == 1; });
  if (left.size() > 1 && !scalars)
    fail(data.where, "has several arrays for the model's input '" + printable(port.name) + "' (" +
                         listed(left) + "); name the right one '" + printable(port.name) + "'");
  return left;
}

/// Classes that are no target are an input only where one takes them by name.
void checkNoText(const Dataset &data, const Columns &columns, const std::string &port,
                 const std::string &target) {
  if (data.target < 0 || data.classes.empty())
    return;
  const auto &text = data.columns[size_t(data.target)];
  if (std::ranges::find(columns, text) != columns.end() && text->name != port)
    fail(data.where, "the column '" + printable(text->name) + "' is text, and the target is '" +
                         printable(target) +
                         "'; leave it out, or number its texts, or name the "
                         "target (--target)");
}

} // namespace

int targetOf(const Dataset &data, const std::string &asked) {
  if (!asked.empty()) {
    std::vector<std::string> names;
    for (const auto &column : data.columns)
      names.push_back(column->name);
    int found = columnNamed(data, asked);
    if (found < 0)
      fail(data.where, "has no '" + printable(asked) + "' for the target" +
                           suggestion(asked, names) + " (it has " + listed(data.columns) + ")");
    return found;
  }
  for (size_t i = 0; i < data.columns.size(); ++i)
    if (looksLikeTarget(data.columns[i]->name))
      return int(i);
  if (data.target >= 0)
    return data.target;
  return data.columns.size() > 1 ? int(data.columns.size()) - 1 : -1;
}

std::vector<Feed> bindFeeds(const Dataset &data, const std::vector<FeedPort> &ports,
                            const std::string &target, const std::string &targetColumn,
                            const Normalisation &normalisation) {
  int chosen = target.empty() ? -1 : targetOf(data, targetColumn);
  if (!target.empty() && chosen < 0)
    fail(data.where, "has no target beside its inputs (it has " + listed(data.columns) + ")");
  Columns left;
  for (size_t i = 0; i < data.columns.size(); ++i)
    if (int(i) != chosen)
      left.push_back(data.columns[i]);
  bool only = ports.size() == (target.empty() ? 1u : 2u);
  std::vector<Feed> feeds;
  for (const FeedPort &port : ports) {
    bool isTarget = port.name == target && !target.empty();
    Columns columns =
        isTarget ? Columns{data.columns[size_t(chosen)]} : columnsFor(port, data, left, only);
    if (!isTarget && chosen >= 0)
      checkNoText(data, columns, port.name, data.columns[size_t(chosen)]->name);
    feeds.emplace_back(port, std::move(columns), isTarget, normalisation, data.where);
  }
  return feeds;
}

Batch makeBatch(const std::vector<Feed> &feeds, int64_t size) {
  Batch batch;
  for (const Feed &feed : feeds) {
    Shape shape = feed.port().shape;
    shape.insert(shape.begin(), size);
    batch.tensors.emplace_back(ts_type(feed.port().type), shape);
  }
  return batch;
}

void fillBatch(const std::vector<Feed> &feeds, std::span<const int64_t> rows, int64_t epoch,
               Batch &batch) {
  std::vector<int64_t> padded(rows.begin(), rows.end());
  int64_t size = batch.tensors.empty() ? 0 : batch.tensors[0].shape()[0];
  while (int64_t(padded.size()) < size)
    padded.push_back(padded[padded.size() - rows.size()]);
  for (size_t i = 0; i < feeds.size(); ++i)
    feeds[i].fill(padded, epoch, static_cast<std::byte *>(batch.tensors[i].data()));
  batch.rows = int64_t(rows.size());
}

} // namespace tensmith::train
