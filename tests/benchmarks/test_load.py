"""The load test counts its rows, takes its tenths right, and its page is made from its figures."""

from pathlib import Path

import pytest

from benchmarks import load


def test_a_small_run_goes_through_both_stages_and_is_not_done_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load.main(2100, tmp_path, "", write=False)
    assert "| predict |" in capsys.readouterr().out
    assert len((tmp_path / "predicted-2100.jsonl").read_text().splitlines()) == 2100
    monkeypatch.setattr(load, "measured", lambda *_: pytest.fail("a stage was done again"))
    load.main(2100, tmp_path, "a note", write=False)
    assert "a note" in capsys.readouterr().out


def test_labels_are_as_many_as_said_and_all_different() -> None:
    assert len(set(load.label_names())) == load.LABELS


def test_speed_is_of_the_rows_between() -> None:
    groups = [(0.0, 0.0, 0), (1.0, 0.5, 10), (2.0, 1.0, 20), (6.0, 5.0, 30)]
    assert load.speed(groups, 0, 20) == {"texts_a_second": 10, "texts_a_cpu_second": 20}
    assert load.speed(groups, 20, 30) == {"texts_a_second": 2, "texts_a_cpu_second": 2}


@pytest.mark.parametrize(("ids", "problem"), [(["0", "2"], "Row 1 is out"), (["0"], "1 rows instead of 2")])
def test_rows_that_are_not_there_are_seen(ids: list[str], problem: str) -> None:
    with pytest.raises(SystemExit, match=problem):
        load.check_rows(iter(ids), 2)
