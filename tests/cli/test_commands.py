import gzip
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from bncl_cli.main import app
from bncl_cli.show import err
from typer.testing import CliRunner, Result

from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.demo import demo_folder
from bncl_pyg.features import Features, write_features
from bncl_pyg.graph import SignedLabelGraph
from bncl_pyg.priors import Priors
from bncl_pyg.scorers import SentenceEncoder
from bncl_pyg.training import TrainedModel, Trainer

Bncl = Callable[..., Result]


@pytest.fixture
def bncl() -> Bncl:
    def run(*words: object) -> Result:
        return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)

    return run


@pytest.fixture
def folder(
    tmp_path: Path, labels: LabelSet, corpus: Corpus, features: Features, graph: SignedLabelGraph, priors: Priors
) -> Path:
    """A folder with everything that training takes."""
    assert corpus.annotations is not None
    labels.write(tmp_path / "labels.jsonl")
    with (tmp_path / "texts.jsonl").open("w") as file:
        for row, (identifier, text) in enumerate(zip(corpus.ids, corpus.texts, strict=True)):
            names = [labels.names[place] for place in corpus.annotations[[row]].indices]
            file.write(json.dumps({"id": identifier, "text": text, "labels": names}) + "\n")
    write_features(features, tmp_path / "features")
    graph.save(tmp_path / "graph")
    priors.write(tmp_path / "priors.json", labels)
    return tmp_path


def refused(result: Result, *parts: str) -> None:
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    for part in parts:
        assert part in result.stderr, result.stderr


def train(bncl: Bncl, folder: Path, *more: object, out: str = "model", recipe: str = "paper") -> Result:
    words = ["train", folder / "features", "--graph", folder / "graph", "--out", folder / out, "--recipe", recipe]
    words += [] if recipe == "default" else ["--epochs", 3]
    return bncl(*words, *(more or ["--setting", "annotation-free", "--priors", folder / "priors.json"]))


def test_help_needs_no_heavy_import() -> None:
    heavy = ["torch", "torch_geometric", "transformers", "gensim", "numpy", "scipy", "sklearn", "matplotlib"]
    code = f"import sys\nfrom bncl_cli.main import app\nprint([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("words", [["--help"], ["graph", "--help"], ["train", "--help"], ["data", "priors", "--help"]])
def test_help(bncl: Bncl, words: list[str]) -> None:
    result = bncl(*words)
    assert result.exit_code == 0
    assert "Usage" in result.output


def test_version(bncl: Bncl) -> None:
    assert bncl("--version").output.startswith("bncl-pyg 0.")


@pytest.mark.parametrize("recipe", ["default", "paper", "paper-literal", "reference"])
def test_the_whole_way_in_three_settings(bncl: Bncl, folder: Path, recipe: str) -> None:
    assert bncl(
        "data", "priors", folder / "texts.jsonl", "--labels", folder / "labels.jsonl", "--out", folder / "p.json"
    )
    assert json.loads((folder / "p.json").read_text()) == json.loads((folder / "priors.json").read_text())
    given = ["--priors", folder / "p.json"]
    some = ["--annotated", folder / "texts.jsonl", "--annotations", 6]
    settings: dict[str, list[object]] = {
        "annotation-free": [*given],
        "scarce-annotation": [*some],
        "domain-supervisor": [*given, *some],
    }
    for setting, words in settings.items():
        result = train(bncl, folder, "--setting", setting, *words, out=setting, recipe=recipe)
        assert result.exit_code == 0, result.output
        assert f"trained {setting} on 60 texts" in result.output
        assert ("6 of them annotated" in result.output) == (setting != "annotation-free")
        assert ("recipe default" if recipe == "default" else "3 epochs") in result.output
        assert not list(folder.glob("*.checkpoint*"))
        found = bncl(
            "eval",
            folder / setting,
            folder / "features",
            "--truth",
            folder / "texts.jsonl",
            "--json",
            folder / "e.json",
            "--overwrite",
        )
        assert found.exit_code == 0, found.output
        content = json.loads((folder / "e.json").read_text())
        five = {"ACC", "HA", "ebF1", "miF1", "maF1"}
        assert set(content["metrics"]) == five
        assert set(content["baselines"]["zero-shot"]) == five
        assert f"{content['metrics']['miF1']:.4f}" in found.output
        assert f"probabilities: {content['calibration_error']['model']:.4f}; of the zero-shot" in found.output
    done = bncl("predict", folder / "annotation-free", folder / "features", "--out", folder / "out.jsonl")
    rows = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == [f"t{place}" for place in range(60)]
    empty = sum(not row["labels"] for row in rows)
    assert f"60 texts, {empty} of them without any label" in done.output


def test_the_paper_chooses_a_graph_where_none_is_given_and_says_so(bncl: Bncl, folder: Path) -> None:
    words = ["train", folder / "features", "--priors", folder / "priors.json", "--recipe", "paper", "--epochs", 2]
    done = bncl(*words, "--out", folder / "m")
    assert done.exit_code == 0, done.output
    assert "2 epochs" in done.output
    chosen = re.search(r"Chosen for the label graph: percentiles (\S+) \(on held-out texts (.+)\)\.", done.output)
    assert chosen is not None, done.output
    losses = {pair: float(loss) for pair, loss in re.findall(r"(\S+): loss ([\d.e+]+)", chosen[2])}
    assert list(losses) == ["5/95", "10/90", "30/70"]
    assert chosen[1] == min(losses, key=losses.__getitem__)
    graph = json.loads((folder / "m" / "graph" / "manifest.json").read_text())
    assert graph["provenance"]["percentiles"] == [float(number) for number in chosen[1].split("/")]
    given = bncl(*words, "--graph", folder / "graph", "--out", folder / "given")
    assert given.exit_code == 0, given.output
    assert "Chosen" not in given.output


@pytest.mark.parametrize("recipe", ["default", "paper"])
def test_the_same_command_gives_the_same_bytes(bncl: Bncl, folder: Path, recipe: str) -> None:
    assert train(bncl, folder, out="one", recipe=recipe).exit_code == 0
    assert train(bncl, folder, out="two", recipe=recipe).exit_code == 0
    for file in sorted(path for path in (folder / "one").rglob("*") if path.is_file()):
        assert file.read_bytes() == (folder / "two" / file.relative_to(folder / "one")).read_bytes()


def test_interrupted_and_given_again(bncl: Bncl, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert train(bncl, folder, out="whole").exit_code == 0
    real = Trainer.train_epoch

    def interrupted(self: Trainer, epoch: int) -> object:
        if epoch == 3:
            raise KeyboardInterrupt
        return real(self, epoch)

    monkeypatch.setattr(Trainer, "train_epoch", interrupted)
    stopped = train(bncl, folder)
    assert stopped.exit_code == 130
    assert "the same command goes on after the last whole epoch" in stopped.stderr
    assert not (folder / "model").exists()
    monkeypatch.undo()
    refused(train(bncl, folder, *NO_PRIORS(folder), "--seed", 1), "unfinished training with another seed", "--fresh")
    again = train(bncl, folder)
    assert again.exit_code == 0
    assert "Going on after epoch 2 of 3" in again.stderr
    whole, model = (folder / name / "model.safetensors" for name in ("whole", "model"))
    assert whole.read_bytes() == model.read_bytes()


def NO_PRIORS(folder: Path) -> list[object]:  # noqa: N802
    return ["--setting", "annotation-free", "--priors", folder / "priors.json"]


def test_graph_commands(bncl: Bncl, folder: Path) -> None:
    vectors = folder / "w.txt"
    words = ["gold", "silver", "wheat", "corn", "money", "foreign", "exchange", "rates"]
    vectors.write_text("".join(f"{word} {place % 3 + 1} {place % 5} {place}\n" for place, word in enumerate(words)))
    labels, out = folder / "labels.jsonl", folder / "built"
    made = bncl("graph", "build", labels, "--embeddings", vectors, "--percentiles", 20, 80, "--hops", 3, "--out", out)
    assert made.exit_code == 0, made.output
    assert "6 labels, 3 pairs of friends, 3 pairs of enemies" in made.output
    assert "1 words of 1 labels have no vector: Interest" in made.stderr
    assert SignedLabelGraph.load(out).hops == 3
    stats = bncl("graph", "stats", out, "--json", folder / "s.json")
    assert len(json.loads((folder / "s.json").read_text())["hops"]) == 3
    assert "Balanced neighbourhoods" in stats.output
    assert bncl("graph", "export", out, "--out", folder / "g.graphml").exit_code == 0
    assert bncl("graph", "plot", out, "--out", folder / "g.png").exit_code == 0
    assert (folder / "g.png").read_bytes().startswith(b"\x89PNG")

    refused(bncl("graph", "build", labels, "--embeddings", vectors, "--out", out), "already exists", "--overwrite")
    refused(bncl("graph", "build", labels, "--percentiles", 90, 10, "--out", folder / "x"), "Percentiles must be")
    refused(bncl("graph", "build", folder / "no.jsonl", "--out", folder / "x"), "no.jsonl does not exist")
    refused(bncl("graph", "plot", out, "--out", folder / "g.bmp"), "must end in .png")
    refused(bncl("graph", "stats", folder / "features"), "is a bncl features folder, but a graph folder is needed")
    assert not (folder / "x").exists()


def test_a_graph_of_neighbours_pruned_at_every_hop(bncl: Bncl, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    names = [f"word{place}" for place in range(40)]
    (tmp_path / "labels.txt").write_text("\n".join([*names, *(f"unknown{place}" for place in range(25))]))
    rows = (" ".join([name, *map(str, generator.normal(size=6).round(4))]) for name in names)
    (tmp_path / "w.txt").write_text("\n".join(rows) + "\n")
    words = ["graph", "build", tmp_path / "labels.txt", "--embeddings", tmp_path / "w.txt", "--out", tmp_path / "g"]
    made = bncl(*words, "--neighbours", 4, "--max-neighbours", 3, "--hops", 3, "--memory", 2)
    assert made.exit_code == 0, made.output
    graph = SignedLabelGraph.load(tmp_path / "g")
    assert f"65 labels, {graph.count(1)} pairs of friends, {graph.count(-1)} pairs of enemies" in made.output
    assert graph.provenance["search"] == "exact"
    assert [np.bincount(hood.friends.indices).max() for hood in graph.pruned] == [3, 3, 3]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g", "labels.txt", "w.txt"]
    stats = bncl("graph", "stats", tmp_path / "g")
    assert "… and 5 more" in stats.output.replace("\n", " ")
    refused(bncl("graph", "stats", tmp_path / "g", "--hops", 4), "build it again with --hops 4")
    assert bncl("graph", "plot", tmp_path / "g", "--out", tmp_path / "g.svg", "--most", 10).output.endswith(
        "10 of 65 labels.\n"
    )
    assert bncl("graph", "export", tmp_path / "g", "--out", tmp_path / "g.graphml").exit_code == 0

    words[-1] = tmp_path / "x"
    refused(
        bncl(*words, "--neighbours", 4, "--percentiles", 5, 95), "--percentiles and --neighbours exclude each other"
    )
    refused(bncl(*words, "--neighbours", 20), "each of 40 labels with a vector can have 1 to 19")
    refused(bncl(*words, "--neighbours", 0), "--neighbours")
    refused(
        bncl(*words, "--memory", "1e-6"), "connect 78 pairs of 40 labels, which takes", "use --neighbours 10 instead"
    )
    refused(bncl(*words, "--memory", 0), "memory budget must be above 0 GB")
    assert not (tmp_path / "x").exists()
    assert not (tmp_path / ".x.blocks").exists()


def test_too_many_pairs_are_refused_before_the_labels_are_read(
    bncl: Bncl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "labels.txt").write_text("\n".join(f"label {place}" for place in range(200)))
    monkeypatch.setattr(SentenceEncoder, "embedded", lambda: pytest.fail("the encoder was loaded"))
    result = bncl("graph", "build", tmp_path / "labels.txt", "--out", tmp_path / "g", "--memory", "1e-5")
    refused(result, "connect 1,990 pairs of 200 labels", "use --neighbours 10 instead")


def test_a_stopped_graph_build_goes_on(bncl: Bncl, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["graph", "build", folder / "labels.jsonl", "--neighbours", 2, "--max-neighbours", 2, "--out", folder / "n"]

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as stopping:
        stopping.setattr(SignedLabelGraph, "save", interrupt)
        stopped = bncl(*words)
    assert stopped.exit_code != 0
    assert "the same command goes on" in stopped.stderr
    finished = sorted(file.name.split(".")[0] for file in (folder / ".n.blocks").glob("*.block"))
    assert finished == ["hop1", "hop2", "nearest", "vectors"]
    monkeypatch.setattr(SentenceEncoder, "encode", lambda *_: pytest.fail("a label was read again"))
    assert bncl(*words).exit_code == 0
    assert not (folder / ".n.blocks").exists()


def test_rough_priors(bncl: Bncl, folder: Path, labels: LabelSet) -> None:
    words = dict(zip(labels.names, ["common", "common", "standard", "standard", "uncommon", 0.1], strict=True))
    rough = folder / "rough.json"
    rough.write_text(json.dumps({"cardinality": 1.5, "prevalence": words}))
    for priors in (rough, "auto"):
        free = ["--setting", "annotation-free", "--priors", priors]
        done = train(bncl, folder, *free, out=f"m-{Path(priors).stem}", recipe="default")
        assert done.exit_code == 0, done.output
        assert "Estimated: 1.5 labels a text; most common: " in done.output or priors == "auto"
    known = json.loads((folder / "m-rough" / "priors.json").read_text())
    assert known["prevalence"]["rates"] == pytest.approx(0.1, abs=1e-9)
    assert known["prevalence"]["gold"] > known["prevalence"]["corn"] > known["prevalence"]["money"]
    assert sum(known["prevalence"].values()) == pytest.approx(1.5)
    words["gold"] = "rare"
    rough.write_text(json.dumps({"prevalence": words}))
    refused(train(bncl, folder, "--setting", "annotation-free", "--priors", rough, out="x"), "rough.json", "'gold'")
    both = ["--setting", "scarce-annotation", "--annotated", folder / "texts.jsonl", "--priors", folder / "priors.json"]
    refused(train(bncl, folder, *both, out="x"), "scarce-annotation estimates cardinality and prevalence")


def test_what_is_given_decides_and_the_graph_may_be_left_out(bncl: Bncl, folder: Path) -> None:
    given, some = ["--priors", folder / "priors.json"], ["--annotated", folder / "texts.jsonl", "--annotations", 6]
    cases = {
        "annotation-free": given,
        "scarce-annotation": some,
        "domain-supervisor": [*given, *some],
        "nothing": ["--priors", "auto"],
    }
    for name, words in cases.items():
        done = bncl("train", folder / "features", "--out", folder / name, *words)
        assert done.exit_code == 0, done.output
        setting = "annotation-free" if name == "nothing" else name
        assert f"trained {setting} on 60 texts" in done.output
        assert ("Estimated: " in done.output) == (name in ("scarce-annotation", "nothing"))
        kept = SignedLabelGraph.load(folder / name / "graph")
        assert kept.provenance["embeddings"] == "embedded"
        assert kept.num_nodes == 6


def test_one_number_and_whether_texts_may_have_none(bncl: Bncl, folder: Path) -> None:
    for words, cardinality in ((["--labels-per-text", 0.4], 0.4), (["--labels-per-text", 2, "--or-none"], 2)):
        figures = folder / "figures.json"
        done = bncl("train", folder / "features", "--out", folder / "m", *words, "--json", figures, "--overwrite")
        assert done.exit_code == 0, done.output
        assert json.loads(figures.read_text())["cardinality"] == pytest.approx(cardinality)
        assert not TrainedModel.load(folder / "m").model.config()["at_least_one"]
    given = ["--priors", folder / "priors.json", "--labels-per-text", 2]
    refused(train(bncl, folder, *given), "priors.json says already how many labels a text has")


def test_bad_use_of_train_is_one_sentence(bncl: Bncl, folder: Path) -> None:
    free = ["--setting", "annotation-free"]
    some = ["--annotated", folder / "texts.jsonl"]
    refused(train(bncl, folder, *free, *some), "The setting annotation-free takes no annotated texts")
    refused(train(bncl, folder, "--setting", "domain-supervisor", *some), "domain-supervisor needs cardinality")
    refused(train(bncl, folder, "--annotations", 3), "no annotated texts to draw from: add --annotated")
    refused(train(bncl, folder, *some, "--annotations", 61), "Between 1 and 60 annotated texts can be drawn")
    refused(train(bncl, folder, "--setting", "scarce-annotation"), "needs annotated texts")
    refused(train(bncl, folder, "--setting", "none"), "'none' is not one of")
    refused(train(bncl, folder, *free, "--priors", folder / "none.json"), "none.json does not exist")
    refused(train(bncl, folder, *NO_PRIORS(folder), "--sharpness", "x"), "whole number or 'auto', but is 'x'")
    refused(train(bncl, folder, *NO_PRIORS(folder), "--seed", -1), "--seed")
    ours = train(bncl, folder, *NO_PRIORS(folder), "--sharpness", "auto", recipe="default")
    refused(ours, "The recipe default has no sharpness; paper, paper-literal and reference have.")
    bad = folder / "bad.jsonl"
    bad.write_text('{"id": "t0", "text": "x", "labels": ["lead"]}\n')
    words = ["--setting", "scarce-annotation", "--annotated", bad]
    refused(train(bncl, folder, *words), "bad.jsonl, line 1: field 'labels': unknown label 'lead'")
    assert not (folder / "model").exists()
    assert train(bncl, folder).exit_code == 0
    before = (folder / "model" / "manifest.json").read_bytes()
    refused(train(bncl, folder), "model already exists")
    assert (folder / "model" / "manifest.json").read_bytes() == before


def test_priors_that_disagree_are_said(bncl: Bncl, folder: Path) -> None:
    content = json.loads((folder / "priors.json").read_text())
    content["cardinality"] = 3.0
    (folder / "priors.json").write_text(json.dumps(content))
    result = train(bncl, folder)
    assert result.exit_code == 0
    assert "Warning: The prevalences add up to 1.78 labels a text, but the cardinality says 3" in result.stderr


def test_bad_use_of_eval_and_predict_is_one_sentence(bncl: Bncl, folder: Path) -> None:
    assert train(bncl, folder).exit_code == 0
    words = [folder / "model", folder / "features"]
    refused(bncl("eval", *words, "--truth", folder / "labels.jsonl"), "has no column 'text'; its columns are")
    refused(bncl("predict", folder / "nope", folder / "features", "--out", folder / "o.jsonl"), "nope does not exist")
    refused(
        bncl("predict", folder / "model", folder / "texts.jsonl", "--out", folder / "o.jsonl"),
        "The scorer 'made up', which the texts are to be read by, is not here; say where it lies with --scorer",
    )
    assert not (folder / "o.jsonl").exists()


@pytest.fixture
def split(folder: Path, features: Features) -> Path:
    """The same folder, with 40 texts in `train.jsonl` and the other 20, with features of their own, in `test.jsonl`."""
    lines = (folder / "texts.jsonl").read_text().splitlines(keepends=True)
    (folder / "train.jsonl").write_text("".join(lines[:40]))
    (folder / "test.jsonl").write_text("".join(lines[40:]))
    scores = features.entailment[40:], features.contradiction[40:]
    write_features(Features(features.ids[40:], features.labels, *scores, features.scorer), folder / "test-features")
    return folder


def evaluate(bncl: Bncl, folder: Path, model: str, *more: object) -> Result:
    words = ["eval", folder / model, folder / "test-features", "--truth", folder / "test.jsonl"]
    return bncl(*words, "--json", folder / "e.json", "--overwrite", *more)


def test_eval_shows_the_baselines_beside_the_model(bncl: Bncl, split: Path) -> None:
    scores_only = ["zero-shot", "top-κ", "λ-quantile"]
    learners = ["ML-kNN", "ML-ARAM", "TF-IDF + LinearSVC", "encoder + logistic regression"]
    baselines = ["--baselines", "--training", split / "features"]

    def shown(model: str, *more: object) -> tuple[Result, list[str], int]:
        result = evaluate(bncl, split, model, *baselines, *more)
        assert result.exit_code == 0, result.output
        content = json.loads((split / "e.json").read_text())
        for name, metrics in content["baselines"].items():
            assert name in result.output
            assert f"{metrics['HA']:.4f}" in result.output
        return result, list(content["baselines"]), content["baselines_annotated_texts"]

    assert train(bncl, split).exit_code == 0
    assert shown("model")[1:] == (scores_only, 0)
    result, names, count = shown("model", "--annotated", split / "train.jsonl")
    assert (names, count) == ([*scores_only, *learners], 40)
    assert "were given 40 annotated texts, whose labels the model was not told" in result.output
    assert "Best: ebF1 " in result.output
    assert "true\n" in result.output

    some = ["--setting", "scarce-annotation", "--annotated", split / "train.jsonl", "--annotations", 20]
    assert train(bncl, split, *some, out="scarce").exit_code == 0
    result, names, count = shown("scarce", "--annotated", split / "train.jsonl")
    assert (names, count) == ([*scores_only, *learners], 20)
    assert "were given 20 annotated texts, whose labels the model learned too" in result.output


def test_bad_use_of_baselines_is_one_sentence(bncl: Bncl, split: Path) -> None:
    known = split / "train.jsonl"
    some = ["--setting", "scarce-annotation", "--annotated", known, "--annotations", 20]
    assert train(bncl, split, *some).exit_code == 0

    def wrong(*more: object) -> Result:
        result = evaluate(bncl, split, "model", *more)
        assert not (split / "e.json").exists()
        return result

    training = ["--baselines", "--training", split / "features"]
    refused(wrong("--baselines"), "The baselines need the scored training texts: add --training FEATURES")
    refused(wrong("--annotated", known), "Only the baselines look at --annotated: add --baselines")
    refused(wrong(*training), "trained on 20 annotated texts; give them to the baselines too")
    few = split / "few.jsonl"
    few.write_text("".join(known.read_text().splitlines(keepends=True)[:3]))
    refused(wrong(*training, "--annotated", few), "of the 20 that the model was trained on, such as 't")
    other = split / "other.jsonl"
    rows = [json.loads(line) for line in known.read_text().splitlines()]
    other.write_text("".join(json.dumps({**row, "labels": ["gold", "corn", "rates"]}) + "\n" for row in rows))
    refused(wrong(*training, "--annotated", other), "has other labels than when the model was trained")
    test_scores = ["--baselines", "--training", split / "test-features"]
    refused(wrong(*test_scores, "--annotated", known), "trained on 60 texts, but the folder of training features")
    assert train(bncl, split, *NO_PRIORS(split), out="free").exit_code == 0
    both = evaluate(bncl, split, "free", *training, "--annotated", split / "texts.jsonl")
    refused(both, "The text 't40' is both an annotated text and a test text")
    renamed = split / "renamed.jsonl"
    rows = [json.loads(line) for line in (split / "test.jsonl").read_text().splitlines()]
    renamed.write_text("".join(json.dumps({**row, "id": f"new-{row['id']}"}) + "\n" for row in rows))
    said = evaluate(bncl, split, "free", *training, "--annotated", renamed)
    assert said.exit_code == 0
    assert "Warning: 20 annotated texts are, word for word, test texts too" in said.stderr


def test_quiet_shows_no_bar_and_no_note(bncl: Bncl, folder: Path) -> None:
    words = ["featurize", folder / "texts.jsonl", "--labels", folder / "labels.jsonl", "--out", folder / "q"]
    try:
        assert bncl("--quiet", *words).stderr == ""
    finally:
        err.quiet = False


def test_a_place_that_cannot_be_written_is_named(bncl: Bncl, folder: Path) -> None:
    words = ["data", "priors", folder / "texts.jsonl", "--labels", folder / "labels.jsonl"]
    refused(bncl(*words, "--out", folder / "texts.jsonl" / "p.json"), "texts.jsonl")


@pytest.fixture
def some_of_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the demo take a part of its texts; `make test` runs all of it before."""
    folder = tmp_path / "data"
    folder.mkdir()
    shutil.copy(demo_folder() / "labels.jsonl", folder)
    for name, count in (("train", 240), ("test", 40)):
        lines = gzip.decompress((demo_folder() / f"{name}.jsonl.gz").read_bytes()).splitlines(keepends=True)
        (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(b"".join(lines[:count])))
    monkeypatch.setattr("bncl_pyg.demo.demo_folder", lambda: folder)


@pytest.mark.usefixtures("some_of_the_demo")
def test_demo_shows_metrics_beside_the_start(bncl: Bncl, tmp_path: Path) -> None:
    result = bncl("demo", "--out", tmp_path / "demo")
    assert result.exit_code == 0, result.output
    for part in (
        "$ bncl featurize",
        "$ bncl graph build",
        "zero-shot start",
        "knowing nothing",
        "knowing how common labels are",
        "57 annotated texts",
        "Next",
    ):
        assert part in result.output
    kept = json.loads((tmp_path / "demo" / "metrics.json").read_text())
    for metrics in kept["rows"].values():
        assert all(f"{value:.4f}" in result.output for value in metrics.values())
    assert len(kept["rows"]) == 4
    rows = (tmp_path / "demo" / "predictions.jsonl").read_text().splitlines()
    assert len(rows) == 40
    assert bncl("demo", "--out", tmp_path / "demo").exit_code == 0


def test_the_bundled_set_is_small_and_attributed() -> None:
    files = [path for path in demo_folder().rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 1_000_000
    assert "Debian" in (demo_folder() / "SOURCE.md").read_text()


def test_predictions_never_replace_their_input(bncl: Bncl, folder: Path) -> None:
    train(bncl, folder)
    texts = folder / "texts.jsonl"
    before = texts.read_bytes()
    refused(bncl("predict", folder / "model", texts, "--out", texts), "is what this command reads")
    (folder / "link.jsonl").symlink_to(texts)
    refused(bncl("predict", folder / "model", texts, "--out", folder / "link.jsonl"), "is what this command reads")
    model, given, labels = folder / "model", folder / "priors.json", folder / "labels.jsonl"
    refused(bncl("eval", model, folder / "features", "--truth", texts, "--json", texts), "is what this command reads")
    refused(bncl("data", "priors", texts, "--labels", labels, "--out", labels), "is what this command reads")
    inside = folder / "graph" / "manifest.json"
    refused(bncl("graph", "stats", folder / "graph", "--json", inside), "lies inside of")
    refused(bncl("graph", "export", folder / "graph", "--out", folder / "graph" / "g.graphml"), "lies inside of")
    refused(bncl("predict", model, texts, "--out", model / "labels.jsonl"), "lies inside of")
    assert SignedLabelGraph.load(folder / "graph").num_nodes == 6
    assert texts.read_bytes() == before
    assert given.exists()


def test_standard_output_is_written_after_what_is_there(folder: Path) -> None:
    log = folder / "log"
    log.write_text("before\n")
    words = ["data", "priors", folder / "texts.jsonl", "--labels", folder / "labels.jsonl", "--out", "/dev/stdout"]
    command = [sys.executable, "-c", "from bncl_cli.main import main; main()", *map(str, words)]
    with log.open("a") as file:
        subprocess.run(command, check=True, stdout=file)
    first, *rest = log.read_text().splitlines()
    assert first == "before"
    assert '"cardinality"' in "".join(rest)
    piped = subprocess.run(command, check=True, capture_output=True, text=True)
    assert '"cardinality"' in piped.stdout


def test_from_texts_to_predictions(bncl: Bncl, folder: Path) -> None:
    texts, labels, out = folder / "texts.jsonl", folder / "labels.jsonl", folder / "scored"
    made = bncl("featurize", texts, "--labels", labels, "--out", out)
    assert made.exit_code == 0, made.output
    assert "60 texts × 6 labels; 1 of 1 blocks scored now" in made.output
    assert "0 of 1 blocks scored now" in bncl("featurize", texts, "--labels", labels, "--out", out).output
    words = ["train", out, "--graph", folder / "graph", "--out", folder / "m"]
    assert bncl(*words, "--setting", "annotation-free", "--priors", folder / "priors.json").exit_code == 0
    for number, source in enumerate((texts, out)):
        done = bncl("predict", folder / "m", source, "--out", folder / f"{number}.jsonl")
        assert done.exit_code == 0, done.output
        assert "another scorer" not in done.stderr
    from_texts, from_features = (
        [json.loads(line) for line in (folder / f"{number}.jsonl").read_text().splitlines()] for number in range(2)
    )
    given = [json.loads(line) for line in texts.read_text().splitlines()]
    for row, same, was in zip(from_texts, from_features, given, strict=True):
        assert {**row, "predicted_labels": None, "predicted_probabilities": None} == {
            **was,
            "predicted_labels": None,
            "predicted_probabilities": None,
        }
        assert (row["predicted_labels"], row["predicted_probabilities"]) == (same["labels"], same["probabilities"])


def test_candidates_say_what_they_cost(bncl: Bncl, folder: Path) -> None:
    words = ["featurize", folder / "texts.jsonl", "--labels", folder / "labels.jsonl"]
    made = bncl(*words, "--candidates", 3, "--dtype", "float16", "--out", folder / "c")
    assert made.exit_code == 0, made.output
    assert "texts scored in full, the 3 candidates hold" in made.output
    refused(bncl(*words, "--candidates", 7, "--out", folder / "x"), "Between 1 and 6 candidates")


def test_bad_use_of_featurize_is_one_sentence(bncl: Bncl, folder: Path) -> None:
    words = ["featurize", folder / "texts.jsonl", "--labels", folder / "labels.jsonl"]
    refused(bncl(*words, "--out", folder / "x", "--template", "about"), "must hold '{}' exactly once")
    refused(bncl(*words, "--out", folder / "x", "--scorer", folder / "none"), "none does not exist")
    refused(bncl(*words, "--out", folder / "graph"), "is a bncl graph folder, but a features folder is needed")
    refused(bncl(*words, "--out", folder / "texts.jsonl"), "texts.jsonl")
    refused(bncl(*words, "--out", "/proc/features"), "/proc/features")
    bad = folder / "bad.jsonl"
    bad.write_text('{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}\n')
    refused(bncl("featurize", bad, *words[2:], "--out", folder / "x"), "bad.jsonl, line 2: id 'a' is given twice")
    assert not (folder / "x").exists()
