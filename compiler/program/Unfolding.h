// One version of a procedure: its code, run on what is known, and what is left of it. See
// PartialEvaluation.h for when a call is unfolded.
#pragma once

#include "compiler/program/PartialEvaluation.h"
#include "compiler/program/Residual.h"
#include "compiler/program/Versions.h"

namespace tensmith::program {

class Unfolding {
public:
  Unfolding(Sources &sources, Versions &versions, const PartialEvaluationBounds &bounds)
      : sources_(sources), versions_(versions), bounds_(bounds),
        shapes_(sources.all().front()->getContext()), residual_(shapes_.mlirContext()) {
    mostSteps_ = bounds.steps + bounds.stepsEach * sources.size();
    mostSize_ = bounds.size + bounds.sizeEach * sources.size();
  }

  /// Names of sizes that are taken.
  void noteNames(mlir::Type type);
  /// Writes the version's body, up to the return. Its type is left to the caller.
  void build(Version &version);
  const PartialEvaluationReport &report() const { return report_; }

private:
  /// A procedure's body that is being run.
  struct Frame {
    mlir::func::FuncOp source;
    llvm::SmallVector<mlir::Value> arguments;
    Frame *caller = nullptr;
    int branches = 0; // chosen by the run, around it
    int64_t steps = 0;
    size_t tags = 0;
    Residual::Mark mark = {};
    llvm::DenseMap<mlir::Value, mlir::Value> values;
    llvm::DenseMap<mlir::StringAttr, mlir::AffineExpr> sizes; // of local names
  };

  // All give null, and `unwinding_` says how far, where a call is taken back.
  mlir::Value run(mlir::Block &block, Frame &frame);
  bool step(mlir::Operation &op, Frame &frame);
  bool stepTensors(mlir::Operation &op, Frame &frame);
  bool stepField(mlir::Operation &op, Frame &frame);
  bool stepReference(mlir::Operation &op, Frame &frame);
  bool stepBranches(mlir::Operation &op, Frame &frame);
  bool stepCall(mlir::Operation &op, Frame &frame);
  bool leaveApply(mlir::Operation &op, Frame &frame);
  std::optional<unsigned> chosenRegion(mlir::Operation &op, mlir::Value value);
  bool leaveBranches(mlir::Operation &op, Frame &frame);
  bool fold(mlir::Operation &op, mlir::Operation &made, Frame &frame);

  enum class Choice : uint8_t { Unfold, Leave, Unwind };
  Choice choose(mlir::func::FuncOp callee, mlir::ValueRange arguments, Frame &frame,
                llvm::StringRef key);
  Choice chooseAgain(mlir::ValueRange arguments, Frame &inner, Frame &outer);
  mlir::Value unfold(mlir::Operation &site, mlir::func::FuncOp callee, mlir::ValueRange arguments,
                     Frame &frame, llvm::StringRef key);
  mlir::Value leaveCall(mlir::Operation &site, mlir::func::FuncOp callee,
                        mlir::ValueRange arguments, Frame &frame, std::vector<Knowledge> known);
  bool generalise(mlir::func::FuncOp callee, std::vector<Knowledge> &known);
  void forward(Version &version);

  mlir::Type typeIn(Frame &frame, mlir::Type type);
  bool accept(Frame &frame, mlir::Type expected, mlir::Type given);
  /// The value stands for the original; false where their types contradict one another.
  bool adopt(Frame &frame, mlir::Value original, mlir::Value value);
  mlir::AffineExpr sizeIn(Frame &frame, mlir::RankedTensorType type, unsigned dim, bool make);
  /// The operator on what its operands stand for, in no block yet.
  mlir::Operation *copied(mlir::Operation &op, Frame &frame);
  mlir::Operation *write(mlir::Operation &op, mlir::Operation *copy, Frame &frame);
  bool isSpent();

  Sources &sources_;
  Versions &versions_;
  const PartialEvaluationBounds bounds_;
  graph::ShapeContext shapes_;
  Residual residual_;
  PartialEvaluationReport report_;
  int64_t mostSteps_ = 0, mostSize_ = 0;
  int depth_ = 0, branches_ = 0;
  Version *version_ = nullptr;
  Frame *root_ = nullptr, *unwinding_ = nullptr;
  std::vector<Knowledge> common_; // that the version is generalised to
  llvm::StringSet<> refused_;     // calls that have been taken back
  llvm::StringMap<int> bounded_;  // functions whose recursion went beyond the bounds
  llvm::SmallVector<std::pair<mlir::Value, uint64_t>> tags_; // in the branches around
};

} // namespace tensmith::program
