// The extension module `_trees`: gradient-boosted trees, apart from `_tensmith` so that neither
// has to load the other.
#include "python/Trees.h"

NB_MODULE(_trees, module) {
  addTraining(module);
  addModels(module);
  addSketch(module);
}
