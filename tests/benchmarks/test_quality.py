import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.quality.__main__ import main
from benchmarks.quality.pages import Outcomes, as_markdown
from benchmarks.quality.plan import (
    COSINE_QUANTILE,
    DEFAULT,
    LEVELS,
    PAPERS,
    PARTS,
    RECIPES,
    ROUGH,
    SCARCE,
    Trial,
    all_trials,
    grouped,
    is_main,
    revision_of,
    seeds_of,
)
from benchmarks.quality.printed import printed
from benchmarks.quality.records import Records, is_outdated
from benchmarks.quality.trials import Outcome
from benchmarks.results import FOLDER
from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.errors import InputError
from bncl_pyg.evaluation import Metrics
from bncl_pyg.evaluation.baselines import BASELINES
from bncl_pyg.features import featurize
from bncl_pyg.scorers import load_scorer

TOP = Path(__file__).parents[2]
SCARCELY = ("scarce-annotation", SCARCE)


def test_a_change_of_one_figure_changes_the_page() -> None:
    content = json.loads((FOLDER / "quality-reuters21578.json").read_text())
    before = as_markdown(Outcomes(content))
    content["runs"][0]["metrics"][2] += 0.01
    assert as_markdown(Outcomes(content)) != before


def test_the_plan_has_every_table_of_the_paper() -> None:
    plan = list(all_trials("GloVe"))
    assert len(plan) == len(set(plan))
    for recipe in RECIPES:
        mine = [trial for trial in plan if trial.method == recipe]
        assert {trial.setting for trial in mine if trial.level in ("0", SCARCE)} == {
            "annotation-free",
            "scarce-annotation",
            "domain-supervisor",
        }
        assert {trial.level for trial in mine} == {"0", SCARCE, *LEVELS}
        if recipe == DEFAULT:
            assert {trial.rough for trial in mine} == {"", *ROUGH}
            assert {trial.without for trial in mine} == {(), *PARTS}
            assert {trial.vectors for trial in mine} == {"embedded"}
            continue
        assert {trial.groups for trial in mine} == {0, 2, 4, 6, 8, 10}
        assert {trial.hops for trial in mine} == {1, 2, 3}
        own = {"paper-literal": {(5, 95)}, "reference": {(10, 90)}}.get(recipe, set())
        assert {trial.percentiles for trial in mine} == {(), (5, 95), (10, 90), (30, 70)} - own
        assert {trial.without for trial in mine} == {(), ("L2",), ("L3",), ("L2", "L3")}
    assert [trial.method for trial in plan if trial.literal] == ["paper-literal"]
    looked_at = {("as scored", 0.0), ("", 0.9)}
    for level in ("0", SCARCE, "20%", "100%"):
        here = {(trial.start, trial.decay) for trial in plan if trial.method == "paper" and trial.level == level}
        assert looked_at <= here
    assert {trial.method for trial in plan} == {*RECIPES, *BASELINES, COSINE_QUANTILE, "SetFit"}
    assert all(Trial.from_dict(json.loads(json.dumps(trial.as_dict()))) == trial for trial in plan)
    with_figures = {trial: figures for trial in plan if (figures := printed("reuters21578", trial, "GloVe"))}
    assert len(with_figures) == 15
    with_std = [trial.setting for trial, (_, _, deviations) in with_figures.items() if deviations]
    assert with_std == ["annotation-free", "scarce-annotation", "domain-supervisor"]
    assert {trial.method for trial in with_figures if trial.method in PAPERS} == {"paper"}


def test_the_scorer_strong_stands_beside_light_where_there_are_features_of_it() -> None:
    assert {trial.scorer for trial in all_trials("GloVe")} == {"light"}
    both = list(all_trials("GloVe", strong=True))
    assert len(both) == len(set(both))
    strong = [trial for trial in both if trial.scorer == "strong" and trial.method in PAPERS]
    assert {trial.method for trial in strong} == {"paper"}
    assert {trial.level for trial in strong} == {"0", SCARCE, *LEVELS}


def test_the_default_recipe_and_its_baselines_have_the_default_scorer_where_there_are_features_of_it() -> None:
    ours = [trial for trial in all_trials("GloVe", strong=True) if trial.method not in PAPERS]
    assert {trial.scorer for trial in ours} == {"strong"}
    light = [trial for trial in all_trials("GloVe") if trial.method not in PAPERS]
    assert [replace(trial, scorer="light") for trial in ours] == light


def test_ten_seeds_where_a_training_takes_seconds_and_three_elsewhere() -> None:
    for dataset, papers in (("reuters21578", 10), ("debtags", 3)):
        assert [seeds_of(Trial(name), dataset, 10) for name in PAPERS] == [papers] * 3
        assert seeds_of(Trial("ML-kNN", level="5%"), dataset, 10) == 10
        assert seeds_of(Trial("zero-shot"), dataset, 10) == 1
    assert seeds_of(Trial("paper"), "debtags", 2) == 2


def test_main_rows_are_each_method_with_its_own_choices() -> None:
    main = [trial for trial in all_trials("GloVe", strong=True) if is_main(trial, "GloVe")]
    for recipe in PAPERS:
        rows = [(trial.setting, trial.level) for trial in main if trial.method == recipe]
        free, scarce, known = ("annotation-free", "0"), ("scarce-annotation", SCARCE), ("domain-supervisor", SCARCE)
        assert rows == [free, scarce, known, *(("domain-supervisor", level) for level in ("5%", "20%", "50%", "100%"))]
    assert [trial.level for trial in main if trial.method == "ML-kNN"] == [SCARCE, "5%", "20%", "50%", "100%"]
    assert {trial.scorer for trial in main if trial.method in PAPERS} == {"light"}


def test_levels_that_there_are_not_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no level '7%'; there are: 0, L, 1%, 5%,"):
        main(tmp_path, levels="0,7%")


def test_levels_count_texts() -> None:
    assert [Trial("paper", level=level).annotations(1000, 28) for level in ("0", "L", "1%", "100%")] == [
        0,
        28,
        10,
        1000,
    ]
    assert Trial("paper", level="1%").annotations(20, 5) == 2


def test_groups_are_even_in_the_logarithm_and_keep_the_sum() -> None:
    prevalence = np.array([0.1, 0.05, 0.001, 0.002, 0.0])
    blurred = grouped(prevalence, 2)
    assert blurred == pytest.approx([0.075, 0.075, 0.001, 0.001, 0.001])
    assert grouped(prevalence, 50)[:2] == pytest.approx(prevalence[:2])


def test_outcomes_of_other_content_are_refused_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, outcome = tmp_path / "quality-x.json", Outcome(Metrics(0.1, 0.2, 0.3, 0.4, 0.5), None, 1.0, 100)
    records = Records(path, {"name": "x"})
    records.start_session()
    records.add(Trial("paper"), 0, outcome)
    before = path.read_bytes()
    plan = [Trial("zero-shot"), Trial("paper")]
    missing = [(Trial("zero-shot"), 0), (Trial("paper"), 1)]
    assert list(Records(path, {"name": "x"}).todo(plan, 2)) == missing
    with monkeypatch.context() as patch:
        patch.setattr("benchmarks.quality.records.revision_of", lambda trial: 7 if trial.method == "paper" else 1)
        assert list(Records(path, {"name": "x"}).todo(plan, 1)) == [(Trial("zero-shot"), 0), (Trial("paper"), 0)]
    with pytest.raises(InputError, match="another 'about' than this run's"):
        Records(path, {"name": "y"})
    other_scorer = Records(path, {"name": "x", "scorer": {"name": "light", "head_sha256": "abc"}})
    assert list(other_scorer.todo(plan, 2)) == missing
    assert other_scorer.content["about"] == {"name": "x"}
    with pytest.raises(InputError, match="another 'epochs' than this run's"):
        Records(path, {"name": "x"}, epochs=1)
    assert path.read_bytes() == before


def test_what_the_code_no_longer_predicts_is_measured_again(tmp_path: Path) -> None:
    ours = Trial(DEFAULT)
    guesses = [replace(ours, setting="scarce-annotation", level=SCARCE), replace(ours, rough="auto")]
    numbers = [ours, replace(ours, rough="factor 2"), replace(ours, setting="domain-supervisor", level="5%")]
    assert [revision_of(trial) for trial in (*guesses, *numbers, Trial("ML-kNN"))] == [4, 4, 4, 4, 4, 1]
    records = Records(tmp_path / "quality-x.json", {"name": "x"})
    records.start_session()
    for trial in (*guesses, *numbers, Trial("ML-kNN")):
        records.add(trial, 0, Outcome(Metrics(0.1, 0.2, 0.3, 0.4, 0.5), None, 1.0, 100))
    content = json.loads(records.path.read_text())
    assert [run.get("revision") for run in content["runs"]] == [4, 4, 4, 4, 4, None]
    content["runs"][0]["revision"] = 2
    records.path.write_text(json.dumps(content))
    again = Records(records.path, {"name": "x"})
    assert list(again.todo([*guesses, *numbers], 1)) == [(guesses[0], 0)]
    # Until it is, it stays.
    again.start_session()
    again.add(Trial("ML-kNN"), 1, Outcome(Metrics(0.1, 0.2, 0.3, 0.4, 0.5), None, 1.0, 100))
    kept = json.loads(records.path.read_text())["runs"]
    assert [run["trial"] for run in kept if is_outdated(run)] == [guesses[0].as_dict()]
    again.add(guesses[0], 1, Outcome(Metrics(0.1, 0.2, 0.3, 0.4, 0.5), None, 1.0, 100))
    kept = json.loads(records.path.read_text())["runs"]
    assert [run["seed"] for run in kept if run["trial"] == guesses[0].as_dict()] == [1]
    assert not any(map(is_outdated, kept))


@pytest.mark.usefixtures("threads")
def test_the_whole_harness_on_a_sample(sample: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["--data", sample.parent, "--datasets", "sample", "--cache", tmp_path / "cache", "--out", out]

    def run(*more: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "benchmarks.quality", *map(str, [*words, *more])]
        return subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)

    first = run("--seeds", 1, "--epochs", 1, "--workers", 2)
    assert first.returncode == 0, first.stderr
    content: dict[str, Any] = json.loads((out / "quality-sample.json").read_text())
    done = {Trial.from_dict(entry["trial"]) for entry in content["runs"]}
    assert done == {trial for trial in all_trials("embedded") if trial.method != "SetFit"}
    for entry in content["runs"]:
        assert all(0 <= value <= 1 for value in entry["metrics"])
        # After the only epoch, the repeated training predicts what the public class does.
        assert entry.get("best_on_test") == (entry["metrics"] if entry["trial"]["method"] == "reference" else None)
        chosen = entry["trial"]["method"] in PAPERS and "percentiles" not in entry["trial"]
        assert ("percentiles" in entry) == chosen
        assert ("calibration" in entry) == (entry["trial"]["method"] == DEFAULT)
        assert entry["peak_megabytes"] > 50
    assert content["about"]["sha256"].keys() == {"labels.jsonl", "train.jsonl", "test.jsonl"}
    page = (out / "quality-sample.md").read_text()
    assert "Only 1 epochs: a quick look, not a result." in page
    assert page == as_markdown(Outcomes(content))
    assert (out / "quality-sample-levels.png").stat().st_size > 10_000
    assert (out / "quality-sample-reliability.png").stat().st_size > 10_000

    # A second seed is added to what is there; the first is not measured again.
    # In this process, which one worker does not leave: to start another takes longer than to measure.
    main(
        sample.parent,
        "sample",
        2,
        out,
        tmp_path / "cache",
        workers=1,
        methods="ML-kNN,zero-shot",
        epochs=1,
        minutes=None,
    )
    again = json.loads((out / "quality-sample.json").read_text())
    assert again["runs"][: len(content["runs"])] == content["runs"]
    added = [(entry["trial"]["method"], entry["seed"]) for entry in again["runs"][len(content["runs"]) :]]
    assert added == [("ML-kNN", 1)] * len(LEVELS)

    with pytest.raises(
        InputError, match="There is no method 'MLkNN'; there are: default, paper, paper-literal, reference,"
    ):
        main(sample.parent, methods="MLkNN")
    refused = run("--seeds", 1)
    assert refused.returncode == 2
    assert "holds outcomes with another 'epochs'" in refused.stderr
    assert json.loads((out / "quality-sample.json").read_text()) == again


@pytest.mark.usefixtures("threads")
def test_features_are_read_from_stores_of_either_scorer(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of which one holds only a part of the training texts: the data set is this part, and is named so."""

    def few(vectors: str, *, strong: bool) -> list[Trial]:
        usual = Trial("paper", vectors=vectors)
        some = {usual, replace(usual, start="as scored"), replace(usual, scorer="strong")}
        some |= {Trial("ML-kNN", *SCARCELY, scorer="strong"), Trial("zero-shot", scorer="strong")}
        return [trial for trial in all_trials(vectors, strong=strong) if trial in some]

    monkeypatch.setattr("benchmarks.quality.__main__.all_trials", few)
    stores, out = tmp_path / "stores", tmp_path / "out"
    labels = LabelSet.read(sample / "labels.jsonl")
    scorer = load_scorer("strong")
    for split, count in (("train", 60), ("test", 40)):
        corpus = Corpus.read(sample / f"{split}.jsonl")
        rows = list(zip(corpus.ids, corpus.texts, strict=True))[:count]
        featurize(lambda rows=rows: rows, labels, scorer, stores / f"sample-{split}")  # type: ignore[misc]
    main(
        sample.parent,
        "sample",
        1,
        out,
        tmp_path / "cache",
        stores,
        workers=1,
        methods="paper,ML-kNN,zero-shot",
        epochs=1,
        minutes=None,
    )
    content = json.loads((out / "quality-sample-60.json").read_text())
    assert (content["about"]["train"], content["about"]["test"]) == (60, 40)
    assert content["sessions"][0]["scorer"]["parts"].keys() == {"light", "bge", "colbert"}
    done = {Trial.from_dict(entry["trial"]): entry["metrics"] for entry in content["runs"]}
    assert len(done) == 5
    light = done[Trial("paper", vectors="embedded")]
    strong = done[Trial("paper", vectors="embedded", scorer="strong")]
    assert light != strong
    page = (out / "quality-sample-60.md").read_text()
    assert "`strong`" in page
    assert "start as scored" in page
