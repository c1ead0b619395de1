"""Who runs the programs of other machines here, and what a machine's target is called.

Breaks, wherever it is used, if a target has no emulator of its family, or tensmith-run isn't built for it.
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
RISCV = ["qemu-riscv64", "-cpu", "rv64,v=true,vlen=256,vext_spec=v1.0"]
EMULATORS = {
    "aarch64:cortex-a53": ["qemu-aarch64", "-cpu", "cortex-a53"],
    "aarch64:cortex-a76": ["qemu-aarch64", "-cpu", "cortex-a76"],
    "aarch64:neoverse-v1": ["qemu-aarch64", "-cpu", "max,sve-max-vq=2"],  # vectors of SVE of 256 bits, as it has
    "aarch64:a64fx": ["qemu-aarch64", "-cpu", "a64fx"],
    "armv7:cortex-a7": ["qemu-arm", "-cpu", "cortex-a7"],
    "riscv64:rv64gcv,zvl256b": RISCV,
}
# One of each family, and ARM with all that the emulator has.
USUAL = ["aarch64:cortex-a53", "aarch64:neoverse-v1", "armv7:cortex-a7", "riscv64:rv64gcv,zvl256b"]
# For other machines of a family: all that the emulator has.
FAMILIES = {"aarch64": ["qemu-aarch64", "-cpu", "max"], "armv7": ["qemu-arm", "-cpu", "max"], "riscv64": RISCV}


def runner(target):
    """The command that runs modules of the target: the emulator with tensmith-run as it was built for the family."""
    family = target.split(":")[0]
    if family not in FAMILIES:
        sys.exit(f"{target}: there is no emulator for it here; name a machine of {', '.join(FAMILIES)}")
    program = ROOT / "build" / family / "bin/tensmith-run"
    if not program.exists():
        sys.exit(f"{program} is not there; build it as docs/boards.md says (./test does)")
    return [*EMULATORS.get(target, FAMILIES[family]), str(program)]


STALE = "; a record is of the build that made it: remove the file to run another"  # ends the help of an option that names such a file


class Records:
    """Figures of a long run, one for each of what is asked: kept in a file as they come, so that an interrupted run goes on where it ended.

    Which values a record is found by is kept with it, as `key`. The build is none of them: a run takes hours, and goes on though a comment changes.
    """

    def __init__(self, path):
        self.path = path
        self.kept = json.loads(path.read_text()) if path and path.exists() else []
        if any("key" not in record for record in self.kept):
            sys.exit(f"{path} has records that don't say what they are of; remove them, or name another file")

    def of(self, made, **key):
        """The record of these values and no others, which `made` computes where there is none yet."""
        found = next((record for record in self.kept if record["key"] == list(key) and key.items() <= record.items()), None)
        if found is None:
            found = {"key": list(key), **key, **made()}
            self.kept.append(found)
            if self.path:
                self.path.write_text(json.dumps(self.kept, indent=1) + "\n")
        return found
