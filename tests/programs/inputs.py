"""Pictures with text and files of many types, made here or taken from the checkout; always the same."""

import gzip
import io
import json
import pathlib
import random
import wave
import zipfile

import numpy
from PIL import Image, ImageDraw, ImageFilter, ImageFont

ROOT = pathlib.Path(__file__).resolve().parents[2]

PARAGRAPH = """Tensmith compiles a neural network
into a native program for the machine
at hand, and runs it. A model goes in
as an ONNX file; what comes out is one
ELF shared object, 2026-11-21, 42.50 EUR."""


def _page(size, paint, ink, lines, height, angle=0):
    picture = Image.new("RGB", size, paint)
    draw = ImageDraw.Draw(picture)
    for number, line in enumerate(lines):
        draw.text((24, 20 + number * height * 1.6), line, ink, ImageFont.load_default(height))
    return picture.rotate(angle, expand=True, fillcolor=paint)


def pictures():
    """By name, as arrays of height x width x 3 (BGR, as OpenCV reads them)."""
    noise = numpy.random.default_rng(3)
    pages = {
        "paragraph": _page((640, 320), "white", "black", PARAGRAPH.splitlines(), 30),
        "sign": _page((480, 160), (20, 60, 160), (250, 230, 90), ["EXIT 24", "Platform 9"], 48),
        "upside down": _page((560, 140), "white", "black", ["Turn this page around", "and read it again"], 40, 180),
        "slanted": _page((520, 200), (240, 240, 230), (90, 20, 20), ["invoice no. 10023", "total: 1,299.00"], 40, 7),
        "small print": _page((420, 120), "white", (70, 70, 70), ["terms and conditions apply", "see overleaf (page 3)"], 16),
        "nothing": Image.new("RGB", (300, 200), (128, 130, 127)),
    }
    blurred = pages["paragraph"].filter(ImageFilter.GaussianBlur(1.2))
    grain = noise.integers(-25, 25, (*blurred.size[::-1], 3))
    pages["photo of a paragraph"] = Image.fromarray(numpy.clip(numpy.asarray(blurred) + grain, 0, 255).astype(numpy.uint8))
    return {name: numpy.ascontiguousarray(numpy.asarray(page)[:, :, ::-1]) for name, page in pages.items()}


def _saved(write):
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def _archive(buffer):
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo("notes.txt"), PARAGRAPH)


def _sound(buffer):
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes((numpy.sin(numpy.arange(8000) / 9) * 9000).astype(numpy.int16).tobytes())


def files():
    """Contents by name."""
    made = {
        "picture.png": _saved(lambda buffer: Image.fromarray(pictures()["sign"]).save(buffer, "PNG")),
        "picture.jpg": _saved(lambda buffer: Image.fromarray(pictures()["sign"]).save(buffer, "JPEG")),
        "page.pdf": _saved(lambda buffer: Image.fromarray(pictures()["paragraph"]).save(buffer, "PDF")),
        "archive.zip": _saved(_archive),
        "text.gz": gzip.compress(PARAGRAPH.encode() * 9, mtime=0),
        "sound.wav": _saved(_sound),
        "data.json": json.dumps({"rows": [{"name": f"n{i}", "value": i * 1.5} for i in range(40)]}, indent=1).encode(),
        "table.csv": "\n".join(f"{i},{i * i},{'abcdef'[i % 6]}" for i in range(90)).encode(),
        "page.html": b"<!doctype html><html><head><title>t</title></head><body><p>" + PARAGRAPH.encode() + b"</p></body></html>",
        "query.sql": b"SELECT name, count(*) FROM people WHERE age > 30 GROUP BY name ORDER BY 2 DESC;\n" * 4,
        "random.bin": random.Random(7).randbytes(5000),
        "prose.txt": PARAGRAPH.encode() * 3,
        "one.txt": b"x",
        "empty": b"",
    }
    kept = ["CMakeLists.txt", "README.md", "LICENSE", "run", "pyproject.toml", "runtime/plan.fbs", "runtime/Session.cpp",
            "include/tensmith/tensmith.h", "scripts/check", "examples/fashion/README.md"]  # fmt: skip
    return made | {name: (ROOT / name).read_bytes() for name in kept if (ROOT / name).is_file()}
