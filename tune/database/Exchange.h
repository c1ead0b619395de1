// Tuned points from one database to another: as JSON, or from file to file.
//
// What both have is kept as it is here; of two winners of a kernel the later one counts.
#pragma once

#include "tune/database/Database.h"

#include <nlohmann/json_fwd.hpp>

namespace tensmith::tune {

/// {"format": "tensmith-tuned-1", "kernels": [{"machine", "key", "kernel", "trials": [{"choices",
/// "outcome", "why", "search", "compiler", "at", "seconds": [...], "features": [...]}], "winner":
/// {"choices", "seconds", "before", "confidence", "compiler", "at"}}]}.
nlohmann::ordered_json exportAll(const Database &database);

struct Imported {
  int64_t kernels = 0, trials = 0, winners = 0; // that were new
  int64_t unread = 0;                           // kernels of a damaged file without their trials
};
/// Throws Failure, with `file`, before anything is changed, where the text is none of these.
Imported importAll(Database &into, const std::string &text, const std::string &file);

/// The same from another database's file. Of a damaged one, all that can be read.
Imported merge(Database &into, const std::string &path);

} // namespace tensmith::tune
