"""What mkdocs does beside copying pages: pages that are made of the sources, and links that lead out of docs/.

The reference of Python, C, C++ and the commands has no text of its own, so it can't be out of date: it is made of
docstrings, headers and what the program says of itself. A link to a file of the repository is no link on a site; its text
stays, and that the file is there is checked.
"""

import pathlib
import re
import sys

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import reference  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((\.\./[^)#\s]*)(?:#[^)\s]*)?\)")


def on_files(files, config):
    for name, text in reference.pages().items():
        files.append(File.generated(config, f"reference/{name}", content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    if page.file.generated_by:
        return markdown

    def without_link(match):
        target = (ROOT / "docs" / page.file.src_uri).parent / match[2]
        if not target.exists():
            raise PluginError(f"{page.file.src_uri}: there is no {match[2]}")
        return match[1]

    return OUT.sub(without_link, markdown)
