// tensmith trees train: a table in, a forest out.
//
// As in `tensmith train`, settings come from a configuration file and from options, which count
// more. Hyper-parameters are those of trees/Parameters.h's table, by either of their names; a value
// that is no JSON is a word.
#include "tools/tensmith/OutputPath.h"
#include "tools/tensmith/TreesCommands.h"
#include "train/Toml.h"

#include "client/Progress.h"
#include "client/Verbosity.h"
#include "files/Words.h"
#include "trees/ProcessExchange.h"
#include "trees/TableFile.h"

#include <CLI/CLI.hpp>

#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <iostream>
#include <map>

namespace tensmith::cli {
namespace {

using trees::Json;

struct TrainGiven {
  std::string configuration, train, target, weight, group, continued, out, metrics;
  std::vector<std::string> validation, categorical;
  std::map<std::string, std::string> words; // by parameter
  std::vector<std::pair<std::string, Json>> parameters;
};

/// [data] and [output] of a configuration; paths start at its folder.
class Configuration {
public:
  Configuration(const std::string &path, TrainGiven &given) : path_(path), given_(given) {}

  void read() {
    Bytes bytes = readFile(path_);
    std::string_view text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
    auto parsed = toml::parse(text, path_);
    if (!parsed)
      fail(fmt::format("{}:{}", path_, parsed.error().source().begin.line),
           std::string(parsed.error().description()));
    for (const auto &[name, node] : parsed.table())
      readSection(std::string(name.str()), node);
  }

private:
  [[noreturn]] void failAt(const toml::node &node, const std::string &what) const {
    fail(fmt::format("{}:{}", path_, node.source().begin.line), what);
  }

  void readSection(const std::string &section, const toml::node &node) {
    const toml::table *table = node.as_table();
    if (!table || (section != "data" && section != "parameters" && section != "output"))
      failAt(node, "'" + printable(section) +
                       "' is none of the sections [data], [parameters] and "
                       "[output]");
    for (const auto &[name, value] : *table) {
      std::string key(name.str());
      if (section == "parameters")
        given_.parameters.emplace_back(key, train::jsonOf(value));
      else
        readEntry(section + "." + key, value);
    }
  }

  std::vector<std::string> textsOf(const toml::node &node) const {
    std::vector<std::string> texts;
    Json json = train::jsonOf(node);
    for (const Json &item : json.is_array() ? json : Json::array({json})) {
      if (!item.is_string())
        failAt(node, "a text is expected, or a list of them");
      texts.push_back(item.get<std::string>());
    }
    return texts;
  }

  void readEntry(const std::string &key, const toml::node &node) {
    static const std::vector<std::pair<std::string, std::string TrainGiven::*>> kTexts = {
        {"data.train", &TrainGiven::train},       {"data.target", &TrainGiven::target},
        {"data.weight", &TrainGiven::weight},     {"data.group", &TrainGiven::group},
        {"output.forest", &TrainGiven::out},      {"output.metrics", &TrainGiven::metrics},
        {"data.continue", &TrainGiven::continued}};
    std::vector<std::string> texts = textsOf(node);
    for (const auto &[known, field] : kTexts)
      if (key == known) {
        if (texts.size() != 1)
          failAt(node, "one text is expected");
        bool isPath = field == &TrainGiven::train || field == &TrainGiven::out ||
                      field == &TrainGiven::metrics || field == &TrainGiven::continued;
        if ((given_.*field).empty()) // an option counts more
          given_.*field = isPath ? inFolder(texts[0]) : texts[0];
        return;
      }
    if (key == "data.categorical") {
      if (given_.categorical.empty())
        given_.categorical = texts;
      return;
    }
    if (key != "data.validation")
      failAt(node, "there is no setting '" + printable(key) + "'");
    for (const std::string &text : given_.validation.empty() ? texts : std::vector<std::string>())
      given_.validation.push_back(inFolder(text));
  }

  std::string inFolder(const std::string &path) const {
    return (std::filesystem::path(path_).parent_path() / path).string();
  }

  const std::string &path_;
  TrainGiven &given_;
};

trees::Parameters parametersOf(const TrainGiven &given) {
  trees::Parameters parameters;
  for (const auto &[name, value] : given.parameters)
    needed(trees::assign(parameters, name, value), given.configuration);
  for (const auto &[name, word] : given.words) {
    if (word.empty())
      continue;
    Json value = Json::parse(word, nullptr, /*allow_exceptions=*/false);
    Status status = trees::assign(parameters, name, value.is_discarded() ? Json(word) : value);
    if (!status.ok())
      failUsage(status.message());
  }
  needed(trees::check(parameters), "");
  return parameters;
}

/// Classes where the target is text, unless an objective or a loss was asked for.
void chooseObjective(const TrainGiven &given, const std::vector<std::string> &classes,
                     trees::Parameters &parameters) {
  auto asks = [&](const char *name) {
    auto word = given.words.find(name);
    return (word != given.words.end() && !word->second.empty()) ||
           std::ranges::any_of(given.parameters,
                               [&](const auto &one) { return one.first == name; });
  };
  if (classes.empty() || asks("objective") || asks("loss"))
    return;
  if (classes.size() == 1)
    fail(given.train, "has one class alone in its target, '" + printable(classes[0]) +
                          "'; training needs two or more");
  parameters.objective = classes.size() == 2 ? "logistic" : "softmax";
}

/// A table's classes become those, by their texts; it has no others.
void renumber(trees::Table &table, const std::vector<std::string> &classes,
              const std::string &path) {
  if (table.classes == classes)
    return;
  for (float &label : table.matrix.labels) {
    if (std::isnan(label))
      fail(path, "has a row without a target");
    auto text = table.classes.empty() ? std::string() : table.classes[size_t(label)];
    auto at = std::ranges::find(classes, text);
    if (at == classes.end())
      fail(path, "has the class '" + printable(text) + "', which the training data has not");
    label = float(at - classes.begin());
  }
}

class Watching {
public:
  explicit Watching(int64_t rounds) : progress_("training trees"), rounds_(rounds) {}

  bool onRound(const trees::Round &round) {
    std::string figures;
    Json line = {{"round", round.number}, {"seconds", round.seconds}};
    for (const auto &value : round.metrics) {
      figures += fmt::format("{}{} {} {:.5g}", figures.empty() ? "" : ", ", value.set, value.metric,
                             value.value);
      line[value.set + "." + value.metric] = value.value;
    }
    lines_ += line.dump() + "\n";
    last_ = figures;
    progress_.update(fmt::format("round {}", round.number + 1),
                     double(round.number + 1) / double(rounds_), figures);
    return true;
  }
  const std::string &lines() const { return lines_; }
  const std::string &last() const { return last_; }

private:
  Progress progress_;
  int64_t rounds_;
  std::string lines_, last_;
};

/// A forest that is continued may be replaced by what comes of it.
void checkOutputs(const TrainGiven &given) {
  std::vector<std::string> tables = given.validation;
  tables.push_back(given.train);
  for (const auto &[out, option] :
       {std::pair(given.out, "--output"), std::pair(given.metrics, "--metrics")}) {
    keepApart(out, option, given.configuration, "the configuration");
    for (const std::string &table : tables)
      keepApart(out, option, table, "the data");
  }
}

int trainTrees(TrainGiven given) {
  if (!given.configuration.empty())
    Configuration(given.configuration, given).read();
  if (given.train.empty())
    failUsage("no data to train on is given: --data table.csv, or train in [data] of a "
              "configuration");
  if (given.out.empty())
    given.out = "trained.forest";
  checkOutputs(given);
  trees::Parameters parameters = parametersOf(given);
  trees::TableOptions options;
  options.target = given.target;
  options.weight = given.weight;
  options.group = given.group;
  options.categorical = given.categorical;
  std::optional<trees::Forest> continued;
  if (!given.continued.empty()) {
    continued.emplace(needed(trees::loadForest(given.continued), ""));
    options.like = &continued->features;
    options.addsLevels = true;
  }
  trees::Table table = needed(trees::readTable(given.train, options), given.train);
  if (continued && !continued->classNames.empty()) {
    renumber(table, continued->classNames, given.train);
    table.classes = continued->classNames;
  }
  options.leastColumns = table.matrix.columns;
  options.like = &table.matrix.features;
  options.target = table.target;
  options.addsLevels = false;
  if (!continued)
    chooseObjective(given, table.classes, parameters);
  std::vector<trees::Table> sets;
  for (const std::string &path : given.validation) {
    sets.push_back(needed(trees::readTable(path, options), path));
    renumber(sets.back(), table.classes, path);
    sets.back().matrix.features = table.matrix.features;
  }
  trees::TrainingInput input;
  input.matrix = &table.matrix;
  input.classes = table.classes;
  std::error_code isUnknown;
  input.source = std::filesystem::weakly_canonical(given.train, isUnknown).string();
  for (size_t i = 0; i < sets.size(); ++i)
    input.validation.push_back(
        {std::filesystem::path(given.validation[i]).stem().string(), &sets[i].matrix});
  input.continued = continued ? &*continued : nullptr;
  Watching watching(std::max<int64_t>(parameters.rounds, 1));
  input.watch = [&](const trees::Round &round) { return watching.onRound(round); };
  trees::Forest forest =
      needed(trees::trainTogether(input, parameters, /*together=*/true), given.train);
  needed(trees::saveForest(forest, given.out), "");
  if (!given.metrics.empty())
    writeFile(given.metrics, std::string_view(watching.lines()));
  if (verbosity() == Verbosity::Quiet)
    return kSuccess;
  if (!watching.last().empty())
    std::cout << watching.last() << "\n";
  std::cout << fmt::format(
      "{}: {} trees of {} rows and {} features{}\n", given.out, forest.trees.size(),
      table.matrix.rows, table.matrix.columns,
      forest.bestRound >= 0 ? fmt::format(", the best round is {}", forest.bestRound) : "");
  for (size_t i = 0; i < table.classes.size(); ++i)
    std::cout << fmt::format("class {}: {}\n", i, printable(table.classes[i]));
  return kSuccess;
}

std::string optionOf(const char *name) {
  std::string option = std::string("--") + name;
  std::ranges::replace(option, '_', '-');
  return option;
}

} // namespace

void addTreesTrain(CLI::App &app, Action &chosen) {
  auto given = std::make_shared<TrainGiven>();
  CLI::App *command = app.add_subcommand("train", "Train a forest on a table");
  command->add_option("CONFIG", given->configuration,
                      "A configuration (.toml): [data], [parameters], [output]");
  CLI::Option_group *data = command->add_option_group("Data");
  data->add_option("--data", given->train, "CSV, TSV, Parquet, LibSVM (.libsvm), .npz")
      ->type_name("FILE");
  data->add_option("--validation", given->validation, "tables that metrics are told of")
      ->type_name("FILE");
  data->add_option("--target", given->target, "column; target, label, y or the last otherwise")
      ->type_name("NAME");
  data->add_option("--weight", given->weight, "column of rows' weights")->type_name("NAME");
  data->add_option("--group", given->group, "of ranking: column of queries")->type_name("NAME");
  data->add_option("--categorical", given->categorical,
                   "columns of categories: texts, or 0, 1, ...")
      ->type_name("NAME");
  CLI::Option_group *output = command->add_option_group("Output");
  output
      ->add_option("-o,--output", given->out,
                   ".forest, .json or .ubj (XGBoost), .onnx; trained.forest otherwise")
      ->type_name("FILE");
  output->add_option("--metrics", given->metrics, "a line of JSON for each round")
      ->type_name("FILE");
  output->add_option("--continue", given->continued, "a forest to go on from")->type_name("FILE");
  CLI::Option_group *parameters =
      command->add_option_group("Parameters", "In a configuration: [parameters]");
  for (const trees::Parameter &parameter : trees::parameterTable()) {
    std::string names = optionOf(parameter.name);
    if (parameter.xgboost)
      names += "," + optionOf(parameter.xgboost);
    std::string &word = given->words[parameter.name];
    if (parameter.field == trees::Field(&trees::Parameters::resume))
      parameters->add_flag(names, word, parameter.help);
    else
      parameters->add_option(names, word, parameter.help)->type_name("VALUE");
  }
  command->footer("Examples:\n"
                  "  tensmith trees train --data train.csv --target price --rounds 300\n"
                  "  tensmith trees train --data train.parquet --validation valid.parquet \\\n"
                  "      --objective logistic --early-stopping-rounds 20 -o model.forest\n"
                  "  tensmith trees train model.toml --max-depth 8\n"
                  "  mpirun -n 1 tensmith trees train --data rows0.csv : \\\n"
                  "      -n 1 tensmith trees train --data rows1.csv");
  command->callback([given, &chosen] { chosen = [given] { return trainTrees(*given); }; });
}

} // namespace tensmith::cli
