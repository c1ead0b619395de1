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


def blocks(runs, seconds, lead=0.02, length=0.01, least=5):
    """The same in blocks of calls, at most twenty, for `length` seconds: each of the functions as it is when it is called again and again. Calls of the first `lead`
    seconds are left out: threads of the function before wait for work that long, as those of OpenMP do, and keep others from a core."""
    times = [[] for _ in runs]
    start = time.perf_counter()
    while time.perf_counter() - start < seconds or len(times[0]) < least:
        for run, own in zip(runs, times):
            begin = time.perf_counter()
            while time.perf_counter() - begin < lead:
                run()
            counted, begin = 0, time.perf_counter()
            while not counted or counted < 20 and time.perf_counter() - begin < length:
                before = time.perf_counter()
                run()
                own.append(time.perf_counter() - before)
                counted += 1
    return times


def cpu_turns(runs, rounds=5, seconds=0, given=None, clock=time.process_time):
    """name -> the process's CPU seconds in each of so many rounds, or more within `seconds`. Each round begins with another of the runs.

    given: of a round's number what its runs are called with, made outside of the time. clock: another time than that of the CPU."""
    taken, order, start = {name: [] for name in runs}, list(runs), time.perf_counter()
    number = 0
    while number < rounds or time.perf_counter() - start < seconds:
        for name in order:
            arguments = given(number) if given else ()
            before = clock()
            runs[name](*arguments)
            taken[name].append(clock() - before)
        order = order[1:] + order[:1]
        number += 1
    return taken


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
