"""Bare systems to try packages in: Debian 12 with its own Python alone, as folders that commands run in by chroot.

The first one is made by debootstrap and kept; each trial works in a copy, which goes at its end. A command sees no file of this
machine, no process of others, no environment variable, and where `network` is false no network. Needs root and `debootstrap`.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SUITE, MIRROR = "bookworm", "http://deb.debian.org/debian"
PACKAGES = ["python3", "python3-venv", "python3-pip", "ca-certificates"]


def run(*command, **options):
    print("+", *map(str, command), file=sys.stderr, flush=True)
    return subprocess.run([str(word) for word in command], check=True, **options)


def base(folder):
    """The system that copies are made of."""
    done = folder.parent / f"{folder.name}.done"
    if not done.exists():
        if os.geteuid() != 0 or not shutil.which("debootstrap"):
            sys.exit("scripts/package: bare roots need root and debootstrap (apt-get install debootstrap)")
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        run("debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, folder, MIRROR, stdout=subprocess.DEVNULL)
        done.touch()
    return folder


class BareRoot:
    """A copy of the base, for the length of a `with`."""

    def __init__(self, base_folder):
        self._base = base_folder

    def __enter__(self):
        self._parent = tempfile.TemporaryDirectory(prefix="tensmith-root-", dir=self._base.parent)
        self.folder = pathlib.Path(self._parent.name) / "root"
        subprocess.run(["cp", "-a", "--reflink=auto", self._base, self.folder], check=True)
        shutil.copy("/etc/resolv.conf", self.folder / "etc/resolv.conf")
        return self

    def __exit__(self, *_):
        self._parent.cleanup()

    def put(self, source, target):
        """A file or a folder of this machine, at a path of the root."""
        place = self.folder / target.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-a", source, place], check=True)

    def run(self, *command, folder="/", network=False, seconds=600, **options):
        apart = ["unshare", "--mount", "--pid", "--fork", *([] if network else ["--net"]), f"--mount-proc={self.folder}/proc"]
        clean = ["/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"]
        return run(*apart, "chroot", self.folder, *clean, "/bin/sh", "-c", 'cd "$0" && exec "$@"', folder, *command, timeout=seconds, **options)

    def files(self, *folders):
        """All paths below these, to compare what there was before with what is left."""
        return {str(path) for folder in folders for path in (self.folder / folder.lstrip("/")).rglob("*")}
