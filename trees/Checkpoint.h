// A training that was killed goes on where it was: what the rounds so far came to, in a file.
//
// Rows and columns are drawn by hashes of the round, so there is no generator to keep; what a round
// starts from is the forest and the outputs, whose bits depend on the order in which trees were
// added (and, of DART, taken away). Both are kept, and so the forest is that of a training that was
// never interrupted, to the bit. The metrics of all rounds are kept for early stopping and for
// whoever watches.
//
//   "tscheckp"            8 bytes
//   version               u32, 1
//   length of the header  u32
//   length of the forest  u64
//   hash                  128 bits, of all that follows
//   header                JSON
//   forest                as in ForestFile.h
//   outputs               f32: of the training rows, then of each validation set
//
// A file is replaced as a whole (files/Files.h). Of several processes each has a file of its own
// rows, and the one before it: they write between the same two rounds, so when all are killed the
// files differ by no more than one checkpoint, and the round that all have is gone on from.
#pragma once

#include "trees/Training.h"

#include "base/Hash.h"

namespace tensmith::trees {

struct Checkpoint {
  Hash128 training; // trainingHash
  Forest forest;
  std::vector<Round> rounds; // since training began
  std::vector<std::vector<float>> outputs;
};

/// Of what decides how the forest comes out: parameters (but for how many rounds, and how they are
/// made), labels and weights, the forest to continue, and of large data some of the rows.
Hash128 trainingHash(const TrainingInput &input, const Parameters &parameters);

/// "FILE", of several processes "FILE.0", "FILE.1", ...
std::string checkpointPath(const Parameters &parameters, const Exchange *exchange);
/// `keepsLast`: the file that was there stays beside it.
Status saveCheckpoint(const Checkpoint &checkpoint, const std::string &path, bool keepsLast);
/// None where there is no file. InvalidModel where one is damaged, InvalidArgument where it is of
/// another training; both say what to do. All processes call it, and go on from the same round.
Result<std::optional<Checkpoint>> findCheckpoint(const std::string &path, const Hash128 &training,
                                                 Exchange *exchange);

} // namespace tensmith::trees
