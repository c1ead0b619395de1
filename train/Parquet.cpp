// Parquet (parquet.apache.org) through Arrow's C++ library, where the build has found it.
#include "files/Failure.h"
#include "train/Dataset.h"

#ifdef TENSMITH_PARQUET
#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>
#endif

namespace tensmith::train {

#ifdef TENSMITH_PARQUET

namespace {

template <typename T> T valueOf(arrow::Result<T> result, const std::string &path) {
  if (!result.ok())
    fail(path, result.status().message());
  return std::move(result).ValueUnsafe();
}

std::shared_ptr<arrow::Table> readTable(const std::string &path) {
  auto file = valueOf(arrow::io::ReadableFile::Open(path), path);
  auto reader = parquet::arrow::OpenFile(file, arrow::default_memory_pool());
  auto table = reader.ok() ? (*reader)->ReadTable() : reader.status();
  if (!table.ok())
    fail(path, "is no Parquet file that can be read: " + table.status().message());
  return *table;
}

/// A column of numbers as doubles' nearest floats; whole numbers as they are.
HostTensor numbersOf(const std::shared_ptr<arrow::ChunkedArray> &column, const std::string &where) {
  bool whole = arrow::is_integer(column->type()->id());
  if (!whole && !arrow::is_floating(column->type()->id()))
    fail(where, "is of the type " + column->type()->ToString() + "; numbers are expected");
  if (column->null_count() > 0)
    fail(where, "has rows without a value; fill them in first");
  auto cast =
      valueOf(arrow::compute::Cast(column, whole ? arrow::int64() : arrow::float32()), where);
  HostTensor tensor(whole ? DataType::I64 : DataType::F32, {column->length()});
  std::byte *into = tensor.mutableData();
  for (const auto &chunk : cast.chunked_array()->chunks()) {
    size_t width = whole ? 8 : 4, bytes = size_t(chunk->length()) * width;
    std::memcpy(into, chunk->data()->buffers[1]->data() + size_t(chunk->offset()) * width, bytes);
    into += bytes;
  }
  return tensor;
}

} // namespace

Dataset openParquet(const std::string &path) {
  std::shared_ptr<arrow::Table> table = readTable(path);
  Dataset data = {path, table->num_rows(), {}, -1, {}};
  for (int i = 0; i < table->num_columns(); ++i) {
    std::string name = table->field(i)->name();
    data.columns.push_back(arrayColumn(name, numbersOf(table->column(i), path + ": " + name)));
  }
  return data;
}

#else

Dataset openParquet(const std::string &path) {
  fail(path, "can't be read: this build has no Arrow; install its C++ library (24 or newer, "
             "libparquet-dev "
             "of Apache's packages) and configure again, or save the table as .csv or .npz");
}

#endif

} // namespace tensmith::train
