// Forests for Python: files, prediction, explanation and drawings. python/tensmith/trees/forest.py
// has what users see of it.
//
// Rows are borrowed from NumPy's arrays, f32 and dense in memory, or a CSR matrix's three; results
// are new arrays. The interpreter's lock is released while rows are predicted.
#include "python/Trees.h"
#include "python/TreesFailure.h"
#include "trees/Contributions.h"
#include "trees/Drawing.h"
#include "trees/ForestFile.h"
#include "trees/ModelFormats.h"
#include "trees/Objective.h"
#include "trees/Prediction.h"
#include "trees/Verification.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace tensmith;
using namespace tensmith::trees;

/// What names of files' features hold need not be UTF-8.
static nb::object textOf(const std::string &text) {
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), Py_ssize_t(text.size()), "replace"));
}

void raiseFailure(const Status &status) {
  static constexpr const char *kCodes[] = {
      "ok",          "invalid_argument",   "invalid_model", "invalid_module",
      "unsupported", "resource_exhausted", "io_error",      "internal"};
  if (status.ok())
    return;
  nb::object error =
      nb::module_::import_("tensmith._tensmith").attr("Error")(textOf(status.message()));
  error.attr("code") = kCodes[size_t(status.code())];
  PyErr_SetObject(error.type().ptr(), error.ptr());
  throw nb::python_error();
}

namespace {

using Floats = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Begins = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Columns = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Values = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <typename T> struct Array {
  T *data;
  nb::object array;
  std::span<T> all;
};

/// A new array of NumPy's; throws MemoryError where there is no room.
template <typename T> Array<T> newArray(std::vector<size_t> shape) {
  size_t count = 1;
  for (size_t size : shape)
    if (__builtin_mul_overflow(count, size, &count))
      throw std::bad_alloc();
  auto data = std::make_unique<T[]>(count);
  T *raw = data.get();
  nb::capsule owner(data.release(), [](void *p) noexcept { delete[] static_cast<T *>(p); });
  nb::ndarray<nb::numpy, T> array(raw, shape.size(), shape.data(), owner);
  return {raw, nb::cast(array), {raw, count}};
}

DenseRows rowsOf(const Floats &x) {
  return {x.data(), int64_t(x.shape(0)), int64_t(x.shape(1)), int64_t(x.shape(1))};
}

SparseRows rowsOf(const Begins &begins, const Columns &columns, const Values &values,
                  int64_t width) {
  if (begins.shape(0) < 1 || columns.shape(0) != values.shape(0) ||
      begins.data()[begins.shape(0) - 1] != int64_t(values.shape(0)))
    raiseFailure(invalidArgument("the sparse matrix's arrays don't fit together"));
  return {int64_t(begins.shape(0)) - 1, width, begins.data(), columns.data(), values.data()};
}

template <typename Rows>
nb::object outputsOf(const Predictor &predictor, const Rows &rows, int threads) {
  auto result = newArray<float>({size_t(rows.rows), size_t(predictor.channels())});
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status = predictor.outputs(rows, result.all, threads);
  }
  raiseFailure(status);
  return result.array;
}

template <typename Rows>
nb::object leavesOf(const Predictor &predictor, const Rows &rows, int threads) {
  auto result = newArray<int32_t>({size_t(rows.rows), size_t(predictor.trees())});
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status = predictor.leaves(rows, result.all, threads);
  }
  raiseFailure(status);
  return result.array;
}

nb::object contributionsOf(const Forest &forest, const Floats &x, int64_t trees, int threads) {
  auto result =
      newArray<float>({x.shape(0), size_t(forest.channels()), forest.features.size() + 1});
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status = contributions(forest, rowsOf(x), result.all, trees, threads);
  }
  raiseFailure(status);
  return result.array;
}

void transformInPlace(const std::string &name,
                      nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu> outputs) {
  const Objective *objective = findObjective(name);
  if (!objective)
    raiseFailure(unsupported("there is no objective '" + name + "'"));
  transformOutputs(*objective, {outputs.data(), outputs.size()}, int64_t(outputs.shape(1)));
}

nb::bytes bytesOf(const std::string &text) { return nb::bytes(text.data(), text.size()); }

FileFormat needFormat(const std::string &name) {
  auto format = formatNamed(name);
  if (!format)
    raiseFailure(
        invalidArgument("there is no format '" + name + "'; there are forest, json, ubj, onnx"));
  return *format;
}

Importance needImportance(const std::string &name) {
  static constexpr std::pair<const char *, Importance> kNames[] = {
      {"weight", Importance::Weight},
      {"gain", Importance::Gain},
      {"cover", Importance::Cover},
      {"total_gain", Importance::TotalGain},
      {"total_cover", Importance::TotalCover}};
  for (auto [known, kind] : kNames)
    if (name == known)
      return kind;
  raiseFailure(invalidArgument("there is no importance '" + name +
                               "'; there are weight, gain, cover, total_gain, total_cover"));
  return Importance::Gain;
}

template <typename T> nb::object listed(const std::vector<T> &values) {
  auto result = newArray<T>({values.size()});
  std::copy(values.begin(), values.end(), result.data);
  return result.array;
}

nb::dict treeOf(const Forest &forest, int64_t number) {
  if (number < 0 || number >= int64_t(forest.trees.size()))
    raiseFailure(invalidArgument("there is no such tree"));
  const Tree &tree = forest.trees[size_t(number)];
  nb::dict result;
  result["feature"] = listed(tree.feature);
  result["threshold"] = listed(tree.threshold);
  result["left"] = listed(tree.left);
  result["right"] = listed(tree.right);
  result["missing_left"] = listed(tree.missingLeft);
  result["value"] = listed(tree.value);
  result["gain"] = listed(tree.gain);
  result["cover"] = listed(tree.cover);
  nb::list sets;
  for (int32_t node = 0; node < tree.size(); ++node)
    if (tree.isCategorical(node))
      sets.append(std::vector<int32_t>(tree.categories.begin() + tree.categoryBegin[size_t(node)],
                                       tree.categories.begin() + tree.categoryEnd[size_t(node)]));
    else
      sets.append(nb::none());
  result["categories"] = sets;
  result["channel"] = forest.channel[size_t(number)];
  result["scale"] = forest.scale[size_t(number)];
  return result;
}

nb::list namesOf(const Forest &forest) {
  nb::list names;
  for (size_t i = 0; i < forest.features.size(); ++i)
    names.append(textOf(nameOf(forest, int64_t(i))));
  return names;
}

/// By feature: (kind, names) of its list of categories, or None.
nb::list levelsOf(const Forest &forest) {
  nb::list all;
  for (const Feature &feature : forest.features) {
    nb::list names;
    for (const std::string &name : feature.levels.names)
      names.append(textOf(name));
    if (feature.levels.names.empty())
      all.append(nb::none());
    else
      all.append(nb::make_tuple(int(feature.levels.kind), names));
  }
  return all;
}

nb::list classNamesOf(const Forest &forest) {
  nb::list names;
  for (const std::string &name : forest.classNames)
    names.append(textOf(name));
  return names;
}

void addForest(nb::module_ &module) {
  nb::class_<Forest>(module, "Forest")
      .def_static("load", [](const std::string &path) { return valueOrRaise(loadForest(path)); })
      .def_static(
          "parse",
          [](nb::bytes bytes) { return valueOrRaise(parseForest({bytes.c_str(), bytes.size()})); })
      .def("save",
           [](const Forest &forest, const std::string &path, std::optional<std::string> format) {
             raiseFailure(saveForest(forest, path,
                                     format ? std::optional(needFormat(*format)) : std::nullopt));
           })
      .def("format",
           [](const Forest &forest, const std::string &name) {
             return bytesOf(valueOrRaise(formatForest(forest, needFormat(name))));
           })
      .def("to_onnx",
           [](const Forest &forest, const std::string &results) {
             OnnxResults kind = results == "outputs"       ? OnnxResults::Outputs
                                : results == "predictions" ? OnnxResults::Predictions
                                                           : OnnxResults::Task;
             return bytesOf(valueOrRaise(writeOnnx(forest, kind)));
           })
      .def("verify", [](const Forest &forest) { raiseFailure(verifyForest(forest)); })
      .def("contributions", contributionsOf)
      .def("importances",
           [](const Forest &forest, const std::string &kind) {
             return listed(importances(forest, needImportance(kind)));
           })
      .def("dump", [](const Forest &forest) { return textOf(dumpText(forest)); })
      .def("tree", treeOf)
      .def("tree_svg", [](const Forest &forest,
                          int64_t tree) { return textOf(valueOrRaise(treeSvg(forest, tree))); })
      .def("importance_svg",
           [](const Forest &forest, const std::string &kind, int64_t most) {
             return textOf(importanceSvg(forest, needImportance(kind), most));
           })
      .def("page",
           [](const Forest &forest, int64_t tree, const std::string &kind) {
             return textOf(valueOrRaise(forestPage(forest, tree, needImportance(kind))));
           })
      .def_prop_ro("objective", [](const Forest &forest) { return textOf(forest.objective); })
      .def_rw("base_scores", &Forest::baseScores)
      .def_rw("classes", &Forest::classes)
      .def_rw("best_round", &Forest::bestRound)
      .def_prop_ro("levels", levelsOf)
      .def_prop_rw("class_names", classNamesOf,
                   [](Forest &forest, std::vector<std::string> names) {
                     forest.classNames = std::move(names);
                   })
      .def_prop_ro("channels", &Forest::channels)
      .def_prop_ro("trees", [](const Forest &forest) { return forest.trees.size(); })
      .def_prop_ro("features", [](const Forest &forest) { return forest.features.size(); })
      .def_prop_ro("names", namesOf)
      .def("counted",
           [](const Forest &forest, int64_t rounds) { return treesOfRounds(forest, rounds); });
}

} // namespace

void addModels(nb::module_ &module) {
  addForest(module);
  nb::class_<Predictor>(module, "Predictor")
      .def("__init__",
           [](Predictor *self, const Forest &forest, int64_t trees) {
             new (self) Predictor(valueOrRaise(Predictor::of(forest, trees)));
           })
      .def_prop_ro("trees", &Predictor::trees)
      .def("outputs", [](const Predictor &predictor, const Floats &x,
                         int threads) { return outputsOf(predictor, rowsOf(x), threads); })
      .def("leaves", [](const Predictor &predictor, const Floats &x,
                        int threads) { return leavesOf(predictor, rowsOf(x), threads); })
      .def("sparse_outputs",
           [](const Predictor &predictor, const Begins &begins, const Columns &columns,
              const Values &values, int64_t width, int threads) {
             return outputsOf(predictor, rowsOf(begins, columns, values, width), threads);
           })
      .def("sparse_leaves",
           [](const Predictor &predictor, const Begins &begins, const Columns &columns,
              const Values &values, int64_t width, int threads) {
             return leavesOf(predictor, rowsOf(begins, columns, values, width), threads);
           });
  module.def("transform", transformInPlace);
  module.def("objectives", [] {
    nb::list result;
    for (const Objective &objective : objectiveTable())
      result.append(
          nb::make_tuple(objective.name, objective.xgboost, objective.help, int(objective.task)));
    return result;
  });
}
