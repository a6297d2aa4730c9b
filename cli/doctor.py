"""`bncl doctor`."""

from typing import Annotated, Any

import typer

_SIGNS = {"fine": "[green]✓[/]", "note": "[yellow]![/]", "wrong": "[red]✗[/]"}


def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON instead.")] = False,
    self_test: Annotated[
        bool, typer.Option("--self-test/--no-self-test", help="Score a few texts and train a tiny model.")
    ] = True,
) -> None:
    """Say what works on this machine and what does not, with a remedy for each; exit code 1 if something is wrong.

    ✓ is fine, ! is missing but not needed, ✗ is wrong. Nothing is downloaded.
    """
    from bncl_pyg.doctor import examine

    if json:
        findings = list(examine(self_test=self_test))
        _print_json(findings)
    else:
        findings = []
        topic = ""
        for finding in examine(self_test=self_test):
            findings.append(finding)
            _show(finding, is_first=finding.topic != topic)
            topic = finding.topic
    wrong = [finding for finding in findings if finding.state == "wrong"]
    if not json:
        said = f"{len(wrong)} wrong: {', '.join(f.name for f in wrong)}." if wrong else "All that is needed works."
        typer.echo(f"\n{said}")
    if wrong:
        raise typer.Exit(1)


def _show(finding: Any, *, is_first: bool) -> None:
    from rich.markup import escape

    from .show import out

    if is_first:
        out.print(f"\n[bold]{finding.topic}[/]")
    remedy = f" [dim]→ {escape(finding.remedy)}[/]" if finding.remedy else ""
    line = f"  {_SIGNS[finding.state]} {escape(finding.name)}: {escape(finding.what)}{remedy}"
    out.print(line, highlight=False, soft_wrap=True)  # a path that is broken cannot be copied


def _print_json(findings: list[Any]) -> None:
    import json

    healthy = all(finding.state != "wrong" for finding in findings)
    content = {"healthy": healthy, "findings": [finding.as_dict() for finding in findings]}
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False))
