// Training of gradient-boosted trees for Python (trees/Training.h): matrices that borrow NumPy's
// arrays, parameters as JSON, and callbacks after each round and for losses of one's own.
//
// The interpreter's lock is released while trees grow, and taken to call back. An exception of a
// callback ends training and is raised where training was called.
#include "python/Trees.h"

#include "trees/CompiledLoss.h"
#include "trees/ProcessExchange.h"
#include "trees/Training.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <cstring>
#include <map>

namespace nb = nanobind;
namespace trees = tensmith::trees;
using trees::Json;

namespace {

template <typename T, int Dimensions>
using Array = nb::ndarray<const T, nb::ndim<Dimensions>, nb::c_contig, nb::device::cpu>;

[[noreturn]] void raise(const tensmith::Status &status) {
  if (status.code() == tensmith::StatusCode::InvalidArgument)
    throw nb::value_error(status.message().c_str());
  throw std::runtime_error(status.message());
}
void orRaise(const tensmith::Status &status) {
  if (!status.ok())
    raise(status);
}

template <typename T> std::vector<T> toVector(const Array<T, 1> &array) {
  return {array.data(), array.data() + array.size()};
}

/// What keeps borrowed arrays alive; let go of with the interpreter's lock.
std::shared_ptr<const void> ownerOf(nb::object arrays) {
  auto *kept = new nb::object(std::move(arrays));
  return {kept, [](const void *object) {
            nb::gil_scoped_acquire lock;
            delete static_cast<const nb::object *>(object);
          }};
}

trees::Matrix denseMatrix(Array<float, 2> values) {
  trees::Matrix matrix;
  matrix.rows = int64_t(values.shape(0)), matrix.columns = int64_t(values.shape(1));
  matrix.dense = values.data();
  matrix.owner = ownerOf(nb::cast(values));
  return matrix;
}

trees::Matrix sparseMatrix(Array<int64_t, 1> rowBegin, Array<int32_t, 1> column,
                           Array<float, 1> value, int64_t columns) {
  trees::Matrix matrix;
  if (rowBegin.size() == 0 || column.size() != value.size() ||
      rowBegin.data()[rowBegin.size() - 1] != int64_t(value.size()))
    raise(tensmith::invalidArgument("the arrays of a sparse matrix don't fit together: indptr must "
                                    "end with the number of indices and of values"));
  matrix.rows = int64_t(rowBegin.size()) - 1, matrix.columns = columns;
  matrix.rowBegin = rowBegin.data();
  matrix.column = column.data();
  matrix.value = value.data();
  matrix.owner = ownerOf(nb::make_tuple(rowBegin, column, value));
  return matrix;
}

/// A feature: name, how many categories, their names' kind and they.
using Described = std::tuple<std::string, int64_t, int, std::vector<std::string>>;

void describe(trees::Matrix &matrix, std::optional<Array<float, 1>> labels,
              std::optional<Array<float, 1>> weights, std::optional<Array<int64_t, 1>> groups,
              std::optional<Array<float, 1>> margins, const std::vector<Described> &features) {
  if (labels)
    matrix.labels = toVector(*labels);
  if (weights)
    matrix.weights = toVector(*weights);
  if (groups)
    matrix.groups = toVector(*groups);
  if (margins)
    matrix.baseMargins = toVector(*margins);
  if (!features.empty())
    matrix.features.clear();
  for (const auto &[name, categories, kind, levels] : features)
    matrix.features.push_back({name, categories, false, {trees::Levels::Kind(kind), levels}});
}

trees::Parameters parametersOf(const std::string &text) {
  trees::Parameters parameters;
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object())
    raise(tensmith::invalidArgument("parameters are an object of JSON"));
  std::map<const trees::Parameter *, std::string> given;
  for (const auto &[name, value] : json.items()) {
    orRaise(trees::assign(parameters, name, value));
    auto [place, isFirst] = given.emplace(trees::findParameter(name), name);
    if (!isFirst)
      raise(tensmith::invalidArgument("'" + place->second + "' and '" + name +
                                      "' are one parameter; give one of them"));
  }
  return parameters;
}

/// Calls of Python from within training, and the exception that one of them raised.
class Callbacks {
public:
  Callbacks(nb::object watch, nb::object loss) : watch_(std::move(watch)), loss_(std::move(loss)) {}

  bool onRound(const trees::Round &round) {
    nb::gil_scoped_acquire lock;
    try {
      if (PyErr_CheckSignals() != 0)
        throw nb::python_error();
      if (watch_.is_none())
        return true;
      nb::list metrics;
      for (const trees::Round::Value &value : round.metrics)
        metrics.append(nb::make_tuple(value.set, value.metric, value.value));
      nb::object answer = watch_(round.number, metrics, round.seconds);
      return answer.is_none() || nb::cast<bool>(answer);
    } catch (...) {
      raised_ = std::current_exception();
      return false;
    }
  }

  tensmith::Status onLoss(std::span<const float> outputs, std::span<const float> labels,
                          std::span<const float> weights, std::span<float> first,
                          std::span<float> second) {
    nb::gil_scoped_acquire lock;
    try {
      nb::object answer = loss_(view(outputs), view(labels), view(weights));
      if (!nb::isinstance<nb::tuple>(answer) || nb::len(answer) != 2)
        raise(tensmith::invalidArgument(
            "a loss of outputs, labels and weights must return a tuple of two arrays, gradients "
            "and Hessians; one that gives losses is the parameter objective or loss"));
      take(nb::cast<Array<float, 1>>(answer[0]), first, "gradients");
      take(nb::cast<Array<float, 1>>(answer[1]), second, "Hessians");
      return {};
    } catch (...) {
      raised_ = std::current_exception();
      return tensmith::invalidArgument("the loss raised an exception");
    }
  }
  void rethrow() const {
    if (raised_)
      std::rethrow_exception(raised_);
  }

private:
  static nb::object view(std::span<const float> values) {
    size_t shape[] = {values.size()};
    return nb::cast(nb::ndarray<nb::numpy, const float>(values.data(), 1, shape, nb::none()),
                    nb::rv_policy::copy);
  }
  static void take(const Array<float, 1> &from, std::span<float> to, const char *what) {
    if (from.size() != to.size())
      raise(tensmith::invalidArgument(std::string("a loss must return as many ") + what +
                                      " as there are outputs: " + std::to_string(to.size()) +
                                      ", not " + std::to_string(from.size())));
    std::memcpy(to.data(), from.data(), to.size_bytes());
  }

  nb::object watch_, loss_;
  std::exception_ptr raised_;
};

std::span<const std::byte> bytesOf(const nb::bytes &bytes) {
  return {static_cast<const std::byte *>(bytes.data()), bytes.size()};
}

trees::Forest trainForest(const std::string &parameterText, const trees::Matrix &matrix,
                          const std::vector<std::pair<std::string, const trees::Matrix *>> &sets,
                          const trees::Forest *continued, nb::object watch, nb::object loss,
                          std::optional<std::pair<Array<int64_t, 1>, Array<float, 1>>> cuts,
                          bool together, std::optional<nb::bytes> lossModule) {
  trees::Parameters parameters = parametersOf(parameterText);
  Callbacks callbacks(watch, loss);
  trees::TrainingInput input;
  input.matrix = &matrix;
  for (const auto &[name, set] : sets)
    input.validation.push_back({name, set});
  input.continued = continued;
  input.watch = [&](const trees::Round &round) { return callbacks.onRound(round); };
  if (!loss.is_none())
    input.ownLoss = [&](auto... spans) { return callbacks.onLoss(spans...); };
  if (lossModule)
    input.lossModule = bytesOf(*lossModule);
  trees::GivenCuts given;
  if (cuts) {
    given = {toVector(cuts->first), toVector(cuts->second)};
    input.cuts = &given;
  }
  std::optional<tensmith::Result<trees::Forest>> forest;
  {
    nb::gil_scoped_release unlocked;
    forest.emplace(trees::trainTogether(input, parameters, together));
  }
  callbacks.rethrow();
  if (!*forest)
    raise(forest->status());
  return std::move(**forest);
}

template <typename T> nb::object copied(const std::vector<T> &values) {
  size_t shape[] = {values.size()};
  return nb::cast(nb::ndarray<nb::numpy, const T>(values.data(), 1, shape, nb::none()),
                  nb::rv_policy::copy);
}

/// The loss of each row, and gradients and diagonals of Hessians as they are computed from it, of a
/// program or a module.
nb::tuple lossDerivatives(std::variant<std::string, nb::bytes> given, Array<float, 2> outputs,
                          Array<float, 1> labels) {
  if (outputs.shape(0) != labels.size() || outputs.shape(1) == 0)
    raise(tensmith::invalidArgument("outputs are [rows, channels], and labels as many as rows"));
  auto channels = int64_t(outputs.shape(1));
  auto *program = std::get_if<std::string>(&given);
  auto loss = program ? trees::CompiledLoss::compile(*program, channels)
                      : trees::CompiledLoss::load(bytesOf(std::get<nb::bytes>(given)), channels);
  if (!loss)
    raise(loss.status());
  std::vector<float> losses(labels.size()), first, second;
  std::vector<trees::Gradient> gradients(outputs.size());
  trees::Threads threads(1);
  std::span<const float> of(outputs.data(), outputs.size()), at(labels.data(), labels.size());
  orRaise((*loss)->derive(of, at, gradients, threads));
  orRaise((*loss)->evaluate(of, at, losses, threads));
  for (const trees::Gradient &gradient : gradients)
    first.push_back(gradient.first), second.push_back(gradient.second);
  return nb::make_tuple(copied(losses), copied(first), copied(second));
}

/// A tree's arrays by their names in trees/Forest.h.
nb::dict trainedFacts(const trees::Forest &forest) {
  nb::dict facts;
  facts["objective"] = forest.objective;
  facts["base_scores"] = copied(forest.baseScores);
  facts["trees"] = forest.trees.size();
  facts["best_round"] = forest.bestRound;
  return facts;
}

/// (name, XGBoost's name, default as JSON, help) of each parameter.
std::vector<std::tuple<std::string, std::string, std::string, std::string>> parameterNames() {
  std::vector<std::tuple<std::string, std::string, std::string, std::string>> names;
  Json defaults = trees::toJson(trees::Parameters());
  for (const trees::Parameter &parameter : trees::parameterTable())
    names.emplace_back(parameter.name, parameter.xgboost ? parameter.xgboost : "",
                       defaults[parameter.name].dump(), parameter.help);
  return names;
}

std::string checkedParameters(const std::string &text) {
  trees::Parameters parameters = parametersOf(text);
  orRaise(trees::check(parameters));
  return trees::toJson(parameters).dump();
}

} // namespace

void addTraining(nb::module_ &module) {
  nb::class_<trees::Matrix>(module, "Matrix")
      .def_static("dense", &denseMatrix, nb::arg("values"))
      .def_static("sparse", &sparseMatrix, nb::arg("indptr"), nb::arg("indices"), nb::arg("values"),
                  nb::arg("columns"))
      .def("describe", &describe, nb::arg("labels").none(), nb::arg("weights").none(),
           nb::arg("groups").none(), nb::arg("margins").none(), nb::arg("features"))
      .def_ro("rows", &trees::Matrix::rows)
      .def_ro("columns", &trees::Matrix::columns);
  module.def("train", &trainForest, nb::arg("parameters"), nb::arg("matrix"),
             nb::arg("validation") = std::vector<std::pair<std::string, const trees::Matrix *>>(),
             nb::arg("continued").none() = nb::none(), nb::arg("watch").none() = nb::none(),
             nb::arg("loss").none() = nb::none(), nb::arg("cuts").none() = nb::none(),
             nb::arg("together") = false, nb::arg("loss_module").none() = nb::none());
  module.def("loss_derivatives", &lossDerivatives, nb::arg("loss"), nb::arg("outputs"),
             nb::arg("labels"));
  module.def("is_loss", &trees::isLoss, nb::arg("word"));
  module.def("trained_facts", &trainedFacts, nb::arg("forest"));
  module.def("parameter_names", &parameterNames);
  module.def("checked_parameters", &checkedParameters, nb::arg("parameters"));
}
