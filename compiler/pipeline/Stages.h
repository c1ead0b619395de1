// The order in which a graph is rewritten: the pipeline's stages before kernels are emitted.
#pragma once

#include "base/Status.h"
#include "compiler/rewrite/Rewrites.h"

#include <string_view>
#include <vector>

namespace tensmith::pipeline {

struct Stage {
  std::string_view name;
  mlir::LogicalResult (*run)(mlir::func::FuncOp, const rewrite::Options &);
  std::string_view after = {}; // of a plug-in's
};

/// With those of plug-ins, each behind the first stage that it names and those of others there.
std::vector<Stage> rewritesInOrder();

/// Internal, with the stage's name, where it fails. What a plug-in's throws is an error as well,
/// and what it leaves behind is verified; tests verify the project's own.
Status runStage(const Stage &stage, mlir::func::FuncOp function, const rewrite::Options &options);

} // namespace tensmith::pipeline
