// Columns by name, from each format, put together as a matrix; see TableFile.h.
#include "trees/TableFile.h"
#include "trees/Verification.h"

#include "files/Csv.h"
#include "files/Failure.h"
#include "files/Files.h"
#include "files/Words.h"
#include "train/Dataset.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <set>
#include <unordered_map>

namespace tensmith::trees {
namespace {

constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();
constexpr size_t kMostColumns = size_t(1) << 22;

struct NamedColumn {
  std::string name;
  std::vector<float> values;
  std::vector<std::string> texts;  // by category; empty: numbers
  std::vector<std::string> fields; // of the column of groups: as written, since f32 merges numbers
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::strchr(" \t\r\n", text.front()))
    text.remove_prefix(1);
  while (!text.empty() && std::strchr(" \t\r\n", text.back()))
    text.remove_suffix(1);
  return text;
}

std::optional<float> numberIn(std::string_view text) {
  text = trimmed(text);
  if (text.empty() || text == "NA" || text == "nan" || text == "NaN" || text == "null")
    return kMissing;
  if (text.starts_with('+'))
    text.remove_prefix(1);
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return float(value);
}

bool isMissing(std::string_view field) {
  auto number = numberIn(field);
  return number && std::isnan(*number);
}

struct CsvRows {
  CsvRow heading;
  std::vector<std::vector<std::string>> columns;
  int64_t rows = 0;
  std::string problem;

  bool take(CsvRow &row) {
    if (row.size() == 1 && row[0].empty() && heading.size() != 1)
      return true;
    if (heading.empty()) {
      heading = std::move(row);
      columns.resize(heading.size());
    } else if (++rows; row.size() != heading.size()) {
      problem = fmt::format("row {} has {} fields, but the heading has {}", rows, row.size(),
                            heading.size());
    } else {
      for (size_t i = 0; i < row.size(); ++i)
        columns[i].push_back(std::move(row[i]));
    }
    return problem.empty();
  }
};

const Levels *knownLevels(const TableOptions &options, const std::string &name) {
  if (options.like)
    for (const Feature &feature : *options.like)
      if (feature.name == name && !feature.levels.names.empty())
        return &feature.levels;
  return nullptr;
}

/// By the place of each text in a list that is known; see TableOptions::like.
void number(NamedColumn &column, const std::vector<std::string> &fields, const Levels &levels,
            bool addsLevels) {
  column.texts = levels.names;
  std::unordered_map<std::string_view, size_t> places;
  for (size_t place = 0; place < levels.names.size(); ++place)
    places.try_emplace(levels.names[place], place);
  for (const std::string &field : fields) {
    std::string_view text = trimmed(field);
    auto found = places.find(text);
    if (found == places.end() && addsLevels && !isMissing(text)) {
      found = places.emplace(text, column.texts.size()).first;
      column.texts.emplace_back(text);
    }
    column.values.push_back(found == places.end() ? kMissing : float(found->second));
  }
}

/// Numbers where all fields are, or else categories in the order of the alphabet.
NamedColumn columnOf(std::string name, std::vector<std::string> fields,
                     const TableOptions &options) {
  NamedColumn column{std::move(name), {}, {}, {}};
  const Levels *known = knownLevels(options, column.name);
  if (known && known->kind == Levels::Kind::Text) {
    number(column, fields, *known, options.addsLevels);
    return column;
  }
  column.values.reserve(fields.size());
  for (const std::string &field : fields) {
    auto number = numberIn(field);
    if (!number)
      break;
    column.values.push_back(*number);
  }
  if (column.values.size() == fields.size())
    return column;
  std::set<std::string> texts;
  for (const std::string &field : fields)
    if (!isMissing(field))
      texts.emplace(trimmed(field));
  column.texts.assign(texts.begin(), texts.end());
  column.values.clear();
  for (const std::string &field : fields) {
    auto at = std::ranges::lower_bound(column.texts, trimmed(field));
    column.values.push_back(isMissing(field) ? kMissing : float(at - column.texts.begin()));
  }
  return column;
}

std::vector<NamedColumn> columnsOfCsv(const std::string &path, const TableOptions &options) {
  Bytes bytes = readFile(path);
  CsvRows rows;
  std::string_view text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  std::string problem = readCsv(text, path.ends_with(".tsv") ? '\t' : ',',
                                [&](CsvRow &row) { return rows.take(row); });
  if (problem.empty())
    problem = rows.problem;
  if (!problem.empty())
    fail(path, problem);
  if (!rows.heading.empty() && std::ranges::all_of(rows.heading, [](const std::string &text) {
        return numberIn(text) && !trimmed(text).empty();
      }))
    fail(path, "starts with a row of numbers; the first row has to name the columns");
  std::vector<NamedColumn> columns;
  for (size_t i = 0; i < rows.heading.size(); ++i) {
    std::string name(trimmed(rows.heading[i]));
    std::vector<std::string> fields;
    if (!options.group.empty() && name == options.group)
      fields = rows.columns[i];
    columns.push_back(columnOf(std::move(name), std::move(rows.columns[i]), options));
    columns.back().fields = std::move(fields);
  }
  return columns;
}

/// Of one column of the files that training of networks reads, too; a row of several elements
/// becomes as many columns.
void appendColumns(const train::Column &from, const train::Dataset &data, const std::string &group,
                   std::vector<NamedColumn> &columns) {
  int64_t width = *elementCount(from.shape);
  if (width < 1 || columns.size() + size_t(width) > kMostColumns)
    fail(data.where,
         fmt::format("'{}' has no elements, or too many columns", printable(from.name)));
  size_t first = columns.size();
  for (int64_t i = 0; i < width; ++i)
    columns.push_back({width == 1 ? from.name : fmt::format("{}{}", from.name, i), {}, {}, {}});
  HostTensor row(from.type, from.shape);
  for (int64_t r = 0; r < data.rows; ++r) {
    from.read(r, row.mutableData());
    for (int64_t i = 0; i < width; ++i) {
      NamedColumn &column = columns[first + size_t(i)];
      column.values.push_back(float(row.getDouble(i)));
      if (!group.empty() && column.name == group)
        column.fields.push_back(fmt::format("{}", row.getDouble(i)));
    }
  }
  if (!data.classes.empty() && data.target >= 0 && data.columns[size_t(data.target)].get() == &from)
    columns[first].texts = data.classes;
}

std::vector<NamedColumn> readArrays(const std::string &path, const std::string &group) {
  auto noPictures = [](const std::string &where) -> train::PictureSize {
    fail(where, "is a picture; trees take tables");
  };
  train::Dataset data = path.ends_with(".npy")
                            ? train::openArrays({"x=" + path})
                            : train::openDataset({path}, "auto", false, noPictures);
  std::vector<NamedColumn> columns;
  for (const auto &column : data.columns)
    appendColumns(*column, data, group, columns);
  return columns;
}

struct Sparse {
  std::vector<int64_t> begins{0};
  std::vector<int32_t> columns;
  std::vector<float> values;
};

/// How many equal ones lie together, in order.
std::vector<int64_t> sizesOfRuns(const std::vector<std::string> &queries) {
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < queries.size(); ++i)
    i > 0 && trimmed(queries[i]) == trimmed(queries[i - 1]) ? void(++sizes.back())
                                                            : sizes.push_back(1);
  return sizes;
}

/// "label qid:3 0:1.5 7:2 # remark".
Table readLibsvm(const std::string &path, const TableOptions &options) {
  Bytes bytes = readFile(path);
  std::string_view text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  auto sparse = std::make_shared<Sparse>();
  Table table;
  std::vector<std::string> queries;
  int32_t most = -1;
  for (int64_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty())
      continue;
    bool isFirst = true;
    while (!line.empty()) {
      std::string_view word = line.substr(0, line.find_first_of(" \t"));
      line = trimmed(line.substr(word.size()));
      size_t colon = word.find(':');
      auto value = numberIn(word.substr(colon == word.npos ? 0 : colon + 1));
      int32_t column = 0;
      std::string_view key = word.substr(0, colon == word.npos ? 0 : colon);
      auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), column);
      bool isColumn = error == std::errc() && end == key.data() + key.size() && column >= 0;
      if (isFirst && colon == word.npos && value) {
        table.matrix.labels.push_back(*value);
      } else if (!isFirst && key == "qid") {
        queries.emplace_back(word.substr(colon + 1));
      } else if (!isFirst && isColumn && value && size_t(column) < kMostColumns) {
        if (int64_t(sparse->columns.size()) > sparse->begins.back() &&
            sparse->columns.back() >= column)
          fail(path, fmt::format("line {}: columns don't ascend", number));
        sparse->columns.push_back(column);
        sparse->values.push_back(*value);
        most = std::max(most, column);
      } else {
        fail(path, fmt::format("line {}: '{}' is not LABEL first, and COLUMN:NUMBER after it",
                               number, printable(word.substr(0, 40))));
      }
      isFirst = false;
    }
    sparse->begins.push_back(int64_t(sparse->columns.size()));
  }
  Matrix &matrix = table.matrix;
  matrix.rows = int64_t(sparse->begins.size()) - 1;
  bool isKnown = options.like && !options.like->empty();
  matrix.columns =
      isKnown ? int64_t(options.like->size()) : std::max<int64_t>(most + 1, options.leastColumns);
  if (most >= matrix.columns)
    fail(path, fmt::format("has the column {}, counted from 0, but training had {} features", most,
                           matrix.columns));
  matrix.rowBegin = sparse->begins.data();
  matrix.column = sparse->columns.data();
  matrix.value = sparse->values.data();
  matrix.owner = sparse;
  matrix.groups = sizesOfRuns(queries);
  return table;
}

/// The first of a column of texts that is no number, which others in it may be.
std::string textIn(const NamedColumn &column) {
  auto text = std::ranges::find_if(column.texts, [](const auto &one) { return !numberIn(one); });
  return printable((text == column.texts.end() ? column.texts[0] : *text).substr(0, 40));
}

class Assembly {
public:
  Assembly(const std::string &path, std::vector<NamedColumn> columns, const TableOptions &options)
      : path_(path), columns_(std::move(columns)), options_(options) {}

  Table table() {
    if (columns_.empty() || columns_[0].values.empty())
      fail(path_, "has no rows");
    if (options_.hasTarget && columns_.size() == 1)
      fail(path_, "has one column alone, '" + printable(columns_[0].name.substr(0, 200)) +
                      "', and needs features beside the target; fields are parted by commas, in "
                      "a .tsv file by tabs");
    for (const NamedColumn &column : columns_)
      if (column.values.size() != columns_[0].values.size())
        fail(path_, "'" + printable(column.name) + "' has another number of rows");
    checkNames();
    Table result;
    if (options_.hasTarget)
      takeTarget(result);
    else if (auto target = targetPlace())
      columns_.erase(columns_.begin() + int64_t(*target));
    if (!options_.weight.empty())
      takeWeights(result);
    if (!options_.group.empty())
      result.matrix.groups = sizesOfRuns(taken(options_.group).fields);
    takeFeatures(result);
    return result;
  }

private:
  std::optional<size_t> placeOf(const std::string &name) const {
    for (size_t i = 0; i < columns_.size(); ++i)
      if (columns_[i].name == name)
        return i;
    return std::nullopt;
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const NamedColumn &column : columns_)
      names.push_back(column.name);
    return names;
  }

  void checkNames() const {
    std::vector<std::string> sorted = names();
    std::ranges::sort(sorted);
    if (auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
      fail(path_, "has two columns '" + printable(*twice) + "'; each needs a name of its own");
  }

  /// "(it has 'a', 'b')", the first few.
  std::string listed() const {
    constexpr size_t kMostListed = 12;
    std::string list;
    for (size_t i = 0; i < std::min(columns_.size(), kMostListed); ++i)
      list += (i ? ", '" : "'") + printable(columns_[i].name.substr(0, 80)) + "'";
    return "(it has " + list + (columns_.size() > kMostListed ? ", ...)" : ")");
  }

  NamedColumn taken(const std::string &name) {
    auto place = placeOf(name);
    if (!place)
      fail(path_,
           "has no column '" + printable(name) + "'" + suggestion(name, names()) + " " + listed());
    NamedColumn column = std::move(columns_[*place]);
    columns_.erase(columns_.begin() + int64_t(*place));
    return column;
  }

  /// Of prediction: what is no feature of the forest's, and looks like its target.
  std::optional<size_t> targetPlace() const {
    if (!options_.target.empty())
      return placeOf(options_.target);
    for (const char *name : {"target", "label", "y"})
      if (auto place = placeOf(name); place && !isFeature(name))
        return place;
    return std::nullopt;
  }
  bool isFeature(const std::string &name) const {
    return options_.like &&
           std::ranges::any_of(*options_.like, [&](const Feature &f) { return f.name == name; });
  }

  void takeTarget(Table &result) {
    auto place = targetPlace();
    NamedColumn target =
        taken(!options_.target.empty() ? options_.target
                                       : columns_[place.value_or(columns_.size() - 1)].name);
    result.target = target.name;
    result.classes = target.texts;
    result.matrix.labels = std::move(target.values);
  }

  void takeWeights(Table &result) {
    NamedColumn weight = taken(options_.weight);
    if (!weight.texts.empty())
      fail(path_, fmt::format("column '{}' has text ('{}'), but weights are numbers",
                              printable(weight.name), textIn(weight)));
    result.matrix.weights = std::move(weight.values);
  }

  /// By the features' names, where they have some.
  void orderLike(const std::vector<Feature> &features) {
    if (features.empty())
      return;
    if (features[0].name.empty()) {
      if (columns_.size() != features.size())
        fail(path_, fmt::format("has {} columns of features, but training had {}", columns_.size(),
                                features.size()));
      return;
    }
    std::vector<NamedColumn> ordered;
    for (const Feature &feature : features)
      ordered.push_back(taken(feature.name));
    columns_ = std::move(ordered);
  }

  void takeFeatures(Table &result) {
    if (options_.like)
      orderLike(*options_.like);
    if (columns_.empty())
      fail(path_, "has no columns of features");
    auto rows = columns_[0].values.size();
    std::vector<Feature> features;
    for (NamedColumn &column : columns_)
      features.push_back(featureOf(column));
    std::vector<float> values(rows * columns_.size());
    for (size_t i = 0; i < columns_.size(); ++i)
      for (size_t row = 0; row < rows; ++row)
        values[row * columns_.size() + i] = columns_[i].values[row];
    Matrix dense = makeDense(std::move(values), int64_t(rows), int64_t(columns_.size()));
    Matrix &matrix = result.matrix;
    matrix.rows = dense.rows;
    matrix.columns = dense.columns;
    matrix.dense = dense.dense;
    matrix.owner = dense.owner;
    matrix.features = std::move(features);
  }

  Feature featureOf(NamedColumn &column) const {
    const Levels *known = knownLevels(options_, column.name);
    bool isNamed =
        std::ranges::find(options_.categorical, column.name) != options_.categorical.end();
    if (!column.texts.empty()) {
      if (!known && !isNamed)
        fail(path_, fmt::format("column '{}' has text ('{}'); is it of categories? Then name it as "
                                "such when training: --categorical '{}'",
                                printable(column.name), textIn(column), printable(column.name)));
      Levels levels = known ? *known : Levels();
      levels.names = column.texts;
      return {column.name, int64_t(levels.names.size()), false, std::move(levels)};
    }
    if (known) {
      takePlaces(column, *known);
      return {column.name, int64_t(known->names.size()), false, *known};
    }
    return {column.name, isNamed ? categoriesOf(column) : 0, false, {}};
  }

  /// Numbers that a list names, such as years.
  static void takePlaces(NamedColumn &column, const Levels &levels) {
    std::unordered_map<float, float> places;
    for (size_t place = 0; place < levels.names.size(); ++place)
      if (auto number = numberIn(levels.names[place]))
        places.try_emplace(*number, float(place));
    for (float &value : column.values) {
      auto found = places.find(value);
      value = found == places.end() ? kMissing : found->second;
    }
  }

  int64_t categoriesOf(const NamedColumn &column) const {
    float most = 0;
    for (float value : column.values)
      most = std::max(most, value); // NaN is not greater
    if (!(most < float(kMostCategories)))
      fail(path_, "'" + printable(column.name) + "' has a category past 2^24");
    return int64_t(most) + 1;
  }

  const std::string &path_;
  std::vector<NamedColumn> columns_;
  const TableOptions &options_;
};

bool isLibsvm(const std::string &path) {
  for (const char *ending : {".libsvm", ".svm", ".svmlight"})
    if (path.ends_with(ending))
      return true;
  return false;
}

} // namespace

Result<Table> readTable(const std::string &path, const TableOptions &options) {
  try {
    if (isLibsvm(path))
      return readLibsvm(path, options);
    bool isText = path.ends_with(".csv") || path.ends_with(".tsv");
    return Assembly(path, isText ? columnsOfCsv(path, options) : readArrays(path, options.group),
                    options)
        .table();
  } catch (const Failure &failure) {
    return invalidArgument(failure.what());
  }
}

} // namespace tensmith::trees
