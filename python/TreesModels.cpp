// Forests for Python: files, prediction and drawings are added here.
#include "python/Trees.h"

void addModels(nanobind::module_ &module) {}
