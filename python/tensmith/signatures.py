"""Types that the package's functions take, for their signatures."""

import os
from collections.abc import Mapping, Sequence
from typing import Protocol, Union

Path = Union[str, "os.PathLike[str]"]


class Serialised(Protocol):
    """What onnx's ModelProto is."""

    def SerializeToString(self) -> bytes: ...


ModelSource = Union[Path, bytes, Serialised]  # a file, its bytes, or a model in memory
Shapes = Mapping[str, Union[int, Sequence[int]]]  # dimensions by input, a symbol's size
Derivative = tuple  # ("grad", of, wrt) or ("jvp", of, wrt)
