"""Tensors whose operations run as they are issued: the array API standard (2024.12), with NumPy's indexing and views.

    import tensmith.numpy as tnp
    x = tnp.asarray([[1.0, 2.0], [3.0, 4.0]])
    y = x @ x.T + 1

docs/eager.md says how it works.
"""

import atexit
import math

from .. import _eager
from . import creation, dtypes, elementwise, fft, linalg, manipulation, methods, random, reductions
from .creation import *  # noqa: F403
from .dtypes import (
    DType, Tensor, astype, bfloat16, bool, can_cast, complex64, complex128, finfo, float16, float32, float64, iinfo, int8, int16,
    int32, int64, isdtype, result_type, uint8, uint16, uint32, uint64,
)  # fmt: skip
from .elementwise import *  # noqa: F403
from .inspection import __array_namespace_info__
from .linalg import matmul, matrix_transpose, outer, tensordot, vecdot
from .manipulation import *  # noqa: F403
from .reductions import *  # noqa: F403

__array_api_version__ = "2024.12"
e, inf, nan, pi, newaxis = math.e, math.inf, math.nan, math.pi, None

for _name in ("arange", "asarray", "empty", "eye", "from_dlpack", "full", "linspace", "ones", "zeros"):
    globals()[_name] = dtypes.with_default_device(getattr(creation, _name))
array = asarray  # noqa: F405
fft.fftfreq, fft.rfftfreq = (dtypes.with_default_device(each) for each in (fft.fftfreq, fft.rfftfreq))
del _name

methods.attach()
atexit.register(_eager.finish)  # threads must not be compiling when the process ends
