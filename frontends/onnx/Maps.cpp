// The ai.onnx.ml operators on maps. A map is made of rows and taken apart into its keys and values;
// all else is tensor operators on these.
#include "frontends/onnx/NodeImport.h"

#include <numeric>

namespace tensmith::onnx_import {
namespace {

constexpr std::string_view kDomain = "ai.onnx.ml";

/// The keys that the node lists in the one attribute or in the other; null, with an error, where it
/// has both or neither.
Value listedKeys(NodeImport &n, const std::string &strings, const std::string &numbers) {
  auto texts = n.stringsAttr(strings);
  Ints integers = n.intsAttr(numbers);
  if (texts.empty() == integers.empty()) {
    (void)n.error("has " + llvm::Twine(texts.empty() ? "neither " : "both ") + strings +
                  (texts.empty() ? " nor " : " and ") + numbers);
    return {};
  }
  if (texts.empty())
    return n.vector(integers);
  auto count = int64_t(texts.size());
  return n.constant(HostTensor::ofStrings({count}, std::move(texts)));
}

/// The operand's type as a map; null, with an error, where it is none.
graph::MapType mapOf(NodeImport &n) {
  auto map = n.has(0) ? mlir::dyn_cast<graph::MapType>(n.input(0).getType()) : graph::MapType();
  if (!map)
    (void)n.error("operand 0 is no map");
  return map;
}

/// The map's values where the keys are found, and the one element `otherwise` elsewhere, [1, keys].
Value valuesAt(NodeImport &n, Value keys, Value values, Value otherwise) {
  if (!keys || !values || !otherwise)
    return {};
  bool areStrings = mlir::isa<graph::StringType>(n.element(keys));
  Value known = n("graph.map_keys", {n.input(0)}, n.boolean("strings", areStrings));
  Value found = known ? n("graph.look_up", {keys, known, values, otherwise}) : known;
  return found ? n.reshape(found, {n.size(1), n.dims(found)[0]}) : found;
}

/// What stands for a missing value of the type.
Value nothingOf(NodeImport &n, Type element, const char *text) {
  return mlir::isa<graph::StringType>(element) ? n.constant(HostTensor::ofStrings({}, {text}))
                                               : n.graph.scalar(element, 0);
}

LogicalResult zipMap(NodeImport &n) {
  if (!n.has(0))
    return n.error("operand 0 is missing");
  Value keys = listedKeys(n, "classlabels_strings", "classlabels_int64s");
  if (!keys)
    return failure();
  return n.give({n("graph.zip_map", {keys, n.input(0)})});
}

LogicalResult dictVectorizer(NodeImport &n) {
  auto map = mapOf(n);
  Value keys = map ? listedKeys(n, "string_vocabulary", "int64_vocabulary") : Value();
  if (!keys)
    return failure();
  if (n.element(keys) != map.getKey())
    return n.error("has a vocabulary of another type than the map's keys");
  Value values = n("graph.map_values", {n.input(0)});
  return n.give({valuesAt(n, keys, values, nothingOf(n, map.getValue(), ""))});
}

/// DENSE is the values in the order of their keys; SPARSE has each in the column that its key says.
LogicalResult castMap(NodeImport &n) {
  constexpr int64_t kMostColumns = int64_t(1) << 24;
  auto map = mapOf(n);
  if (!map)
    return failure();
  std::string to = n.stringAttr("cast_to", "TO_FLOAT"), form = n.stringAttr("map_form", "DENSE");
  Type type = to == "TO_FLOAT"    ? Type(n.builder.getF32Type())
              : to == "TO_INT64"  ? Type(n.builder.getI64Type())
              : to == "TO_STRING" ? graph::elementType(n.builder.getContext(), DataType::String)
                                  : Type();
  if (!type || !map.getKey().isInteger(64))
    return n.error("cast_to '" + to +
                   "' is not TO_FLOAT, TO_INT64 or TO_STRING, or the map's keys are not integers");
  Value values = n.cast(n("graph.map_values", {n.input(0)}), type);
  if (form == "DENSE")
    return n.give({values ? n.reshape(values, {n.size(1), n.dims(values)[0]}) : values});
  int64_t columns = n.intAttr("max_map", 1);
  if (form != "SPARSE" || columns < 1 || columns > kMostColumns)
    return n.error("map_form '" + form +
                   "' is not DENSE or SPARSE, or max_map is not from 1 to 2^24");
  Ints numbers(static_cast<size_t>(columns));
  std::iota(numbers.begin(), numbers.end(), 0);
  return n.give({valuesAt(n, n.vector(numbers), values, nothingOf(n, type, "0"))});
}

constexpr Operator kOperators[] = {
    {"ZipMap", zipMap, kDomain},
    {"CastMap", castMap, kDomain},
    {"DictVectorizer", dictVectorizer, kDomain},
};

} // namespace

std::span<const Operator> mapOperators() { return kOperators; }

} // namespace tensmith::onnx_import
