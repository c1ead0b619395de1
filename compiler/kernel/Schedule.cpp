// Reading, finding and telling of choices; see Schedule.h.
#include "compiler/kernel/Schedule.h"

#include "compiler/graph/Evaluate.h"
#include "compiler/graph/Graph.h"
#include "compiler/kernel/FactorChoices.h"
#include "compiler/kernel/Template.h"
#include "compiler/libraries/Libraries.h"

#include "llvm/ADT/SetOperations.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/JSON.h"

#include <cmath>
#include <functional>
#include <numeric>

using namespace mlir;

namespace tensmith::kernel {
namespace {

constexpr const Choice *kDecisions[] = {
    &choice::library,      &choice::winogradOutputs, &choice::fourierTile, &choice::strassenSteps,
    &choice::operandBits,  &choice::chain,           &choice::fused,       &choice::channelsLast,
    &choice::productOrder, &choice::asOperators};

/// Those of rewrites, then those of each template.
llvm::SetVector<const Choice *> allChoices(const Machine &machine) {
  llvm::SetVector<const Choice *> all(std::begin(kDecisions), std::end(kDecisions));
  all.insert(&choice::grain);
  for (const Template *one : machine.templates->rows())
    all.insert(one->choices.begin(), one->choices.end());
  return all;
}

std::string keysText(const Machine &machine) {
  std::string text = "key, kernel, nodes, sizes";
  for (const Choice *choice : allChoices(machine))
    text += ", " + choice->name.str();
  return text;
}

Status readChoice(StringRef name, const llvm::json::Value &value, const Machine &machine,
                  Point &into) {
  const auto all = allChoices(machine);
  const auto *found =
      llvm::find_if(all, [&](const Choice *choice) { return choice->name == name; });
  if (found == all.end())
    return invalidArgument("\"" + name.str() + "\" is no choice; there are " + keysText(machine));
  const Choice &choice = **found;
  if (&choice == &choice::library) {
    auto library = libraries::libraryNumber(value.getAsString().value_or(""));
    if (!library)
      return invalidArgument("\"" + name.str() + "\" must be one of " + libraries::libraryNames());
    into.set(choice::library, *library);
    return {};
  }
  auto number = value.getAsInteger();
  if (!number || !choice.takes(*number))
    return invalidArgument(
        "\"" + name.str() + "\" must be a whole number from " + std::to_string(choice.least) +
        " to " + std::to_string(choice.most) +
        (choice.multiple > 1 ? ", a multiple of " + std::to_string(choice.multiple) : ""));
  into.set(choice, *number);
  return {};
}

Result<SmallVector<int64_t, 2>> readSizes(const llvm::json::Value &value) {
  constexpr int64_t kLargest = int64_t(1) << 40;
  SmallVector<int64_t, 2> sizes;
  const llvm::json::Array *list = value.getAsArray();
  for (size_t i = 0; list && i < list->size(); ++i)
    sizes.push_back((*list)[i].getAsInteger().value_or(0));
  if (sizes.empty() ||
      llvm::any_of(sizes, [](int64_t size) { return size < 1 || size > kLargest; }))
    return invalidArgument("\"sizes\" must be a list of whole numbers from 1 on");
  return sizes;
}

Result<std::vector<std::string>> readNames(const llvm::json::Value &value) {
  std::vector<std::string> names;
  const llvm::json::Array *list = value.getAsArray();
  if (!list || list->empty())
    return invalidArgument("\"nodes\" must be a list of names");
  for (const llvm::json::Value &name : *list) {
    if (!name.getAsString())
      return invalidArgument("\"nodes\" must be a list of names");
    names.push_back(name.getAsString()->str());
  }
  return names;
}

/// LLVM's parser recurses.
bool nestsTooDeep(StringRef text) {
  constexpr int kDeepest = 64;
  int depth = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (inString && text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      inString = !inString;
    else if (!inString && (text[i] == '[' || text[i] == '{') && ++depth > kDeepest)
      return true;
    else if (!inString && (text[i] == ']' || text[i] == '}'))
      --depth;
  }
  return false;
}

llvm::json::Array listOf(ArrayRef<Refused> refused) {
  llvm::json::Array list;
  for (const Refused &each : refused) {
    llvm::json::Object object{{"choice", each.choice}, {"value", each.value}};
    if (std::isfinite(each.error))
      object["error"] = each.error;
    list.push_back(std::move(object));
  }
  return list;
}

llvm::json::Array listOf(ArrayRef<Measured> times) {
  llvm::json::Array list;
  for (const Measured &each : times)
    list.push_back(llvm::json::Object{
        {"choice", each.choice}, {"value", each.value}, {"seconds", each.seconds}});
  return list;
}

/// Whether a name in a file means a node's location, which is "name (Operator)".
bool means(StringRef name, StringRef node) {
  return node.consume_front(name) && (node.empty() || node.starts_with(" ("));
}

} // namespace

bool Schedules::Asked::fits(const Key &ofKernel, const std::string &structure,
                            ArrayRef<StringAttr> names) const {
  auto isNamed = [&](const std::string &name) {
    return llvm::any_of(names, [&](StringAttr node) { return means(name, node.getValue()); });
  };
  return (key.empty() || key == ofKernel) && (kernel.empty() || kernel == structure) &&
         (nodes.empty() || llvm::any_of(nodes, isNamed));
}

std::string Schedules::Asked::text() const {
  return !kernel.empty() ? kernel : !nodes.empty() ? "node " + nodes.front() : "key " + key;
}

Result<Schedules> Schedules::parse(std::string_view text, const std::string &file,
                                   const Machine &machine) {
  if (nestsTooDeep({text.data(), text.size()}))
    return invalidArgument("is nested too deep").within(file);
  auto parsed = llvm::json::parse(StringRef(text.data(), text.size()));
  if (!parsed)
    return invalidArgument(llvm::toString(parsed.takeError())).within(file);
  const llvm::json::Object *all = parsed->getAsObject();
  const llvm::json::Array *list = all ? all->getArray("schedules") : nullptr;
  if (!list)
    return invalidArgument(
               "must be {\"schedules\": [...]}, as `tensmith inspect --chosen-schedules` "
               "prints them")
        .within(file);
  Schedules result;
  result.file_ = file;
  for (auto [number, value] : llvm::enumerate(*list)) {
    std::string place = file + ": entry " + std::to_string(number + 1);
    const llvm::json::Object *object = value.getAsObject();
    if (!object)
      return invalidArgument("must be an object").within(place);
    Asked entry;
    for (const auto &[key, member] : *object) {
      if (key == "kernel" || key == "key") {
        if (!member.getAsString())
          return invalidArgument("\"" + key.str() + "\" must be a text").within(place);
        (key == "key" ? entry.key : entry.kernel) = member.getAsString()->str();
      } else if (key == "nodes") {
        auto names = readNames(member);
        if (!names.ok())
          return names.status().within(place);
        entry.nodes = std::move(*names);
      } else if (key == "sizes") {
        auto sizes = readSizes(member);
        if (!sizes.ok())
          return sizes.status().within(place);
        entry.chosen.sizes = std::move(*sizes);
      } else if (key == "error" || key == "refused" || key == "measured") {
        continue;
      } else if (Status status = readChoice(key, member, machine, entry.chosen.point);
                 !status.ok()) {
        return status.within(place);
      }
    }
    if (entry.key.empty() && entry.kernel.empty() && entry.nodes.empty())
      return invalidArgument(
                 "has neither \"key\" nor \"kernel\" nor \"nodes\", which say what it is for")
          .within(place);
    auto isOfOne = [&](const Asked &other) {
      return !other.chosen.sizes.empty() && other.key == entry.key &&
             other.kernel == entry.kernel && other.nodes == entry.nodes;
    };
    if (!entry.chosen.sizes.empty() &&
        size_t(llvm::count_if(result.asked_, isOfOne)) == kMostSizedPoints)
      return invalidArgument("is one more than the " + std::to_string(kMostSizedPoints) +
                             " with \"sizes\" that a kernel can choose between")
          .within(place);
    result.asked_.push_back(std::move(entry));
  }
  return result;
}

Point Schedules::of(Operation *op) const {
  return asked_.empty() && !tuned_ ? Point()
                                   : pointsOf(keyOf(op, conditions_), op, 0).front().point;
}

Point Schedules::all() const {
  Point all;
  for (const Asked &entry : asked_)
    all.override(entry.chosen.point);
  return all;
}

SmallVector<SizedPoint, 1> Schedules::pointsOf(const Key &key, Operation *root,
                                               size_t openSizes) const {
  Point common = tuned(key);
  SmallVector<SizedPoint, 1> sized;
  if (asked_.empty())
    return {{common, {}}};
  std::string structure = structureOf(root);
  auto names = graph::nodeNames(root->getLoc());
  for (const Asked &entry : asked_) {
    if (!entry.fits(key, structure, names.getArrayRef()))
      continue;
    const auto &sizes = entry.chosen.sizes;
    auto *same =
        llvm::find_if(sized, [&](const SizedPoint &other) { return other.sizes == sizes; });
    if (sizes.empty())
      common.override(entry.chosen.point);
    else if (sizes.size() == openSizes && same != sized.end())
      same->point.override(entry.chosen.point);
    else if (sizes.size() == openSizes && sized.size() < kMostSizedPoints)
      sized.push_back(entry.chosen);
  }
  if (sized.empty())
    return {{common, {}}};
  for (SizedPoint &each : sized) {
    Point point = common;
    point.override(each.point);
    each.point = std::move(point);
  }
  llvm::stable_sort(sized, [](const SizedPoint &a, const SizedPoint &b) {
    return productOf(a.sizes) < productOf(b.sizes);
  });
  return sized;
}

void Schedules::Made::add(ArrayRef<Refused> others) {
  for (const Refused &other : others) {
    auto same = llvm::find_if(refused, [&](const Refused &known) {
      return known.choice == other.choice && known.value == other.value;
    });
    if (same == refused.end())
      refused.push_back(other);
    else
      same->error = std::max(same->error, other.error);
  }
}

void Schedules::made(Operation *op, const Point &chosen, double error, ArrayRef<Refused> refused) {
  made(keyOf(op, conditions_), op, SizedPoint{chosen, {}}, error, refused);
}

void Schedules::made(const Key &key, Operation *root, const SizedPoint &chosen, double error,
                     ArrayRef<Refused> refused) {
  std::string structure = structureOf(root);
  auto names = graph::nodeNames(root->getLoc());
  for (Asked &entry : asked_) {
    if (!entry.fits(key, structure, names.getArrayRef())) {
      entry.fitsButForKey |= !entry.kernel.empty() && entry.kernel == structure;
      continue;
    }
    entry.used = true;
    if (!entry.chosen.sizes.empty() && entry.chosen.sizes != chosen.sizes)
      continue;
    for (auto [choice, asked] : entry.chosen.point)
      if (auto value = chosen.point[*choice]; value && (choice->bounded || *value == asked))
        entry.taken.insert(choice);
  }
  if (chosen.point.empty())
    return;
  std::vector<std::string> nodes;
  for (StringAttr name : names)
    nodes.push_back(name.str());
  SmallVector<Made, 1> &alike = made_[key];
  auto *same = llvm::find_if(alike, [&](const Made &other) {
    return other.nodes == nodes && other.chosen.sizes == chosen.sizes;
  });
  if (same == alike.end())
    same =
        alike.insert(same, {std::move(structure), std::move(nodes), {{}, chosen.sizes}, 0, {}, {}});
  for (auto [choice, value] : chosen.point)
    if (same->chosen.point[*choice].value_or(value) != value)
      same->conflicts.insert(choice);
  same->chosen.point.override(chosen.point);
  same->error = std::max(same->error, error);
  same->add(refused);
}

void Schedules::measured(Operation *op, ArrayRef<Measured> times) {
  measured_[keyOf(op, conditions_)].assign(times.begin(), times.end());
}

static void addNodes(std::vector<std::string> &nodes, Operation *op) {
  for (StringAttr name : graph::nodeNames(op->getLoc()))
    if (!llvm::is_contained(nodes, name.getValue()))
      nodes.push_back(name.str());
}

void Schedules::offer(Operation *op, const Choice &choice, ArrayRef<int64_t> values) {
  if (!keepsSpaces_)
    return;
  Offered &offered = spaces_[keyOf(op, conditions_)];
  offered.kernel = structureOf(op);
  addNodes(offered.nodes, op);
  auto isThere = [&](const Space::Dimension &dimension) { return dimension.choice == &choice; };
  if (llvm::none_of(offered.space.dimensions(), isThere))
    offered.space.add(choice, values);
}

void Schedules::offer(const Key &key, Operation *root, StringRef by, Space space,
                      std::vector<std::string> sizes) {
  if (!keepsSpaces_ || space.empty())
    return;
  Offered &offered = spaces_[key];
  addNodes(offered.nodes, root);
  offered = {structureOf(root), by.str(), std::move(space), std::move(sizes),
             std::move(offered.nodes)};
}

/// As files have it.
static llvm::json::Value valueOf(const Choice &choice, int64_t value) {
  if (&choice == &choice::library)
    return libraries::libraryName(value);
  return value;
}

/// One of the values has the whole size behind its first factor.
static int64_t sizeOfFactors(ArrayRef<int64_t> values, size_t parts) {
  int64_t size = 1;
  for (int64_t value : values) {
    Factors factors = factorsBehindFirst(value, parts);
    size = std::max(size, std::accumulate(factors.begin(), factors.end(), int64_t(1),
                                          std::multiplies<int64_t>()));
  }
  return size;
}

std::string Schedules::spacesJson() const {
  llvm::json::Array list;
  for (const auto &[key, offered] : spaces_) {
    llvm::json::Array choices;
    for (const Space::Dimension &dimension : offered.space.dimensions()) {
      llvm::json::Array values;
      for (int64_t value : dimension.values)
        values.push_back(valueOf(*dimension.choice, value));
      llvm::json::Object object{{"choice", dimension.choice->name}, {"values", std::move(values)}};
      if (size_t parts = partsOf(*dimension.choice))
        object["factors"] = llvm::json::Object{{"of", sizeOfFactors(dimension.values, parts)},
                                               {"parts", int64_t(parts)}};
      if (dimension.guard)
        object["where"] =
            llvm::json::Object{{dimension.guard->name, llvm::json::Array(dimension.guardValues)}};
      choices.push_back(std::move(object));
    }
    llvm::json::Object object{
        {"key", key},
        {"kernel", offered.kernel},
        {"nodes", llvm::json::Array(offered.nodes)},
        {"points", int64_t(std::min(offered.space.size(), uint64_t(INT64_MAX)))},
        {"choices", std::move(choices)}};
    if (!offered.by.empty())
      object["template"] = offered.by;
    if (!offered.sizes.empty())
      object["sizes"] = llvm::json::Array(offered.sizes);
    list.push_back(std::move(object));
  }
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(list));
  return text;
}

std::vector<std::string> Schedules::warnings() const {
  std::vector<std::string> messages;
  for (auto [number, entry] : llvm::enumerate(asked_)) {
    std::string place = file_ + ": entry " + std::to_string(number + 1);
    if (!entry.used) {
      std::string other = "; its key is of another machine, precision or fusion: leave out \"key\" "
                          "to ask by the structure";
      messages.push_back(place + " fits no kernel of the model: " + entry.text() +
                         (entry.fitsButForKey && !entry.key.empty() ? other : ""));
      continue;
    }
    for (auto [choice, value] : entry.chosen.point)
      if (!entry.taken.contains(choice))
        messages.push_back(place + ": no kernel that it fits takes \"" + choice->name.str() + "\"");
  }
  return messages;
}

std::string Schedules::json() const {
  llvm::json::Array list;
  for (const auto &[key, alike] : made_) {
    SmallVector<Made, 1> merged;
    for (const Made &entry : alike) {
      auto same = llvm::find_if(merged, [&](const Made &other) {
        return other.chosen == entry.chosen &&
               llvm::set_is_subset(other.conflicts, entry.conflicts) &&
               llvm::set_is_subset(entry.conflicts, other.conflicts);
      });
      if (same == merged.end())
        same = merged.insert(same, entry);
      else
        llvm::append_range(same->nodes, entry.nodes);
      same->error = std::max(same->error, entry.error);
      same->add(SmallVector<Refused, 1>(entry.refused));
    }
    // What has no name fits all, and so comes before what overrides it.
    auto named = [](const Made &entry) { return !entry.nodes.empty(); };
    std::stable_partition(merged.begin(), merged.end(), std::not_fn(named));
    for (const Made &entry : merged) {
      llvm::json::Object object{{"key", key}, {"kernel", entry.kernel}};
      auto isOther = [&](const Made &other) { return other.nodes != entry.nodes; };
      if (llvm::any_of(merged, isOther) && !entry.nodes.empty())
        object["nodes"] = llvm::json::Array(entry.nodes);
      if (!entry.chosen.sizes.empty())
        object["sizes"] = llvm::json::Array(entry.chosen.sizes);
      for (auto [choice, value] : entry.chosen.point)
        if (!entry.conflicts.contains(choice))
          object[choice->name] = valueOf(*choice, value);
      if (entry.error > 0 && std::isfinite(entry.error))
        object["error"] = entry.error;
      if (!entry.refused.empty())
        object["refused"] = listOf(entry.refused);
      if (auto times = measured_.find(key); times != measured_.end() && !times->second.empty())
        object["measured"] = listOf(times->second);
      list.push_back(std::move(object));
    }
  }
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(list));
  return text;
}

} // namespace tensmith::kernel
