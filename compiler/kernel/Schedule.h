// Schedules as data: the choices that kernels are made by, read from a file and written into one.
//
// What is not given is chosen by estimates (Blocking.h, rewrite/Winograd.cpp, Fourier.cpp). Choices
// are of two kinds, in one form: points of kernels' spaces (Space.h), and what rewrites decide for
// an operator before it is part of a kernel (its algorithm, its library, its operands' bits). They
// are given by a key (Key.h), by the structure of the main operator ("conv 1x56x56x64:f32
// 64x64x3x3:f32
// -> ..."), by the name of its node in the model, or by several of these; and are given back in the
// same form, so that a file of what was chosen makes the same module again. Any choice in its
// bounds gives right results: only the order of the work, and with it the rounding, depends on
// them.
#pragma once

#include "base/Status.h"
#include "compiler/kernel/Key.h"
#include "compiler/kernel/Machine.h"
#include "compiler/kernel/Space.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringMap.h"

#include <functional>
#include <string_view>
#include <vector>

namespace tensmith::kernel {

// What rewrites decide for an operator.
namespace choice {
/// Who does it (libraries/Libraries.h): the number of a name in libraries::libraryNames().
inline constexpr Choice library{"libraries", 0, kAny, 1, /*bounded=*/false};
/// Of a convolution: outputs of a Winograd tile along a dimension; 0: none, the direct product.
inline constexpr Choice winogradOutputs{"winograd_outputs", 0, 6, 2, /*bounded=*/false};
/// Of a convolution: pixels of a Fourier transform along a dimension; 0: none.
inline constexpr Choice fourierTile{"fourier_tile", 0, 16384, 1, /*bounded=*/false};
/// Of a product with constant weights: 1 where it is made of seven products of quarters.
inline constexpr Choice strassenSteps{"strassen_steps", 0, 1, 1, /*bounded=*/false};
/// Of the last product of a chain: 1 where all of them are multiplied in the best order.
inline constexpr Choice productOrder{"product_order", 0, 1, 1, /*bounded=*/false};
/// Of a comprehension's statement: 1 where operators that say the same compute it, 0 where a nest.
inline constexpr Choice asOperators{"as_operators", 0, 1, 1, /*bounded=*/false};
/// Of a kernel: 1 where its region is said by statements, and ordered as a nest (docs/nests.md).
inline constexpr Choice asNest{"as_nest", 0, 1, 1, /*bounded=*/false};
/// Of operands: 16 where floats are rounded, 8 where codes are multiplied, 32 where as they are.
inline constexpr Choice operandBits{"operand_bits", 8, 32, 8, /*bounded=*/false};
/// Of a convolution: how many that are right before it its kernel computes as well.
inline constexpr Choice chain{"chain", 0, 4, 1, /*bounded=*/false};
/// 0: the operator is in a kernel of its own, though the one that reads it could compute it.
inline constexpr Choice fused{"fused", 0, 1, 1, /*bounded=*/false};
/// Of a pool that no convolution is connected with: 1 where channels come last in memory.
inline constexpr Choice channelsLast{"channels_last", 0, 1, 1, /*bounded=*/false};
} // namespace choice

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

/// A kernel's space, or what a rewrite may decide for an operator.
struct Offered {
  std::string kernel; // its structure
  std::string by;     // the kernel's template; empty: a rewrite
  Space space;
  std::vector<std::string> sizes = {}; // the names of the kernel's open sizes
  std::vector<std::string> nodes = {}; // of all operators that it is offered for
};

/// What a file asks for, and what was made of it: of one compilation.
class Schedules {
public:
  /// Of JSON's text: {"schedules": [{"key": key, "kernel": structure, "nodes": [name, ...],
  /// "sizes": [number, ...], choice: number}, ...]}, each entry with one of the first three or
  /// more. InvalidArgument, with `file` and the entry, where no template of the machine has the
  /// choice or a number is out of its bounds. What stands beside "schedules", and an entry's
  /// "error", "refused" and "measured", are passed over.
  static Result<Schedules> parse(std::string_view text, const std::string &file,
                                 const Machine &machine);

  /// What keys depend on beside the graph: the machine and the precision.
  void setConditions(std::string conditions) { conditions_ = std::move(conditions); }
  const std::string &conditions() const { return conditions_; }

  /// What is asked for the operator, before it is part of a kernel: of several entries that fit,
  /// the later ones override.
  Point of(mlir::Operation *op) const;
  /// The points between which the kernel chooses, of so many open sizes: those that have sizes, by
  /// their product, each over what the others say; else one.
  llvm::SmallVector<SizedPoint, 1> pointsOf(const Key &key, mlir::Operation *root,
                                            size_t openSizes) const;

  /// What nobody asks for by a file, as points that tuning has found: of a key, empty where there
  /// is none. What a file says overrides it.
  using Tuned = std::function<Point(const Key &)>;
  void setTuned(Tuned tuned) { tuned_ = std::move(tuned); }
  Point tuned(const Key &key) const { return tuned_ ? tuned_(key) : Point(); }
  /// All that the file's entries ask for together, whatever they are for.
  Point all() const;

  /// What was chosen for the operator in the end, beside what was before; where operators of one
  /// key differ in a choice, none is told. `error`: what the choice makes the results err by,
  /// against the largest, where that is known.
  void made(mlir::Operation *op, const Point &chosen, double error = 0,
            llvm::ArrayRef<Refused> refused = {});
  /// The same of the kernel of that key around the operator.
  void made(const Key &key, mlir::Operation *root, const SizedPoint &chosen, double error = 0,
            llvm::ArrayRef<Refused> refused = {});

  /// From now on spaces are kept that are offered; before, they aren't made.
  void keepSpaces() { keepsSpaces_ = true; }
  bool keepsSpaces() const { return keepsSpaces_; }
  /// What a rewrite may decide for the operator: these values of the choice.
  void offer(mlir::Operation *op, const Choice &choice, llvm::ArrayRef<int64_t> values);
  /// The space of the kernel of that key around the operator, and its open sizes.
  void offer(const Key &key, mlir::Operation *root, llvm::StringRef by, Space space,
             std::vector<std::string> sizes);
  const llvm::MapVector<Key, Offered, llvm::StringMap<unsigned>> &spaces() const { return spaces_; }
  /// A list of {"key", "kernel", "nodes", "template", "points", "sizes", "choices": [{"choice",
  /// "values", "where"}]}.
  std::string spacesJson() const;

  /// How long the choices took that the operator's was made among.
  void measured(mlir::Operation *op, llvm::ArrayRef<Measured> times);

  /// A message for each entry for which no kernel was made, and for each choice that none of those
  /// which were made took.
  std::vector<std::string> warnings() const;
  /// What was made, as the list that `parse` reads: one entry tells of all kernels of one key for
  /// which the same was chosen, and has the names of their nodes where the key alone does not tell.
  std::string json() const;

private:
  using Choices = llvm::SmallPtrSet<const Choice *, 4>;

  struct Asked {
    Key key;
    std::string kernel;
    std::vector<std::string> nodes;
    SizedPoint chosen;
    bool used = false;
    bool fitsButForKey = false; // a kernel that was made
    Choices taken;

    bool fits(const Key &ofKernel, const std::string &structure,
              llvm::ArrayRef<mlir::StringAttr> names) const;
    std::string text() const;
  };
  struct Made {
    std::string kernel; // its structure
    std::vector<std::string> nodes;
    SizedPoint chosen;
    double error = 0; // the largest
    Choices conflicts;
    llvm::SmallVector<Refused, 1> refused;

    /// The largest error of each choice.
    void add(llvm::ArrayRef<Refused> others);
  };

  std::vector<Asked> asked_;
  Tuned tuned_;
  /// By key, and there by the names of the nodes.
  llvm::MapVector<Key, llvm::SmallVector<Made, 1>, llvm::StringMap<unsigned>> made_;
  llvm::StringMap<llvm::SmallVector<Measured, 2>> measured_; // by key
  llvm::MapVector<Key, Offered, llvm::StringMap<unsigned>> spaces_;
  bool keepsSpaces_ = false;
  std::string conditions_, file_;
};

} // namespace tensmith::kernel
