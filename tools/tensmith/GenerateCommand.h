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

  bool isOn() const { return settings.looksUp || !model.empty(); }
  /// With the model, which is loaded as the one that it guesses for, with as much of its context as
  /// it takes. Says so where that is less.
  generation::DraftSettings loaded(const generation::ModelSettings &of,
                                   const generation::LanguageModel &whose) const;
};
void addDrafts(CLI::App &command, DraftOptions &drafts);
void addGenerate(CLI::App &app, Action &chosen);
void addServe(CLI::App &app, Action &chosen);

} // namespace tensmith::cli
