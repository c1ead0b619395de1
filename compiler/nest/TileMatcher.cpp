// A tile's value, places and strides against a declaration; see TileMatcher.h.
#include "compiler/nest/TileMatcher.h"

#include "compiler/nest/Layout.h"
#include "compiler/nest/Promotion.h"

#include <algorithm>
#include <numeric>

namespace tensmith::nest {
namespace {

/// By the declaration's inputs; null: not known yet.
using Binding = std::vector<const Expression *>;

bool isSame(const Expr &a, const Expr &b) {
  return a == b ||
         (a->operation == b->operation && a->type == b->type && a->name == b->name &&
          a->number == b->number && a->integer == b->integer && a->affine == b->affine &&
          a->tensor == b->tensor && a->guard == b->guard && a->isConditional == b->isConditional &&
          std::equal(a->operands.begin(), a->operands.end(), b->operands.begin(), b->operands.end(),
                     isSame));
}

/// All ways to read the program's expression as the declaration's.
std::vector<Binding> unified(const Expr &declared, const Expr &program,
                             const std::vector<Binding> &before) {
  std::vector<Binding> result;
  if (declared->operation == Operation::Load) {
    size_t input = size_t(std::stoul(declared->tensor));
    if (program->operation == Operation::Load && program->type == declared->type)
      for (Binding each : before) {
        bool isFree = !each[input];
        if (!isFree && each[input] != program.get())
          continue;
        each[input] = program.get();
        result.push_back(std::move(each));
      }
    return result;
  }
  bool isAlike = declared->operation == program->operation && declared->type == program->type &&
                 declared->operands.size() == program->operands.size();
  if (!isAlike)
    return result;
  if (declared->operands.empty())
    return isSame(declared, program) ? before : result;
  bool commutes =
      declared->operation == Operation::Add || declared->operation == Operation::Multiply ||
      declared->operation == Operation::Minimum || declared->operation == Operation::Maximum;
  for (bool swaps : {false, true}) {
    if (swaps && !commutes)
      break;
    std::vector<Binding> own = before;
    for (size_t at = 0; at < declared->operands.size(); ++at) {
      size_t other = swaps ? declared->operands.size() - 1 - at : at;
      own = unified(declared->operands[at], program->operands[other], own);
    }
    result.insert(result.end(), own.begin(), own.end());
  }
  return result;
}

/// A declaration's value, with types in place of its inputs.
std::string declaredText(const Expression &e) {
  static const std::map<Operation, const char *> kSigns = {
      {Operation::Add, " + "}, {Operation::Subtract, " - "}, {Operation::Multiply, " * "}};
  std::string own(name(e.type));
  if (e.operation == Operation::Load)
    return own;
  if (e.operation == Operation::Cast)
    return own + "(" + declaredText(*e.operands[0]) + ")";
  return "(" + declaredText(*e.operands[0]) + kSigns.at(e.operation) +
         declaredText(*e.operands[1]) + ")";
}

std::string listed(const std::vector<int64_t> &numbers) {
  std::string result;
  for (size_t at = 0; at < numbers.size(); ++at)
    result += (at == 0                    ? ""
               : at + 1 == numbers.size() ? " and "
                                          : ", ") +
              std::to_string(numbers[at]);
  return result;
}

/// One tile of loops and one declaration.
class Matcher {
public:
  Matcher(const LoopProgram &program, const Nest &nest, const Step &point,
          std::vector<TileLoop> loops, const TileIntrinsic &intrinsic)
      : program_(program), nest_(nest), point_(point), statement_(*nest.statement(point.statement)),
        loops_(std::move(loops)), intrinsic_(intrinsic) {}

  std::optional<TileFit> fit() {
    std::vector<int64_t> own, declared = intrinsic_.sizes;
    for (const TileLoop &each : loops_)
      own.push_back(each.count);
    std::vector<int64_t> sorted = own, wanted = declared;
    std::sort(sorted.begin(), sorted.end());
    std::sort(wanted.begin(), wanted.end());
    if (sorted != wanted) {
      refuse(0, "the loops have " + listed(own) + " iterations, and " + called() + " takes " +
                    listed(declared));
      return std::nullopt;
    }
    std::vector<Binding> bindings;
    if (statement_.reduction == intrinsic_.reduction &&
        statement_.value->type == intrinsic_.output.type)
      bindings =
          unified(intrinsic_.value, statement_.value, {Binding(intrinsic_.inputs.size(), nullptr)});
    if (bindings.empty())
      refuse(0, "'" + statement_.name + "' accumulates " + text(*statement_.value) + ", and " +
                    called() + " " + declaredText(*intrinsic_.value));
    std::vector<size_t> order(loops_.size());
    std::iota(order.begin(), order.end(), 0);
    do {
      if (!hasSizes(order))
        continue;
      for (const Binding &inputs : bindings)
        if (fits(order, inputs))
          return TileFit{order, inputs};
    } while (std::next_permutation(order.begin(), order.end()));
    return std::nullopt;
  }

  TileRefusal refusal() const { return refusal_; }

private:
  std::string called() const { return "'" + intrinsic_.name + "'"; }

  /// Of several refusals the one that came furthest counts.
  bool refuse(int stage, std::string words, std::optional<CacheRequest> packing = {}) {
    if (stage >= stage_) {
      stage_ = stage;
      refusal_ = {std::move(words), std::move(packing)};
    }
    return false;
  }

  bool hasSizes(const std::vector<size_t> &order) const {
    for (size_t dim = 0; dim < order.size(); ++dim)
      if (loops_[order[dim]].count != intrinsic_.sizes[dim])
        return false;
    return true;
  }

  std::optional<Place> place(const std::string &tensor, const std::vector<Expr> &indices,
                             size_t rank) const {
    Place result = placeOf(tensor, indices, rank, statement_, point_.arguments);
    return result.isAffine ? std::optional(result) : std::nullopt;
  }

  bool fits(const std::vector<size_t> &order, const Binding &inputs) {
    auto output = place(statement_.tensor, statement_.indices, statement_.indices.size());
    if (!output)
      return refuse(1, "'" + statement_.name + "' writes at an index that is not affine");
    if (!hasItsDimensions(order, *output, intrinsic_.output, true, 2) || !hasLanes(order, *output))
      return false;
    std::vector<Place> places;
    for (size_t number = 0; number < inputs.size(); ++number) {
      const Expression &load = *inputs[number];
      auto own = load.guard.empty() && !load.isConditional
                     ? place(load.tensor, load.operands, rankOf(load))
                     : std::nullopt;
      if (!own)
        return refuse(1, "'" + load.tensor + "' is read at an index that is not affine, or under " +
                             "a condition");
      if (!hasItsDimensions(order, *own, intrinsic_.inputs[number], false, 3))
        return false;
      places.push_back(*own);
    }
    for (size_t number = 0; number < inputs.size(); ++number)
      if (!isAsDeclared(order, places[number], intrinsic_.inputs[number]))
        return false;
    return true;
  }

  bool depends(const Place &place, const TileLoop &loop) const {
    return std::any_of(place.indices.begin(), place.indices.end(),
                       [&](const Affine &each) { return involves(program_, each, loop.variable); });
  }

  /// It depends on no other dimension, and, where all are needed, on each of its own.
  bool hasItsDimensions(const std::vector<size_t> &order, const Place &place,
                        const TileIntrinsic::Operand &operand, bool needsAll, int stage) {
    for (size_t dim = 0; dim < order.size(); ++dim) {
      bool isIts = std::count(operand.dims.begin(), operand.dims.end(), dim) > 0;
      const TileLoop &loop = loops_[order[dim]];
      bool isOwn = depends(place, loop);
      if (isOwn && !isIts)
        return refuse(stage, "'" + place.tensor + "' depends on loop '" + loop.name +
                                 "', and its operand of " + called() + " doesn't");
      if (needsAll && isIts && !isOwn)
        return refuse(stage, "'" + place.tensor + "' doesn't depend on loop '" + loop.name +
                                 "', and its operand of " + called() + " does");
    }
    return true;
  }

  bool hasLanes(const std::vector<size_t> &order, const Place &place) {
    const TileLoop &loop = loops_[order[intrinsic_.output.dims.back()]];
    Lanes lanes{loop.variable, loop.count, 0};
    const Tensor &tensor = *nest_.tensor(place.tensor);
    if (alongLanes(program_, tensor, place, lanes) != Along::Contiguous)
      return refuse(2, "elements of '" + place.tensor + "' along loop '" + loop.name +
                           "' must lie side by side, as results of " + called() +
                           " do; cache_write it in another order");
    for (size_t dim : intrinsic_.output.dims)
      for (const Affine &index : place.indices) {
        Affine rest = index;
        rest.terms.erase(loops_[order[dim]].variable);
        if (involves(program_, rest, loops_[order[dim]].variable))
          return refuse(2, "'" + place.tensor + "' is written at quotients of the tile's loops");
      }
    return true;
  }

  /// From inside out, the dimensions that it depends on lie as densely as the instruction takes
  /// them.
  bool isAsDeclared(const std::vector<size_t> &order, const Place &place,
                    const TileIntrinsic::Operand &operand) {
    const Tensor &tensor = *nest_.tensor(place.tensor);
    int64_t inside = 1;
    for (size_t at = operand.dims.size(); at-- > 0;) {
      const TileLoop &loop = loops_[order[operand.dims[at]]];
      if (!depends(place, loop))
        continue;
      auto stride = strideAlong(program_, tensor, place.indices, loop.variable, loop.count);
      bool mayBeApart = at == 0 && operand.hasPitch;
      if (!mayBeApart && stride != inside)
        return refuse(4, notAsDeclared(order, place, operand), packingOf(order, place, operand));
      inside *= loop.count;
    }
    return true;
  }

  std::string notAsDeclared(const std::vector<size_t> &order, const Place &place,
                            const TileIntrinsic::Operand &operand) const {
    std::string loops;
    for (size_t dim : operand.dims)
      if (depends(place, loops_[order[dim]]))
        loops += (loops.empty() ? "'" : ", '") + loops_[order[dim]].name + "'";
    return "'" + place.tensor + "' doesn't lie as " + called() + " takes it: its elements along " +
           loops + ", the last innermost, must be side by side" +
           (packingOf(order, place, operand) ? "; a copy with that layout helps (`packing`)" : "");
  }

  /// Blocks of the tile's size, which lie innermost in the instruction's order.
  std::optional<CacheRequest> packingOf(const std::vector<size_t> &order, const Place &place,
                                        const TileIntrinsic::Operand &operand) const {
    using Part = LayoutDimension::Part;
    const Tensor &tensor = *nest_.tensor(place.tensor);
    std::vector<int64_t> blocks(place.indices.size(), 0);
    std::vector<LayoutDimension> innermost;
    for (size_t dim : operand.dims) {
      const TileLoop &loop = loops_[order[dim]];
      for (size_t index = 0; index < place.indices.size() && depends(place, loop); ++index) {
        Affine rest = place.indices[index];
        if (!involves(program_, rest, loop.variable))
          continue;
        int64_t factor = rest.coefficient(loop.variable);
        rest.terms.erase(loop.variable);
        if (factor != 1 || blocks[index] || involves(program_, rest, loop.variable))
          return std::nullopt;
        blocks[index] = loop.count;
        innermost.push_back({index, Part::Remainder, loop.count});
      }
    }
    for (size_t index = 0; index < tensor.instances; ++index)
      if (blocks[index])
        return std::nullopt;
    for (const LayoutDimension &each : tensor.layout) // it has been laid out for another
      if (each.dim >= tensor.instances && each.part != Part::Whole)
        return std::nullopt;
    CacheRequest result;
    result.tensor = place.tensor;
    result.name = place.tensor + "_packed";
    for (size_t index = tensor.instances; index < blocks.size(); ++index)
      result.order.push_back(
          {index, blocks[index] ? Part::Quotient : Part::Whole, blocks[index] ? blocks[index] : 1});
    result.order.insert(result.order.end(), innermost.begin(), innermost.end());
    return result;
  }

  const LoopProgram &program_;
  const Nest &nest_;
  const Step &point_;
  const Statement &statement_;
  std::vector<TileLoop> loops_;
  const TileIntrinsic &intrinsic_;
  TileRefusal refusal_;
  int stage_ = -1;
};

} // namespace

std::optional<TileFit> fitTile(const LoopProgram &program, const Nest &nest, const Step &point,
                               const std::vector<TileLoop> &loops, const TileIntrinsic &intrinsic,
                               TileRefusal &refusal) {
  Matcher matcher(program, nest, point, loops, intrinsic);
  std::optional<TileFit> fit = matcher.fit();
  if (!fit)
    refusal = matcher.refusal();
  return fit;
}

} // namespace tensmith::nest
