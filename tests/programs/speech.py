"""Speech for a voice detector: sentences by eSpeak NG, with pauses, noise and tones between them.

The synthesiser comes as a shared library with the package `espeakng-loader`; this speaks its C API
(https://github.com/espeak-ng/espeak-ng/blob/master/src/include/espeak-ng/speak_lib.h).
"""

import ctypes
import pathlib

import espeakng_loader
import numpy

AUDIO_OUTPUT_SYNCHRONOUS = 2
CHARACTERS_UTF8 = 1

SENTENCES = [
    ("en", "A compiler turns a program into another program, and nobody should see the difference."),
    ("de", "Heute ist ein schöner Tag, und morgen wird es regnen."),
    ("en", "One, two, three, four, five."),
    ("fr", "Il était une fois une petite fille qui habitait dans la forêt."),
]


class Synthesiser:
    """The library keeps one state for its process; so there is one of these."""

    def __init__(self):
        self._library = ctypes.cdll.LoadLibrary(espeakng_loader.get_library_path())
        data = espeakng_loader.get_data_path().encode()
        self.rate = self._library.espeak_Initialize(AUDIO_OUTPUT_SYNCHRONOUS, 0, data, 0)
        self._chunks = []
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
        self._callback = kind(self._take)
        self._library.espeak_SetSynthCallback(self._callback)

    def _take(self, samples, count, events):
        if samples and count > 0:
            self._chunks.append(numpy.ctypeslib.as_array(samples, (count,)).copy())
        return 0

    def say(self, language, text):
        """Samples from -1 to 1 at `rate`."""
        self._chunks = []
        self._library.espeak_SetVoiceByName(language.encode())
        data = text.encode() + b"\0"
        self._library.espeak_Synth(data, len(data), 0, 0, 0, CHARACTERS_UTF8, None, None)
        self._library.espeak_Synchronize()
        return numpy.concatenate(self._chunks).astype(numpy.float32) / 32768


def resampled(samples, rate, wanted):
    """By linear interpolation, which is enough for a test."""
    at = numpy.arange(int(len(samples) * wanted / rate)) * (rate / wanted)
    return numpy.interp(at, numpy.arange(len(samples)), samples).astype(numpy.float32)


def recordings(rate, folder):
    """By name: speech between pauses, the same in noise, and sound without any speech.

    The voice breathes at random, and so recordings are made once and kept in the folder.
    """
    path = pathlib.Path(folder) / f"recordings-{rate}.npz"
    if not path.exists():
        numpy.savez(path, **_made(rate))
    return dict(numpy.load(path))


def _made(rate):
    random = numpy.random.default_rng(5)
    synthesiser = Synthesiser()
    pause = numpy.zeros(int(0.7 * rate), numpy.float32)
    parts = [pause]
    for language, text in SENTENCES:
        parts += [resampled(synthesiser.say(language, text), synthesiser.rate, rate), pause]
    speech = numpy.concatenate(parts)
    noise = random.standard_normal(len(speech)).astype(numpy.float32)
    seconds = numpy.arange(3 * rate, dtype=numpy.float32) / rate
    return {
        "speech": speech,
        "speech in noise": numpy.clip(speech + 0.02 * noise, -1, 1),
        "noise": 0.1 * noise[: 3 * rate],
        "tones": (0.2 * numpy.sin(2 * numpy.pi * 440 * seconds) + 0.1 * numpy.sin(2 * numpy.pi * 666 * seconds)).astype(numpy.float32),
    }  # fmt: skip
