// From a graph cut into kernels to the plan that the virtual machine executes (runtime/plan.fbs).
//
// Every operator becomes one instruction: a kernel, a view (reshape), control flow, or a routine,
// which the runtime evaluates by its reference. Regions of control flow become functions, with what
// they capture as parameters and the sizes that they use given as symbols. Memory is planned by
// MemoryPlan.h.
#pragma once

#include "base/HostTensor.h"
#include "compiler/graph/Graph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <functional>

namespace tensmith::vm {

/// What a kernel's region was compiled to.
struct KernelBinding {
  std::string symbol;             // in the module's image, or of a library: "onednn:name"
  std::vector<std::string> sizes; // the symbols whose values it takes, in order
  /// What it takes instead, over `numberSymbols`: of a library's function, or of code that serves
  /// kernels of many known sizes.
  llvm::SmallVector<mlir::AffineExpr> numbers;
  llvm::SmallVector<mlir::StringAttr> numberSymbols;
  std::vector<std::string> messages; // of its `fail` codes
  std::string label;
  std::string schedule;
  /// Of one call, over `workSymbols`; null where unknown.
  mlir::AffineExpr flops, bytes;
  llvm::SmallVector<mlir::StringAttr> workSymbols;
  bool multiplies = false; // most of its time goes into products
};

struct PlanInput {
  mlir::func::FuncOp function;
  std::function<const KernelBinding &(graph::KernelOp)> kernel;
  std::string model; // named in locations
  std::string triple, cpu;
  std::string schedules;   // of the kernels, as JSON
  std::string calibration; // what results were found to err by, as JSON; empty: not looked at
  std::string casts;  // the rules by which values were rounded (graph/Precision.h); empty: none
  std::string limits; // of the machine, that the choices were made by; empty: none were measured
  std::vector<std::string> features;
  std::vector<std::string> unemitted; // kernels that there was no code for, each with the reason
  std::vector<std::string> devices;   // that run the kernels, by name; none: the host does
  bool resident = false;              // main's tensors lie in the first device's memory
  /// What a kernel of so much work is estimated to take, in cycles of one core; null: all kernels
  /// take as long.
  std::function<double(double operations, double bytes, bool multiplies)> cycles;
  /// With several devices, which of so many runs a kernel, from 1 on, by its number in the order in
  /// which they run first; null: each gets a stretch of them with as much work.
  std::function<uint32_t(uint32_t kernel, uint32_t devices)> deviceOf;
  std::string madeOf;        // the caller's words
  std::string recomputation; // what was chosen for the memory's sake, in words
};

struct PlanConstant {
  int64_t offset; // in the weights, a multiple of 64
  HostTensor tensor;
};

struct Plan {
  std::vector<uint8_t> bytes; // the FlatBuffer
  std::vector<PlanConstant> constants;
  int64_t weightsBytes = 0;
  int64_t arenaBytes = 0; // in whole pages
  /// What a run holds: the arena, inputs, outputs that are not written over inputs, constants but
  /// for the first values of states, and the program itself. Sizes that are not known count as
  /// graph::kOpenSize.
  int64_t runBytes = 0;
};

/// Unsupported where a value has a type that plans can't hold. The IR must outlive the plan's
/// constants.
Result<Plan> buildPlan(const PlanInput &input);

} // namespace tensmith::vm
