"""A server that is killed loses nothing that it acknowledged; 20 kills are benchmarks/serve_kill.py."""

from pathlib import Path

from benchmarks.serve_kill import killed


def test_no_acknowledged_answer_is_lost(tmp_path: Path) -> None:
    left = killed(tmp_path, kills=3, seed=0)
    assert left["acknowledged"] >= 3
    assert left["lost"] == []
    assert left["unconfirmed"] <= 3
    assert left["acknowledged"] <= left["kept"] <= left["acknowledged"] + left["unconfirmed"]
