// Evaluation of straight-line graphs by the reference, node by node, as it is and with noise.
//
// How far a correct compiler may be from the reference depends on the graph: each float operator
// may round differently, sums may be added in another order, and what follows amplifies that, or
// doesn't. Instead of a bound for each operator the graph is evaluated several times more, with
// each float result moved by as much as its operator may be off (and the operands of sums by what
// their depth costs); how far the results then move is the tolerance. This is Monte Carlo
// arithmetic (D. S. Parker, "Monte Carlo Arithmetic", UCLA CSD-970002, 1997).
#pragma once

#include "compiler/graph/Graph.h"
#include "tests/random/Values.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

namespace tensmith::random_graphs {

/// The sizes that symbols stand for in one run.
using Sizes = llvm::StringMap<int64_t>;

/// The shape, where all its symbols are known.
std::optional<Shape> shapeOf(mlir::Type type, const Sizes &sizes);
/// Takes the symbols that the type names from a tensor of it.
void bindSizes(mlir::Type type, const HostTensor &tensor, Sizes &sizes);

/// One operator. The results are as the reference gives them; that they are of the declared types
/// is for the caller to check.
Result<std::vector<HostTensor>> evaluateNode(mlir::Operation *op,
                                             std::span<const HostTensor> operands, Sizes &sizes);

/// Whether no runtime has the operator's reference: the compiler makes it for kernels alone.
bool isForKernel(mlir::Operation &op);

/// Whether the results are the same bits however the operator is compiled, given whether those of
/// its operands are: elements moved or chosen, integers, sums and products of small whole numbers.
bool areExact(mlir::Operation *op, llvm::ArrayRef<bool> operandsExact,
              std::span<const HostTensor> operands, std::span<const HostTensor> results);
/// Whether a small change of a float operand makes a small change of the results. An operator that
/// is not known to be so is only applied to exact operands.
bool isContinuous(mlir::OperationName name);

struct Evaluated {
  llvm::DenseMap<mlir::Value, HostTensor> values;
  llvm::DenseSet<mlir::Value> exact; // see areExact
};
/// All values of the function, in its order; with noise from the seed where there is one.
Result<Evaluated> evaluateGraph(mlir::func::FuncOp function, std::span<const HostTensor> inputs,
                                Sizes sizes, std::optional<uint64_t> noiseSeed,
                                mlir::Operation **refused = nullptr);

/// The inputs that the function's argument attributes describe, at the sizes of one run.
Result<std::vector<HostTensor>> drawInputs(mlir::func::FuncOp function, const Sizes &sizes);
/// The runs that the function's attribute lists; one without sizes where it has none.
std::vector<Sizes> runsOf(mlir::func::FuncOp function);
/// The requirement that each of these runs was made to break; empty where it is none.
std::vector<std::string> brokenInRuns(mlir::func::FuncOp function);

inline constexpr llvm::StringLiteral kSeedAttribute = "random.seed", kKindAttribute = "random.kind",
                                     kSizesAttribute = "random.sizes",
                                     kBreaksAttribute = "random.breaks"; // in a run's sizes

/// Distance from 1 to the next number of a float type.
double epsilonOf(DataType type);

} // namespace tensmith::random_graphs
