"""Texts of tapes as attributes of other tapes' steps: bodies of loops, sides of branches, whole programs."""

import base64
import re


def encoded(text):
    """A program's text as an attribute of a step."""
    return base64.b64encode(text.encode()).decode()


def decoded(text):
    return base64.b64decode(text).decode()


def texts_within(text):
    """Texts of programs that are attributes of a text's steps, and of those within these."""
    for each in re.findall(r"[|;](?:body|then|otherwise|text)=s:([^;|]*)", text):
        yield decoded(each)
        yield from texts_within(decoded(each))


def sizes_fixed_in(text):
    """Sizes that are part of the structure wherever they stand in a text, and so in one that it is a part of."""
    texts = [text, *texts_within(text)]
    return sorted({int(size) for each in texts for sizes in re.findall(r"[|;]fixed_sizes=l:([0-9,]+)", each) for size in sizes.split(",")})
