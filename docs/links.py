"""MkDocs hook: the results are pages of the site, the commands tell about themselves, and links to other files stay as
text.

Pages link to each other by their places in the repository, so that they can be read there, too.
"""

import re
import subprocess
import sys
from pathlib import Path
from posixpath import relpath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
PAGES = {ROOT / "docs": "", ROOT / "benchmarks" / "results": "results/"}
"""Folders whose files are part of the site, and under which address."""
COMMANDS = "reference/commands.md"
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages and pictures of the results."""
    folder = ROOT / "benchmarks" / "results"
    for file in sorted(folder.rglob("*")):
        if file.suffix in (".md", ".png", ".svg"):
            files.append(File.generated(config, f"results/{file.relative_to(folder)}", abs_src_path=str(file)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links between places in the repository into links between pages."""
    source = Path(page.file.abs_src_path).resolve()

    def site_link(match: re.Match[str]) -> str:
        picture, text, target, anchor = match.groups()
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        address = _address((source.parent / target).resolve())
        if address is None:
            return text
        return f"{picture}[{text}]({relpath(address, str(Path(page.file.src_uri).parent))}{anchor or ''})"

    if page.file.src_uri == COMMANDS:
        markdown = f"{markdown}\n{_commands()}"
    parts = re.split(r"(^```.*?^```\s*?$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else LINK.sub(site_link, part) for part in parts)


def _commands() -> str:
    """Return what `--help` says of every command, one level deeper than typer has it."""
    words = ["typer", "bncl_cli.main", "utils", "docs", "--name", "bncl"]
    told = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=True).stdout
    return re.sub(r"^#", "##", told, flags=re.MULTILINE)


def _address(file: Path) -> str | None:
    """Return where a file of the repository stands in the site; nowhere, unless it is one of its pages."""
    for folder, prefix in PAGES.items():
        if file.is_relative_to(folder) and file.suffix != ".py":
            return f"{prefix}{file.relative_to(folder)}"
    return None
