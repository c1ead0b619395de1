"""The reference as Markdown, made of docstrings, of the public headers and of the program's own help."""

import inspect
import os
import pathlib
import re
import subprocess
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev"))
MADE = "<!-- Made by scripts/pages/reference.py. -->\n"


def pages():
    return {"python.md": python(), "c.md": c(), "cpp.md": cpp(), "commands.md": commands()}


# ---- Python ----


def declared(what):
    """What nanobind writes above the docstring of a function of the extension: its signatures, a line each."""
    lines = (inspect.getdoc(what) or "").splitlines()
    name = getattr(what, "__name__", "")
    count = next((i for i, line in enumerate(lines) if not line.startswith(f"{name}(")), len(lines))
    return lines[:count] if name else []


def signature(name, what):
    try:
        return name + str(inspect.signature(what))
    except (TypeError, ValueError):
        return "\n".join(declared(what)) or f"{name}(...)"


def docstring(what):
    """As it stands: lines that are indented stay so, as they are lists of arguments and examples."""
    lines = (inspect.getdoc(what) or "").splitlines()
    text = "\n".join(lines[len(declared(what)) :]).strip()
    return f"```text\n{text}\n```\n\n" if text else ""


def members(kind):
    for name, member in vars(kind).items():
        if name.startswith("_") and name != "__call__":
            continue
        if isinstance(member, property):
            yield f"#### {kind.__name__}.{name}\n\n{docstring(member.fget)}"
        elif callable(member) or isinstance(member, (classmethod, staticmethod)):
            function = getattr(kind, name)
            yield f"#### {kind.__name__}.{name}\n\n```python\n{signature(name, function)}\n```\n\n{docstring(function)}"


def described(name, what, module):
    text = f"### {module}.{name}\n\n"
    if inspect.isclass(what):
        own = "" if issubclass(what, BaseException) else f"```python\nclass {signature(name, what)}\n```\n\n"
        return text + own + docstring(what) + "".join(members(what))
    if callable(what):
        return text + f"```python\n{signature(name, what)}\n```\n\n{docstring(what)}"
    return text + f"`{type(what).__name__}`\n\n"


def python():
    import tensmith
    import tensmith.trees

    text = MADE + "# Python\n\n"
    for module in (tensmith, tensmith.trees):
        name = module.__name__
        text += f"## {name}\n\n{docstring(module)}"
        public = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_") and getattr(vars(module)[name], "__module__", "").startswith(name)]
        for member in sorted(public):
            if hasattr(module, member):
                text += described(member, getattr(module, member), name)
    return text + "`tensmith.torch` is on its page: [PyTorch](../pytorch.md).\n"


# ---- C and C++ ----

COMMENT = re.compile(r"/\*(.*?)\*/", re.DOTALL)
SECTION = re.compile(r"^-+ *(.*?) *-+$", re.DOTALL)


def plain(comment):
    """A comment's paragraphs; lines that are indented stand as they are."""
    lines = [re.sub(r"^\s*\* ?", "", line) if number else line.strip() for number, line in enumerate(comment.strip().splitlines())]
    paragraphs, text = [], ""
    for paragraph in "\n".join(lines).split("\n\n"):
        if paragraph.startswith("    ") or "\n    " in paragraph:
            paragraphs.append("```c\n" + textwrap.dedent(paragraph) + "\n```")
        else:
            parts = paragraph.strip().split("`")  # every other one is code
            parts[::2] = [part.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_") for part in parts[::2]]
            paragraphs.append("`".join(parts))
    text = "\n\n".join(paragraphs)
    return text + "\n\n" if text else ""


def pieces(header):
    """Comments and declarations at the outermost level, in order. A declaration takes the comments within it along."""
    at, depth, start, found = 0, 0, 0, []

    def code(end):
        declared = "\n".join(line for line in header[start:end].strip().splitlines() if not line.startswith("#") and 'extern "C"' not in line and line != "}")
        if declared.strip():
            found.append(("code", declared.strip()))

    while at < len(header):
        if header.startswith("/*", at):
            end = header.index("*/", at) + 2
            if depth == 0 and not header[header.rfind("\n", 0, at) + 1 : at].strip():
                code(at)
                found.append(("comment", header[at + 2 : end - 2]))
                start = end
            at = end
            continue
        depth += {"{": 1, "}": -1}.get(header[at], 0)
        at += 1
        if header[at - 1] == ";" and depth == 0:
            rest = header[at : header.find("\n", at)]
            if rest.strip().startswith("/*") and rest.strip().endswith("*/"):  # a remark on the same line
                at += len(rest)
            code(at)
            start = at
    return found


def body(path):
    """A header without its guard and what C++ has to be told."""
    text = (ROOT / path).read_text()
    text = re.sub(r"^#ifdef __cplusplus\n.*?^#endif\n?", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^#(?:if|ifndef|define|include|else|endif)\b(?:[^\n]*\\\n)*[^\n]*\n?", "", text, flags=re.MULTILINE)
    return text.replace("TS_API ", "")


def header(path):
    text, run = f"## {path.removeprefix('include/')}\n\n", ""
    for kind, content in pieces(body(path)):
        if kind == "code":
            run += content + "\n"
            continue
        text += f"```c\n{run}```\n\n" if run else ""
        run = ""
        section = re.match(r"^-+ *([^-.:]*)(?:[.:](.*?))? *-+$", content.strip(), re.DOTALL)
        if section:
            text += f"### {section[1].strip()}\n\n{plain(section[2] or '')}"
        else:
            text += plain(content)
    return text + (f"```c\n{run}```\n\n" if run else "")


def c():
    headers = [f"include/tensmith/{name}.h" for name in ("tensmith", "compiler", "builder")]
    return MADE + "# C\n\n" + "".join(header(path) for path in headers)


def cpp():
    text = (ROOT / "include/tensmith/tensmith.hpp").read_text()
    head = "\n".join(line.removeprefix("//").strip() for line in re.match(r"(?://[^\n]*\n)+", text)[0].splitlines())
    declarations = text[text.index("namespace tensmith {") :].replace("\n#endif\n", "")
    return MADE + f"# C++\n\n{head}\n\n## tensmith/tensmith.hpp\n\n```cpp\n{declarations.strip()}\n```\n"


# ---- Commands ----


def said(*arguments):
    done = subprocess.run([BUILD / "bin/tensmith", *arguments], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.rstrip()


def commands():
    text = MADE + "# Commands\n\n```text\n" + said("help") + "\n```\n\n"
    for command in re.findall(r"^  ([a-z]+) {2,}\S", said("help").partition("Subcommands:")[2].partition("Examples:")[0], re.MULTILINE):
        text += f"## tensmith {command}\n\n```text\n{said('help', command)}\n```\n\n"
    return text
