// Lists of categories to and from XGBoost's `cats`; see XgboostCategories.h.
#include "trees/XgboostCategories.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <numeric>

namespace tensmith::trees {
namespace {

constexpr int kWholeNumbers = 15; // of XGBoost's kinds of arrays: i64

int64_t wholeIn(const std::string &text) {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

Document listJson(const Levels &levels) {
  if (levels.kind == Levels::Kind::Whole) {
    Document values = Document::array();
    for (const std::string &name : levels.names)
      values.push_back(wholeIn(name));
    return {{"type", kWholeNumbers}, {"values", std::move(values)}};
  }
  Document offsets = Document::array(), values = Document::array();
  size_t end = 0;
  for (const std::string &name : levels.names) {
    offsets.push_back(end);
    for (char byte : name)
      values.push_back(int(static_cast<signed char>(byte)));
    end += name.size();
  }
  if (!levels.names.empty())
    offsets.push_back(end);
  return {{"offsets", std::move(offsets)}, {"values", std::move(values)}};
}

/// Places of the names in ascending order.
std::vector<size_t> orderOf(const Levels &levels) {
  std::vector<size_t> order(levels.names.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](size_t a, size_t b) {
    const std::string &first = levels.names[a], &second = levels.names[b];
    if (first == second)
      return a < b;
    return levels.kind == Levels::Kind::Whole ? wholeIn(first) < wholeIn(second) : first < second;
  });
  return order;
}

Status broken(int64_t feature, const char *what) {
  return {StatusCode::InvalidModel, fmt::format("'cats' of feature {} {}", feature, what)};
}

Status readTexts(const Document &list, int64_t feature, std::vector<std::string> &names) {
  std::string bytes;
  for (const Document &byte : list.at("values")) {
    auto value = byte.get<int64_t>();
    if (value < -128 || value > 255)
      return broken(feature, "has what is no byte");
    bytes += char(value);
  }
  int64_t before = 0;
  bool isFirst = true;
  for (const Document &offset : list.at("offsets")) {
    auto end = offset.get<int64_t>();
    if (end < before || end > int64_t(bytes.size()))
      return broken(feature, "has a place that is not in its texts");
    if (!isFirst)
      names.push_back(bytes.substr(size_t(before), size_t(end - before)));
    before = end;
    isFirst = false;
  }
  return {};
}

} // namespace

Document xgboostCategories(const Forest &forest) {
  bool isComplete = true, isAny = false;
  for (const Feature &feature : forest.features) {
    bool isWritten = !feature.levels.names.empty() && feature.levels.kind != Levels::Kind::Real;
    isComplete &= isWritten || feature.categories == 0;
    isAny |= isWritten;
  }
  if (!isComplete || !isAny)
    return Document::object();
  Document lists = Document::array(), segments = {0}, order = Document::array();
  size_t end = 0;
  for (const Feature &feature : forest.features) {
    lists.push_back(listJson(feature.levels));
    segments.push_back(end += feature.levels.names.size());
    for (size_t place : orderOf(feature.levels))
      order.push_back(place);
  }
  return {{"enc", std::move(lists)},
          {"feature_segments", std::move(segments)},
          {"sorted_idx", std::move(order)}};
}

Status readXgboostCategories(const Document &cats, Forest &forest) {
  auto lists = cats.is_object() ? cats.find("enc") : cats.end();
  if (lists == cats.end() || !lists->is_array() || lists->empty())
    return {};
  if (lists->size() != forest.features.size())
    return {StatusCode::InvalidModel, "'cats' has not a list for each feature"};
  for (size_t number = 0; number < lists->size(); ++number) {
    const Document &list = (*lists)[number];
    Levels &levels = forest.features[number].levels;
    if (list.contains("offsets")) {
      if (Status status = readTexts(list, int64_t(number), levels.names); !status.ok())
        return status;
    } else {
      levels.kind = Levels::Kind::Whole;
      for (const Document &value : list.at("values"))
        levels.names.push_back(std::to_string(value.get<int64_t>()));
    }
  }
  return {};
}

} // namespace tensmith::trees
