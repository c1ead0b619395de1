// Which operators are drawn, how often, and those that are drawn by their records alone.
#include "tests/random/Generator.h"

#include "mlir/IR/OpDefinition.h"

using namespace mlir;

namespace tensmith::random_graphs {
namespace {

// Of strings and other values that are no tensors of numbers, with regions, made by the compiler
// for itself alone, or done by a library alone, or of few bits (tests/generation).
const llvm::StringRef kNotDrawn[] = {"string_split",
                                     "string_normalize",
                                     "string_concat",
                                     "regex_full_match",
                                     "look_up",
                                     "decode_image",
                                     "count_ngrams",
                                     "constant",
                                     "none",
                                     "run_key",
                                     "yield",
                                     "if",
                                     "loop",
                                     "kernel",
                                     "check",
                                     "keep_sizes",
                                     "sequence_construct",
                                     "sequence_at",
                                     "sequence_insert",
                                     "sequence_erase",
                                     "sequence_length",
                                     "split_to_sequence",
                                     "concat_from_sequence",
                                     "sequence_zeros",
                                     "sequence_sum",
                                     "sequence_sizes",
                                     "optional",
                                     "optional_has_element",
                                     "optional_get_element",
                                     "zip_map",
                                     "map_keys",
                                     "map_values",
                                     "tree_ensemble",
                                     "all_reduce_mean",
                                     "block_values",
                                     "bit_pack",
                                     "bit_conv",
                                     "unpack"};

unsigned operandCount(OperationName name) {
  if (name.hasTrait<OpTrait::OneOperand>())
    return 1;
  if (name.hasTrait<OpTrait::NOperands<2>::Impl>())
    return 2;
  return name.hasTrait<OpTrait::NOperands<3>::Impl>() ? 3 : 0;
}

const llvm::StringRef kFlags[] = {"keepdims",       "exclusive", "reverse", "last",
                                  "left",           "fmod",      "upper",   "detect_negative",
                                  "detect_positive"};

/// Attributes that mean the same in every record that has them.
std::optional<NamedAttribute> drawAttribute(Generator &g, StringRef name, int64_t rank) {
  if (llvm::is_contained(kFlags, name))
    return g.flag(name, g.chance(0.5));
  if (name == "axis")
    return g.i64(name, g.between(0, rank - 1));
  if (name != "axes")
    return std::nullopt;
  SmallVector<int64_t> axes;
  bool whole = g.chance(0.2);
  for (int64_t dim = 0; dim < rank; ++dim)
    if (whole || g.chance(0.45))
      axes.push_back(dim);
  return g.i64s(name, axes);
}

/// A shape that broadcasts with the given one: itself, ones in places, leading dimensions left out.
Dims broadcastable(Generator &g, ArrayRef<AffineExpr> dims) {
  if (g.chance(0.4))
    return Dims(dims);
  Dims result(dims.drop_front(size_t(g.between(0, int64_t(dims.size())))));
  for (AffineExpr &dim : result)
    if (g.chance(0.3))
      dim = g.size(1);
  return result;
}

bool isDrawnWith(OperationName name, StringRef attribute) {
  return llvm::any_of(name.getAttributeNames(),
                      [&](StringAttr own) { return own.getValue() == attribute; });
}

bool isDrawnByRecord(OperationName name) {
  return operandCount(name) > 0 && llvm::all_of(name.getAttributeNames(), [](StringAttr attribute) {
           return attribute == "axis" || attribute == "axes" ||
                  llvm::is_contained(kFlags, attribute.getValue());
         });
}

double weightByRecord(OperationName name) {
  return name.hasInterface<graph::Elementwise>() || name.hasInterface<graph::Indexed>() ? 1.2 : 0.6;
}

ArrayRef<ArrayRef<NamedRecipe>> tables() {
  static const ArrayRef<NamedRecipe> kTables[] = {
      contractionRecipes(), creationRecipes(),  elementwiseRecipes(),
      gatherRecipes(),      movementRecipes(),  normalizationRecipes(),
      resamplingRecipes(),  transformRecipes(), windowRecipes()};
  return kTables;
}

std::vector<DrawnOperator> listOperators(MLIRContext *context) {
  std::vector<DrawnOperator> result;
  for (RegisteredOperationName name : context->getRegisteredOperations()) {
    if (name.getDialectNamespace() != "graph" || llvm::is_contained(kNotDrawn, name.stripDialect()))
      continue;
    const NamedRecipe *found = nullptr;
    for (ArrayRef<NamedRecipe> table : tables())
      for (const NamedRecipe &recipe : table)
        if (recipe.name == name.stripDialect())
          found = &recipe;
    if (found)
      result.push_back({name, found->recipe, found->weight});
    else if (isDrawnByRecord(name))
      result.push_back({name, drawByRecord, weightByRecord(name)});
    else
      llvm::errs() << "random-graphs: " << name << " is never drawn: it has no recipe\n";
  }
  return result;
}

} // namespace

Operation *drawByRecord(Generator &g, StringRef name) {
  OperationName full("graph." + name.str(), g.context);
  bool needsAxis = isDrawnWith(full, "axis");
  // Operators of booleans or integers alone would hardly come about in a graph of floats.
  Type type = g.chance(0.8) ? Type() : g.chance(0.5) ? g.builder.getI1Type() : g.drawInteger();
  Value first = g.tensor(needsAxis ? 1 : 0, 5, type);
  SmallVector<Value> operands{first};
  for (unsigned i = 1; i < operandCount(full); ++i)
    operands.push_back(g.like(g.element(first), broadcastable(g, g.dims(first))));
  if (operands.size() == 2 && g.chance(0.3))
    std::swap(operands[0], operands[1]);
  SmallVector<NamedAttribute> attributes;
  for (StringAttr attribute : full.getAttributeNames())
    if (auto drawn = drawAttribute(g, attribute.getValue(), g.rank(first)))
      attributes.push_back(*drawn);
  return g.create(name, operands, attributes);
}

const std::vector<DrawnOperator> &operatorsToDraw(MLIRContext *context) {
  static const std::vector<DrawnOperator> kOperators = listOperators(context);
  return kOperators;
}

} // namespace tensmith::random_graphs
