// The rules by family, and those that users ask for; see Precision.h.
#include "compiler/graph/Precision.h"

#include "compiler/graph/ConvolutionPasses.h"
#include "compiler/graph/Evaluate.h"
#include "compiler/graph/Graph.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <array>
#include <map>
#include <tuple>

using namespace mlir;

namespace tensmith::graph {
namespace {

/// As users write them, and as locations have them behind the prefix.
constexpr std::array<StringLiteral, 3> kRuleNames = {"always", "follow", "never"};
constexpr StringLiteral kPrefix = "casts: ";

/// Larger operators (attention, recurrent layers) are decomposed into those before they are asked.
bool multiplies(Operation *op) {
  return isa<MatMulOp, ConvOp, ConvTransposeOp, ConvWeightsGradientOp>(op);
}

/// Whose results span many orders of magnitude, or are next to none where their operands aren't:
/// what is rounded there is told apart no longer.
bool spreads(Operation *op) {
  return isa<ExpOp, LogOp, Log1pOp, PowOp, RsqrtOp, TanOp, SinhOp, CoshOp, AcosOp, AsinOp, AcoshOp,
             AtanhOp>(op);
}

CastRule ownCastRule(Operation *op) {
  if (multiplies(op))
    return CastRule::Always;
  if (auto indexed = dyn_cast<Indexed>(op); indexed && indexed.isMovement())
    return CastRule::Follow;
  return isa<Elementwise>(op) && !spreads(op) ? CastRule::Follow : CastRule::Never;
}

std::optional<CastRule> ruleNamed(StringRef name) {
  const auto *found = llvm::find(kRuleNames, name);
  return found == kRuleNames.end() ? std::nullopt
                                   : std::optional(CastRule(found - kRuleNames.begin()));
}

/// Whether the first forbids more than the second.
bool isStricter(CastRule rule, std::optional<CastRule> other) {
  if (!other || rule == CastRule::Never)
    return true;
  return rule == CastRule::Always && *other == CastRule::Follow;
}

void findRule(Location location, std::optional<CastRule> &rule) {
  auto fused = dyn_cast<FusedLoc>(location);
  if (!fused)
    return;
  if (auto text = dyn_cast_or_null<StringAttr>(fused.getMetadata()))
    if (StringRef name = text.getValue(); name.consume_front(kPrefix))
      if (auto here = ruleNamed(name); here && isStricter(*here, rule))
        rule = here;
  for (Location part : fused.getLocations())
    findRule(part, rule);
}

bool isAskable(Operation *op) {
  return isa_and_present<GraphDialect>(op->getDialect()) && !isa<ConstantOp>(op);
}

/// The operator's names: its own, its nodes' and their types'. A node is "conv1 (Conv)" in a
/// location, and in one of the language "12:5 matmul".
void visitNames(Operation *op, function_ref<void(StringRef)> visit) {
  visit(op->getName().stripDialect());
  for (StringAttr name : nodeNames(op->getLoc())) {
    auto [node, type] = name.getValue().rsplit(" (");
    visit(node);
    if (type.consume_back(")"))
      visit(type);
  }
}

bool isMeant(const CastRequest &request, Operation *op) {
  bool isMeant = false;
  visitNames(op, [&](StringRef name) { isMeant |= request.pattern.match(name); });
  return isMeant;
}

Status unknownNames(const CastRequest &request) {
  return invalidArgument("casts: '" + request.names +
                         "' is the name of no operator and of no node of the model; 'tensmith "
                         "inspect' lists both");
}

} // namespace

void keepPrecision(Operation *op) { op->setAttr(kKeepsPrecision, UnitAttr::get(op->getContext())); }

std::optional<CastRule> askedCastRule(Operation *op) {
  std::optional<CastRule> rule;
  findRule(op->getLoc(), rule);
  return rule;
}

CastRule castRule(Operation *op) {
  if (op->hasAttr(kKeepsPrecision))
    return CastRule::Never;
  return askedCastRule(op).value_or(ownCastRule(op));
}

Result<std::vector<CastRequest>> parseCasts(ArrayRef<std::string> texts) {
  std::vector<CastRequest> requests;
  for (const std::string &text : texts) {
    auto [names, name] = StringRef(text).rsplit('=');
    std::optional<CastRule> rule = ruleNamed(name);
    if (names.empty() || !rule)
      return invalidArgument(
          "casts are asked for as NAME=always, NAME=follow or NAME=never, not '" + text + "'");
    auto pattern = llvm::GlobPattern::create(names);
    if (!pattern)
      return invalidArgument("casts: '" + names.str() +
                             "' is no pattern of names: " + llvm::toString(pattern.takeError()));
    requests.push_back({names.str(), std::move(*pattern), *rule});
  }
  return requests;
}

Status askForCasts(ArrayRef<func::FuncOp> functions, ArrayRef<CastRequest> requests) {
  std::vector<bool> means(requests.size());
  auto ask = [&](Operation *op) {
    std::optional<CastRule> rule;
    for (auto [number, request] : llvm::enumerate(requests))
      if (isMeant(request, op)) {
        rule = request.rule;
        means[number] = true;
      }
    if (!rule)
      return;
    auto text = StringAttr::get(op->getContext(), kPrefix + kRuleNames[size_t(*rule)]);
    op->setLoc(FusedLoc::get({op->getLoc()}, text, op->getContext()));
  };
  for (func::FuncOp function : functions)
    function.walk([&](Operation *op) {
      if (isAskable(op))
        ask(op);
    });
  auto unused = llvm::find(means, false);
  return unused == means.end() ? Status() : unknownNames(requests[unused - means.begin()]);
}

std::string castTable(ArrayRef<func::FuncOp> functions) {
  std::map<std::tuple<StringRef, CastRule, bool>, int64_t> counts;
  for (func::FuncOp function : functions)
    function.walk([&](Operation *op) {
      if (isAskable(op))
        ++counts[{op->getName().stripDialect(), castRule(op), askedCastRule(op).has_value()}];
    });
  llvm::json::Array table;
  for (const auto &[entry, count] : counts)
    table.push_back(llvm::json::Object{{"operator", std::get<0>(entry)},
                                       {"rule", kRuleNames[size_t(std::get<1>(entry))]},
                                       {"count", count},
                                       {"asked", std::get<2>(entry)}});
  return llvm::formatv("{0}", llvm::json::Value(std::move(table)));
}

} // namespace tensmith::graph
