// All that templates, rewrites and estimates know of a machine, as data; a target fills it in.
#pragma once

#include "base/Table.h"
#include "compiler/graph/ChannelOrder.h"
#include "compiler/kernel/Intrinsic.h"

namespace tensmith::kernel {

struct Template; // Template.h
class CostModel; // CostModel.h

/// The template of loops alone, which takes every region.
const Table<Template> &loopTemplates();
/// The cost model of machines that compute with vectors.
const CostModel &vectorCosts();

struct Machine {
  /// What it is, in a text that no other machine has: a part of kernels' keys.
  std::string name;
  int64_t vectorBytes = 32;
  int64_t vectorRegisters = 16;
  /// Whether any instruction takes a mask at no cost, and not masked loads and stores alone.
  bool maskRegisters = false;
  /// Whether a core does instructions in the order that they are written in: one that waits keeps
  /// all behind it waiting.
  bool inOrder = false;
  /// Whether a multiply-add takes an operand that all lanes share from a lane of a register:
  /// several elements of it are loaded at once.
  bool multipliesLanes = false;
  int64_t l1Bytes = 32 << 10;
  int64_t l2Bytes = 512 << 10;
  // For estimates, in cycles of one core that multiplies and adds two vectors in each: measured
  // where the machine was, these otherwise.
  double nearBytesPerCycle = 16;  // of the second-level cache
  double farBytesPerCycle = 6;    // beyond it
  double memoryBytesPerCycle = 3; // of the memory
  int64_t lastCacheBytes = 16 << 20;
  /// Lines of a panel ahead that a tile prefetches where it is the only one to read them.
  int64_t linesAhead = 256;
  /// What its kernels are estimated to take: who chooses by estimates asks it, and nothing else.
  const CostModel *costs = &vectorCosts();
  /// By which its kernels are made, in order of preference.
  const Table<Template> *templates = &loopTemplates();
  /// The layout that its templates of windows take images in; channels first: images stay as the
  /// model has them.
  llvm::StringLiteral images = graph::kChannelsLast;
  /// Instructions that templates may ask for, the better of two that do the same first.
  llvm::SmallVector<const Intrinsic *, 4> intrinsics;
  const MatrixUnit *matrixUnit = nullptr; // that has the tiles of `intrinsics`
  Hold hold = nullptr;                    // null: the optimiser needs no such thing
  Lookup lookup;
  /// Whether rounding to bf16 may take subnormal numbers for zero, as that instruction does.
  bool flushesBfloats = false;
  /// Whether kernels say where their operands end, by which code generation checks each access.
  bool checksBounds = false;

  int64_t lanes(int64_t elementBytes) const { return vectorBytes / elementBytes; }

  /// The instruction that adds up products of such numbers, those of a lane of its own operands;
  /// null: none.
  const Intrinsic *products(Number left, Number right, Number sum) const;
  /// The fastest that does so of vectors, which may hold several rows of the left operand.
  const Intrinsic *matrixProducts(mlir::Type left, mlir::Type right, mlir::Type sum) const;
  const Intrinsic *matrixProducts(Number left, Number right, Number sum) const;
  /// The same of a matrix unit.
  const Intrinsic *tileProducts(mlir::Type left, mlir::Type right, mlir::Type sum) const;
  const Intrinsic *tileProducts(Number left, Number right, Number sum) const;
};

} // namespace tensmith::kernel
