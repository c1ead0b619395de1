// tensmith trees: forests from the command line. Training is in TreesTrainCommand.cpp; here is what
// is done with a forest that there is.
#include "tools/tensmith/OutputPath.h"
#include "tools/tensmith/TreesCommands.h"

#include "files/Npy.h"
#include "files/Words.h"
#include "trees/Drawing.h"
#include "trees/ModelFormats.h"
#include "trees/Objective.h"
#include "trees/Prediction.h"
#include "trees/TableFile.h"
#include "trees/Verification.h"

#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <iostream>

namespace tensmith::cli {
namespace {

struct PredictGiven {
  std::string forest, data, out, target;
  bool outputs = false, leaves = false, classes = false;
  int64_t rounds = 0;
  int threads = 0;
};

/// predict(rows), with the matrix's rows in the form that they have.
template <typename Predict> void predictRows(const trees::Matrix &matrix, Predict &&predict) {
  Status status =
      matrix.isSparse()
          ? predict(trees::SparseRows{matrix.rows, matrix.columns, matrix.rowBegin, matrix.column,
                                      matrix.value})
          : predict(trees::DenseRows{matrix.dense, matrix.rows, matrix.columns, matrix.columns});
  needed(status, "");
}

std::vector<float> outputsOf(const trees::Predictor &predictor, const trees::Matrix &matrix,
                             int threads) {
  std::vector<float> outputs(size_t(matrix.rows * predictor.channels()));
  predictRows(matrix, [&](const auto &rows) { return predictor.outputs(rows, outputs, threads); });
  return outputs;
}

std::vector<float> leavesOf(const trees::Predictor &predictor, const trees::Matrix &matrix,
                            int threads) {
  std::vector<int32_t> leaves(size_t(matrix.rows * predictor.trees()));
  predictRows(matrix, [&](const auto &rows) { return predictor.leaves(rows, leaves, threads); });
  return {leaves.begin(), leaves.end()};
}

/// .npy, or lines of numbers.
void give(const std::vector<float> &values, int64_t rows, const std::string &path) {
  int64_t width = rows > 0 ? int64_t(values.size()) / rows : 0;
  if (path.ends_with(".npy")) {
    Shape shape = width == 1 ? Shape{rows} : Shape{rows, width};
    return writeFile(path, writeNpy(HostTensor::of<float>(DataType::F32, shape, values)));
  }
  std::string text;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < width; ++i)
      text += fmt::format("{}{}", values[size_t(row * width + i)], i + 1 < width ? ',' : '\n');
  if (path.empty())
    std::cout << text;
  else
    writeFile(path, std::string_view(text));
}

/// A line for each row: the most likely class, by its name where the forest knows one.
void giveClasses(const trees::Forest &forest, const std::vector<float> &values, int64_t rows,
                 const std::string &path) {
  int64_t channels = forest.channels();
  std::string text;
  for (int64_t row = 0; row < rows; ++row) {
    const float *of = values.data() + row * channels;
    int64_t best = channels == 1 ? of[0] > 0.5f : std::max_element(of, of + channels) - of;
    text += size_t(best) < forest.classNames.size()
                ? printable(forest.classNames[size_t(best)]) + "\n"
                : fmt::format("{}\n", forest.classes[size_t(best)]);
  }
  if (path.empty())
    std::cout << text;
  else
    writeFile(path, std::string_view(text));
}

int predict(const PredictGiven &given) {
  keepApart(given.out, "--output", given.forest, "the forest");
  keepApart(given.out, "--output", given.data, "the data");
  trees::Forest forest = needed(trees::loadForest(given.forest), "");
  if (given.classes && (forest.classes.empty() || given.outputs || given.leaves))
    failUsage(
        "--classes is of predictions of a forest of classes; " +
        (forest.classes.empty() ? given.forest + " is none" : "leave out --outputs and --leaves"));
  trees::TableOptions options;
  options.hasTarget = false;
  options.target = given.target;
  options.like = &forest.features;
  trees::Table table = needed(trees::readTable(given.data, options), given.data);
  auto predictor = needed(trees::Predictor::of(forest, trees::treesOfRounds(forest, given.rounds)),
                          given.forest);
  std::vector<float> values = given.leaves ? leavesOf(predictor, table.matrix, given.threads)
                                           : outputsOf(predictor, table.matrix, given.threads);
  const trees::Objective *objective = trees::findObjective(forest.objective);
  if (!given.outputs && !given.leaves && objective)
    trees::transformOutputs(*objective, values, forest.channels());
  if (given.classes)
    giveClasses(forest, values, table.matrix.rows, given.out);
  else
    give(values, table.matrix.rows, given.out);
  return kSuccess;
}

int convert(const std::string &from, const std::string &to, const std::string &format) {
  std::optional<trees::FileFormat> wanted;
  if (!format.empty() && !(wanted = trees::formatNamed(format)))
    failUsage("--format " + format + " is none of forest, json, ubj, onnx");
  keepApart(to, "path", from, "the forest");
  needed(trees::saveForest(needed(trees::loadForest(from), ""), to, wanted), "");
  return kSuccess;
}

/// The first few, and how many more.
std::string shortList(const std::vector<std::string> &names) {
  constexpr size_t kShown = 12;
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i)
    list += (i > 0 ? ", " : "") + printable(names[i]);
  return names.size() > kShown ? fmt::format("{} and {} more", list, names.size() - kShown) : list;
}

int inspect(const std::string &path, bool dump) {
  trees::Forest forest = needed(trees::loadForest(path), "");
  if (dump) {
    std::cout << trees::dumpText(forest);
    return kSuccess;
  }
  int64_t nodes = 0, leaves = 0;
  for (const trees::Tree &tree : forest.trees)
    for (int32_t node = 0; node < tree.size(); ++node, ++nodes)
      leaves += tree.isLeaf(node);
  std::cout << fmt::format("objective: {}\nfeatures: {}\nchannels: {}\ntrees: {}, of {} nodes and "
                           "{} leaves\n",
                           printable(forest.objective), forest.features.size(), forest.channels(),
                           forest.trees.size(), nodes, leaves);
  for (size_t i = 0; i < forest.classNames.size(); ++i)
    std::cout << fmt::format("class {}: {}\n", i, printable(forest.classNames[i]));
  for (size_t i = 0; i < forest.features.size(); ++i)
    if (const auto &names = forest.features[i].levels.names; !names.empty())
      std::cout << fmt::format("categories of {}: {}\n",
                               printable(trees::nameOf(forest, int64_t(i))), shortList(names));
  if (forest.bestRound >= 0)
    std::cout << "best round: " << forest.bestRound << "\n";
  std::vector<double> gains = trees::importances(forest, trees::Importance::TotalGain);
  std::vector<size_t> order;
  for (size_t i = 0; i < gains.size(); ++i)
    if (gains[i] > 0)
      order.push_back(i);
  std::ranges::sort(order, std::greater(), [&](size_t i) { return gains[i]; });
  for (size_t i = 0; i < std::min<size_t>(order.size(), 20); ++i)
    std::cout << fmt::format("{:>24}: gain {:.6g}\n",
                             printable(trees::nameOf(forest, int64_t(order[i]))), gains[order[i]]);
  return kSuccess;
}

int plot(const std::string &path, int64_t tree, const std::string &out) {
  keepApart(out, "--output", path, "the forest");
  trees::Forest forest = needed(trees::loadForest(path), "");
  std::string text = out.ends_with(".svg")
                         ? needed(trees::treeSvg(forest, tree), path)
                         : needed(trees::forestPage(forest, tree, trees::Importance::Gain), path);
  writeFile(out, std::string_view(text));
  return kSuccess;
}

void addPredict(CLI::App &app, Action &chosen) {
  auto given = std::make_shared<PredictGiven>();
  CLI::App *command = app.add_subcommand("predict", "What a forest says of a table's rows");
  command->add_option("FOREST", given->forest, "Of any format that convert reads")->required();
  command->add_option("DATA", given->data, "CSV, TSV, Parquet, LibSVM, .npz, .npy")->required();
  command->add_option("-o,--output", given->out, ".npy or text; none: the standard output")
      ->type_name("FILE");
  command->add_option("--target", given->target, "a column to leave out")->type_name("NAME");
  command->add_option("--rounds", given->rounds, "of the first so many rounds");
  command->add_option("--threads", given->threads, "0: as many as there are CPUs");
  command->add_flag("--classes", given->classes, "the most likely class, by name");
  command->add_flag("--outputs", given->outputs, "before the objective's transform");
  command->add_flag("--leaves", given->leaves, "the leaf that each tree's way ends at");
  command->callback([given, &chosen] { chosen = [given] { return predict(*given); }; });
}

void addConvert(CLI::App &app, Action &chosen) {
  struct Given {
    std::string from, to, format;
  };
  auto given = std::make_shared<Given>();
  CLI::App *command = app.add_subcommand("convert", "A forest to another format");
  command
      ->add_option("FROM", given->from, "Of ours, XGBoost's JSON or UBJSON, LightGBM's text, ONNX")
      ->required();
  command->add_option("TO", given->to, ".forest, .json, .ubj, .onnx")->required();
  command->add_option("--format", given->format, "forest, json, ubj, onnx; none: as TO ends");
  command->callback([given, &chosen] {
    chosen = [given] { return convert(given->from, given->to, given->format); };
  });
}

void addForestInspect(CLI::App &app, Action &chosen) {
  auto path = std::make_shared<std::string>();
  auto dump = std::make_shared<bool>(false);
  CLI::App *command = app.add_subcommand("inspect", "What a forest is made of");
  command->add_option("FOREST", *path, "Of any format that convert reads")->required();
  command->add_flag("--dump", *dump, "each node, a line");
  command->callback(
      [path, dump, &chosen] { chosen = [path, dump] { return inspect(*path, *dump); }; });
}

void addPlot(CLI::App &app, Action &chosen) {
  struct Given {
    std::string path, out = "forest.html";
    int64_t tree = 0;
  };
  auto given = std::make_shared<Given>();
  CLI::App *command = app.add_subcommand("plot", "A tree and the features' importance, drawn");
  command->add_option("FOREST", given->path, "Of any format that convert reads")->required();
  command->add_option("--tree", given->tree, "which, from 0 on");
  command->add_option("-o,--output", given->out, ".svg: the tree; .html: both")->type_name("FILE");
  command->callback([given, &chosen] {
    chosen = [given] { return plot(given->path, given->tree, given->out); };
  });
}

} // namespace

void addTrees(CLI::App &app, Action &chosen) {
  CLI::App *command =
      app.add_subcommand("trees", "Gradient-boosted trees: train, predict, convert");
  command->require_subcommand(1);
  addTreesTrain(*command, chosen);
  addPredict(*command, chosen);
  addConvert(*command, chosen);
  addForestInspect(*command, chosen);
  addPlot(*command, chosen);
  command->footer("Examples:\n"
                  "  tensmith trees train --data train.csv --target price -o price.forest\n"
                  "  tensmith trees predict price.forest test.csv\n"
                  "  tensmith trees convert xgboost.json model.onnx\n"
                  "  tensmith trees plot price.forest --tree 3 -o tree.svg");
}

} // namespace tensmith::cli
