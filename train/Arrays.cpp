// NumPy's files as columns: the arrays of an .npz, or .npy files, each named or not.
#include "files/Failure.h"
#include "files/Npy.h"
#include "files/Npz.h"
#include "files/Words.h"
#include "train/Dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tensmith::train {
namespace {

void add(Dataset &data, const std::string &name, HostTensor array, const std::string &where) {
  if (array.type() == DataType::String)
    fail(where, "holds text; train on numbers");
  if (array.rank() == 0)
    fail(where, "is a single number; the first dimension has to be the samples");
  int64_t rows = array.shape()[0];
  if (!data.columns.empty() && rows != data.rows)
    fail(where, fmt::format("has {} samples, but {} has {}", rows, printable(data.columns[0]->name),
                            data.rows));
  data.rows = rows;
  data.columns.push_back(arrayColumn(name, std::move(array)));
}

Dataset openArchive(const std::string &path) {
  Npz archive(path);
  Dataset data = {path, 0, {}, -1, {}};
  int64_t bytes = 0;
  for (const std::string &name : archive.names())
    if (__builtin_add_overflow(bytes, archive.size(name), &bytes))
      checkFits(-1, path);
  checkFits(bytes, path);
  for (const std::string &name : archive.names()) {
    std::string where = path + ": " + printable(name);
    add(data, name, readNpy(archive.read(name), where), where);
  }
  if (data.columns.empty())
    fail(path, "has no arrays in it");
  return data;
}

} // namespace

Dataset arraysDataset(std::vector<std::pair<std::string, HostTensor>> arrays,
                      const std::string &where) {
  if (arrays.empty())
    fail(where, "has no arrays in it");
  bool named = !arrays[0].first.empty();
  if (!named && arrays.size() != 2)
    fail(where, "give two arrays, inputs and targets, or several by their names");
  Dataset data = {where, 0, {}, named ? -1 : 1, {}};
  for (auto &[given, array] : arrays) {
    std::string name = named ? given : data.columns.empty() ? "inputs" : "targets";
    add(data, name, std::move(array), where + ": " + printable(name));
  }
  if (data.rows == 0)
    fail(where, "has no samples");
  return data;
}

Dataset openArrays(const std::vector<std::string> &paths) {
  if (paths.size() == 1 && paths[0].ends_with(".npz") && paths[0].find('=') == std::string::npos)
    return openArchive(paths[0]);
  Dataset data = {fmt::format("{}", fmt::join(paths, ", ")), 0, {}, -1, {}};
  bool named = paths[0].find('=') != std::string::npos;
  if (!named && paths.size() != 2)
    fail(paths[0], "give two files, inputs and targets, or several as NAME=FILE");
  for (const std::string &word : paths) {
    size_t equals = word.find('=');
    if ((equals != std::string::npos) != named)
      fail(word, "either all files have a name before them, NAME=FILE, or none has");
    std::string path = named ? word.substr(equals + 1) : word;
    std::string name = named ? word.substr(0, equals) : data.columns.empty() ? "inputs" : "targets";
    add(data, name, readNpy(readFile(path), path), path);
  }
  if (!named)
    data.target = 1;
  return data;
}

} // namespace tensmith::train
