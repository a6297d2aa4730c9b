from pathlib import Path

import pytest

from benchmarks.predict_stream import as_markdown, check_rows


def test_the_page_is_made_from_the_figures() -> None:
    row = {"rows": 1000, "seconds": 2.0, "cpu_seconds": 4.0, "texts_a_second": 500, "peak_mb": 900, "table_mb": 1.0}
    about = {"command": "python -m x", "python": "3", "torch": "2", "cores": 2, "commit": "abc"}
    page = as_markdown({"about": about, "labels": 57, "scorer": "fast", "tables": [row]})
    assert "| 1,000 | 2 s | 500 | 4 s | 250 | 900 MB |" in page


@pytest.mark.parametrize(("lines", "problem"), [([0, 2], "Row 1 is out of its place"), ([0], "1 rows instead of 2")])
def test_rows_that_are_not_there_are_seen(tmp_path: Path, lines: list[int], problem: str) -> None:
    out = tmp_path / "o.jsonl"
    out.write_text("".join(f'{{"nr": "{number}"}}\n' for number in lines))
    with pytest.raises(SystemExit, match=problem):
        check_rows(out, 2)
