// The walk: from loops over points to scf, vectors and pointers, as compiler/kernel emits them.
//
// A vector loop is one step: each expression is a scalar where it is the same for all lanes, else a
// vector. Elements side by side are loaded and stored as such, under a mask where the loop is cut
// off; others lane by lane. What a loop keeps in registers (Promotion.h) is carried by all loops
// and branches within.
#pragma once

#include "compiler/kernel/ElementEmitter.h"
#include "compiler/nest/Promotion.h"

namespace tensmith::nest {

class NestCode {
public:
  /// What a parallel loop becomes: called with the step, emits it.
  using Launch = std::function<void(const Step &)>;

  NestCode(kernel::ElementEmitter &emitter, const Nest &nest, LoopProgram &program, Launch launch);

  std::map<std::string, mlir::Value> pointers;  // of tensors
  std::map<std::string, mlir::Value> variables; // parameters and loops, as index
  int64_t nearBytes = 0; // of memory near the core; rows of larger tables are asked for in advance

  void emit(const Step &step);
  mlir::Value value(const Affine &affine);
  mlir::Value lowerBound(const Step &loop); // the first value
  mlir::Value upperBound(const Step &loop); // that behind the last
  /// Elements of a tensor.
  mlir::Value size(const Tensor &tensor);
  /// Iterations of the body, each counted as the points in it, as far as bounds outside of it tell.
  mlir::Value work(const Step &step);
  /// What had no code, in words.
  std::string problem;

private:
  struct Register {
    Accumulator place;
    mlir::Value value;
    bool isHeld = false;
  };
  struct Point {
    const Statement &statement;
    const std::vector<Affine> &arguments;
    std::map<const Expression *, mlir::Value> values = {};
  };

  void emitLoop(const Step &loop);
  void emitCarried(const Step &loop, mlir::Value lower, mlir::Value upper);
  void emitVector(const Step &loop);
  void emitPoint(const Step &step);
  void emitTile(const Step &tile);
  /// All elements of an instruction's operand, in its order; bits of floats of 16.
  mlir::Value tileOperand(const Step &tile, size_t input);
  /// Elements side by side in memory, from where the variables say on.
  mlir::Value loadBits(const Expression &load, const Step &tile, int64_t count);
  /// Runs the code where the condition holds; registers come out of both.
  void emitBranch(mlir::Value condition, llvm::function_ref<void()> then,
                  llvm::function_ref<void()> otherwise);
  llvm::SmallVector<mlir::Value> registerValues() const;
  void setRegisters(mlir::ValueRange values);
  void loadRegister(Register &into);
  void storeRegister(const Register &from);
  mlir::Value loadedRegister(const Accumulator &place);
  void storePlace(const Register &from);
  /// What is read where that holds (null: always), and zeros elsewhere; `lanes` 0: no vector.
  mlir::Value readWhere(mlir::Value holds, DataType of, int64_t lanes,
                        llvm::function_ref<mlir::Value()> read);
  /// Whether the element is there; null: for certain.
  mlir::Value isThere(const Accumulator &place);
  Register *find(const Place &place, Along along, Reduction reduction);

  mlir::Value definition(const std::string &name);
  mlir::Value condition(const Condition &condition);
  mlir::Value extremum(const std::vector<Affine> &all, bool isMinimum);
  mlir::Value maskOf(const Lanes &lanes);
  /// Runs the code with the vector's variable at that lane, or at the last that is done.
  template <typename Run> auto atLane(int64_t lane, Run run);

  mlir::Value evaluate(const Expr &e, Point &point);
  mlir::Value compute(const Expression &e, Point &point);
  mlir::Value constantOf(const Expression &e);
  mlir::Value indexVector(const Affine &affine);
  mlir::Value loadOf(const Expression &e, Point &point);
  mlir::Value guardedLoad(const Expression &e, Point &point);
  mlir::Value guardMask(const std::vector<Constraint> &guard, Point &point);
  mlir::Value loadPlace(const Tensor &tensor, const Place &place, Along along, mlir::Value mask);
  mlir::Value checkedValue(const Expression &e, Point &point);
  void prefetchRun(const Expression &load, size_t rank, const Affine &along, const Point &point);
  mlir::Value loadGathered(const Expression &e, size_t rank, Point &point, mlir::Value mask);
  mlir::Value operation(const Expression &e, mlir::ValueRange operands);
  void storeValue(Point &point, mlir::Value value);
  void storeScattered(Point &point, mlir::Value value);
  mlir::Value combine(const Statement &statement, mlir::Value old, mlir::Value value);
  mlir::Value combineWithValue(const Statement &statement, mlir::Value old, Point &point);
  mlir::Value reduceLanes(Reduction reduction, DataType type, mlir::Value vector);
  mlir::Value identity(Reduction reduction, DataType type, int64_t lanes);
  mlir::Value extentOf(const Tensor &tensor, const LayoutDimension &entry);
  mlir::Value offset(const Tensor &tensor, const std::vector<Affine> &indices);
  mlir::Value offsetOf(const Tensor &tensor, mlir::ValueRange indices);
  /// Of each lane, where it is a vector.
  mlir::Value lane(mlir::Value value, int64_t lane);
  /// Of a gather's index: whether it is inside, which is reported where `counts` holds (null:
  /// everywhere).
  mlir::Value inRange(const Expression *load, const Tensor &tensor, size_t dim, mlir::Value index,
                      mlir::Value counts);
  /// One element of the load, from indices of its own.
  mlir::Value loadChecked(const Expression &e, llvm::MutableArrayRef<mlir::Value> indices,
                          mlir::Value counts);
  /// Whether all indices were inside, null: for certain; and whether there may be no element.
  struct Inside {
    mlir::Value holds; // null: nothing has to
    bool mayBeEmpty = false;
    /// What must hold for a read inside to be one of memory.
    mlir::Value required() const { return mayBeEmpty ? holds : mlir::Value(); }
  };
  Inside putInside(const Expression &e, llvm::MutableArrayRef<mlir::Value> indices,
                   mlir::Value counts);
  std::optional<mlir::Value> loadRun(const Expression &e, size_t rank, Point &point,
                                     mlir::Value mask);
  mlir::Type element(DataType type);
  int64_t lanes() const { return lanes_ ? lanes_->count : 1; }

  kernel::ElementEmitter &emitter_;
  kernel::IndexMath &math_;
  const Nest &nest_;
  LoopProgram &program_;
  Launch launch_;
  const Lanes *lanes_ = nullptr; // of the vector loop around
  mlir::Value mask_;             // null: all lanes
  /// Serial, with nothing around the points in it but vectors and what is unrolled.
  const Step *innermost_ = nullptr;
  std::vector<Register> registers_;
};

} // namespace tensmith::nest
