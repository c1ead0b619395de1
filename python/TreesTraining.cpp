// Training of gradient-boosted trees for Python (trees/Training.h).
#include "python/Trees.h"

void addTraining(nanobind::module_ &module) {}
