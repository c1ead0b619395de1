"""What a user does first with the wheel `tensmith`, where nothing else of Tensmith is: `python try_wheel.py CHECKOUT_FILES`.

Compiles a model and a network, runs them from Python and the command line, trains the network on Fashion-MNIST's test
pictures until it has learnt something, loads what came of it, and imports the package in less time than is allowed. Run by
`scripts/package test` in a bare root; the folder has examples/fashion/train and the pictures.
"""

import gzip
import json
import pathlib
import statistics
import struct
import subprocess
import sys
import sysconfig
import time

import numpy
import onnx
from onnx import TensorProto, helper

MOST_SECONDS = 0.15  # of an import beside NumPy's, in CPU time

folder = pathlib.Path(sys.argv[1])
program = pathlib.Path(sysconfig.get_path("scripts")) / "tensmith"


def read_idx(path):
    file = gzip.decompress(path.read_bytes())
    rank = file[3]
    return numpy.frombuffer(file, numpy.uint8, offset=4 + 4 * rank).reshape(struct.unpack_from(f">{rank}I", file, 4))


def small_model():
    port = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [port("x")], [port("y")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "m.onnx")


def try_model(tensmith):
    small_model()
    x = numpy.array([[-1, 0, 2]], numpy.float32)
    assert (tensmith.compile("m.onnx")(x) == numpy.maximum(x, 0)).all()
    for words in (["compile", "m.onnx", "-o", "m.so"], ["run", "m.so", "--input", "x=2x3xf32=ones"], ["version"],
                  ["compile", "m.onnx", "-o", "board.so", "--target", "aarch64:cortex-a53"]):  # fmt: skip
        subprocess.run([program, *words], check=True)
    assert (tensmith.load("m.so")(x) == numpy.maximum(x, 0)).all()


def try_eager_tensors():
    import tensmith.numpy as tnp

    assert (tnp.arange(5) + 1).tolist() == [1, 2, 3, 4, 5]


def try_picture(tensmith):
    """The library of codecs has what it needs; of GPL there is nothing in it, and so no TIFF."""
    one = helper.make_tensor_value_info("picture", TensorProto.UINT8, ["n"])
    out = helper.make_tensor_value_info("pixels", TensorProto.UINT8, ["h", "w", 3])
    node = helper.make_node("ImageDecoder", ["picture"], ["pixels"], pixel_format="RGB")
    graph = helper.make_graph([node], "g", [one], [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    decode = tensmith.compile(model.SerializeToString())
    pixels = decode(numpy.frombuffer(b"P6 1 2 255\n\x01\x02\x03\x04\x05\x06", numpy.uint8))
    assert pixels.tolist() == [[[1, 2, 3]], [[4, 5, 6]]], pixels
    try:
        decode(numpy.frombuffer(b"II*\0" + bytes(20), numpy.uint8))
        raise AssertionError("a TIFF was read")
    except tensmith.Error as error:
        assert "convert it to PNG" in str(error), error


def try_tokenizer(tensmith):
    """The part of ICU that is inside has normal forms and classes of characters."""
    splits = {"type": "Split", "pattern": {"Regex": r"\p{L}+|\p{N}"}, "behavior": "Isolated", "invert": False}
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "1": 3}, "merges": ["a b"]}
    file = pathlib.Path("tokenizer.json")
    file.write_text(json.dumps({"normalizer": {"type": "NFKC"}, "pre_tokenizer": splits, "model": model, "added_tokens": []}))
    tokenizer = tensmith.language.Tokenizer(file)
    assert tokenizer.encode("\uff41\uff42\uff11", begins=False) == [2, 3]  # wide forms of a, b and 1
    assert tokenizer.decode([2, 3]) == "ab 1", tokenizer.decode([2, 3])


def try_training(tensmith):
    subprocess.run([sys.executable, folder / "examples/fashion/train/make_model.py"], check=True)
    images, labels = (read_idx(folder / f"fashion-mnist/t10k-{part}.gz") for part in ("images-idx3-ubyte", "labels-idx1-ubyte"))
    begin = time.monotonic()
    trained = tensmith.train(folder / "examples/fashion/train/fashion.toml", (images[:8000], labels[:8000]), epochs=1,
                             schedule="constant", learning_rate=0.01, output="fashion-run")  # fmt: skip
    answers = trained.model(images[8000:, None].astype(numpy.float32) / 255).argmax(1)
    right = (answers == labels[8000:]).mean()
    print(f"trained {trained.step} steps in {time.monotonic() - begin:.0f} s; right: {right:.1%}")
    assert right > 0.7


def seconds_of_import():
    """CPU time of `import tensmith` less that of `import numpy`: the median of pairs."""
    measure = "import sys, time, numpy; a = time.process_time(); import tensmith; print(time.process_time() - a)"
    times = [float(subprocess.run([sys.executable, "-c", measure], check=True, capture_output=True, text=True).stdout)
             for _ in range(9)]  # fmt: skip
    return statistics.median(times)


def main():
    import tensmith

    assert pathlib.Path(tensmith.__file__).is_relative_to(sysconfig.get_path("platlib")), tensmith.__file__
    try_model(tensmith)
    try_picture(tensmith)
    try_eager_tensors()
    try_tokenizer(tensmith)
    try_training(tensmith)
    seconds = seconds_of_import()
    print(f"import: {seconds * 1000:.0f} ms beside NumPy")
    assert seconds < MOST_SECONDS


main()
