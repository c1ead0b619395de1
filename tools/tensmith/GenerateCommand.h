// The subcommands of language models; see Commands.h.
#pragma once

#include "generation/Drafts.h"
#include "tools/tensmith/Commands.h"

namespace tensmith::cli {

/// --weights.
void addWeights(CLI::App &command, generation::ModelSettings &settings);
/// --cache-type.
void addCacheType(CLI::App &command, generation::ModelSettings &settings);
/// --draft, --lookup and --draft-tokens.
struct DraftOptions {
  std::string model;
  generation::DraftSettings settings;

  /// With the model, which is loaded as the one that it guesses for.
  generation::DraftSettings loaded(const generation::ModelSettings &of) const;
};
void addDrafts(CLI::App &command, DraftOptions &drafts);
void addGenerate(CLI::App &app, Action &chosen);
void addServe(CLI::App &app, Action &chosen);

} // namespace tensmith::cli
