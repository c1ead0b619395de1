"""What the engines' figures are held to, clause by clause: by the records of bench/race, bench/lengths and bench/top1.

A case is one clause for one model and thread count. Its `ratio` is ours to the bound, so that beyond 1 it is missed,
whether it is of times, of errors, of memory or of answers.
"""

import dataclasses
import math

OURS = "tensmith"
PEERS = ("onnxruntime", "openvino")  # the engines that a time is held against
DIFFERENCE = 1e-4  # of results in fp32 from ONNX Runtime's, as a part of the largest output
FIRST_RESULT_MS = 60  # beside a run, of FIRST_RESULT_OF
FIRST_RESULT_OF = "resnet50"
COMPILATION_S = 30
TO_STATIC = 1.1  # of one compilation for all lengths, to that for one
CHANCE = 2  # standard deviations that a count of answers may be below the other's
MEANS = {"fp32 time": 1.25, "exact time": 1.0, "bf16 time": 1.1}  # how many times as fast, in the geometric mean


@dataclasses.dataclass
class Case:
    clause: str
    model: str
    threads: int
    ours: str
    bound: str
    ratio: float

    @property
    def missed(self):
        return not self.ratio <= 1


def compared(clause, record, ours, bound, form, of="", model=None, failed=False):
    """A case of two figures; none where one is not there, but missed where ours `failed` to give one."""
    if bound is None or (ours is None and not failed):
        return
    ratio = math.inf if ours is None else ours / bound if bound else math.inf if ours else 1.0
    yield Case(clause, model or record["model"], record["threads"], "failed" if ours is None else format(ours, form),
               format(bound, form) + (f" ({of})" if of else ""), ratio)


def is_quantized(record):
    return record.get("quantized", record["model"].endswith("_int8"))  # as bench/quantize calls them


def against_best(clause, record, name, peers):
    """The median against the least of the others'."""
    times = {peer: record["engines"][peer]["median_ms"] for peer in peers if "median_ms" in record["engines"].get(peer, {})}
    best = min(times, key=times.get, default=None)
    own = record["engines"].get(name, {})
    return compared(clause, record, own.get("median_ms"), times.get(best), ".2f", best, failed="error" in own)


def cases_of_race(record):
    rows = record["engines"]
    figure = lambda name, key: rows.get(name, {}).get(key)
    if is_quantized(record):
        yield from against_best("int8 time", record, OURS, PEERS)
    else:
        yield from against_best("fp32 time", record, OURS, PEERS)
        yield from compared("fp32 difference", record, figure(OURS, "relative_error"), DIFFERENCE, ".1e")
        yield from against_best("bf16 time", record, f"{OURS}_bf16", ("openvino_bf16",))
        yield from compared("bf16 error", record, figure(f"{OURS}_bf16", "exact_error"), figure("openvino_bf16", "exact_error"),
                            ".2e", "openvino_bf16")
    yield from compared("peak memory", record, figure(OURS, "peak_mb"), figure("onnxruntime", "peak_mb"), ".0f", "onnxruntime")
    yield from compared("compilation, cold", record, figure(OURS, "compile_cold_s"), COMPILATION_S, ".1f")
    first, run = figure(OURS, "first_result_ms"), figure(OURS, "median_ms")
    if record["model"] == FIRST_RESULT_OF and first and run:
        yield from compared("first result", record, first, FIRST_RESULT_MS + run, ".0f")


def means_of_races(races):
    """The geometric means over all models, each with all its thread counts."""
    whole = [race for race in races if not is_quantized(race)]
    sources = {"fp32 time": (OURS, PEERS), "exact time": (f"{OURS}_exact", PEERS), "bf16 time": (f"{OURS}_bf16", ("openvino_bf16",))}
    for clause, (name, peers) in sources.items():
        for threads in sorted({race["threads"] for race in whole}):
            cases = [case for race in whole if race["threads"] == threads for case in against_best(clause, race, name, peers)
                     if math.isfinite(case.ratio)]
            if cases:
                faster = math.exp(-sum(math.log(case.ratio) for case in cases) / len(cases))
                yield Case(f"{clause}, geometric mean", f"{len(cases)} model{'s' if len(cases) > 1 else ''}", threads, f"{faster:.2f} times as fast",
                           f"{MEANS[clause]:.2f}", MEANS[clause] / faster)


def cases_of_lengths(record):
    for row in record["rows"]:
        for clause, key, bound in (("length, to the best", "to_best", 1.0), ("length, to static", "to_static", TO_STATIC)):
            yield from compared(clause, record, row.get(key), bound, ".2f", model=f"{record['model']} of {row['length']}")


def cases_of_answers(record):
    """Answers of the 8-bit model that are those in f32: as many as the better engine has, or fewer by no more than chance. Of the
    answers that only one of two engines has right, each is as likely to be the one's as the other's where they are equally good
    (McNemar's test)."""
    rows = {name: row["as_f32"] for name, row in record["engines"].items()}
    best = max((name for name in rows if name in PEERS), key=rows.get, default=None)
    if OURS in rows and best:
        chance = CHANCE * math.sqrt(sum(record["engines"][OURS].get("alone", {}).get(best, [0])))
        bound = max(rows[best] - chance, 0)
        yield Case("int8 answers", record["model"], record.get("threads", 1),
                   f"{rows[OURS]} of {record['engines'][OURS]['answers']}", f"{rows[best]} - {chance:.0f} ({best})",
                   bound / rows[OURS] if rows[OURS] else math.inf)


def all_cases(races, lengths, answers):
    cases = [case for record in races for case in cases_of_race(record)]
    cases += means_of_races(races)
    cases += [case for record in lengths for case in cases_of_lengths(record)]
    return cases + [case for record in answers for case in cases_of_answers(record)]


def answer_lines(answers):
    """How often models in 8 bits answer as in f32, engine by engine."""
    if not answers:
        return []
    names = list(answers[0]["engines"])
    lines = ["How often a model in 8 bits gives the same largest output as in f32 (`bench/top1`). Ours is held to the better count of the two",
             f"others less {CHANCE} standard deviations of what chance would do (McNemar's test, of the answers that only one of the two has right):",
             "", "| model | answers | " + " | ".join(names) + " |", "|---" * (len(names) + 2) + "|"]
    for record in answers:
        rows = record["engines"]
        lines.append(f"| {record['model']} | {rows[OURS]['answers']} | "
                     + " | ".join(str(rows[name]["as_f32"]) if name in rows else "-" for name in names) + " |")
    return lines + [""]


def clause_lines(cases):
    """All clauses with how many cases miss them, and each that does, the worst first."""
    if not cases:
        yield "No race is kept in `bench/results/`."
        return
    yield from ["| clause | cases | missed | worst: ours to the bound |", "|---|---|---|---|"]
    for clause in dict.fromkeys(case.clause for case in cases):
        own = [case for case in cases if case.clause == clause]
        worst = max(own, key=lambda case: case.ratio)
        yield (f"| {clause} | {len(own)} | {sum(case.missed for case in own)} | "
               f"{worst.ratio:.3f} ({worst.model}, {worst.threads} thread{'s' if worst.threads > 1 else ''}) |")
    missed = sorted((case for case in cases if case.missed), key=lambda case: -case.ratio)
    yield ""
    if not missed:
        yield "None is missed."
        return
    yield from ["Missed:", "", "| clause | model | threads | Tensmith | bound | ratio |", "|---|---|---|---|---|---|"]
    for case in missed:
        yield f"| {case.clause} | {case.model} | {case.threads} | {case.ours} | {case.bound} | {case.ratio:.3f} |"
