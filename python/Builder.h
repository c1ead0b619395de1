// Graphs that Python makes operator by operator.
#pragma once

#include <nanobind/nanobind.h>

void bindBuilder(nanobind::module_ &m);
