"""Which packages and weights a release stands on, with versions and licences: one generated page.

    python -m benchmarks.licences

Reads what is installed (`importlib.metadata`), follows what it requires, and writes results/licences.md and .json, and
the same as a bill of materials in CycloneDX, results/sbom.cdx.json.
"""

import re
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution, version
from typing import Any

import typer

from benchmarks.results import FOLDER, about_this_run, footer, markdown_table, save
from bncl_pyg.persistence import write_json
from bncl_pyg.scorers import BGE, COLBERT, MARCO, MINILM, POTION

OURS = "bncl-pyg"
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
BUNDLED = (
    ("bncl_pyg/scorers/weights", "the head of the scorer light", "Apache-2.0"),
    ("bncl_pyg/demo/data", "the bundled set; SOURCE.md beside it says where it is from", "see SOURCE.md"),
)


def main(write: bool = True) -> None:
    """Collect and write."""
    content = {"about": about_this_run(), "packages": list(packages()), "weights": weights()}
    if write:
        save("licences", content, as_markdown(content))
        write_json(FOLDER / "sbom.cdx.json", as_cyclonedx(content))
    typer.echo(as_markdown(content))


def packages() -> Iterator[dict[str, str]]:
    """Yield every package that ours requires, in any of its extras, as far as it is installed."""
    wanted, seen = [OURS], set()
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            one = distribution(name)
        except PackageNotFoundError:
            continue
        # Of ours, all extras; of others, what they need in any case.
        wanted += [_plain(need) for need in one.requires or () if name == OURS or not _EXTRA.search(need)]
        if name != OURS:
            yield {"name": one.metadata["Name"], "version": one.version, "licence": licence_of(one)}


def licence_of(one: Distribution) -> str:
    """Return what a package says of its licence: the expression, the classifiers, or the first line of the text."""
    stated = one.metadata.json
    if stated.get("license_expression"):
        return str(stated["license_expression"])
    classifiers = [line.rpartition(" :: ")[2] for line in one.metadata.get_all("Classifier") or () if "License" in line]
    named = [name for name in classifiers if name != "OSI Approved"]
    if named:
        return ", ".join(dict.fromkeys(named))
    text = str(stated.get("license") or "").strip().splitlines()
    return text[0][:60] if text else "not stated"


def weights() -> list[dict[str, str]]:
    """Return the known weights, which packages carry or the hub has, and what is bundled."""
    known = [
        {"what": one.title, "from": f"{one.package}, or {one.repository}@{one.revision[:8]}", "licence": one.license}
        for one in (MINILM, BGE, COLBERT, POTION, MARCO)
    ]
    return known + [{"what": what, "from": where, "licence": licence} for where, what, licence in BUNDLED]


def as_markdown(content: dict[str, Any]) -> str:
    """Return the page."""
    listed = sorted(content["packages"], key=lambda one: str(one["name"]).lower())
    rows = [[one["name"], one["version"], one["licence"]] for one in listed]
    return (
        "# Licences\n\n"
        "What a release stands on: packages, with all extras that are installed here, weights and data.\n\n"
        + markdown_table(["package", "version", "licence"], rows)
        + "\n"
        + markdown_table(["weights and data", "from", "licence"], [list(one.values()) for one in content["weights"]])
        + footer(content["about"])
    )


def as_cyclonedx(content: dict[str, Any]) -> dict[str, Any]:
    """Return a bill of materials: CycloneDX 1.6, without a time or a serial number, so that it can be compared."""
    listed = sorted(content["packages"], key=lambda one: str(one["name"]).lower())
    libraries = [
        {
            "type": "library",
            "bom-ref": _purl(one["name"], one["version"]),
            "name": one["name"],
            "version": one["version"],
            "purl": _purl(one["name"], one["version"]),
            "licenses": [{"license": {"name": one["licence"]}}],
        }
        for one in listed
    ]
    data = [
        {
            "type": "data",
            "bom-ref": f"data:{one['what']}",
            "name": one["what"],
            "description": one["from"],
            "licenses": [{"license": {"name": one["licence"]}}],
        }
        for one in content["weights"]
    ]
    ours = {
        "type": "library",
        "bom-ref": OURS,
        "name": OURS,
        "version": version(OURS),
        "purl": _purl(OURS, version(OURS)),
    }
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": ours},
        "components": [*libraries, *data],
    }


def _purl(name: str, release: str) -> str:
    """Return a package's address, as bills of materials name it."""
    return f"pkg:pypi/{_normal(name)}@{release.replace('+', '%2B')}"


def _plain(requirement: str) -> str:
    match = _NAME.match(requirement)
    # Some write an underscore where others write a dash: the same package, which is listed once.
    return "" if match is None else _normal(match[0])


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    typer.run(main)
