"""StableHLO's programs, JAX's above all, as graphs: `tensmith.from_stablehlo` and `tensmith.jax.from_jax`.

The text or bytecode is parsed and verified by MLIR itself, as jaxlib has it with the dialect. Each operator becomes operators of the graph by
the function that `lowers` has registered for it (docs/jax.md); functions are inlined. jaxlib is needed to read, not to run.
"""

from .graph import lowers, supported
from .program import from_stablehlo

__all__ = ["from_stablehlo", "lowers", "supported"]
