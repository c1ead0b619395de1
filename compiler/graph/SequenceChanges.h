// The classes of operators on the changes of sequences (SequenceChangesOps.td), for who looks for
// them.
#pragma once

#include "compiler/graph/Graph.h"

#define GET_OP_CLASSES
#include "compiler/graph/SequenceChangesOps.h.inc"
