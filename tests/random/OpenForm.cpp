// Known sizes to symbols; see OpenForm.h.
#include "tests/random/OpenForm.h"

#include "tests/random/BrokenSizes.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;

namespace tensmith::random_graphs {
namespace {

using Dims = SmallVector<AffineExpr>;

class Opening {
public:
  Opening(func::FuncOp function, uint64_t seed)
      : function_(function), random_(seed), shapes_(function.getContext()),
        keepsNumbers_(random_.real()), shares_(random_.real()) {}

  bool run() {
    const Sizes drawn = runsOf(function_).front();
    for (const auto &size : drawn)
      sizes_.emplace(size.getKey().str(), size.getValue());
    size_t before = sizes_.size();
    for (BlockArgument argument : function_.getArguments())
      open(argument);
    if (sizes_.size() == before)
      return false;
    Block &block = function_.getBody().front();
    for (Operation &op : block.without_terminator())
      if (!retype(&op))
        return false;
    if (random_.chance(0.25))
      returnAll(block);
    function_.setFunctionType(FunctionType::get(function_.getContext(), block.getArgumentTypes(),
                                                block.getTerminator()->getOperandTypes()));
    return true;
  }

  void addRuns(int64_t count, StringRef breaking) {
    Builder builder(function_.getContext());
    Sizes drawn;
    for (auto &[name, size] : sizes_)
      drawn[name] = size;
    BrokenSizes broken(function_, shapes_, drawn);
    SmallVector<size_t> wanted;
    for (size_t number = 0; number < broken.count(); ++number)
      if (broken.message(number).contains(breaking))
        wanted.push_back(number);
    size_t next = wanted.empty() ? 0 : size_t(random_.next() % wanted.size());
    SmallVector<Attribute> runs;
    for (int64_t run = 0; run < count; ++run) {
      std::optional<Sizes> sizes;
      StringRef breaks;
      if (run % 2 == 1 && !wanted.empty()) { // each requirement in its turn
        breaks = broken.message(wanted[next]);
        sizes = broken.find(wanted[next], random_, [&](int64_t size) { return otherSize(size); });
        next = (next + 1) % wanted.size();
      }
      runs.push_back(sizes ? runAttribute(builder, *sizes, breaks)
                           : runAttribute(builder, changed(run), {}));
    }
    function_->setAttr(kSizesAttribute, builder.getArrayAttr(runs));
  }

private:
  /// A few sizes change together where graphs still fit, and each by itself where they may not.
  Sizes changed(int64_t run) {
    double chance = run == 0 ? 0 : run % 4 == 0 ? 1 : 0.3;
    Sizes sizes;
    for (auto &[name, size] : sizes_)
      sizes[name] = random_.chance(chance) ? otherSize(size) : size;
    return sizes;
  }

  static Attribute runAttribute(Builder &builder, const Sizes &sizes, StringRef breaks) {
    SmallVector<NamedAttribute> run;
    for (const auto &size : sizes)
      run.push_back(
          builder.getNamedAttr(size.getKey(), builder.getI64IntegerAttr(size.getValue())));
    if (!breaks.empty())
      run.push_back(builder.getNamedAttr(kBreaksAttribute, builder.getStringAttr(breaks)));
    return builder.getDictionaryAttr(run);
  }

  /// So that each value has memory of its own, behind which nothing may be read.
  void returnAll(Block &block) {
    SmallVector<Value> values;
    for (Operation &op : block.without_terminator())
      for (Value result : op.getResults())
        if (isa<RankedTensorType>(result.getType()) && !isa<graph::ConstantOp>(op))
          values.push_back(result);
    block.getTerminator()->setOperands(values);
  }

  int64_t otherSize(int64_t size) {
    return random_.chance(0.6)   ? random_.integer(0, 9)
           : random_.chance(0.5) ? std::max<int64_t>(size + random_.integer(-1, 1), 0)
                                 : std::min<int64_t>(random_.of({1, 2, 16, 17, 33, 64}), longest());
  }

  /// A recurrence of 64 steps multiplies roundings a hundred thousand times, each run by another
  /// factor: what it gives says nothing.
  int64_t longest() {
    for (Operation &op : function_.getBody().front())
      if (isa<graph::RnnOp, graph::GruOp, graph::LstmOp>(op))
        return 17;
    return 64;
  }

  AffineExpr symbol(const std::string &name, int64_t size) {
    sizes_.emplace(name, size);
    return shapes_.symbol(StringAttr::get(function_.getContext(), name));
  }

  void open(BlockArgument argument) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type || !type.hasStaticShape())
      return;
    Dims dims;
    // Kernels that the compiler cuts out itself are of known channels.
    bool keepsLast =
        llvm::any_of(argument.getUsers(), [](Operation *op) { return isForKernel(*op); });
    for (auto [dim, size] : llvm::enumerate(type.getShape())) {
      if (keepsLast && dim + 1 == size_t(type.getRank())) {
        dims.push_back(shapes_.constant(size));
        continue;
      }
      std::string shared = "s" + std::to_string(size);
      std::string own = "a" + std::to_string(argument.getArgNumber()) + "_" + std::to_string(dim);
      dims.push_back(random_.chance(0.35) ? shapes_.constant(size)
                                          : symbol(random_.chance(shares_) ? shared : own, size));
    }
    values_[argument] = SmallVector<int64_t>(type.getShape());
    argument.setType(shapes_.tensorType(type.getElementType(), dims));
  }

  /// Of a type that is given: a dimension as large as one of the operand's may be that one.
  Dims declared(Operation *op, ArrayRef<int64_t> shape) {
    Dims dims;
    for (int64_t size : shape) {
      AffineExpr dim = shapes_.constant(size);
      for (Value operand : op->getOperands())
        if (auto type = dyn_cast<RankedTensorType>(operand.getType()))
          for (auto [own, number] : llvm::zip(shapes_.dims(type), values_.lookup(operand)))
            if (number == size && !random_.chance(keepsNumbers_))
              dim = own;
      dims.push_back(dim);
    }
    return dims;
  }

  bool retype(Operation *op) {
    for (Value result : op->getResults()) {
      auto type = dyn_cast<RankedTensorType>(result.getType());
      // What only the run tells may be returned: an operator behind would name its sizes.
      bool isKnown = type && (type.hasStaticShape() ||
                              llvm::all_of(result.getUsers(), llvm::IsaPred<func::ReturnOp>));
      if (!isa<NoneType>(result.getType()) && !isKnown)
        return false;
      if (type)
        values_[result] = SmallVector<int64_t>(type.getShape());
    }
    auto shape = dyn_cast<graph::ShapeFunction>(op);
    if (!shape || isa<graph::ConstantOp, graph::NoneOp>(op))
      return true;
    if (isa<graph::ReshapeOp, graph::BroadcastOp, graph::SliceOp>(op)) {
      auto type = cast<RankedTensorType>(op->getResult(0).getType());
      op->getResult(0).setType(
          shapes_.tensorType(type.getElementType(), declared(op, type.getShape())));
    }
    SmallVector<Type> types;
    if (failed(shape.inferResults(shapes_, types)) || types.size() != op->getNumResults())
      return false;
    for (auto [result, type] : llvm::zip_equal(op->getResults(), types)) {
      auto was = dyn_cast<RankedTensorType>(result.getType()),
           now = dyn_cast<RankedTensorType>(type);
      if (was && (!now || now.getRank() != was.getRank()))
        return false;
      result.setType(type);
    }
    return true;
  }

  func::FuncOp function_;
  Random random_;
  graph::ShapeContext shapes_;
  double keepsNumbers_, shares_;
  std::map<std::string, int64_t> sizes_;
  llvm::DenseMap<Value, SmallVector<int64_t>> values_; // shapes as they were drawn
};

} // namespace

OwningOpRef<ModuleOp> openSizes(ModuleOp drawn, uint64_t seed, int64_t runs, StringRef breaking) {
  OwningOpRef<ModuleOp> module(cast<ModuleOp>(drawn->clone()));
  ScopedDiagnosticHandler quiet(module->getContext(), [](Diagnostic &) { return success(); });
  Opening opening(module->lookupSymbol<func::FuncOp>("main"), seed);
  if (!opening.run())
    return {};
  opening.addRuns(runs, breaking);
  return module;
}

} // namespace tensmith::random_graphs
