"""JAX's functions: `from_jax` compiles one.

    import tensmith as ts
    model = ts.jax.from_jax(lambda x: jax.nn.softmax(x @ w), x)
    y = model(x)

`jax.export` gives StableHLO, which tensmith.stablehlo reads; what the function closes over becomes constants (docs/jax.md).
"""


import jax
import numpy
from jax import export

from .. import Error
from ..stablehlo import program as reading

__all__ = ["JaxModel", "from_jax"]


def from_jax(function, *args, threads=0, **options):
    """Compiles a function of JAX for arguments like those given, or a `jax.export.Exported`.

    args: pytrees of arrays, or of jax.ShapeDtypeStruct, whose sizes may be symbols of `jax.export.symbolic_shape`; one compilation then serves
        all of them. threads: of a run; 0 for as many CPUs as the process may use. The others are those of `tensmith.from_stablehlo`.

    Gives a `JaxModel`. An Error names all operators that can't be compiled.
    """
    exported = function if isinstance(function, export.Exported) else export.export(jax.jit(function), platforms=["cpu"])(*args)
    return JaxModel(exported, threads, options)


class JaxModel:
    """A compiled function; made by `from_jax`. Called as the function was: takes and gives pytrees of arrays (NumPy's, or JAX's on the host).

    module: the `tensmith.Model` that does it, with the inputs "arg0", "arg1", ... in the order of the leaves.
    """

    def __init__(self, exported, threads=0, options=None):
        self._exported = exported
        kept = [exported.in_avals[i] for i in exported.module_kept_var_idx]
        self.module = reading.from_stablehlo(
            exported.mlir_module(), sizes=[[str(size) for size in aval.shape] for aval in kept], threads=threads, **(options or {})
        )

    def __call__(self, *args, **kwargs):
        leaves, tree = jax.tree.flatten((args, kwargs))
        if tree != self._exported.in_tree:
            raise Error(f"the function takes {self._exported.in_tree}, and is given {tree}")
        kept = [leaves[i] for i in self._exported.module_kept_var_idx]
        avals = [self._exported.in_avals[i] for i in self._exported.module_kept_var_idx]
        inputs = [numpy.asarray(leaf, dtype=aval.dtype if not hasattr(leaf, "dtype") else None) for leaf, aval in zip(kept, avals)]
        outputs = [numpy.asarray(result) for result in self.module._module.run(inputs, None)]
        return jax.tree.unflatten(self._exported.out_tree, outputs)

    def save(self, path):
        """Writes the module, which `tensmith.load`, the command line and the C API take."""
        self.module.save(path)
