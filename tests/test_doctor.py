"""What is looked at, and what is told of what is wrong."""

import json
from pathlib import Path

import pytest
from bncl_cli.main import app
from typer.testing import CliRunner

from bncl_pyg import doctor
from bncl_pyg.doctor import Finding, examine
from bncl_pyg.scorers import BGE, MINILM, Pretrained
from tests.hub import running_hub


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


def test_everything_is_looked_at_and_works_here() -> None:
    findings = list(examine())
    assert [finding.state for finding in findings if finding.state == "wrong"] == []
    topics = list(dict.fromkeys(finding.topic for finding in findings))
    assert topics == ["versions", "extras", "backends", "hub", "weights", "threads", "caches", "self-test"]
    named = by_name(findings)
    assert {"Python", "bncl-pyg", "torch", "torch-geometric", "onnxruntime"} <= set(named)
    assert "message, sparse, dense" in named["signed convolution"].what
    assert "checked" in named["all-MiniLM-L6-v2 (light, strong, graphs)"].what
    assert "'light' scored 12 texts" in named["score and train"].what
    assert all(finding.remedy for finding in findings if finding.state != "fine")


def test_json_and_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "requires", lambda _: ["numpy>=2", "torch>=99", "no-such-package>=1"])
    result = CliRunner().invoke(app, ["doctor", "--json"], catch_exceptions=False)
    assert result.exit_code == 1
    content = json.loads(result.stdout)
    assert content["healthy"] is False
    named = {row["name"]: row for row in content["findings"]}
    assert named["numpy"]["state"] == "fine"
    assert "but >=99 is needed" in named["torch"]["what"]
    assert named["no-such-package"] == {
        "topic": "versions",
        "name": "no-such-package",
        "state": "wrong",
        "what": "not installed",
        "remedy": 'pip install "no-such-package>=1"',
    }
    assert "score and train" not in named, "with a package missing, there is nothing to test"
    shown = CliRunner().invoke(app, ["doctor", "--no-self-test"], catch_exceptions=False, env={"COLUMNS": "300"})
    assert shown.exit_code == 1
    assert "✗ torch" in shown.stdout
    assert '→ pip install "no-such-package>=1"' in shown.stdout
    assert "2 wrong: torch, no-such-package." in shown.stdout


def test_weights_that_are_missing_or_damaged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = Pretrained._from_package

    def package(self: Pretrained) -> Path | None:
        if self is MINILM:
            (tmp_path / "model.safetensors").write_bytes(b"x")
            self._check(tmp_path, self.packaged, "reinstall the package")
        return None if self is BGE else real(self)

    monkeypatch.setattr(Pretrained, "_from_package", package)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    named = by_name(list(examine(self_test=False)))
    damaged = named["all-MiniLM-L6-v2 (light, strong, graphs)"]
    assert damaged.state == "wrong"
    assert "are not the known ones (model.safetensors is missing or differs)" in damaged.what
    assert damaged.remedy == "reinstall the package."
    missing = named["bge-small-en-v1.5 (strong)"]
    assert (missing.state, missing.what) == ("wrong", "not on this machine")
    assert missing.remedy == 'pip install "bncl-pyg[offline]"'


def test_the_hub_answers_or_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with running_hub() as hub:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
        assert [finding.what for finding in doctor._hub()] == ["answers"]
    (down,) = doctor._hub()
    assert down.state == "note"
    assert down.what.startswith("does not answer (")


def test_a_cache_that_cannot_be_written_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BNCL_CACHE", str(tmp_path / "file" / "cache"))
    finding = next(doctor._caches())
    assert finding.state == "note"
    assert "cannot be written to" in finding.what
    assert "BNCL_CACHE" in finding.remedy
