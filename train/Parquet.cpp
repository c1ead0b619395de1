// Parquet as a data set, by the library that is built where Arrow is; see Tables.h.
#include "files/Failure.h"
#include "files/Words.h"
#include "train/BesideRuntime.h"
#include "train/Dataset.h"
#include "train/Tables.h"

#include <dlfcn.h>

namespace tensmith::train {
namespace {

ReadTable reader(const std::string &path) {
  void *library = ::dlopen(besideRuntime("libtensmith_parquet.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    fail(path, std::string("can't be read without libtensmith_parquet.so, which is built where "
                           "Arrow's C++ library or Python's pyarrow is (24 or newer); or save the "
                           "table as .csv or .npz: ") +
                   ::dlerror());
  auto read = reinterpret_cast<ReadTable>(::dlsym(library, kReadParquet));
  if (!read)
    fail(path, "libtensmith_parquet.so is of another version than this program");
  return read;
}

class DatasetSink : public TableSink {
public:
  explicit DatasetSink(const std::string &path) : data{path, 0, {}, -1, {}} {}

  void announce(int64_t bytes) override { checkFits(bytes, data.where); }
  std::byte *numbers(const std::string &name, DataType type, const Shape &shape) override {
    auto count = elementCount(shape);
    if (!count || __builtin_add_overflow(bytes_, *count * byteSize(type), &bytes_))
      bytes_ = -1;
    checkFits(bytes_, data.where);
    HostTensor array(type, shape);
    if (!array.valid())
      fail(data.where, "there is not enough memory for the column '" + name + "'");
    std::byte *into = array.mutableData();
    data.rows = shape[0];
    data.columns.push_back(arrayColumn(name, std::move(array)));
    return into;
  }
  void texts(const std::string &name, std::vector<std::string> rows) override {
    data.rows = int64_t(rows.size());
    addClasses(data, name, rows);
  }

  Dataset data;

private:
  int64_t bytes_ = 0;
};

} // namespace

Dataset openParquet(const std::string &path) {
  DatasetSink sink(path);
  reader(path)(path, sink);
  return std::move(sink.data);
}

} // namespace tensmith::train
