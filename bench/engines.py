"""The engines of the race: this compiler and its peers, each set to its best for one stream of single requests in fp32.

An engine loads a model once, and `run` is one request with the same inputs. `prepare` does what a user does once per
model and not per start (compilation to a file), and gives its figures; peers have none. All may be loaded into one
process at the same time, so none may keep its threads spinning between runs.
"""

import pathlib
import time

import numpy


def memory_mb(key):
    """VmRSS (now) or VmHWM (the peak) of this process."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) / 1024
    raise KeyError(key)


class Tensmith:
    def __init__(self, path, module, threads, feed):
        import tensmith

        self._model = tensmith.load(module, threads)
        self._arguments = [feed[port["name"]] for port in self._model.inputs]
        self.version = tensmith.__version__

    @staticmethod
    def prepare(path, module, cache):
        """Compiles to a file. The cache decides whether that is cold or warm."""
        import tensmith

        start = time.perf_counter()
        model = tensmith.compile(path, cache_dir=cache)
        seconds = time.perf_counter() - start
        model.save(module)
        return {"seconds": seconds, "peak_mb": memory_mb("VmHWM")}

    def run(self):
        self._outputs = self._model.run(*self._arguments)

    def outputs(self):
        return self._outputs


class OnnxRuntime:
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
        self._feed = feed
        self.version = onnxruntime.__version__

    def run(self):
        self._outputs = self._session.run(None, self._feed)

    def outputs(self):
        return self._outputs


class OpenVino:
    def __init__(self, path, module, threads, feed):
        import openvino

        core = openvino.Core()
        # Where the CPU has bf16 that would be its default: another computation, with other errors.
        settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
        self._compiled = core.compile_model(core.read_model(path), "CPU", settings)
        self._request = self._compiled.create_infer_request()
        self._tensors = {name: openvino.Tensor(numpy.ascontiguousarray(value)) for name, value in feed.items()}
        for name, tensor in self._tensors.items():
            self._request.set_tensor(name, tensor)
        self.version = openvino.__version__

    def run(self):
        self._request.infer()

    def outputs(self):
        return [numpy.array(self._request.get_output_tensor(i).data) for i in range(len(self._compiled.outputs))]


ENGINES = {"tensmith": Tensmith, "onnxruntime": OnnxRuntime, "openvino": OpenVino}
ALIASES = {"ort": "onnxruntime"}
