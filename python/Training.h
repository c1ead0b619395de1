// Runs of training for the extension module: see train/ and python/tensmith/training.py.
#pragma once

#include <nanobind/nanobind.h>

void bindTraining(nanobind::module_ &m);
