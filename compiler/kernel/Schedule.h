// Schedules as data: the choices that kernels are made by, read from a file and written into one.
//
// What is not given is chosen by estimates (Blocking.h, rewrite/Winograd.cpp, Fourier.cpp). Choices
// are given by the structure of a kernel's main operator ("conv 1x56x56x64:f32 64x64x3x3:f32 ->
// ..."), by the name of its node in the model, or both; and are given back in the same form, so
// that a file of what was chosen makes the same module again. Any choice in its bounds gives right
// results: only the order of the work, and with it the rounding, depends on them.
#pragma once

#include "base/Status.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tensmith::kernel {

struct Schedule {
  /// Who does the operator (libraries/Libraries.h): the number of a name in
  /// libraries::libraryNames().
  std::optional<int64_t> library;
  /// Of a convolution: outputs of a Winograd tile along a dimension; 0: none, the direct product.
  std::optional<int64_t> winogradOutputs;
  /// Of a convolution: pixels of a Fourier transform along a dimension; 0: none.
  std::optional<int64_t> fourierTile;
  /// Of a product with constant weights: 1 where it is made of seven products of quarters.
  std::optional<int64_t> strassenSteps;
  /// Of operands: 16 where floats are rounded, 8 where codes are multiplied, 32 where as they are.
  std::optional<int64_t> operandBits;
  /// Of a register tile: its rows (pixels, of a depthwise convolution), and its vectors of columns.
  std::optional<int64_t> tileRows, panelVectors;
  /// Products of a sum that are done at a time, over all of an item's tiles.
  std::optional<int64_t> depthBlock;
  /// A work item's tiles and panels, and whether neighbouring items differ in their tiles first.
  std::optional<int64_t> itemTiles, itemPanels, rowsApart;
  /// Of a convolution: how many that are right before it its kernel computes as well, and the lines
  /// of its result in a work item then.
  std::optional<int64_t> chain, bandLines;
  /// Of loops: elements of the last dimension in a work item.
  std::optional<int64_t> itemElements;

  /// What `other` says in place of what is said here.
  void override(const Schedule &other);
  bool operator==(const Schedule &) const = default;
};

/// A choice that estimates were for, and that errs by more than the policy allows.
struct Refused {
  llvm::StringLiteral choice; // its key
  int64_t value;
  double error;
};

/// A choice that was timed, where choices are made by measuring.
struct Measured {
  llvm::StringLiteral choice; // its key
  int64_t value;
  double seconds;
};

/// The operator's name, the shapes and types of its operands, and those of its result.
std::string structureOf(mlir::Operation *root);

/// What a file asks for, and what was made of it: of one compilation.
class Schedules {
public:
  /// Of JSON's text: {"schedules": [{"kernel": structure, "nodes": [name, ...], choice: number},
  /// ...]}, each entry with one of the first two or both. InvalidArgument, with `file` and the
  /// entry, where a key is unknown or a number out of its bounds. Keys beside "schedules", and an
  /// entry's "error", "refused" and "measured", are passed over.
  static Result<Schedules> parse(std::string_view text, const std::string &file);

  /// What is asked for the kernel around the operator: of several entries that fit, the later ones
  /// override.
  Schedule of(mlir::Operation *root) const;

  /// What was chosen for the operator in the end, beside what was before; where operators of one
  /// name and structure differ in a choice, none is told. `error`: what the choice makes the
  /// results err by, against the largest, where that is known.
  void made(mlir::Operation *root, const Schedule &chosen, double error = 0,
            llvm::ArrayRef<Refused> refused = {});

  /// How long the choices took that the operator's was made among.
  void measured(mlir::Operation *root, llvm::ArrayRef<Measured> times);

  /// A message for each entry for which no kernel was made, and for each choice that none of those
  /// which were made took.
  std::vector<std::string> warnings() const;
  /// What was made, as the list that `parse` reads: one entry tells of all operators of one
  /// structure for which the same was chosen, and has the names of their nodes where the structure
  /// alone does not tell.
  std::string json() const;

private:
  struct Asked {
    std::string kernel;
    std::vector<std::string> nodes;
    Schedule schedule;
    bool used = false;
    unsigned taken = 0; // choices, by their numbers

    bool fits(const std::string &structure, llvm::ArrayRef<mlir::StringAttr> names) const;
  };
  struct Made {
    std::vector<std::string> nodes;
    Schedule schedule;
    double error = 0;       // the largest
    unsigned conflicts = 0; // choices that differ, by their numbers
    llvm::SmallVector<Refused, 1> refused;

    /// The largest error of each choice.
    void add(llvm::ArrayRef<Refused> others);
  };

  std::vector<Asked> asked_;
  /// By structure, and there by the names of the nodes.
  llvm::MapVector<std::string, llvm::SmallVector<Made, 1>, llvm::StringMap<unsigned>> made_;
  /// Of an operator's structure.
  llvm::StringMap<llvm::SmallVector<Measured, 2>> measured_;
  std::string file_;
};

} // namespace tensmith::kernel
