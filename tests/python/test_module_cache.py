"""Whole modules in the cache: a second session doesn't load the compiler, and nothing that it takes is out of date, damaged
or someone else's.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tensmith

BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build/dev"))
TENSMITH = BUILD / "bin/tensmith"

# Prints whether the compiler was loaded, what is warned of, and what the model makes of ones.
SESSION = """
import json, sys, warnings
import numpy
import tensmith.ort as ort
model = sys.argv[1]
options = ort.SessionOptions()
for entry in sys.argv[2:]:
    if entry == "bytes":
        model = open(model, "rb").read()
    else:
        options.add_session_config_entry(*entry.split("=", 1))
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    session = ort.InferenceSession(model, options)
shape = [dim if isinstance(dim, int) else 2 for dim in session.get_inputs()[0].shape]
[y] = session.run(None, {session.get_inputs()[0].name: numpy.ones(shape, numpy.float32)})
compiled = "libtensmith_compiler" in open("/proc/self/maps").read()
print(json.dumps({"compiled": compiled, "warned": [str(one.message) for one in warned], "y": y.tolist(),
                  "producer": session.get_modelmeta().producer_name, "output": session.get_outputs()[0].name}))
"""


def write_model(path, scale=2.0, external=False):
    w = numpy_helper.from_array(numpy.full((3, 4), scale, numpy.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])], [w],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="a test")
    more = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0} if external else {}
    onnx.save(model, path, **more)
    time.sleep(0.02)  # a file that is written while its model is compiled is not kept; see ModuleCache.cpp
    return path


def environment(cache, **more):
    return {**os.environ, "TENSMITH_CACHE": str(cache), "PYTHONPATH": str(BUILD / "python"), **more}


def start(model, cache, *entries, **more):
    return subprocess.Popen([sys.executable, "-c", SESSION, model, *entries], env=environment(cache), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)


def told(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return json.loads(out)


def session(model, cache, *entries, **more):
    return told(start(model, cache, *entries, **more))


def run(*arguments, cache, **more):
    done = subprocess.run([TENSMITH, *map(str, arguments)], env=environment(cache, **more), capture_output=True, text=True,
                          timeout=300)
    return done


def entries(cache, kind="module"):
    return sorted(pathlib.Path(cache).glob(f"*.{kind}"))


@pytest.fixture
def model(tmp_path):
    return write_model(tmp_path / "model.onnx")


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.mark.parametrize("form", [[], ["bytes"]])
def test_a_second_session_does_without_the_compiler(model, cache, form):
    cold, warm = session(model, cache, *form), session(model, cache, *form)
    assert cold["compiled"] and not warm["compiled"]
    assert cold["y"] == warm["y"] == [[6.0] * 4] * 2
    assert (warm["producer"], warm["output"]) == ("a test", "y")
    assert cache.stat().st_mode & 0o777 == 0o700
    assert all(entry.stat().st_mode & 0o777 == 0o600 for entry in cache.iterdir())


def test_the_command_line_shares_what_python_keeps(model, cache):
    session(model, cache)
    done = run("run", model, "--input", "x=2x3xf32=ones", "--json", cache=cache, LD_DEBUG="files")
    assert done.returncode == 0 and "libtensmith_compiler" not in done.stderr
    assert json.loads(done.stdout)["outputs"][0]["max"] == 6.0
    other = run("run", model, "--input", "x=2x3xf32=ones", "--json", "--no-cache", cache=cache, LD_DEBUG="files")
    assert "libtensmith_compiler" in other.stderr


def test_python_asks_the_compiler_once_for_what_the_command_line_kept(model, cache):
    run("run", model, "--input", "x=2x3xf32=ones", cache=cache)
    first, second = session(model, cache), session(model, cache)
    assert first["producer"] == second["producer"] == "a test"
    assert not second["compiled"] and len(entries(cache)) == 1


def test_several_processes_at_once(model, cache):
    started = [start(model, cache) for _ in range(4)]
    assert [told(process)["y"] for process in started] == [[[6.0] * 4] * 2] * 4
    assert len(entries(cache)) == 1 and not list(cache.glob("*.part"))
    assert run("cache", "verify", cache=cache).returncode == 0
    assert not session(model, cache)["compiled"]


# The header, the code, the weights and what the entry ends with; of the model's entry, too.
@pytest.mark.parametrize("where", [0, 1 / 3, 2 / 3, 1])
@pytest.mark.parametrize("kind", ["module", "model"])
def test_a_damaged_entry_is_made_again(model, cache, where, kind):
    session(model, cache)
    [entry] = entries(cache, kind)
    whole = entry.read_bytes()
    at = min(int(where * len(whole)), len(whole) - 1)
    entry.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    verified = run("cache", "verify", cache=cache)
    assert verified.returncode == 1 and entry.name in verified.stdout
    again = session(model, cache)
    assert again["compiled"] and again["y"] == [[6.0] * 4] * 2
    assert run("cache", "verify", cache=cache).returncode == 0
    assert not session(model, cache)["compiled"]


def test_a_truncated_entry_is_made_again(model, cache):
    session(model, cache)
    [entry] = entries(cache)
    os.truncate(entry, 4096)
    assert session(model, cache)["y"] == [[6.0] * 4] * 2
    assert not session(model, cache)["compiled"]


def test_a_folder_that_others_can_write_is_refused_in_words(model, cache):
    cache.mkdir()
    cache.chmod(0o777)
    made = session(model, cache)
    assert made["compiled"] and made["y"] == [[6.0] * 4] * 2
    [warning] = made["warned"]
    assert str(cache) in warning and "others may write to it" in warning and "chmod go-w" in warning
    assert not list(cache.iterdir())
    done = run("run", model, "--input", "x=2x3xf32=ones", cache=cache)
    assert done.returncode == 0 and done.stderr.count("others may write to it") == 1
    assert run("cache", "list", cache=cache).returncode == 1


def as_nobody(tmp_path, monkeypatch):
    """Of root, to whom every folder is open: what makes a process another user's, and gives that the test's files."""
    if os.geteuid() != 0:
        return {}
    for path in [tmp_path, *tmp_path.rglob("*")]:
        os.chown(path, 65534, 65534)
    for parent in list(tmp_path.parents)[:-2]:
        parent.chmod(parent.stat().st_mode | 0o011)
    return {"user": 65534, "group": 65534, "extra_groups": []}


def test_a_cache_that_can_only_be_read(model, cache, tmp_path, monkeypatch):
    session(model, cache)
    other = write_model(tmp_path / "other.onnx", 3.0)
    cache.chmod(0o500)
    user = as_nobody(tmp_path, monkeypatch)
    if user and subprocess.run([sys.executable, "-c", "import tensmith"], env=environment(cache), capture_output=True,
                               **user).returncode:
        pytest.skip("another user can't read this checkout")
    warm = session(model, cache, **user)
    assert not warm["compiled"] and warm["warned"] == []
    cold = session(other, cache, **user)
    assert cold["y"] == [[9.0] * 4] * 2
    [warning] = cold["warned"]
    assert "can't be written" in warning and "Permission denied" in warning
    assert not list(cache.glob("*.part"))
    cache.chmod(0o700)


def test_a_full_disk(model, cache):
    cache.mkdir(0o700)
    small = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=16k,mode=700 none "$0" && "$@" && ls "$0"', cache]
    if subprocess.run([*small, "true"], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    done = subprocess.run([*small, sys.executable, "-c", SESSION, model], env=environment(cache), capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, done.stderr
    said, *left = done.stdout.splitlines()
    said = json.loads(said)
    assert said["y"] == [[6.0] * 4] * 2 and not [name for name in left if name.endswith((".part", ".module"))]
    [warning] = said["warned"]
    assert "No space left on device" in warning and "free some space" in warning


def test_weights_beside_the_model_are_looked_at(tmp_path, cache):
    model = write_model(tmp_path / "model.onnx", external=True)
    session(model, cache)
    assert not session(model, cache)["compiled"]
    weights = tmp_path / "weights.bin"
    before = weights.stat()
    weights.write_bytes(numpy.full(12, 5.0, numpy.float32).tobytes())
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))  # times tell nothing: contents do
    time.sleep(0.02)
    assert session(model, cache)["y"] == [[15.0] * 4] * 2
    assert not session(model, cache)["compiled"]
    weights.write_bytes(numpy.full(12, 2.0, numpy.float32).tobytes())
    back = session(model, cache)  # as it was once: that module is there still
    assert back["y"] == [[6.0] * 4] * 2 and not back["compiled"]
    weights.unlink()
    gone = start(model, cache)
    assert "weights.bin" in gone.communicate(timeout=300)[1] and gone.returncode != 0


def test_equal_models_with_other_weights_in_other_folders(tmp_path, cache):
    for name, scale in ("a", 2.0), ("b", 3.0):
        (tmp_path / name).mkdir()
        write_model(tmp_path / name / "model.onnx", scale, external=True)
    assert (tmp_path / "a/model.onnx").read_bytes() == (tmp_path / "b/model.onnx").read_bytes()
    for _ in range(2):
        a, b = (session(tmp_path / name / "model.onnx", cache) for name in "ab")
        assert (a["y"], b["y"]) == ([[6.0] * 4] * 2, [[9.0] * 4] * 2)
    assert not a["compiled"] and not b["compiled"]


def test_a_model_that_changes_is_another(model, cache):
    session(model, cache)
    write_model(model, 4.0)
    changed = session(model, cache)
    assert changed["compiled"] and changed["y"] == [[12.0] * 4] * 2


def test_options_are_a_part_of_the_key(model, cache):
    for entry in "tensmith.precision=exact", "tensmith.target=x86-64-v2", "tensmith.precision=bf16":
        assert session(model, cache, entry)["compiled"]
        assert not session(model, cache, entry)["compiled"]
    made = len(entries(cache))
    for more in ["-O0"], ["--shape", "n=2"], ["--keep", "p"], ["--evaluate-by-reference"]:
        assert run("run", model, "--input", "x=2x3xf32=ones", *more, cache=cache).returncode == 0
        made += 1
        assert len(entries(cache)) == made, more
    # An output more than Python's sessions have.
    kept = json.loads(run("run", model, "--input", "x=2x3xf32=ones", "--keep", "p", "--json", cache=cache).stdout)
    assert [output["name"] for output in kept["outputs"]] == ["y", "p"]


def test_what_was_measured_of_the_machine_is_a_part_of_the_key(model, cache):
    session(model, cache)
    (cache / "machines").mkdir()
    (cache / "machines/0123456789abcdef.json").write_text("{}")
    assert session(model, cache)["compiled"]


def test_the_schedules_contents_are_a_part_of_the_key(model, cache, tmp_path):
    schedules = tmp_path / "schedules.json"
    counts = []
    for text in '{"schedules": []}', '{"schedules": [] }', '{"schedules": []}':
        schedules.write_text(text)
        assert run("run", model, "--input", "x=2x3xf32=ones", "--schedules", schedules, cache=cache).returncode == 0
        counts.append(len(entries(cache)))
    assert counts == [1, 2, 2]


def test_a_programs_imports_and_tensors_are_looked_at(tmp_path, cache):
    numpy.save(tmp_path / "w.npy", numpy.full(3, 2.0, numpy.float32))
    (tmp_path / "scale.tsm").write_text("fn scaled(x) = x * 10.0\n")
    program = tmp_path / "p.tsm"
    program.write_text('import "scale.tsm"\nlet w = load("w.npy")\nfn main(x: f32[3]) = scaled(x * w)\n')

    def result():
        time.sleep(0.02)
        done = run("run", program, "--input", "x=3xf32=ones", "--json", cache=cache, LD_DEBUG="files")
        return json.loads(done.stdout)["outputs"][0]["max"], "libtensmith_compiler" in done.stderr

    assert [result(), result()] == [(20.0, True), (20.0, False)]
    numpy.save(tmp_path / "w.npy", numpy.full(3, 3.0, numpy.float32))
    assert [result(), result()] == [(30.0, True), (30.0, False)]
    (tmp_path / "scale.tsm").write_text("fn scaled(x) = x * 100.0\n")
    assert [result(), result()] == [(300.0, True), (300.0, False)]


def test_without_a_cache_nothing_is_kept(model, cache):
    assert session(model, cache, "tensmith.cache_dir=")["compiled"]
    assert session(model, cache, "tensmith.cache_dir=")["compiled"]
    assert not cache.exists()


def test_a_session_saves_its_module(model, cache, tmp_path, monkeypatch):
    """The entry has more in it than the module."""
    monkeypatch.setenv("TENSMITH_CACHE", str(cache))
    import tensmith.ort as ort

    for path in tmp_path / "cold.so", tmp_path / "warm.so":
        options = ort.SessionOptions()
        options.optimized_model_filepath = str(path)
        ort.InferenceSession(model, options)
        assert tensmith.load(path)(numpy.ones((1, 3), numpy.float32)).tolist() == [[6.0] * 4]
    assert (tmp_path / "cold.so").read_bytes() == (tmp_path / "warm.so").read_bytes()


def test_an_entry_that_is_pruned_goes_on_for_those_who_have_it(model, cache, monkeypatch):
    monkeypatch.setenv("TENSMITH_CACHE", str(cache))
    import tensmith.ort as ort

    for _ in range(2):
        kept = ort.InferenceSession(model)
    done = run("cache", "prune", "--all", "--json", cache=cache)
    assert json.loads(done.stdout)["bytes"] > 0 and not entries(cache)
    assert kept.run(None, {"x": numpy.ones((1, 3), numpy.float32)})[0].tolist() == [[6.0] * 4]


def test_the_least_recently_used_go_first(tmp_path, cache):
    models = [write_model(tmp_path / f"{scale}.onnx", scale) for scale in (2.0, 3.0, 4.0)]
    for number, one in enumerate(models):
        session(one, cache)
        for entry in cache.iterdir():  # an hour apart
            if entry.stat().st_mtime > time.time() - 1800:
                os.utime(entry, (time.time() - 36000 + number * 3600,) * 2)
    session(models[0], cache)
    listed = json.loads(run("cache", "list", "--json", cache=cache).stdout)
    modules = [entry for entry in listed["entries"] if entry["kind"] == "module"]
    assert [pathlib.Path(entry["model"]).name for entry in modules] == ["3.0.onnx", "4.0.onnx", "2.0.onnx"]
    assert listed["bytes"] == sum(entry["bytes"] for entry in listed["entries"])
    text = run("cache", "list", cache=cache).stdout
    assert "3.0.onnx" in text and "kernel" in text
    limit = listed["bytes"] - modules[0]["bytes"]
    removed = json.loads(run("cache", "prune", "--limit", limit, "--json", cache=cache).stdout)["removed"]
    assert modules[0]["key"] in {entry["key"] for entry in removed}
    assert not session(models[0], cache)["compiled"] and session(models[1], cache)["compiled"]


def test_a_bare_name_of_a_model_with_a_file_beside_it(tmp_path, cache):
    """Breaks if a path without a folder is taken for one in no folder."""
    write_model(tmp_path / "model.onnx", external=True)
    first, second = (session("model.onnx", cache, cwd=tmp_path) for _ in range(2))
    assert first["y"] == second["y"] == [[6.0] * 4] * 2
    assert first["compiled"] and not second["compiled"]
    write_model(tmp_path / "model.onnx", 3.0, external=True)
    assert session("model.onnx", cache, cwd=tmp_path)["y"] == [[9.0] * 4] * 2


def test_verify_removes_what_is_damaged(model, cache):
    session(model, cache)
    [entry] = entries(cache)
    entry.write_bytes(b"damage")
    done = run("cache", "verify", "--remove", "--json", cache=cache)
    assert done.returncode == 0 and len(json.loads(done.stdout)["damaged"]) == 1 and not entry.exists()


def test_a_limit_that_is_no_size_is_told_of(model, cache):
    """Breaks if a limit is passed over, or taken for none: everything would be removed, or nothing."""
    kept = run("compile", model, "-o", cache.parent / "m.so", cache=cache, TENSMITH_CACHE_LIMIT="2GiB")
    assert kept.returncode == 0 and "TENSMITH_CACHE_LIMIT" not in kept.stderr
    before = sorted(cache.iterdir())
    assert before
    for command in (("cache", "list"), ("cache", "prune")):
        done = run(*command, cache=cache, TENSMITH_CACHE_LIMIT="two")
        assert done.returncode != 0 and "TENSMITH_CACHE_LIMIT is no number of bytes; set it to one, as 500MB or 2GiB" in done.stderr
    assert sorted(cache.iterdir()) == before
