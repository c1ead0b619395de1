// The classes of operators of a convolution's passes (ConvolutionPassesOps.td), for who looks for
// them.
#pragma once

#include "compiler/graph/Graph.h"

#define GET_OP_CLASSES
#include "compiler/graph/ConvolutionPassesOps.h.inc"
