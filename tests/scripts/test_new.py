"""scripts/new makes, in a copy of this tree, files that stand at their places, pass scripts/check, and work as they stand.

It is run on the real sources, so that it fails when the layout moves away from what the templates and
docs/adding-an-operator.md say.
"""

import concurrent.futures
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev"))
LLVM = pathlib.Path("/usr/lib/llvm-19")
COPIED = ["scripts", "base", "cache", "reference", "compiler", "runtime", "include", "libraries", "tools", "cmake", "tests/python"]


def copied(to):
    for folder in COPIED:
        shutil.copytree(ROOT / folder, to / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in (".clang-format", "CMakeLists.txt"):
        shutil.copy(ROOT / file, to)
    return to


@pytest.fixture
def tree(tmp_path):
    return copied(tmp_path)


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    """A copy for what changes nothing."""
    return copied(tmp_path_factory.mktemp("untouched"))


def new(tree, *arguments):
    return subprocess.run([sys.executable, tree / "scripts/new", *arguments], capture_output=True, text=True)


def texts(tree):
    return {path.relative_to(tree).as_posix(): path.read_text() for folder in COPIED
            for path in (tree / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts}


def made(tree, *arguments):
    """What an invocation changed or made; each file must be listed with the line where there is something left to do."""
    before = texts(tree)
    done = new(tree, *arguments)
    assert done.returncode == 0, done.stderr
    after = texts(tree)
    changed = {path for path in after if after[path] != before.get(path)}
    assert changed == {line.partition(":")[0] for line in done.stdout.splitlines() if re.match(r"\S+:\d+: ", line)}
    return changed


def assert_passes_check(tree, changed):
    done = subprocess.run([sys.executable, tree / "scripts/check", "--root", tree, *(tree / path for path in changed)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def command_of(output):
    """How the build makes a file of its own."""
    done = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", "-s", output], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


def own_headers(tree):
    """A folder of the copy's headers that are not the build's, and whether one of them is in the precompiled header.

    Of a header that is the same in both, the build's is taken: it is the file that the precompiled header knows.
    """
    folder = tree / "own"
    shutil.rmtree(folder, ignore_errors=True)
    changed = [path for path in tree.rglob("*") if path.suffix in (".h", ".inc") and differs(path, ROOT / path.relative_to(tree))]
    for path in changed:
        (folder / path.relative_to(tree)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / path.relative_to(tree))
    return folder, any(path.is_relative_to(tree / "compiler/graph") for path in changed)


def differs(path, other):
    return not other.exists() or path.read_bytes() != other.read_bytes()


def words_of(output):
    """The compiler's words of that command, without those of the cache before it."""
    words = shlex.split(command_of(output))
    return words[next(i for i, word in enumerate(words) if "clang" in word) :]


PRECOMPILED = "compiler/CMakeFiles/tensmith_pch.dir/cmake_pch.hxx.pch"


def precompiled(tree, headers):
    """The build's precompiled header, made anew from the copy's own headers: each source would take as long to read them as it is made in."""
    words = words_of(PRECOMPILED)
    for option, value in [("-o", tree / "own.pch"), ("-MF", tree / "own.d")]:
        words[words.index(option) + 1] = value
    done = subprocess.run([words[0], "-I", headers, "-I", headers / "include", *words[1:]], capture_output=True, text=True, cwd=BUILD)
    assert done.returncode == 0, done.stderr[-4000:]
    return tree / "own.pch"


def compiled(tree, source, headers, header):
    """An object of the copy's source, by the flags of the build's own, or of a file of its layer; the copy's own headers come first, and its
    precompiled one where it has one."""
    level = []
    if not source.startswith("reference/"):
        beside, level = "compiler/rewrite/CMakeFiles/tensmith_rewrite.dir/Hoist.cpp.o", ["-O1"]
    elif "/test/" in source:
        beside = "reference/CMakeFiles/tensmith_reference.dir/Reference.cpp.o"
    else:
        beside = f"reference/CMakeFiles/tensmith_reference.dir/{pathlib.Path(source).name}.o"
    words = words_of(beside)
    kept, skipped = [words[0], "-I", headers, "-I", headers / "include"], {"-o": 2, "-c": 2, "-MF": 2, "-MT": 2, "-MD": 1}
    at = 1
    while at < len(words):
        if words[at] in skipped:
            at += skipped[words[at]]
        else:
            kept.append(header if header and words[at].endswith(PRECOMPILED) else words[at])
            at += 1
    object_ = tree / (source.replace("/", "_") + ".o")
    done = subprocess.run([*kept, *level, "-o", object_, "-c", tree / source], capture_output=True, text=True, cwd=BUILD)
    assert done.returncode == 0, done.stderr[-4000:]
    return object_


def linked(tree, program, own, *sources):
    """A program of the build with these sources of the copy in the place of its own objects, of which a test has `own`."""
    headers, is_graph_changed = own_headers(tree)
    header = precompiled(tree, headers) if is_graph_changed and any(not source.startswith("reference/") for source in sources) else None
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(lambda source: compiled(tree, source, headers, header), sources))
    command = command_of(program)
    if own:  # a test, whose cases are those of the sources alone
        command = re.sub(r" \S+/test/\S+\.cpp\.o(?= )", "", command)
    # The first definitions of what an archive has as well count, since the archive's member isn't needed any more.
    name = tree / pathlib.Path(program).name
    command = command.replace(f"-o {program}", f"-o {name} " + " ".join(map(str, objects)))
    if not own:  # which has all members of some archives
        command = command.replace("-Wl,--whole-archive", "")
    done = subprocess.run(command, shell=True, cwd=BUILD, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return name


def build_opt(tree, *sources):
    return linked(tree, "bin/tensmith-opt", False, *sources)


def passes(program, *arguments):
    """Runs a test program; it must have cases, and none may be skipped."""
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "[  PASSED  ]" in done.stdout and "SKIPPED" not in done.stdout, done.stdout[-4000:] + done.stderr[-2000:]


def file_checks(program, test):
    """The RUN lines of a text test, by this program."""
    runs = re.findall(r"^// RUN: (.*)$", test.read_text(), re.MULTILINE)
    assert runs
    for line in runs:
        command = line.replace("tensmith-opt", str(program)).replace("FileCheck", str(LLVM / "bin/FileCheck")).replace("%s", str(test))
        done = subprocess.run(["bash", "-c", "set -o pipefail; " + command], capture_output=True, text=True)
        assert done.returncode == 0, line + "\n" + done.stderr[-4000:]


def generate(tree, record, output, *flags):
    """Runs TableGen on the copy's records into the copy."""
    command = [LLVM / "bin/mlir-tblgen", *flags, "-I", tree, "-I", LLVM / "include", tree / record, "-o", tree / output]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tree)  # whose includes TableGen tries first
    assert done.returncode == 0, done.stderr[-4000:]


def offered_families():
    return new(ROOT, "operator", "soft_sign").stderr.partition("--family: ")[2].strip().split(", ")


@pytest.mark.parametrize("family", offered_families())
def test_operator_stands_at_its_places(tree, family):
    # Of element-wise operators the reference evaluations stand in three files, and new ones go to the functions.
    reference = "reference/Functions.cpp" if family == "Elementwise" else f"reference/{family}.cpp"
    # Families that nothing is differentiated in share a table.
    gradient = f"compiler/graph/{family if (ROOT / f'compiler/graph/{family}Gradient.cpp').exists() else 'Creation'}Gradient.cpp"
    changed = made(tree, "operator", "soft_sign", "--family", family)
    assert changed == {
        f"compiler/graph/{family}Ops.td", f"compiler/graph/{family}.cpp", f"compiler/graph/{family}Code.cpp",
        gradient, reference, "reference/test/SoftSignTest.cpp", "compiler/graph/test/soft_sign.mlir",
    }
    assert_passes_check(tree, changed)
    generate(tree, "compiler/graph/GraphOps.td", "records.inc", "-gen-op-decls")
    assert '"graph.soft_sign"' in (tree / "records.inc").read_text()


def test_operators_work_as_they_stand(tree):
    """They are printed and read, parts of kernels, differentiated, and evaluated."""
    operators = {"SoftSign": ("Elementwise", "reference/Functions.cpp"), "OuterSum": ("Contraction", "reference/Contraction.cpp")}
    for name, (family, _) in operators.items():
        made(tree, "operator", name, "--family", family)
        generate(tree, f"compiler/graph/{family}Ops.td", f"compiler/graph/{family}Ops.cpp.inc", "-gen-op-defs")
    generate(tree, "compiler/graph/GraphOps.td", "compiler/graph/GraphOps.h.inc", "-gen-op-decls")
    references = [reference for _, reference in operators.values()]
    program = build_opt(tree, *(f"compiler/graph/{family}{part}.cpp" for family, _ in operators.values() for part in ("", "Code", "Gradient")), *references)
    for test in ("soft_sign", "outer_sum"):
        file_checks(program, tree / f"compiler/graph/test/{test}.mlir")
    passes(linked(tree, "test/reference_test", True, *references, *(f"reference/test/{name}Test.cpp" for name in operators)))


def test_template_stands_at_its_places(tree):
    """Breaks if what is made doesn't work as it is, or isn't in the table."""
    changed = made(tree, "template", "OuterProduct")
    assert changed == {"compiler/targets/cpu/templates/OuterProductKernel.h", "compiler/targets/cpu/templates/OuterProductKernel.cpp",
                       "compiler/targets/cpu/templates/test/OuterProductKernelTest.cpp", "compiler/targets/cpu/templates/Templates.cpp"}
    assert_passes_check(tree, changed)
    assert "&kOuterProduct, &kLoops" in " ".join((tree / "compiler/targets/cpu/templates/Templates.cpp").read_text().split())
    passes(linked(tree, "test/templates_test", True, *sorted(path for path in changed if path.endswith(".cpp"))))


def test_pass_stands_at_its_places(tree):
    changed = made(tree, "pass", "FoldPadding")
    # The declaration has a header of its own, since most of the compiler's files would be built again after a change of Rewrites.h.
    assert changed == {"compiler/rewrite/FoldPadding.h", "compiler/rewrite/FoldPadding.cpp", "compiler/rewrite/Rewrites.cpp",
                       "compiler/rewrite/test/fold-padding.mlir"}
    assert_passes_check(tree, changed)
    assert '{"graph-fold-padding", ' in (tree / "compiler/rewrite/Rewrites.cpp").read_text()
    assert "tensmith-opt --graph-fold-padding " in (tree / "compiler/rewrite/test/fold-padding.mlir").read_text()


def test_pass_works_as_it_stands(tree):
    made(tree, "pass", "FoldPadding")
    program = build_opt(tree, "compiler/rewrite/FoldPadding.cpp", "compiler/rewrite/Rewrites.cpp")
    file_checks(program, tree / "compiler/rewrite/test/fold-padding.mlir")


def test_target_works_as_it_stands(tree):
    changed = made(tree, "target", "Emulated")
    folder = "compiler/targets/emulated"
    assert changed == {"compiler/targets/CMakeLists.txt", "compiler/targets/Registry.cpp", f"{folder}/CMakeLists.txt",
                       f"{folder}/EmulatedTarget.h", f"{folder}/EmulatedTarget.cpp", f"{folder}/test/EmulatedTargetTest.cpp"}
    assert_passes_check(tree, changed)
    text = (tree / "compiler/targets/CMakeLists.txt").read_text()
    assert "add_subdirectory(emulated)" in text and "LINK tensmith_target_cpu tensmith_target_emulated" in text
    passes(linked(tree, "test/pipeline_test", True, f"{folder}/EmulatedTarget.cpp", "compiler/targets/Registry.cpp",
                  f"{folder}/test/EmulatedTargetTest.cpp", "compiler/pipeline/test/TemplateCase.cpp"))


INTRINSICS_TEST = "compiler/targets/cpu/test/IntrinsicsTest.cpp"
X86, ARM = (f"compiler/targets/cpu/intrinsics/{name}.cpp" for name in ("X86", "Arm"))


def test_intrinsics_work_as_they_stand(tree):
    """What their rows mean and what their code computes are the same, and the machines that were there have what they had.

    The machines' vectors have 256 bits with one feature, and 128 with the other.
    """
    assert made(tree, "intrinsic", "vpdp_x4_8i", "--family", "x86", "--feature", "avxvnniint8") == {X86, INTRINSICS_TEST}
    assert made(tree, "intrinsic", "sdot2x4", "--family", "arm", "--feature", "dotprod") == {ARM, INTRINSICS_TEST}
    assert_passes_check(tree, {INTRINSICS_TEST, X86, ARM})
    passes(linked(tree, "test/target_cpu_test", True, INTRINSICS_TEST, X86, ARM),
           "--gtest_filter=Intrinsics.VpdpX48i*:Intrinsics.Sdot2x4*:Intrinsics.MachinesHaveTheirOwn")


def change(tree, path, old, new_text):
    text = (tree / path).read_text()
    assert len(re.findall(old, text)) == 1, f"{path}: {old}"
    (tree / path).write_text(re.sub(old, new_text, text))


def test_intrinsics_that_are_wrong_fail(tree):
    """Breaks if a test passes of a row that no machine has, or that computes something else, or if one of the old rows may change."""
    made(tree, "intrinsic", "narrow", "--family", "x86", "--feature", "avx2")
    change(tree, X86, r'("narrow", "avx2",.*\n? *.*Number::I32, 1,) 0,', r"\1 4,")  # of the eight sums of a vector
    made(tree, "intrinsic", "lossy", "--family", "x86", "--feature", "avx2")
    change(tree, X86, r"(Value emitLossy\([^)]*\) \{\n)", r"\1  return sum;\n")
    change(tree, ARM, r'\{"sdot", "dotprod"', '{"sdot", "i8mm"')
    program = linked(tree, "test/target_cpu_test", True, INTRINSICS_TEST, X86, ARM)
    for test, said in [("NarrowComputesWhatItMeans", "hasn't narrow"), ("LossyComputesWhatItMeans", "lossy differs"),
                       ("MachinesHaveTheirOwn", "aarch64:cortex-a76")]:  # fmt: skip
        done = subprocess.run([program, f"--gtest_filter=Intrinsics.{test}"], capture_output=True, text=True, timeout=300)
        assert done.returncode != 0 and said in done.stdout, done.stdout[-4000:]


def test_library_works_as_it_stands(tree, without_libraries):
    """Breaks if a call is read otherwise than the compiler writes it, or the library isn't known by its name."""
    changed = made(tree, "library", "Loops")
    row, source = "compiler/libraries/Libraries.cpp", "libraries/loops/Loops.cpp"
    assert changed == {source, "libraries/CMakeLists.txt", row, "tools/tensmith/doctor/Installation.cpp", "tests/python/test_libraries.py"}
    assert_passes_check(tree, changed)
    assert "set(TENSMITH_LOOPS OFF" in (tree / "libraries/CMakeLists.txt").read_text()
    program = build_opt(tree, row)
    text = "func.func @main(%a: tensor<5x7xf32>, %b: tensor<7x3xf32>) -> tensor<5x3xf32> {\n" \
           "  %c = graph.matmul %a, %b : (tensor<5x7xf32>, tensor<7x3xf32>) -> tensor<5x3xf32>\n  return %c : tensor<5x3xf32>\n}\n"  # fmt: skip
    called = subprocess.run([program, "--pass-pipeline=builtin.module(func.func(graph-libraries{by=loops}))"], input=text, capture_output=True, text=True)
    assert 'kind = "call.loops"' in called.stdout, called.stderr
    # The command doesn't know the name; the library does what one does that it knows, and which isn't there.
    stand_in = without_libraries.folder / "lib/libtensmith_openblas.so"
    done = subprocess.run(["clang++-19", "-std=c++20", "-O1", "-shared", "-fPIC", "-I", tree, tree / source, "-o", stand_in], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (tree / "m.tsm").write_text("fn main(a: f32[5, 70], b: f32[30, 70], c: f32[5, 30]) = c - 0.5 * (a @ transpose(b, permutation = [1, 0]))\n")
    try:
        compiled_ = without_libraries("compile", tree / "m.tsm", "-o", tree / "m.so", "--libraries", "openblas")
        compared = without_libraries("compare", tree / "m.so", tree / "m.tsm")
    finally:
        stand_in.unlink()
    said = compiled_.stderr + compared.stderr
    assert compared.returncode == 0 and "libtensmith_" not in said, said
    assert b"openblas:tensmith_matmul" in (tree / "m.so").read_bytes()


def test_library_names_the_commands_that_build_it(tree):
    """Breaks if one of them is missing: the option is but configured by the first, and the compiler has a row of the library."""
    said = new(tree, "library", "Loops").stdout
    assert "`cmake -DTENSMITH_LOOPS=ON build/dev`" in said
    targets = re.search(r"`ninja -C build/dev (.*?)`", said)[1].split()
    assert targets == ["tensmith_loops", "tensmith_compiler"]
    assert "tensmith_library_kernels(loops " in (tree / "libraries/CMakeLists.txt").read_text()  # which calls it tensmith_loops
    subprocess.run(["ninja", "-C", BUILD, "-t", "query", targets[1]], check=True, capture_output=True)


def test_examples_of_the_help_work(tree):
    examples = re.findall(r"^ {4}scripts/new (.*)$", new(tree, "--help").stdout, re.MULTILINE)
    assert {example.split()[0] for example in examples} == {"operator", "pass", "target", "template", "intrinsic", "library"}
    for example in examples:
        made(tree, *example.split())


X86_OF_AVX2, MOVED = ("--family", "x86", "--feature", "avx2"), ("--family", "Movement")


@pytest.mark.parametrize("arguments, said", [
    # What is not said, or too much.
    (("operator", "soft_sign"), "needs its --family: Contraction, "),
    (("pass", "FoldPadding", "--family", "Elementwise"), "has no --family"),
    (("pass", "FoldPadding", "--feature", "avx2"), "has no --feature"),
    (("intrinsic", "smmlb", "--family", "arm"), "needs its --feature"),
    (("intrinsic", "smmlb", "--family", "Elementwise", "--feature", "i8mm"), "no place in the family Elementwise; there are x86, arm"),
    (("operator",), "required: name"),
    (("function", "soft_sign"), "invalid choice: 'function'"),
    # Families that have not all places of an operator, or are none.
    *((("operator", "soft_sign", "--family", family), f"no place in the family {family}; there are Contraction, ")
      for family in ("Bit", "Block", "Comprehension", "ConvolutionPasses", "FakeQuantization", "ProcessReduction", "SequenceChanges",
                     "Structure", "Text", "Resampling", "Graph", "x86")),
    # What is no name.
    *((("operator", name, *MOVED), "a name is letters, digits") for name in ("soft sign", "soft_", "soft__sign", "2x", "_x")),
    *(((kind, name), "is a word of C++") for kind, name in
      (("pass", "namespace"), ("pass", "Namespace"), ("target", "int"), ("target", "static_cast"), ("target", "linux"))),
    # Operators of this family and others, in other spellings, and what names of C++ would be the same.
    *((("operator", name, *MOVED), f"has {there} already") for name, there in
      (("abs", "Graph_AbsOp"), ("matmul", "Graph_MatMulOp"), ("conv", "Graph_ConvOp"), ("reshape", "Graph_ReshapeOp"),
       ("mat_mul", "Graph_MatMulOp"), ("IsNaN", "Graph_IsNanOp"), ("unary", "Graph_UnaryOp"), ("module", "ModuleOp"))),
    *((("pass", name), said) for name, said in
      (("graph_simplify", "leave the first word out"), ("GraphFoo", "leave the first word out"),
       ("simplify", "has graph-simplify already"), ("FOLD_CONSTANTS", "has graph-fold-constants already"),
       ("differentiate", "has graph-differentiate already"), ("multiply_integers", "has multiplyIntegers already"),
       ("rewrites", "has rewrites already"), ("mlir", "has mlir already"), ("check_sizes", "has graph-check-sizes already"))),
    *((("target", name), f"has {there} already") for name, there in
      (("host", "host"), ("cpu", "cpu"), ("x86_64", "x86_64"), ("X86_64", "x86_64"), ("aarch64", "aarch64"), ("armv7", "armv7"),
       ("riscv64", "riscv64"), ("kernel", "kernel"), ("std", "std"))),
    *((("target", name), f"is a CPU of {triple}") for name, triple in
      (("znver4", "x86_64"), ("cortex_a53", "aarch64"), ("generic", "x86_64"))),
    *((("template", name), f"has {there} already") for name, there in
      (("loops", "loops"), ("Contraction", "contraction"), ("any", "kAny"), ("Choices", "kChoices"))),
    *((("intrinsic", name, *X86_OF_AVX2), f"has {there} already") for name, there in
      (("vpdpbusd", "vpdpbusd"), ("VPDPBUSD", "vpdpbusd"), ("sdot", "sdot"), ("pmaddwd", "emitPmaddwd"))),
    (("intrinsic", "vpx", "--family", "x86", "--feature", "nosuchfeature"), "LLVM knows no feature 'nosuchfeature' of x86_64"),
    (("intrinsic", "vpx", "--family", "x86", "--feature", "avx2,dotprod"), "LLVM knows no feature 'dotprod' of x86_64"),
    (("intrinsic", "vpx", "--family", "x86", "--feature", "cx16"), "kX86Code in compiler/targets/cpu/machine/Cpu.cpp has no feature 'cx16'"),
    *((("library", name), f"has {there} already") for name, there in
      (("openblas", "openblas"), ("OpenBLAS", "openblas"), ("OneDNN", "onednn"), ("Xsmm", "xsmm"), ("plain", "plain"),
       ("measured", "measured"), ("generated", "generated"), ("runtime", "tensmith_runtime"), ("Compiler", "TENSMITH_COMPILER"),
       ("pictures", "tensmith_pictures"), ("tests", "TENSMITH_TESTS"))),
])  # fmt: skip
def test_refusals_are_one_line_and_change_nothing(untouched, arguments, said):
    before = texts(untouched)
    done = new(untouched, *arguments)
    assert done.returncode != 0 and not done.stdout
    assert re.fullmatch(r"new: .*\n", done.stderr) and said.lower() in done.stderr.lower(), done.stderr
    assert texts(untouched) == before


def test_what_was_made_is_not_overwritten_in_another_spelling(tree):
    made(tree, "pass", "GraphicsFold")  # which only begins like the word that all passes have
    made(tree, "pass", "FoldPadding")
    assert "compiler/rewrite/Rewrites.cpp has graph-fold-padding already" in new(tree, "pass", "Fold_PADDING").stderr


def test_what_was_made_is_not_overwritten(tree):
    made(tree, "operator", "soft_sign", "--family", "Elementwise")
    before = texts(tree)
    assert new(tree, "operator", "soft_sign", "--family", "Elementwise").returncode != 0
    assert texts(tree) == before
