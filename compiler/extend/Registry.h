// What a plug-in adds to the compiler, without an edit to it:
//
//   TENSMITH_PLUGIN(registry) {
//     registry.addDialect<ExampleDialect>();
//     registry.add(kReferences);
//     registry.add(kGradients);
//   }
//
// Shape functions, codes of elements and decompositions come with the operators of a dialect, as
// interfaces. All else are rows of tables (base/Table.h), which the project's own families fill by
// the same function: an operator, template, rewrite or target of a plug-in is a row like ours.
//
// Rows are collected first and added together once the plug-in has named all of them, so that a
// plug-in whose names are taken adds nothing. They have to live as long as the process does.
// docs/plugins.md is the way through it.
#pragma once

#include "compiler/graph/Dialects.h"
#include "compiler/graph/Gradient.h"
#include "compiler/graph/ModelNames.h"
#include "compiler/kernel/Template.h"
#include "compiler/rewrite/Rewrites.h"
#include "compiler/targets/Target.h"
#include "reference/Reference.h"

#include "compiler/extend/Abi.inc"

namespace tensmith::extend {

class Registry {
public:
  /// Whose operators have the interface ShapeFunction, and are Elementwise, Indexed or Decomposable
  /// where kernels shall compute them.
  template <typename Dialect> void addDialect() {
    static const graph::OperatorDialect row = {
        toView(Dialect::getDialectNamespace()),
        [](mlir::DialectRegistry &registry) { registry.insert<Dialect>(); }};
    dialects_.push_back(&row);
  }
  /// What operators mean, by their whole names ("example.soft_threshold").
  void add(std::span<const reference::Entry> rows) { collect(rows, references_); }
  /// How changes go through them, by their whole names.
  void add(std::span<const graph::NamedGradientRule> rows) { collect(rows, gradients_); }
  /// What they are called in files of models.
  void add(std::span<const graph::ModelName> rows) { collect(rows, names_); }
  /// Each with the rewrite behind which it runs (`after`), one of the project's or an earlier one.
  void add(std::span<const rewrite::Rewrite> rows) { collect(rows, rewrites_); }
  /// In front of the template of that name; empty: behind all but the last, which takes what no
  /// other does.
  void add(const kernel::Template &row, std::string_view before = {}) {
    templates_.push_back({&row, before});
  }
  /// Instructions of an architecture of CPUs.
  void add(std::span<const targets::IntrinsicFamily> rows) { collect(rows, intrinsics_); }
  /// Kinds of machines, by what stands before the colon of `--target KIND:NAME`.
  void add(std::span<const targets::TargetKind> rows) { collect(rows, targets_); }

private:
  friend class Installation;

  static std::string_view toView(llvm::StringRef text) { return {text.data(), text.size()}; }
  template <typename Row>
  static void collect(std::span<const Row> rows, std::vector<const Row *> &into) {
    for (const Row &row : rows)
      into.push_back(&row);
  }

  struct PlacedTemplate {
    const kernel::Template *row;
    std::string_view before;
  };

  std::vector<const graph::OperatorDialect *> dialects_;
  std::vector<const reference::Entry *> references_;
  std::vector<const graph::NamedGradientRule *> gradients_;
  std::vector<const graph::ModelName *> names_;
  std::vector<const rewrite::Rewrite *> rewrites_;
  std::vector<PlacedTemplate> templates_;
  std::vector<const targets::IntrinsicFamily *> intrinsics_;
  std::vector<const targets::TargetKind *> targets_;
};

} // namespace tensmith::extend

/// The definition of what a plug-in registers, and the stamp by which a plug-in of another build is
/// known before anything of it runs.
#define TENSMITH_PLUGIN(registry)                                                                  \
  extern "C" {                                                                                     \
  extern __attribute__((visibility("default"))) const char tensmithPluginAbi[];                    \
  const char tensmithPluginAbi[] = TENSMITH_PLUGIN_ABI;                                            \
  __attribute__((visibility("default"))) void                                                      \
  tensmithRegister([[maybe_unused]] ::tensmith::extend::Registry &registry);                       \
  }                                                                                                \
  void tensmithRegister([[maybe_unused]] ::tensmith::extend::Registry &registry)
