// One table of the choices says how each is read, bounded and written; see Schedule.h.
#include "compiler/kernel/Schedule.h"

#include "compiler/graph/ChannelOrder.h"
#include "compiler/graph/Evaluate.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/TypeText.h"
#include "compiler/libraries/Libraries.h"

#include "llvm/Support/JSON.h"

#include <cmath>

using namespace mlir;

namespace tensmith::kernel {
namespace {

struct Choice {
  StringLiteral key;
  std::optional<int64_t> Schedule::*value;
  int64_t least, most;
  int64_t multiple = 1;
  bool bounded = true; // by the kernel's sizes: less may be taken than is asked for
};

/// Bounds are those of sense: a tile far beyond the registers makes much code, and is slow.
constexpr int64_t kAny = int64_t(1) << 30;
constexpr Choice kChoices[] = {{"libraries", &Schedule::library, 0, kAny, 1, false},
                               {"winograd_outputs", &Schedule::winogradOutputs, 0, 6, 2, false},
                               {"fourier_tile", &Schedule::fourierTile, 0, 16384, 1, false},
                               {"strassen_steps", &Schedule::strassenSteps, 0, 1, 1, false},
                               {"operand_bits", &Schedule::operandBits, 8, 32, 8, false},
                               {"tile_rows", &Schedule::tileRows, 1, 16},
                               {"panel_vectors", &Schedule::panelVectors, 1, 4},
                               {"depth_block", &Schedule::depthBlock, 16, kAny, 16},
                               {"item_tiles", &Schedule::itemTiles, 1, kAny},
                               {"item_panels", &Schedule::itemPanels, 1, kAny},
                               {"rows_apart", &Schedule::rowsApart, 0, 1},
                               {"chain", &Schedule::chain, 0, 4, 1, false},
                               {"band_lines", &Schedule::bandLines, 1, kAny},
                               {"item_elements", &Schedule::itemElements, 1, kAny}};

std::string keysText() {
  std::string text = "kernel, nodes";
  for (const Choice &choice : kChoices)
    text += ", " + choice.key.str();
  return text;
}

Status readChoice(StringRef key, const llvm::json::Value &value, Schedule &into) {
  auto choice = llvm::find_if(kChoices, [&](const Choice &choice) { return choice.key == key; });
  if (choice == std::end(kChoices))
    return invalidArgument("\"" + key.str() + "\" is no choice; there are " + keysText());
  if (choice->value == &Schedule::library) {
    auto library = libraries::libraryNumber(value.getAsString().value_or(""));
    if (!library)
      return invalidArgument("\"" + key.str() + "\" must be one of " + libraries::libraryNames());
    into.library = *library;
    return {};
  }
  auto number = value.getAsInteger();
  if (!number || *number < choice->least || *number > choice->most || *number % choice->multiple)
    return invalidArgument(
        "\"" + key.str() + "\" must be a whole number from " + std::to_string(choice->least) +
        " to " + std::to_string(choice->most) +
        (choice->multiple > 1 ? ", a multiple of " + std::to_string(choice->multiple) : ""));
  into.*choice->value = *number;
  return {};
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

/// "1x56x56x64:f32", also of an image whose channels are first still.
std::string typeTextOf(Type type, bool channelsFirst) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!channelsFirst || !tensor || tensor.getRank() < 3)
    return graph::typeText(type);
  graph::ShapeContext shapes(type.getContext());
  auto dims = shapes.dims(tensor);
  SmallVector<AffineExpr> last;
  for (int64_t dim : graph::toChannelsLast(tensor.getRank()))
    last.push_back(dims[size_t(dim)]);
  return graph::typeText(shapes.tensorType(tensor.getElementType(), last));
}

} // namespace

void Schedule::override(const Schedule &other) {
  for (const Choice &choice : kChoices)
    if (other.*choice.value)
      this->*choice.value = other.*choice.value;
}

std::string structureOf(Operation *root) {
  std::string text = root->getName().stripDialect().str();
  auto conv = dyn_cast<graph::ConvOp>(root);
  bool channelsFirst = conv && !conv.getChannelsLast();
  for (OpOperand &operand : root->getOpOperands())
    if (Type type = operand.get().getType(); !isa<NoneType>(type))
      text += " " + typeTextOf(type, channelsFirst && operand.getOperandNumber() == 0);
  text += " ->";
  for (Type type : root->getResultTypes())
    text += " " + typeTextOf(type, channelsFirst);
  return text;
}

bool Schedules::Asked::fits(const std::string &structure, ArrayRef<StringAttr> names) const {
  auto isNamed = [&](const std::string &name) {
    return llvm::any_of(names, [&](StringAttr node) { return means(name, node.getValue()); });
  };
  return (kernel.empty() || kernel == structure) && (nodes.empty() || llvm::any_of(nodes, isNamed));
}

Result<Schedules> Schedules::parse(std::string_view text, const std::string &file) {
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
      if (key == "kernel") {
        if (!member.getAsString())
          return invalidArgument("\"kernel\" must be a text").within(place);
        entry.kernel = member.getAsString()->str();
      } else if (key == "nodes") {
        auto names = readNames(member);
        if (!names.ok())
          return names.status().within(place);
        entry.nodes = std::move(*names);
      } else if (key == "error" || key == "refused" || key == "measured") {
        continue;
      } else if (Status status = readChoice(key, member, entry.schedule); !status.ok()) {
        return status.within(place);
      }
    }
    if (entry.kernel.empty() && entry.nodes.empty())
      return invalidArgument("has neither \"kernel\" nor \"nodes\", which say what it is for")
          .within(place);
    result.asked_.push_back(std::move(entry));
  }
  return result;
}

Schedule Schedules::of(Operation *root) const {
  Schedule result;
  if (asked_.empty())
    return result;
  std::string structure = structureOf(root);
  auto names = graph::nodeNames(root->getLoc());
  for (const Asked &entry : asked_)
    if (entry.fits(structure, names.getArrayRef()))
      result.override(entry.schedule);
  return result;
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

void Schedules::made(Operation *root, const Schedule &chosen, double error,
                     ArrayRef<Refused> refused) {
  std::string structure = structureOf(root);
  auto names = graph::nodeNames(root->getLoc());
  for (Asked &entry : asked_) {
    if (!entry.fits(structure, names.getArrayRef()))
      continue;
    entry.used = true;
    for (auto [number, choice] : llvm::enumerate(kChoices)) {
      auto asked = entry.schedule.*choice.value, made = chosen.*choice.value;
      if (asked && made && (choice.bounded || *asked == *made))
        entry.taken |= 1u << number;
    }
  }
  if (chosen == Schedule())
    return;
  std::vector<std::string> nodes;
  for (StringAttr name : names)
    nodes.push_back(name.str());
  SmallVector<Made, 1> &alike = made_[structure];
  auto same = llvm::find_if(alike, [&](const Made &other) { return other.nodes == nodes; });
  if (same == alike.end())
    same = alike.insert(same, {std::move(nodes), {}, 0, 0, {}});
  for (auto [number, choice] : llvm::enumerate(kChoices)) {
    auto known = same->schedule.*choice.value, value = chosen.*choice.value;
    if (known && value && *known != *value)
      same->conflicts |= 1u << number;
  }
  same->schedule.override(chosen);
  same->error = std::max(same->error, error);
  same->add(refused);
}

void Schedules::measured(Operation *root, ArrayRef<Measured> times) {
  measured_[structureOf(root)].assign(times.begin(), times.end());
}

std::vector<std::string> Schedules::warnings() const {
  std::vector<std::string> messages;
  for (auto [number, entry] : llvm::enumerate(asked_)) {
    std::string place = file_ + ": entry " + std::to_string(number + 1);
    if (!entry.used)
      messages.push_back(place + " fits no kernel of the model: " +
                         (entry.kernel.empty() ? "node " + entry.nodes.front() : entry.kernel));
    for (auto [number, choice] : llvm::enumerate(kChoices))
      if (entry.used && entry.schedule.*choice.value && !(entry.taken >> number & 1))
        messages.push_back(place + ": no kernel that it fits takes \"" + choice.key.str() + "\"");
  }
  return messages;
}

std::string Schedules::json() const {
  llvm::json::Array list;
  for (const auto &[kernel, alike] : made_) {
    SmallVector<Made, 1> merged;
    for (const Made &entry : alike) {
      auto same = llvm::find_if(merged, [&](const Made &other) {
        return other.schedule == entry.schedule && other.conflicts == entry.conflicts;
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
    if (auto nameless = llvm::find_if_not(merged, named); nameless != merged.end())
      std::rotate(merged.begin(), nameless, std::next(nameless));
    for (const Made &entry : merged) {
      llvm::json::Object object{{"kernel", kernel}};
      if (merged.size() > 1 && !entry.nodes.empty())
        object["nodes"] = llvm::json::Array(entry.nodes);
      for (auto [number, choice] : llvm::enumerate(kChoices))
        if (auto value = entry.schedule.*choice.value; value && !(entry.conflicts >> number & 1))
          object[choice.key] = choice.value == &Schedule::library
                                   ? llvm::json::Value(libraries::libraryName(*value))
                                   : llvm::json::Value(*value);
      if (entry.error > 0 && std::isfinite(entry.error))
        object["error"] = entry.error;
      if (!entry.refused.empty())
        object["refused"] = listOf(entry.refused);
      if (auto times = measured_.find(kernel); times != measured_.end())
        object["measured"] = listOf(times->second);
      list.push_back(std::move(object));
    }
  }
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(list));
  return text;
}

} // namespace tensmith::kernel
