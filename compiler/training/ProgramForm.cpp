// The program's tensor code, and then each operator whose training form is another; see
// ProgramForm.h.
#include "compiler/training/ProgramForm.h"

#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphCode.h"
#include "compiler/graph/Outputs.h"
#include "compiler/graph/States.h"
#include "compiler/program/Inlining.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace tensmith::training {
namespace {

using graph::GraphCode;

constexpr double kKept = 0.9; // of running statistics, in one step

class ProgramForm {
public:
  explicit ProgramForm(ModuleOp module)
      : module_(module), main_(module.lookupSymbol<func::FuncOp>("main")),
        builder_(module.getContext()), shapes_(module.getContext()),
        graph_(builder_, shapes_, main_.getLoc()), code_(graph_) {}

  Status run() {
    program::openProgram(module_);
    if (Status status = checkForms(); !status.ok())
      return status;
    makeConstants();
    dropInTraining();
    SmallVector<graph::BatchNormOp> norms(main_.getOps<graph::BatchNormOp>());
    for (graph::BatchNormOp norm : norms)
      if (Status status = normaliseByBatch(norm); !status.ok())
        return status;
    return {};
  }

private:
  /// What does another thing in training does so in main's own body alone.
  Status checkForms() {
    Operation *found = nullptr;
    module_.walk([&](Operation *op) {
      if (isa<graph::DropoutOp, graph::BatchNormOp>(op) && op->getParentOp() != main_)
        found = op;
    });
    if (!found)
      return {};
    auto named = dyn_cast<NameLoc>(found->getLoc());
    return unsupported((named ? named.getName().str() + ": " : std::string()) +
                       "stands in a recursion or a branch that the data decides, where dropout and "
                       "batch normalisation can't be trained");
  }

  void makeConstants() {
    builder_.setInsertionPointToStart(&main_.getBody().front());
    for (unsigned i = main_.getNumArguments(); i-- > 0;) {
      auto value = main_.getArgAttrOfType<ElementsAttr>(i, graph::kInitial);
      if (!value)
        continue;
      auto name = main_.getArgAttrOfType<StringAttr>(i, "graph.name");
      auto constant = builder_.create<graph::ConstantOp>(NameLoc::get(name),
                                                         main_.getArgument(i).getType(), value);
      constant->setAttr(graph::kInitialiser, name);
      main_.getArgument(i).replaceAllUsesWith(constant.getY());
      main_.eraseArgument(i);
    }
  }

  /// Each use draws for itself, wherever the function that it stands in was called from.
  void dropInTraining() {
    int64_t number = 0;
    for (auto op : main_.getOps<graph::DropoutOp>()) {
      builder_.setInsertionPoint(op);
      graph_.location = op.getLoc();
      op.getTrainingModeMutable().assign(graph_.scalar(builder_.getI1Type(), 1));
      op.setSeed(op.getSeed() + number++);
    }
  }

  /// Statistics that are computed, and not parameters, stay what they are.
  Status normaliseByBatch(graph::BatchNormOp norm) {
    auto nameOf = [](Value value) {
      auto constant = value.getDefiningOp<graph::ConstantOp>();
      return constant ? constant->getAttrOfType<StringAttr>(graph::kInitialiser) : StringAttr();
    };
    StringAttr meanName = nameOf(norm.getMean()), varianceName = nameOf(norm.getVariance());
    if (!meanName || !varianceName)
      return {};
    builder_.setInsertionPoint(norm);
    graph_.location = norm.getLoc();
    Value x = norm.getX();
    SmallVector<int64_t> axes{0};
    for (int64_t dim = 2; dim < GraphCode::rank(x); ++dim)
      axes.push_back(dim);
    Value wide = code_.widen(x);
    auto meanOfAll = [&](Value value) {
      return code_.op("graph.all_reduce_mean", {code_.mean(value, axes)});
    };
    auto ofChannels = [&](Value value) { return code_.reshape(value, {code_.dims(x)[1]}); };
    Value mean = meanOfAll(wide), centred = code_.sub(wide, mean);
    Value variance = ofChannels(meanOfAll(code_.mul(centred, centred)));
    mean = ofChannels(mean);
    if (Status status = moveRunning(norm.getMean(), mean, meanName); !status.ok())
      return status;
    if (Status status = moveRunning(norm.getVariance(), variance, varianceName); !status.ok())
      return status;
    norm.getMeanMutable().assign(code_.cast(mean, GraphCode::element(norm.getMean())));
    norm.getVarianceMutable().assign(code_.cast(variance, GraphCode::element(norm.getVariance())));
    return {};
  }

  Status moveRunning(Value running, Value now, StringAttr name) {
    if (!moved_.insert(name).second)
      return invalidArgument("'" + name.str() +
                             "' is the running statistic of several batch normalisations; give "
                             "each its own weights");
    Value next = code_.add(code_.mul(running, kKept),
                           code_.mul(code_.cast(now, GraphCode::element(running)), 1 - kKept));
    graph::addOutputs(main_, {{name.str() + ".next", next}});
    main_.setResultAttr(main_.getNumResults() - 1, graph::kNextOf, name);
    return {};
  }

  ModuleOp module_;
  func::FuncOp main_;
  OpBuilder builder_;
  graph::ShapeContext shapes_;
  graph::GraphBuilder graph_;
  GraphCode code_;
  llvm::DenseSet<mlir::Attribute> moved_;
};

} // namespace

Status makeTrainable(ModuleOp module) { return ProgramForm(module).run(); }

} // namespace tensmith::training
