// Following sequences to what they are made of; see Sequences.h.
#include "compiler/autodiff/Sequences.h"

#include "compiler/autodiff/Operators.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;

namespace tensmith::autodiff {
namespace {

using Elements = SmallVector<Value>;

constexpr int64_t kMostElements = 256; // each is an operator of its own

class Resolution {
public:
  explicit Resolution(const graph::GradientCode &code) : code_(code) {}

  void run(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (isResolved_)
        refineTypes(&op);
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          run(inner);
      if (op.getNumResults() != 1 || op.use_empty())
        continue;
      OpBuilder::InsertionGuard guard(code_.builder);
      code_.builder.setInsertionPoint(&op);
      code_.graph.location = op.getLoc();
      if (Value value = resolved(&op)) {
        op.getResult(0).replaceAllUsesWith(value);
        isResolved_ = true;
      }
    }
  }

private:
  /// What the operator gives, of elements; null where it stays.
  Value resolved(Operation *op) {
    if (auto at = dyn_cast<graph::SequenceAtOp>(op))
      return elementOf(at);
    if (auto length = dyn_cast<graph::SequenceLengthOp>(op)) {
      auto elements = elementsOf(length.getSequence());
      return elements ? code_.graph.scalar(code_.builder.getI64Type(), double(elements->size()))
                      : Value();
    }
    if (auto joining = dyn_cast<graph::ConcatFromSequenceOp>(op))
      return joined(joining);
    if (auto get = dyn_cast<graph::OptionalGetElementOp>(op)) {
      auto made = get.getValue().getDefiningOp<graph::OptionalOp>();
      bool isOptional = isa<graph::OptionalType>(get.getValue().getType());
      return made ? made.getValue() : isOptional ? Value() : get.getValue();
    }
    return {};
  }

  Value elementOf(graph::SequenceAtOp at) {
    auto elements = elementsOf(at.getSequence());
    if (elements && code_.graph.shapes.constants(at.getPosition())) {
      auto index = position(at.getPosition(), int64_t(elements->size()), 0);
      return index ? (*elements)[size_t(*index)] : Value();
    }
    Value row = rowOf(at);
    return row || !elements ? row : choiceOf(at, *elements);
  }

  /// One of elements that are all of one shape, whichever it is.
  Value choiceOf(graph::SequenceAtOp at, ArrayRef<Value> elements) {
    auto type = elements.empty() ? RankedTensorType()
                                 : dyn_cast<RankedTensorType>(elements.front().getType());
    bool areAlike = type && hasExpressions(type) && llvm::all_of(elements, [&](Value element) {
                      return element.getType() == type;
                    });
    if (!areAlike || !graph::GraphCode::isRanked(at.getPosition()))
      return {};
    Value &stack = stacks_[at.getSequence()];
    if (!stack) {
      OpBuilder::InsertionGuard guard(code_.builder);
      code_.builder.setInsertionPointAfterValue(at.getSequence());
      Elements rows;
      auto dims = code_.dims(elements.front());
      dims.insert(dims.begin(), code_.size(1));
      for (Value element : elements)
        rows.push_back(code_.reshape(element, dims));
      stack = code_.concat(rows, 0);
    }
    return code_.op("graph.gather", {stack, code_.reshape(at.getPosition(), {})},
                    {code_.integer("axis", 0)});
  }

  /// Of what is split into parts of one, whose number isn't known.
  Value rowOf(graph::SequenceAtOp at) {
    auto split = at.getSequence().getDefiningOp<graph::SplitToSequenceOp>();
    Value position = at.getPosition();
    if (!split || !graph::GraphCode::isAbsent(split.getSplit()) ||
        !graph::GraphCode::isRanked(split.getX()) || !graph::GraphCode::isRanked(position))
      return {};
    Value x = split.getX();
    auto axis = axisOf(split, graph::GraphCode::rank(x));
    if (!axis)
      return {};
    Value row =
        code_.op("graph.gather", {x, code_.reshape(position, {})}, {code_.integer("axis", *axis)});
    if (!split.getKeepdims() || !row)
      return row;
    auto dims = code_.dims(row);
    dims.insert(dims.begin() + *axis, code_.size(1));
    return code_.reshape(row, dims);
  }

  static std::optional<int64_t> axisOf(Operation *op, int64_t rank) {
    int64_t axis = graph::axisOf(op, rank);
    return axis >= 0 && axis < rank ? std::optional(axis) : std::nullopt;
  }

  /// Counted from the first; `more` are allowed behind the last, where it is inserted.
  std::optional<int64_t> position(Value given, int64_t length, int64_t more) {
    if (graph::GraphCode::isAbsent(given))
      return length - 1 + more;
    auto known = code_.graph.shapes.constants(given);
    if (!known || known->size() != 1)
      return std::nullopt;
    int64_t index = known->front() < 0 ? known->front() + length : known->front();
    return index >= 0 && index < length + more ? std::optional(index) : std::nullopt;
  }

  std::optional<Elements> elementsOf(Value sequence) {
    Operation *op = sequence.getDefiningOp();
    if (auto built = dyn_cast_or_null<graph::SequenceConstructOp>(op))
      return Elements(built.getInputs());
    if (auto split = dyn_cast_or_null<graph::SplitToSequenceOp>(op))
      return partsOf(split);
    auto insert = dyn_cast_or_null<graph::SequenceInsertOp>(op);
    auto erase = dyn_cast_or_null<graph::SequenceEraseOp>(op);
    auto elements = insert || erase ? elementsOf(op->getOperand(0)) : std::nullopt;
    if (!elements || int64_t(elements->size()) > kMostElements)
      return std::nullopt;
    Value given = insert ? insert.getPosition() : erase.getPosition();
    auto index = position(given, int64_t(elements->size()), insert ? 1 : 0);
    if (!index || *index < 0)
      return std::nullopt;
    if (insert)
      elements->insert(elements->begin() + *index, insert.getElement());
    else
      elements->erase(elements->begin() + *index);
    return elements;
  }

  /// The lengths of the parts, where they are known and are those of the whole.
  std::optional<SmallVector<int64_t>> lengthsOf(graph::SplitToSequenceOp split, int64_t whole) {
    SmallVector<int64_t> lengths;
    int64_t piece = 1;
    if (!graph::GraphCode::isAbsent(split.getSplit())) {
      auto known = code_.graph.shapes.constants(split.getSplit());
      if (!known || !graph::GraphCode::isRanked(split.getSplit()))
        return std::nullopt;
      if (graph::GraphCode::rank(split.getSplit()) == 1) {
        int64_t sum = 0;
        for (int64_t length : *known) {
          if (length < 0 || length > whole)
            return std::nullopt;
          sum += length;
        }
        return sum == whole ? std::optional(SmallVector<int64_t>(*known)) : std::nullopt;
      }
      piece = known->size() == 1 ? known->front() : 0;
    }
    if (piece <= 0 || whole / piece > kMostElements)
      return std::nullopt;
    for (int64_t start = 0; start < whole; start += piece)
      lengths.push_back(std::min(piece, whole - start));
    return lengths;
  }

  std::optional<Elements> partsOf(graph::SplitToSequenceOp split) {
    if (auto it = parts_.find(split); it != parts_.end())
      return it->second;
    Value x = split.getX();
    if (!graph::GraphCode::isRanked(x))
      return std::nullopt;
    auto axis = axisOf(split, graph::GraphCode::rank(x));
    auto type = cast<RankedTensorType>(x.getType());
    if (!axis || type.isDynamicDim(unsigned(*axis)))
      return std::nullopt;
    auto lengths = lengthsOf(split, type.getDimSize(unsigned(*axis)));
    if (!lengths || int64_t(lengths->size()) > kMostElements)
      return std::nullopt;
    bool isFlat = graph::GraphCode::isAbsent(split.getSplit()) && !split.getKeepdims();
    OpBuilder::InsertionGuard guard(code_.builder);
    code_.builder.setInsertionPointAfter(split);
    auto dims = code_.dims(x);
    dims.erase(dims.begin() + *axis);
    Elements parts;
    int64_t start = 0;
    for (int64_t length : *lengths) {
      Value part = code_.sliceDim(x, *axis, start, 1, code_.size(length));
      parts.push_back(isFlat ? code_.reshape(part, dims) : part);
      start += length;
    }
    if (llvm::is_contained(parts, Value()))
      return std::nullopt;
    parts_[split] = parts;
    return parts;
  }

  Value joined(graph::ConcatFromSequenceOp op) {
    auto elements = elementsOf(op.getSequence());
    if (!elements || elements->empty() ||
        !llvm::all_of(*elements, [](Value x) { return graph::GraphCode::isRanked(x); }))
      return {};
    int64_t rank = graph::GraphCode::rank(elements->front());
    auto axis = axisOf(op, rank + (op.getNewAxis() ? 1 : 0));
    bool areAlike =
        llvm::all_of(*elements, [&](Value x) { return graph::GraphCode::rank(x) == rank; });
    if (!axis || !areAlike)
      return {};
    if (op.getNewAxis())
      for (Value &element : *elements) {
        auto dims = code_.dims(element);
        dims.insert(dims.begin() + *axis, code_.size(1));
        element = code_.reshape(element, dims);
      }
    return code_.concat(*elements, *axis);
  }

  /// A result whose rank wasn't known has one now.
  void refineTypes(Operation *op) {
    auto shaped = dyn_cast<graph::ShapeFunction>(op);
    auto isUnranked = [](Type type) { return isa<UnrankedTensorType>(type); };
    if (!shaped || op->getNumRegions() || llvm::none_of(op->getResultTypes(), isUnranked))
      return;
    SmallVector<Type> types;
    if (failed(shaped.inferResults(code_.graph.shapes, types)))
      return;
    for (auto [result, type] : llvm::zip(op->getResults(), types))
      if (isUnranked(result.getType()))
        result.setType(type);
  }

  const graph::GradientCode &code_;
  llvm::DenseMap<Operation *, Elements> parts_; // of splits, so that each is cut once
  llvm::DenseMap<Value, Value> stacks_; // of sequences of which one element or another is taken
  bool isResolved_ = false;
};

} // namespace

void resolveSequences(const graph::GradientCode &code, Block &block) {
  ScopedDiagnosticHandler quiet(code.builder.getContext(), [](Diagnostic &) { return success(); });
  Resolution(code).run(block);
}

} // namespace tensmith::autodiff
