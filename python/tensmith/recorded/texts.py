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


def with_fixed_sizes(attributes):
    """A step's attributes, and the sizes that are part of the structure in texts among them, and so in the text that the step is a part of."""
    texts = [decoded(attributes[name]) for name in ("body", "then", "otherwise", "text") if name in attributes]
    texts += [each for text in texts for each in texts_within(text)]
    sizes = {int(size) for each in texts for found in re.findall(r"[|;]fixed_sizes=l:([0-9,]+)", each) for size in found.split(",")}
    return attributes | {"fixed_sizes": sorted(sizes)} if sizes else attributes
