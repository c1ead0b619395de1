"""Descriptions of inputs and outputs, and values that outlive a run (OrtValue, IOBinding).

All memory is the host's, so that an OrtValue is a NumPy array with onnxruntime's questions around it.
"""

import numpy

_TYPE_NAMES = {
    "float32": "float", "float64": "double", "float16": "float16", "int8": "int8", "int16": "int16", "int32": "int32",
    "int64": "int64", "uint8": "uint8", "uint16": "uint16", "uint32": "uint32", "uint64": "uint64", "bool": "bool",
    "complex64": "complex64", "complex128": "complex128", "bfloat16": "bfloat16", "float8_e4m3fn": "float8e4m3fn",
    "float8_e4m3fnuz": "float8e4m3fnuz", "float8_e5m2": "float8e5m2", "float8_e5m2fnuz": "float8e5m2fnuz",
    "float8_e8m0fnu": "float8e8m0", "float4_e2m1fn": "float4e2m1", "uint4": "uint4", "int4": "int4", "uint2": "uint2",
    "int2": "int2",
}  # fmt: skip
_NUMPY_NAMES = {name: dtype for dtype, name in _TYPE_NAMES.items()}
# ONNX's numbers of element types.
_NUMBERS = {
    name: number
    for number, name in enumerate(
        "float uint8 int8 uint16 int16 int32 int64 string bool float16 double uint32 uint64 complex64 complex128 bfloat16 "
        "float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz uint4 int4 float4e2m1 float8e8m0 uint2 int2".split(),
        1,
    )
}
def element_name(dtype):
    """ONNX's name of a NumPy type: "float" of float32; None where there is none."""
    if dtype.kind in "USOT":
        return "string"
    return _TYPE_NAMES.get(dtype.name)


def numpy_type(name):
    """The NumPy type that ONNX calls so."""
    if name == "string":
        return numpy.dtype(object)
    known = _NUMPY_NAMES[name]
    try:
        return numpy.dtype(known)
    except TypeError:
        import ml_dtypes  # the types that NumPy lacks

        return numpy.dtype(getattr(ml_dtypes, known))


def module_type(name):
    """ONNX's name of a type that a compiled module calls "f32", "i64", "u8"..."""
    known = {"f32": "float", "f64": "double", "bf16": "bfloat16", "bool": "bool", "string": "string"}
    family = {"f": "float", "i": "int", "u": "uint", "c": "complex"}
    return known.get(name) or family[name[0]] + name[1:]


class NodeArg:
    """An input or output: its name, its type as "tensor(float)", and its shape of sizes, names and None."""

    def __init__(self, name, type, shape):
        self.name, self.type, self.shape = name, type, shape
        self.has_open_rank = shape is None

    def prepare(self):
        """For `takes`, when type and shape are known."""
        tensor = self.type.startswith("tensor(") and self.type != "tensor(string)"
        try:
            self._dtype = numpy_type(self.type[len("tensor(") : -1]) if tensor else None
        except ImportError:  # a type that NumPy lacks
            self._dtype = None
        self._sizes = None if self.has_open_rank else [(axis, size) for axis, size in enumerate(self.shape) if isinstance(size, int)]

    def takes(self, value):
        """Whether a value is plainly what is declared. Of what isn't, the checks that are slower say why, or make it so."""
        if type(value) is not numpy.ndarray or value.dtype != self._dtype or self._dtype is None:
            return False
        if self._sizes is None:
            return True
        shape = value.shape
        return len(shape) == len(self.shape) and all(shape[axis] == size for axis, size in self._sizes)

    def __repr__(self):
        return f"NodeArg(name='{self.name}', type='{self.type}', shape={self.shape})"

    __str__ = __repr__


class ModelMetadata:
    """What the model's file says of itself."""

    def __init__(self, interface):
        self.producer_name = interface["producer"]
        self.graph_name = interface["graph"]
        self.domain = interface["domain"]
        self.description = interface["description"]
        self.graph_description = interface["graph_description"]
        self.version = interface["version"]
        self.custom_metadata_map = interface["metadata"]


class OrtDevice:
    """The CPU, whatever its name and number."""

    def __init__(self, device_type="cpu", device_id=0):
        if device_type not in ("cpu", 0):
            raise RuntimeError(f"Unsupported device type: {device_type}; Tensmith runs on the CPU")
        self._id = device_id

    @staticmethod
    def make(device_type, device_id, vendor_id=-1):
        return OrtDevice(device_type, device_id)

    @staticmethod
    def cpu():
        return 0

    @staticmethod
    def default_memory():
        return 0

    def device_type(self):
        return "cpu"

    def device_id(self):
        return self._id


def _require_cpu(device_type):
    if str(device_type).lower() != "cpu":
        raise RuntimeError(f"Unsupported device type: {device_type}; Tensmith runs on the CPU")


class OrtValue:
    """A tensor, sequence or map in the host's memory."""

    def __init__(self, value):
        self._value = value

    @staticmethod
    def ortvalue_from_numpy(array, device_type="cpu", device_id=0, vendor_id=-1):
        _require_cpu(device_type)
        if not isinstance(array, numpy.ndarray):
            raise RuntimeError("Creation of OrtValues is currently only supported from non-string numpy arrays")
        return OrtValue(array)

    @staticmethod
    def ortvalue_from_shape_and_type(shape, element_type, device_type="cpu", device_id=0, vendor_id=-1):
        _require_cpu(device_type)
        if isinstance(element_type, int):
            element_type = numpy_type(next(name for name, number in _NUMBERS.items() if number == element_type))
        return OrtValue(numpy.empty(shape, element_type))

    def numpy(self):
        return self._value

    def __array__(self, dtype=None, copy=None):
        return numpy.array(self._value, dtype=dtype) if copy else numpy.asarray(self._value, dtype=dtype)

    def __dlpack__(self, **options):
        return self._value.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._value.__dlpack_device__()

    @classmethod
    def from_dlpack(cls, data, is_bool_tensor=False):
        array = numpy.from_dlpack(data)
        return cls(array.view(bool) if is_bool_tensor else array)

    def update_inplace(self, array):
        self._value[...] = array

    def shape(self):
        return list(self._value.shape)

    def data_type(self):
        return f"tensor({element_name(self._value.dtype)})" if self.is_tensor() else "seq"

    def element_type(self):
        return _NUMBERS[element_name(self._value.dtype)]

    def data_ptr(self):
        return self._value.ctypes.data

    def tensor_size_in_bytes(self):
        return self._value.nbytes

    def device_name(self):
        return "cpu"

    def has_value(self):
        return self._value is not None

    def is_tensor(self):
        return isinstance(self._value, numpy.ndarray)

    def is_tensor_sequence(self):
        return isinstance(self._value, list)

    def is_sparse_tensor(self):
        return False


class IOBinding:
    """Inputs and outputs that are named before a run, and stay so from one run to the next."""

    def __init__(self, session):
        self._session = session
        self.clear_binding_inputs()
        self.clear_binding_outputs()

    def bind_cpu_input(self, name, array):
        self._inputs[name] = array

    def bind_ortvalue_input(self, name, value):
        self._inputs[name] = value

    def bind_input(self, name, device_type, device_id, element_type, shape, buffer_ptr):
        """Memory at an address, which must stay until the run is over."""
        import ctypes

        _require_cpu(device_type)
        dtype = numpy.dtype(element_type)
        count = int(numpy.prod(shape, dtype=numpy.int64))
        memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(buffer_ptr)
        self._inputs[name] = numpy.frombuffer(memory, dtype, count).reshape(shape)

    def bind_output(self, name, device_type="cpu", device_id=0, element_type=None, shape=None, buffer_ptr=None):
        """A new tensor of each run; or memory at an address, which the result is copied to."""
        _require_cpu(device_type)
        target = None
        if buffer_ptr is not None:
            self.bind_input(name, device_type, device_id, element_type, shape, buffer_ptr)
            target = self._inputs.pop(name)
        self._outputs[name] = target

    def bind_ortvalue_output(self, name, value):
        self._outputs[name] = value._value

    def synchronize_inputs(self):
        """The host's memory needs none."""

    synchronize_outputs = synchronize_inputs

    def clear_binding_inputs(self):
        self._inputs = {}

    def clear_binding_outputs(self):
        self._outputs, self._results = {}, []

    def get_outputs(self):
        return [OrtValue(value) for value in self._results]

    get_outputs_as_ortvaluevector = get_outputs

    def copy_outputs_to_cpu(self):
        return list(self._results)

    def _run(self, run_options):
        if not self._outputs:
            raise RuntimeError("Error in execution: At least one output should be requested.")
        results = self._session.run(list(self._outputs), self._inputs, run_options)
        for number, (name, target) in enumerate(self._outputs.items()):
            if target is None:
                continue
            if target.shape != results[number].shape or target.dtype != results[number].dtype:
                raise RuntimeError(
                    f"Error in execution: output '{name}' is {results[number].dtype}{list(results[number].shape)}, and what is "
                    f"bound to it is {target.dtype}{list(target.shape)}"
                )
            target[...] = results[number]
            results[number] = target
        self._results = results
