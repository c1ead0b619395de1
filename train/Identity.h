// What a run was made of, by hashes that its checkpoints and its compiled modules carry: so that a
// run that goes on neither mixes with another one nor takes another one's code.
#pragma once

#include "train/Dataset.h"
#include "train/Settings.h"

#include <filesystem>

namespace tensmith::train {

/// Of the samples: elements, types, shapes and names of arrays and columns, wherever they lie; of
/// pictures, which are only read when they are needed, the names and the sizes of the files.
std::string hashOf(const Dataset &data);

/// Which library of layers this was built with.
std::string layersVersion();

/// Of a program's text, and of the files beside it that it names; of one that comes with Tensmith,
/// its name. `layers` is the version of the library of layers, which counts where it is imported.
std::string hashOfProgram(const std::string &program, const std::string &layers = layersVersion());

/// Whether the trained program and its weights, in this folder, would take the place of the program
/// or of a file that it names.
bool writesOver(const std::filesystem::path &folder, const std::string &program);

/// What compiled modules depend on: all settings that a run that goes on may not change but paths,
/// the programs' and the model's texts; the steps, where the schedule counts them; and how many
/// processes there are.
std::string hashOfModules(const Settings &settings, const std::string &modelHash,
                          int64_t stepsInEpoch, int64_t processes);

/// Removes what a run has left in its folder: checkpoints, metrics, modules, the trained model. No
/// file of other names, and not `model`.
void removeRun(const std::filesystem::path &folder, const std::filesystem::path &model);

} // namespace tensmith::train
