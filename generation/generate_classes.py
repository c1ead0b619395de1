#!/usr/bin/env python3
"""Writes the ranges of Unicode's letters (L) and numbers (N), of which patterns of tokenizers are made, as C++.

    generate_classes.py OUT
"""

import sys
import unicodedata


def ranges(category):
    found = []
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code))[0] != category:
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return ", ".join(f"{{{first}, {last}}}" for first, last in found)


def main():
    with open(sys.argv[1], "w") as out:
        out.write(f"// Of Unicode {unicodedata.unidata_version}; written by generate_classes.py.\n")
        for name, category in (("kLetters", "L"), ("kNumbers", "N")):
            out.write(f"constexpr Range {name}[] = {{{ranges(category)}}};\n")


main()
