import json

from benchmarks.default_cost import as_markdown
from benchmarks.results import FOLDER


def test_the_committed_page_is_what_its_json_says() -> None:
    content = json.loads((FOLDER / "default-cost.json").read_text())
    assert (FOLDER / "default-cost.md").read_text() == as_markdown(content)
    assert {row["name"] for row in content["sets"]} == {"reuters21578", "stackex-cooking", "goemotions", "debtags"}
