// Two gathers: what there is to compare, and numbers of categories by column.
#include "trees/Agreement.h"

#include "base/Hash.h"

#include <algorithm>
#include <fmt/format.h>

namespace tensmith::trees {

namespace {

/// 53 bits, which a double holds.
double hashOf(const std::vector<std::string> &texts) {
  std::string all;
  for (const std::string &text : texts)
    all += fmt::format("{}:{}", text.size(), text);
  return double(hash128(all).low >> 11);
}

/// Of the names of all columns' categories.
double hashOfLevels(const Matrix &matrix) {
  std::vector<std::string> texts;
  for (size_t column = 0; column < matrix.features.size(); ++column) {
    const Levels &levels = matrix.features[column].levels;
    if (!levels.names.empty())
      texts.push_back(fmt::format("{} {} {}", column, int(levels.kind), levels.names.size()));
    texts.insert(texts.end(), levels.names.begin(), levels.names.end());
  }
  return hashOf(texts);
}

double categoriesOf(const Matrix &matrix, int64_t column) {
  bool isDescribed = int64_t(matrix.features.size()) == matrix.columns;
  return isDescribed ? double(matrix.categoriesOf(column)) : 0;
}

Status compare(const TrainingInput &given, Exchange &exchange, Agreement &agreement) {
  std::vector<double> own{double(given.matrix->columns), hashOf(given.classes),
                          hashOf({given.source}), hashOfLevels(*given.matrix)};
  std::vector<double> all(own.size() * size_t(exchange.size()));
  if (Status status = exchange.gather(own, all); !status.ok())
    return status;
  for (int process = 0; process < exchange.size(); ++process) {
    const double *other = all.data() + size_t(process) * own.size();
    if (other[0] != own[0])
      return invalidArgument(fmt::format("process {} has {} columns, and process {} has {}",
                                         process, other[0], exchange.rank(), own[0]));
    if (other[1] != own[1])
      return invalidArgument(
          fmt::format("processes {} and {} have targets of different texts; number the classes, "
                      "the same in each file",
                      process, exchange.rank()));
    if (other[3] != own[3])
      return invalidArgument(
          fmt::format("processes {} and {} list different categories for a column; number them, "
                      "the same in each file",
                      process, exchange.rank()));
    agreement.sharesSource |=
        process != exchange.rank() && !given.source.empty() && other[2] == own[2];
  }
  return {};
}

Matrix widened(const Matrix &matrix, std::span<const double> categories) {
  Matrix copy = matrix;
  for (size_t column = 0; column < copy.features.size() && column < categories.size(); ++column)
    copy.features[column].categories = int64_t(categories[column]);
  return copy;
}

} // namespace

Status agree(const TrainingInput &given, Exchange &exchange, Agreement &agreement) {
  agreement.input = given;
  if (Status status = compare(given, exchange, agreement); !status.ok())
    return status;
  std::vector<double> own;
  for (int64_t column = 0; column < given.matrix->columns; ++column)
    own.push_back(categoriesOf(*given.matrix, column));
  std::vector<double> all(own.size() * size_t(exchange.size())), most = own;
  if (Status status = exchange.gather(own, all); !status.ok())
    return status;
  for (size_t at = 0; at < all.size(); ++at) {
    size_t column = at % own.size();
    if ((all[at] > 0) != (own[column] > 0))
      return invalidArgument(fmt::format(
          "column {} has categories in one of the processes {} and {}, and numbers in the other",
          column, at / own.size(), exchange.rank()));
    most[column] = std::max(most[column], all[at]);
  }
  if (most == own)
    return {};
  agreement.matrices.reserve(given.validation.size() + 1);
  agreement.input.matrix = &agreement.matrices.emplace_back(widened(*given.matrix, most));
  for (Validation &set : agreement.input.validation)
    set.matrix = &agreement.matrices.emplace_back(widened(*set.matrix, most));
  return {};
}

} // namespace tensmith::trees
