// The operators that programs call by name: all families, and comprehensions.
include "compiler/graph/GraphOps.td"
include "compiler/graph/ComprehensionOps.td"
