"""Griffe extension: formulas and examples of docstrings, which Sphinx knows as directives, become blocks of code."""

import re
import textwrap
from typing import Any

from griffe import Extension, Object

DIRECTIVE = re.compile(r"^( *)\.\. (math|code-block)::[ ]*(.*)\n((?:\1 +.*\n|\s*\n)*)", re.MULTILINE)
ROLE = re.compile(r":math:`([^`]*)`")


class PlainDocstrings(Extension):
    """Rewrites every docstring as it is loaded."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite the docstring of a module, a class, a function or an attribute."""
        if obj.docstring is not None:
            obj.docstring.value = ROLE.sub(r"`\1`", DIRECTIVE.sub(_block, obj.docstring.value + "\n")).rstrip()


def _block(match: re.Match[str]) -> str:
    indent, kind, first, rest = match.groups()
    body = textwrap.dedent(rest).strip("\n")
    language = first.strip() if kind == "code-block" else ""
    formula = first.strip() if kind == "math" else ""
    lines = ["", f"```{language}", *([formula] if formula else []), *(body.splitlines() if body else []), "```", ""]
    return "\n".join(f"{indent}{line}" if line else "" for line in lines) + "\n"
