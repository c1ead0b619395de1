// Parquet (parquet.apache.org) through Arrow's C++ library: columns of numbers as they are, lists
// of one length as further dimensions, and text.
//
// Columns are read one after the other, so that no more than one is in memory twice, and none
// before what the file says of their numbers was found to fit: a constant column of a few bytes may
// stand for more than the machine has.
#include "files/Failure.h"
#include "files/Words.h"
#include "train/Tables.h"

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <cstring>
#include <fmt/format.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

namespace tensmith::train {
namespace {

using Arrays = std::vector<std::shared_ptr<arrow::Array>>;

void check(const arrow::Status &status, const std::string &where) {
  if (!status.ok())
    fail(where, "can't be read: " + printable(status.message()));
}

template <typename T> T valueOf(arrow::Result<T> result, const std::string &where) {
  check(result.status(), where);
  return std::move(result).ValueUnsafe();
}

std::optional<DataType> numberType(arrow::Type::type type) {
  switch (type) {
  case arrow::Type::BOOL:
    return DataType::Bool;
  case arrow::Type::INT8:
    return DataType::I8;
  case arrow::Type::INT16:
    return DataType::I16;
  case arrow::Type::INT32:
    return DataType::I32;
  case arrow::Type::INT64:
    return DataType::I64;
  case arrow::Type::UINT8:
    return DataType::U8;
  case arrow::Type::UINT16:
    return DataType::U16;
  case arrow::Type::UINT32:
    return DataType::U32;
  case arrow::Type::UINT64:
    return DataType::U64;
  case arrow::Type::HALF_FLOAT:
    return DataType::F16;
  case arrow::Type::FLOAT:
    return DataType::F32;
  case arrow::Type::DOUBLE:
    return DataType::F64;
  default:
    return std::nullopt;
  }
}

/// A column of a file, in pieces that each begin at some row.
struct Column {
  std::string name, where;
  int64_t rows = 0;
  Arrays pieces;
  Shape shape; // of a row
};

[[noreturn]] void failAt(const Column &column, int64_t row, const std::string &what) {
  fail(column.where, fmt::format("row {}: {}", row + 1, what));
}

/// Values that are not there; `each` of them make a row.
void refuseNulls(const Column &column, const arrow::Array &piece, int64_t first, int64_t each) {
  if (piece.null_count() == 0)
    return;
  for (int64_t i = 0; i < piece.length(); ++i)
    if (piece.IsNull(i))
      failAt(column, first + i / std::max<int64_t>(each, 1), "has no value; fill it in first");
}

/// The elements of the lists of a piece, which are all as long as the first.
template <typename Lists>
std::shared_ptr<arrow::Array> elementsOf(const Column &column, const arrow::Array &piece,
                                         int64_t first, int64_t each, int64_t &length) {
  const auto &lists = static_cast<const Lists &>(piece);
  for (int64_t i = 0; i < lists.length(); ++i) {
    if (length < 0)
      length = lists.value_length(i);
    if (lists.value_length(i) != length)
      failAt(column, first + i / each,
             fmt::format("has {} elements where those before it have {}; lists of one length "
                         "make a tensor",
                         int64_t(lists.value_length(i)), length));
  }
  return valueOf(lists.Flatten(), column.where);
}

/// One level of lists less; whether there was one.
bool openLists(Column &column) {
  int64_t each = 1, length = -1, first = 0;
  for (int64_t size : column.shape)
    each *= size;
  arrow::Type::type type = column.pieces[0]->type_id();
  bool areLists = type == arrow::Type::FIXED_SIZE_LIST || type == arrow::Type::LIST ||
                  type == arrow::Type::LARGE_LIST;
  for (auto &piece : column.pieces) {
    int64_t rows = each > 0 ? piece->length() / each : 0;
    refuseNulls(column, *piece, first, each);
    if (type == arrow::Type::FIXED_SIZE_LIST)
      piece = elementsOf<arrow::FixedSizeListArray>(column, *piece, first, each, length);
    else if (type == arrow::Type::LIST)
      piece = elementsOf<arrow::ListArray>(column, *piece, first, each, length);
    else if (type == arrow::Type::LARGE_LIST)
      piece = elementsOf<arrow::LargeListArray>(column, *piece, first, each, length);
    first += rows;
  }
  if (areLists)
    column.shape.push_back(std::max<int64_t>(length, 0));
  return areLists;
}

std::byte *copyNumbers(const arrow::Array &piece, DataType type, std::byte *into) {
  if (type == DataType::Bool) {
    const auto &bits = static_cast<const arrow::BooleanArray &>(piece);
    for (int64_t i = 0; i < bits.length(); ++i)
      *into++ = std::byte(bits.Value(i));
    return into;
  }
  const arrow::ArrayData &data = *piece.data();
  size_t width = size_t(byteSize(type)), bytes = size_t(piece.length()) * width;
  if (bytes > 0)
    std::memcpy(into, data.buffers[1]->data() + size_t(data.offset) * width, bytes);
  return into + bytes;
}

void addTexts(const arrow::Array &piece, std::vector<std::string> &rows) {
  if (piece.type_id() == arrow::Type::DICTIONARY) {
    const auto &coded = static_cast<const arrow::DictionaryArray &>(piece);
    std::vector<std::string> words;
    addTexts(*coded.dictionary(), words);
    for (int64_t i = 0; i < coded.length(); ++i)
      rows.push_back(words.at(size_t(coded.GetValueIndex(i))));
  } else if (piece.type_id() == arrow::Type::LARGE_STRING) {
    const auto &texts = static_cast<const arrow::LargeStringArray &>(piece);
    for (int64_t i = 0; i < texts.length(); ++i)
      rows.push_back(texts.GetString(i));
  } else {
    const auto &texts = static_cast<const arrow::StringArray &>(piece);
    for (int64_t i = 0; i < texts.length(); ++i)
      rows.push_back(texts.GetString(i));
  }
}

bool isText(const arrow::DataType &type) {
  if (type.id() == arrow::Type::DICTIONARY)
    return isText(*static_cast<const arrow::DictionaryType &>(type).value_type());
  return type.id() == arrow::Type::STRING || type.id() == arrow::Type::LARGE_STRING;
}

void readColumn(Column column, const std::string &typeText, TableSink &sink) {
  if (column.pieces.empty())
    return;
  while (openLists(column))
    ;
  const arrow::DataType &type = *column.pieces[0]->type();
  if (column.shape.empty() && isText(type)) {
    std::vector<std::string> rows;
    for (const auto &piece : column.pieces)
      addTexts(*piece, rows);
    return sink.texts(column.name, std::move(rows));
  }
  auto number = numberType(type.id());
  if (!number)
    fail(column.where,
         "is of the type " + typeText + "; numbers, lists of numbers and text are expected");
  Shape shape = column.shape;
  shape.insert(shape.begin(), column.rows);
  std::byte *into = sink.numbers(column.name, *number, shape);
  for (const auto &piece : column.pieces)
    into = copyNumbers(*piece, *number, into);
}

/// Bytes of an element, in the lists that a column may be of; of a text that of its string.
int64_t elementBytes(const arrow::DataType &type) {
  if (type.num_fields() == 1)
    return elementBytes(*type.field(0)->type());
  auto number = numberType(type.id());
  return number ? int64_t(byteSize(*number)) : int64_t(sizeof(std::string));
}

/// What the columns will take, by the counts that the file's end has; -1: beyond all counting.
int64_t announcedBytes(parquet::arrow::FileReader &reader) {
  auto metadata = reader.parquet_reader()->metadata();
  const auto &manifest = reader.manifest();
  int64_t total = 0;
  for (int group = 0; group < metadata->num_row_groups(); ++group)
    for (const auto &[number, field] : manifest.column_index_to_field) {
      int64_t values = metadata->RowGroup(group)->ColumnChunk(number)->num_values();
      if (values < 0 ||
          __builtin_mul_overflow(values, elementBytes(*field->field->type()), &values) ||
          __builtin_add_overflow(total, values, &total))
        return -1;
    }
  return total;
}

void readParquet(const std::string &path, TableSink &sink) {
  auto file = valueOf(arrow::io::ReadableFile::Open(path), path);
  auto opened = parquet::arrow::OpenFile(file, arrow::default_memory_pool());
  if (!opened.ok())
    fail(path, "is no Parquet file that can be read: " + printable(opened.status().message()));
  std::unique_ptr<parquet::arrow::FileReader> reader = std::move(opened).ValueUnsafe();
  std::shared_ptr<arrow::Schema> schema;
  check(reader->GetSchema(&schema), path);
  sink.announce(announcedBytes(*reader));
  for (int i = 0; i < schema->num_fields(); ++i) {
    const std::string &name = schema->field(i)->name();
    std::shared_ptr<arrow::ChunkedArray> values;
    std::string where = path + ": " + printable(name);
    check(reader->ReadColumn(i, &values), where);
    check(values->ValidateFull(), where);
    std::string type = printable(values->type()->ToString());
    readColumn({name, where, values->length(), values->chunks(), {}}, type, sink);
  }
}

} // namespace
} // namespace tensmith::train

extern "C" __attribute__((visibility("default"))) void
tensmith_read_parquet(const std::string &path, tensmith::train::TableSink &sink) {
  tensmith::train::readParquet(path, sink);
}
