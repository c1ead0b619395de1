// Forests for Python: files, prediction and drawings are added here.
#include "python/Trees.h"

#include "trees/Forest.h"

void addModels(nanobind::module_ &module) {
  nanobind::class_<tensmith::trees::Forest>(module, "Forest");
}
