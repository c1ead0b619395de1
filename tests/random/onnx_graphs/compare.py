"""Runs random ONNX models compiled, by the reference evaluator and by ONNX Runtime, and compares what they give.

    PYTHONPATH=build/dev/python python tests/random/onnx_graphs/compare.py --count 10000 --jobs 2
    ... compare.py --count 2000 --onnxruntime                          # with ONNX Runtime, too
    ... compare.py --first 17 --count 1 --save failing/                # one of them, and its model

Each model is compiled under both policies of precision; under `exact` it runs on one to four threads, which must give
the same bits. A process takes a share of the seeds; one that dies is a failure of the seed that it had in hand.
"""

import argparse
import collections
import multiprocessing
import os
import pathlib
import sys
import time

import numpy

sys.path.insert(0, os.fspath(pathlib.Path(__file__).resolve().parent))

from generate import model_of  # noqa: E402

TOLERANCE = 2e-4


def differs(name, ours, theirs, tolerance=TOLERANCE):
    """Why the two are not the same value; None where they are."""
    if isinstance(theirs, list) or isinstance(ours, list):
        if not isinstance(ours, list) or len(ours) != len(theirs):
            return f"{name}: a sequence of another length"
        return next((why for i, pair in enumerate(zip(ours, theirs)) if (why := differs(f"{name}[{i}]", *pair))), None)
    ours, theirs = numpy.asarray(ours), numpy.asarray(theirs)
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return f"{name}: {ours.dtype}{list(ours.shape)} instead of {theirs.dtype}{list(theirs.shape)}"
    if tolerance == 0 or ours.dtype.kind != "f":
        same = ours.tobytes() == theirs.tobytes() if ours.dtype.kind == "f" else numpy.array_equal(ours, theirs)
        return None if same else f"{name}: other {'bits' if ours.dtype.kind == 'f' else 'elements'}"
    with numpy.errstate(invalid="ignore"):
        allowed = tolerance * max(1, numpy.abs(theirs[numpy.isfinite(theirs)]).max(initial=0))
        wrong = ~((ours == theirs) | (numpy.abs(ours - theirs) <= allowed) | (numpy.isnan(ours) & numpy.isnan(theirs)))
    if not wrong.any():
        return None
    at = tuple(int(i) for i in numpy.argwhere(wrong)[0])
    return f"{name}: {ours[at]} instead of {theirs[at]} at {list(at)}, {int(wrong.sum())} of {ours.size} elements"


def first_difference(model, ours, theirs, tolerance=TOLERANCE):
    names = [output.name for output in model.graph.output]
    return next((why for triple in zip(names, ours, theirs) if (why := differs(*triple, tolerance))), None)


def onnxruntime_outputs(model, feeds):
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds)


def check(seed, with_onnxruntime):
    """(verdict, message) of one seed: agrees, differs, refused (by the compiler or the run), peer (it refused)."""
    import tensmith

    model, feeds = model_of(seed)
    data = model.SerializeToString()
    try:
        expected = tensmith.compile(data, threads=1, reference=True).run(**feeds)
        fast = tensmith.compile(data, threads=2).run(**feeds)
        exact = tensmith.compile(data, threads=1, precision="exact")
        first = exact.run(**feeds)
        module = exact._source
        again = [tensmith.load(module, threads).run(**feeds) for threads in (1, 2, 3, 4)]
    except tensmith.Error as error:
        return "refused", str(error)
    for policy, outputs in (("fast", fast), ("exact", first)):
        if why := first_difference(model, outputs, expected):
            return "differs", f"{policy}, from the reference: {why}"
    for threads, outputs in zip((1, 2, 3, 4), again):
        if why := first_difference(model, outputs, first, 0):
            return "differs", f"on {threads} threads: {why}"
    if not with_onnxruntime:
        return "agrees", ""
    try:
        theirs = onnxruntime_outputs(model, feeds)
    except Exception as error:  # its exceptions have no common class that it exports
        return "peer", str(error).splitlines()[0][:200]
    why = first_difference(model, first, theirs)
    return ("differs", f"from ONNX Runtime: {why}") if why else ("agrees", "")


def work(seeds, with_onnxruntime, queue):
    for seed in seeds:
        queue.put((seed, "begins", ""))
        try:
            queue.put((seed, *check(seed, with_onnxruntime)))
        except Exception as error:
            queue.put((seed, "differs", f"{type(error).__name__}: {error}"))
    queue.put((None, "done", ""))


class Share:
    """A process and the seeds that are left to it."""

    def __init__(self, seeds, with_onnxruntime):
        self.seeds, self.with_onnxruntime = seeds, with_onnxruntime
        self.start()

    def start(self):
        self.queue = multiprocessing.Queue()
        self.current, self.since, self.finished = None, time.monotonic(), not self.seeds
        self.process = multiprocessing.Process(target=work, args=(self.seeds, self.with_onnxruntime, self.queue))
        self.process.start()

    def results(self, limit):
        """What came in; a process that died or takes longer than `limit` for a seed is started again after that seed."""
        while not self.queue.empty():
            seed, verdict, message = self.queue.get()
            self.since = time.monotonic()
            if verdict == "done":
                self.finished = True
            elif verdict == "begins":
                self.current = seed
            else:
                yield seed, verdict, message
        hangs = time.monotonic() - self.since > limit
        if self.finished or (self.process.is_alive() and not hangs) or not self.queue.empty():
            return
        self.process.kill()
        self.process.join()
        if self.current is None:
            yield self.seeds[0], "crashed", f"exit status {self.process.exitcode}, before the first"
            self.finished = True
            return
        yield self.current, "hung" if hangs else "crashed", f"exit status {self.process.exitcode}"
        self.seeds = self.seeds[self.seeds.index(self.current) + 1:]
        self.start()


def run(first, count, jobs, with_onnxruntime, save=None, limit=60):
    """Counts of the verdicts, and the failures."""
    seeds = list(range(first, first + count))
    shares = [Share(seeds[job::jobs], with_onnxruntime) for job in range(jobs)]
    counts, failures = collections.Counter(), []
    while not all(share.finished and share.queue.empty() for share in shares):
        time.sleep(0.05)
        for share in shares:
            for seed, verdict, message in share.results(limit):
                counts[verdict] += 1
                if sum(counts.values()) % 500 == 0:
                    print(f"{sum(counts.values())} of {count}: {counts['agrees']} agree", flush=True)
                if verdict != "agrees":
                    failures.append((seed, verdict, message))
                    print(f"seed {seed} {verdict}: {message}", flush=True)
                    keep(seed, save)
    for share in shares:
        share.process.join(5)
    return counts, failures


def keep(seed, folder):
    if folder is None:
        return
    import onnx

    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    model, feeds = model_of(seed)
    onnx.save(model, folder / f"seed-{seed}.onnx")
    numpy.savez(folder / f"seed-{seed}.npz", **feeds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--onnxruntime", action="store_true")
    parser.add_argument("--save", help="folder for the models that fail")
    chosen = parser.parse_args()
    start = time.monotonic()
    counted, failed = run(chosen.first, chosen.count, chosen.jobs, chosen.onnxruntime, chosen.save)
    total = ", ".join(f"{number} {verdict}" for verdict, number in counted.most_common())
    print(f"{chosen.count} models in {time.monotonic() - start:.0f} s: {total}")
    sys.exit(any(verdict != "peer" for _, verdict, _ in failed))
