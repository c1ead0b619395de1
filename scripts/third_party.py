"""What packages contain of others, from the table in licences/THIRD-PARTY.md, and the texts of their licences.

`collect_licences` puts the texts where the wheels' builds look for them. `shipped_libraries` says of shared libraries which
text each needs; a library that the table lacks is an error, so that nothing is shipped without its licence.
"""

import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "licences/THIRD-PARTY.md"
PYPI = "PyPI "


def rows():
    """(library, "c", "r" or "p", Debian package or "PyPI NAME") of each row."""
    found = re.findall(r"^\| ([^|]+) \| [^|]+ \| ([crp]) \| ([^|]+) \| [^|]+ \|$", TABLE.read_text(), re.MULTILINE)
    return [(library, place, source.replace("`", "")) for library, place, source in found]


def text_name(source):
    return source.removeprefix(PYPI)


def text_of(source):
    if not source.startswith(PYPI):
        file = pathlib.Path("/usr/share/doc", source, "copyright")
        if not file.exists():
            sys.exit(f"{file} is missing; install {source} (scripts/packages.debian), or mend licences/THIRD-PARTY.md")
        return file.read_text()
    name = source.removeprefix(PYPI)
    packages = next((ROOT / ".venv/lib").glob("python3*/site-packages"))
    texts = [file.read_text() for file in sorted(packages.glob(f"{name}-*.dist-info/licenses/*"))]
    if name == "nanobind":  # brings a hash table, whose licence stands at the head of its files
        header = (packages / "nanobind/ext/robin_map/include/tsl/robin_map.h").read_text()
        texts.append(re.search(r"/\*\*(.*?)\*/", header, re.DOTALL)[0])
    if not texts:
        sys.exit(f"the checkout's .venv has no {name} with a licence (scripts/requirements.txt)")
    return "\n\n".join(texts)


def collect_licences():
    for folder, places in ((ROOT / "licences", "crp"), (ROOT / "python/runtime/licences", "rp")):
        for old in folder.glob("*.txt"):
            old.unlink()
        for _, place, source in rows():
            if place in places:
                (folder / f"{text_name(source)}.txt").write_text(text_of(source))


def package_of(library):
    """Debian's package of a shared library of the system, by its name: libz.so.1."""
    # Libraries lie in /lib or /usr/lib, which are one folder.
    done = subprocess.run(["dpkg", "-S", f"*/{library}"], capture_output=True, text=True)
    return done.stdout.split(":")[0] if done.returncode == 0 else None


def shipped_libraries(files):
    """The name of the licence's text for each; auditwheel has put a sum into their names: libzstd-1a2b3c4d.so.1.5.4."""
    known = {text_name(source) for _, _, source in rows()}
    needed = {}
    for file in files:
        stem, ending = re.fullmatch(r"(.+?)(?:-[0-9a-f]{8})?\.so(.*)", file).groups()
        package = package_of(f"{stem}.so{ending}")
        if package not in known:
            sys.exit(f"{file}, of {package or 'no Debian package'}, has no row in licences/THIRD-PARTY.md")
        needed[file] = package
    return needed


if __name__ == "__main__":
    if not shutil.which("dpkg"):
        sys.exit("licences are taken from Debian's packages")
    collect_licences()
