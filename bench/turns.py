"""Functions that run alternately, so that what disturbs the machine disturbs them all."""

import statistics
import time


def turns(runs, seconds, least=5):
    """The times of each of the functions in seconds, turn by turn, after one call of each."""
    times = [[] for _ in runs]
    for run in runs:
        run()
    start = time.perf_counter()
    while time.perf_counter() - start < seconds or len(times[0]) < least:
        for run, own in zip(runs, times):
            before = time.perf_counter()
            run()
            own.append(time.perf_counter() - before)
    return times


def microseconds(times):
    """(median, least) of each list of seconds."""
    return [(statistics.median(own) * 1e6, min(own) * 1e6) for own in times]


def onnx_runtime(model, threads):
    """The model's bytes as a function from named inputs to outputs."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(None, inputs)
