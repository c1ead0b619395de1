"""The engines of the race: this compiler and its peers, each set to its best for one stream of single requests.

An engine loads a model once, and `run` is one request with the same inputs. `prepare` does what a user does once per
model and not per start (compilation to a file), and gives its figures; `caches` says whether a second time is worth
measuring. All compute in fp32 but for those that say otherwise in `precision`. All may be loaded into one process at the
same time, so none may keep its threads spinning between runs. One that can't be had here raises Unavailable.
"""

import importlib
import importlib.metadata
import os
import pathlib
import subprocess
import sys
import time

import numpy


class Unavailable(Exception):
    """The engine isn't installed, or this machine lacks what it needs: it is left out, and no failure."""


def need(*packages):
    """The modules; Unavailable where one is not installed."""
    try:
        return [importlib.import_module(package) for package in packages]
    except ImportError as error:
        raise Unavailable(f"{error.name or error} is not installed; bench/requirements.txt has the engines") from None


def forget_peak():
    """What follows has a peak of its own, beside what is held now; where the kernel lets a process say so."""
    try:
        pathlib.Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass


def memory_mb(key):
    """VmRSS (now) or VmHWM (the peak) of this process."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) / 1024
    raise KeyError(key)


class Tensmith:
    packages = ["tensmith"]
    caches = True
    policy = "fast"

    def __init__(self, path, module, threads, feed):
        import tensmith

        self._model = tensmith.load(module, threads)
        self.version = tensmith.__version__
        self.give(feed)

    def give(self, feed):
        """Inputs of the runs that follow, of other sizes than before where the model has symbolic ones."""
        self._arguments = [feed[port["name"]] for port in self._model.inputs]

    @classmethod
    def prepare(cls, path, module, cache, shapes=None):
        """Compiles to a file, for the shapes, if they are given. The cache decides whether that is cold or warm."""
        import tensmith

        start = time.perf_counter()
        model = tensmith.compile(path, shapes, cache_dir=cache, precision=cls.policy)
        seconds = time.perf_counter() - start
        model.save(module)
        return {"seconds": seconds, "peak_mb": memory_mb("VmHWM")}

    def run(self):
        self._outputs = self._model.run(*self._arguments)

    def outputs(self):
        return self._outputs


class TensmithExact(Tensmith):
    """With the sums of the model's own operators."""

    policy = "exact"


class TensmithBf16(Tensmith):
    """With operands of products rounded where that is faster."""

    policy = precision = "bf16"


class OnnxRuntime:
    packages = ["onnxruntime"]

    def __init__(self, path, module, threads, feed):
        import onnxruntime

        onnxruntime.set_default_logger_severity(3)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        # Its threads spin while they run, but not into the next engine's turn.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.version = onnxruntime.__version__
        self.give(feed)

    def give(self, feed):
        self._feed = feed

    def run(self):
        self._outputs = self._session.run(None, self._feed)

    def outputs(self):
        return self._outputs


class OpenVino:
    packages = ["openvino"]
    precision = "f32"

    def __init__(self, path, module, threads, feed):
        [openvino] = need(*self.packages)
        core = openvino.Core()
        # Where the CPU has bf16 that would be its default: another computation, with other errors.
        settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads,
                    "INFERENCE_PRECISION_HINT": self.precision}
        if self.precision == "bf16" and "BF16" not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
            raise Unavailable("this CPU has no bf16, and OpenVINO would compute in f32")
        self._compiled = core.compile_model(core.read_model(path), "CPU", settings)
        self._request = self._compiled.create_infer_request()
        self.version = openvino.__version__
        self.give(feed)

    def give(self, feed):
        [openvino] = need(*self.packages)
        self._tensors = {name: openvino.Tensor(numpy.ascontiguousarray(value)) for name, value in feed.items()}
        for name, tensor in self._tensors.items():
            self._request.set_tensor(name, tensor)

    def run(self):
        self._request.infer()

    def outputs(self):
        return [numpy.array(self._request.get_output_tensor(i).data) for i in range(len(self._compiled.outputs))]


class OpenVinoBf16(OpenVino):
    precision = "bf16"


class Iree:
    """Compiled for this CPU with data tiling, its weights beside the code."""

    packages = ["iree.runtime", "iree.compiler"]
    caches = False
    devices = []  # for good: arrays that were lent to one may outlive the engine, and are given back to it
    FLAGS = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu",
             "--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3", "--iree-opt-data-tiling=true",
             # Fused layer normalisations need more than the default.
             "--iree-llvmcpu-stack-allocation-limit=1048576"]

    @classmethod
    def prepare(cls, path, module, cache):
        need(*cls.packages)
        start = time.perf_counter()
        cls._tool("iree-import-onnx", path, "-o", module + ".mlir", "--externalize-params", "--save-params",
                  "--save-params-to", module + ".irpa")
        cls._tool("iree-compile", module + ".mlir", "-o", module + ".vmfb", *cls.FLAGS)
        seconds = time.perf_counter() - start
        import resource

        return {"seconds": seconds, "peak_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024}

    @staticmethod
    def _tool(name, *arguments):
        done = subprocess.run([os.path.join(os.path.dirname(sys.executable), name), *arguments], capture_output=True, text=True)
        if done.returncode:
            said = (done.stderr + done.stdout).splitlines()
            errors = [line for line in said if "error" in line.lower()] or said[-1:] or [f"exit status {done.returncode}"]
            raise RuntimeError(f"{name}: {errors[0][:300]}")

    def __init__(self, path, module, threads, feed):
        [runtime, _] = need(*self.packages)
        from iree.runtime import _binding

        if threads == 1:
            driver = _binding.create_hal_driver("local-sync")
        else:
            # Read when a driver is made; one of its own, since the package's is kept with its first number of threads.
            runtime.flags.parse_flags(f"--task_topology_group_count={threads}", "--task_worker_stack_size=8388608")
            driver = _binding.create_hal_driver("local-task")
        config = runtime.Config(device=driver.create_default_device())
        weights = runtime.ParameterIndex()
        weights.load(module + ".irpa")
        modules = [runtime.create_io_parameters_module(config.vm_instance, weights.create_provider("model")),
                   runtime.create_hal_module(config.vm_instance, config.device),
                   runtime.VmModule.mmap(config.vm_instance, module + ".vmfb")]
        loaded = runtime.load_vm_modules(*modules, config=config)[-1]
        self.devices.append((driver, config))
        self._kept = (weights, modules)
        self._function = loaded[next(name for name in loaded.vm_module.function_names
                                     if not name.startswith("__") and not name.endswith("$async"))]
        self._device = config.device
        self.version = importlib.metadata.version("iree-base-runtime")
        self.give(feed)

    def give(self, feed):
        [runtime, _] = need(*self.packages)
        self._arguments = [runtime.asdevicearray(self._device, value) for value in feed.values()]

    def run(self):
        self._outputs = self._function(*self._arguments)

    def outputs(self):
        several = self._outputs if isinstance(self._outputs, (list, tuple)) else [self._outputs]
        return [numpy.array(output.to_host()) for output in several]


class PyTorch:
    """Eager, from the same file by way of onnx2torch; left out where that has no converter of an operator."""

    packages = ["torch", "onnx2torch"]

    def __init__(self, path, module, threads, feed):
        [torch, onnx2torch] = need(*self.packages)
        torch.set_num_threads(threads)
        self._torch = torch
        self._threads = threads
        try:
            self._model = onnx2torch.convert(path).eval()
        except NotImplementedError as error:
            raise Unavailable(f"onnx2torch: {error}") from None
        self.version = torch.__version__
        self.give(feed)

    def give(self, feed):
        self._arguments = [self._torch.from_numpy(value) for value in feed.values()]

    def run(self):
        with self._torch.inference_mode():
            self._outputs = self._model(*self._arguments)

    def outputs(self):
        several = self._outputs if isinstance(self._outputs, (list, tuple)) else [self._outputs]
        return [output.numpy() for output in several]


ENGINES = {"tensmith": Tensmith, "tensmith_exact": TensmithExact, "tensmith_bf16": TensmithBf16, "onnxruntime": OnnxRuntime,
           "openvino": OpenVino, "openvino_bf16": OpenVinoBf16, "iree": Iree, "torch": PyTorch}
ALIASES = {"ort": "onnxruntime"}


def precision_of(name):
    return getattr(ENGINES[name], "precision", "f32")
