"""What a user does first with the wheel `tensmith-runtime`: `python try_runtime_wheel.py MODULE`, of one output max(x, 0)."""

import pathlib
import sys
import sysconfig

import numpy
import tensmith

assert pathlib.Path(tensmith.__file__).is_relative_to(sysconfig.get_path("platlib")), tensmith.__file__
x = numpy.array([[-1, 0, 2]], numpy.float32)
assert (tensmith.load(sys.argv[1])(x) == numpy.maximum(x, 0)).all()
try:
    tensmith.compile("m.onnx")
    raise AssertionError("a runtime compiles")
except tensmith.Error as error:
    assert "the compiler can't be loaded" in str(error), error
print("a module ran")
