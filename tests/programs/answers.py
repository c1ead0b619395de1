"""Runs one program on one engine: `answers.py PROGRAM ENGINE FOLDER` writes its answers to FOLDER/PROGRAM-ENGINE.json.

The programs are as they are installed. For the engine "tensmith", `tensmith.ort.install()` is what changes: it comes before
the program's first import. Numbers that the program shows as they are (probabilities, scores) are written as numbers, to be
compared within a tolerance; all else must be the same.
"""

import json
import pathlib
import sys
import time


def rapidocr(folder):
    import inputs
    from rapidocr_onnxruntime import RapidOCR

    engine = RapidOCR()
    for name, picture in inputs.pictures().items():
        found, _ = engine(picture)
        yield name, [{"box": box, "text": text, "score": float(score)} for box, text, score in found or ()]


def magika(folder):
    import inputs
    from magika import Magika

    engine = Magika()
    for name, content in inputs.files().items():
        result = engine.identify_bytes(content)
        yield name, {"label": str(result.output.label), "model": str(result.dl.label), "score": float(result.score)}


def _streamed(rate, model, folder):
    """As the package's examples: the timestamps, and each chunk's probability (a state goes from one to the next)."""
    import silero_vad
    import speech
    import torch

    chunk = 512 if rate == 16000 else 256
    for name, samples in speech.recordings(rate, folder).items():
        samples = torch.from_numpy(samples)
        stamps = silero_vad.get_speech_timestamps(samples, model, sampling_rate=rate)
        model.reset_states()
        chunks = [samples[at : at + chunk] for at in range(0, len(samples) - chunk, chunk)]
        yield name, {"speech": stamps, "scores": [float(model(part, rate)) for part in chunks]}


def silero(folder):
    import silero_vad

    model = silero_vad.load_silero_vad(onnx=True)
    for rate in (16000, 8000):
        for name, answer in _streamed(rate, model, folder):
            yield f"{name}, {rate} Hz", answer
    for name, answer in _streamed(16000, silero_vad.load_silero_vad(onnx=True, opset_version=15), folder):
        yield f"{name}, opset 15", answer


def silero_sequence(folder):
    import silero_vad
    import speech
    from silero_vad.sequence_vad import get_speech_timestamps_sequence

    model = silero_vad.load_silero_vad(sequence=True)
    for name, samples in speech.recordings(16000, folder).items():
        stamps = get_speech_timestamps_sequence(samples, model)
        yield name, {"speech": stamps, "scores": model.audio_forward(samples).tolist()}


PROGRAMS = {"rapidocr": rapidocr, "magika": magika, "silero": silero, "silero-sequence": silero_sequence}


def main():
    program, engine, folder = sys.argv[1:]
    if engine == "tensmith":
        import tensmith.ort

        tensmith.ort.install()
    answers, seconds = {}, {}
    for turn in ("first", "second"):  # the first turn loads, compiles and warms up
        start = time.perf_counter()
        answers = dict(PROGRAMS[program](folder))
        seconds[turn] = time.perf_counter() - start
    import onnxruntime

    session = onnxruntime.InferenceSession
    out = pathlib.Path(folder) / f"{program}-{engine}.json"
    out.write_text(json.dumps({"engine": session.__module__, "answers": answers, "seconds": seconds}))


main()
