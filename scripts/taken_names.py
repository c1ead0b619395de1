"""Which names scripts/new refuses: words of C++, and names that the project or LLVM has already.

A name is compared without case, `_` and `-`: files, classes, CMake's options and commands spell one name in several ways.
Names that are taken are read where they stand, by the rules below, so that no list of them goes out of date here.
"""

import re
import subprocess

# C++20, [lex.key], with the tokens that are words, and what GNU's C++ defines as macros.
KEYWORDS = set("""
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class co_await co_return co_yield
compl concept const consteval constexpr constinit const_cast continue decltype default delete do double dynamic_cast else enum explicit
export extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private
protected public register reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template
this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
linux unix
""".split())

CPU = "compiler/targets/cpu/machine/Cpu.cpp"
QUALIFIERS = (r"\b([a-z]\w*)::", "compiler/**/*.h")  # namespaces, which one within another would hide

# Of each kind: a pattern whose first group is a name, and the files in which it is looked for.
RULES = {
    "operator": [
        (r"\b(?:def|class) Graph_(\w+?)Op\b", "compiler/graph/*.td"),
        (r'\bdef Graph_\w+ *: *\w+<"(\w+)"', "compiler/graph/*.td"),
        (r"(?<![:\w])([A-Z]\w*?)Op\b", "compiler/graph/*.cpp"),  # of MLIR's own operations
        (r"\bevaluate(\w+)\(", "reference/*.cpp"),
    ],
    "pass": [
        (r'"graph-([a-z0-9-]+)"', "compiler/**/*.cpp"),
        (r'"graph-([a-z0-9-]+)"', "tools/**/*.cpp"),
        (r"^\w[\w:<>&* ]*\b(\w+)\(", "compiler/rewrite/*.h"),
        QUALIFIERS,
    ],
    "target": [
        (r'\{"(\w+)", llvm::Triple::', CPU),
        (r'text == "(\w+)"', CPU),
        (r'\{"(\w+)", \w+::open', "compiler/targets/Registry.cpp"),
        QUALIFIERS,
    ],
    "template": [
        (r'const Template k\w+ = \{\s*\.name = "([a-z0-9-]+)"', "compiler/**/*.cpp"),
        (r"\bk([A-Z]\w*)\b", "compiler/kernel/*.h"),
        (r"\bk([A-Z]\w*)\b", "compiler/targets/cpu/templates/*.h"),
        (r"\bk([A-Z]\w*)\b", "scripts/templates/template/template.cpp.in"),
        (r'Choice \w+\{"(\w+)_rows"', "compiler/**/*.cpp"),
    ],
    "intrinsic": [
        (r'^ +\{"(\w+)", "', "compiler/targets/cpu/intrinsics/*.cpp"),
        (r"\bemit(\w+)\(", "compiler/targets/cpu/intrinsics/*"),
    ],
    "library": [
        (r'\{"(\w+)", refused', "compiler/libraries/Libraries.cpp"),
        (r'text == "(\w+)"', "compiler/libraries/Libraries.cpp"),  # policies, which stand where a library's name does
        (r'kGenerated = "(\w+)"', "compiler/libraries/Libraries.h"),
        (r"tensmith_library_kernels\((\w+)", "libraries/CMakeLists.txt"),
        (r"(?i)\btensmith_(\w+)", "CMakeLists.txt"),
        (r"(?i)\btensmith_(\w+)", "cmake/*.cmake"),
        (r"(?i)\btensmith_(\w+)", "*/**/CMakeLists.txt"),
    ],
}


def squash(name):
    return re.sub(r"[-_]", "", name).lower()


def why_taken(root, kind, name, function):
    """A sentence where the name can't be that of a new one of the kind; None where it can. `function` is how a function is called by it."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*", name):
        return "a name is letters, digits and single _ between them, and begins with a letter"
    if KEYWORDS & {name, name.lower(), function}:
        return "is a word of C++"
    if kind == "pass" and re.match(r"(?i:graph)(_|[A-Z]|$)", name):
        return "passes are called graph-NAME anyway; leave the first word out"
    for pattern, files in RULES[kind]:
        for path in files_of(root, files):
            text = path.read_text()
            for found in re.finditer(pattern, text, re.MULTILINE):
                if squash(found[1]) == squash(name):
                    return f"{path.relative_to(root)} has {word_at(text, found.start(1))} already; choose another name"
    if kind == "target":
        for triple in re.findall(r'llvm::Triple::\w+, "([^"]+)"', (root / CPU).read_text()):
            if squash(name) in {squash(cpu) for cpu in of_llvm(triple, "cpu")}:
                return f"is a CPU of {triple}, which --target takes by this name; choose another name"
    return None


def word_at(text, at):
    """The whole word of which a name is a part."""
    return re.search(r"[\w-]*$", text[max(0, at - 80) : at])[0] + re.match(r"[\w-]*", text[at:])[0]


def files_of(root, files):
    """Those that match; at first a star is a folder of sources, which those of builds and hidden ones are not."""
    if not files.startswith("*/"):
        return sorted(root.glob(files))
    folders = [folder for folder in root.iterdir() if folder.is_dir() and folder.name != "build" and not folder.name.startswith(".")]
    return sorted(path for folder in folders for path in folder.glob(files[2:]))


def why_no_feature(root, triple, table, features):
    """A sentence where one of the features is none of the machine's, or modules would not say that they need it; else None."""
    known = of_llvm(triple, "attr")
    listed = re.search(rf"constexpr llvm::StringLiteral {table}\[\] = \{{(.*?)\}};", (root / CPU).read_text(), re.DOTALL)[1]
    patterns = [re.escape(name).replace(r"\*", ".*") for name in re.findall(r'"([^"]+)"', listed)]
    for feature in features.split(","):
        if feature not in known:
            return f"LLVM knows no feature '{feature}' of {triple}; `llc-19 -mtriple={triple} -mattr=help` lists them"
        if not any(re.fullmatch(pattern, feature) for pattern in patterns):
            return f"{table} in {CPU} has no feature '{feature}'; add it there first, so that modules say that they need it"
    return None


def of_llvm(triple, what):
    """Names of the CPUs (cpu) or features (attr) that LLVM has for a machine."""
    text = subprocess.run(["llc-19", f"-mtriple={triple}", f"-m{what}=help"], input="", capture_output=True, text=True, check=True).stderr
    cpus, _, features = text.partition("Available features")
    return set(re.findall(r"^  (\S+) +- ", cpus if what == "cpu" else features, re.MULTILINE))
