// Gradient-boosted trees for Python, the extension module `_trees`: who adds what to it.
#pragma once

#include <nanobind/nanobind.h>

/// Training and its parameters (TreesTraining.cpp).
void addTraining(nanobind::module_ &module);
/// The weighted quantile sketch (TreesSketch.cpp).
void addSketch(nanobind::module_ &module);
/// Forests: files, prediction, drawings (TreesModels.cpp).
void addModels(nanobind::module_ &module);
