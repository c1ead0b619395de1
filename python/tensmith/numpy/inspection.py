"""What the namespace can do, for libraries that ask (`__array_namespace_info__`)."""

from . import dtypes


class Info:
    def capabilities(self):
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self):
        return dtypes.current_device()

    def devices(self):
        return dtypes.devices()

    def default_dtypes(self, *, device=None):
        dtypes.device_name(device)
        return {
            "real floating": dtypes.float64,
            "complex floating": dtypes.complex128,
            "integral": dtypes.int64,
            "indexing": dtypes.int64,
        }

    def dtypes(self, *, device=None, kind=None):
        dtypes.device_name(device)
        standard = [name for name in dtypes._BY_NAME if name not in ("float16", "bfloat16")]
        return {name: dtypes._BY_NAME[name] for name in standard if kind is None or dtypes.isdtype(dtypes._BY_NAME[name], kind)}


def __array_namespace_info__():
    return Info()
