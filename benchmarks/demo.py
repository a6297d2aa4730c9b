"""What `bncl demo` shows at its end, as the README quotes it.

    python -m benchmarks.demo [--out demo-output]

It runs the command itself: bundled texts, the default scorer, recipe and graph.
"""

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.results import about_this_run, footer, markdown_table, save
from bncl_pyg.persistence import read_json

NAME = "demo"


def main(
    out: Annotated[
        Path, typer.Option(help="The folder of the demo; features that are there are not made again.")
    ] = Path("demo-output"),
) -> None:
    """Run the demo and keep its figures."""
    subprocess.run([str(Path(sys.executable).with_name("bncl")), "demo", "--out", str(out)], check=True)
    content = {"about": about_this_run(), **read_json(out / "metrics.json")}
    save(NAME, content, as_markdown(content))


def as_markdown(content: dict[str, Any]) -> str:
    """Return the page that shows the figures."""
    rows = [[name, *(f"{value:.4f}" for value in metrics.values())] for name, metrics in content["rows"].items()]
    names = list(next(iter(content["rows"].values())))
    return (
        f"# The demo\n\n{content['test']} test texts of the bundled set, {content['labels']} labels, scorer "
        f"`{content['scorer']['name']}`, recipe `default`. Constants of recipe and scorers were chosen on training "
        f"splits of other sets and of debtags, of which the bundled set is a part.\n\n"
        + markdown_table(["", *names], rows)
        + footer(content["about"])
    )


if __name__ == "__main__":
    typer.run(main)
