"""Tensors in lists, tuples and dicts, one within another."""

from ..numpy.dtypes import Tensor


def flattened(tree, leaves):
    """Appends the tensors in lists, tuples and dicts to `leaves`, in order."""
    if isinstance(tree, Tensor):
        leaves.append(tree)
    elif isinstance(tree, (list, tuple)):
        for each in tree:
            flattened(each, leaves)
    elif isinstance(tree, dict):
        for each in tree.values():
            flattened(each, leaves)
    return leaves


def rebuilt(tree, leaves):
    """The tree, with tensors from the iterator `leaves` in the place of its own."""
    if isinstance(tree, Tensor):
        return next(leaves)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(rebuilt(each, leaves) for each in tree))
    if isinstance(tree, (list, tuple)):
        return type(tree)(rebuilt(each, leaves) for each in tree)
    if isinstance(tree, dict):
        return {name: rebuilt(each, leaves) for name, each in tree.items()}
    return tree
