"""The bill of materials names every package once, in CycloneDX's words, and the committed one is not out of date."""

import json
import re

from benchmarks import licences
from benchmarks.results import FOLDER


def test_every_package_stands_in_the_bill_once() -> None:
    packages = list(licences.packages())
    bill = licences.as_cyclonedx({"packages": packages, "weights": licences.weights()})
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    libraries = [one for one in bill["components"] if one["type"] == "library"]
    assert len(libraries) == len(packages)
    assert len({one["bom-ref"] for one in bill["components"]}) == len(bill["components"])
    assert {"torch", "safetensors", "numpy"} <= {one["name"] for one in libraries}
    for one in libraries:
        assert re.fullmatch(r"pkg:pypi/[a-z0-9-]+@[A-Za-z0-9.%]+", one["purl"]), one
        assert one["licenses"][0]["license"]["name"]
    assert any(one["type"] == "data" for one in bill["components"])


def test_the_committed_bill_is_of_what_constraints_pin() -> None:
    bill = json.loads((FOLDER / "sbom.cdx.json").read_text(encoding="utf-8"))
    lines = (FOLDER.parent.parent / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if re.fullmatch(r"[A-Za-z0-9._-]+==[^ ;]+", line))
    plain = {re.sub(r"[-_.]+", "-", name).lower(): release for name, release in pinned.items()}
    for name in ("torch-geometric", "transformers", "safetensors", "numpy", "scipy"):
        (one,) = [one for one in bill["components"] if one.get("purl", "").startswith(f"pkg:pypi/{name}@")]
        assert one["version"] == plain[name]
