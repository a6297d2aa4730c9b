"""F1 against how many pairs a cross-encoder is asked about: chosen by what is open, or each text's best labels.

    BNCL_DATA=folder python -m benchmarks.budget [--datasets stackex-cooking,goemotions]

On training texts; κ and λ are known. Every set is saved when it is done, so that a run that is stopped goes on.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from torch import Tensor

from benchmarks.results import FOLDER, about_this_run, footer, markdown_table
from bncl_pyg.active import Answers, PairBudget, with_answers
from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.evaluation import evaluate
from bncl_pyg.features import Features, score_texts
from bncl_pyg.graph import build_graph
from bncl_pyg.persistence import read_json, write_bytes, write_file, write_json
from bncl_pyg.priors import Priors
from bncl_pyg.scorers import RERANKER, Hypothesis, Scorer, hypotheses_of, join_scores, load_scorer

DATASETS = {"stackex-cooking": 200, "goemotions": 300}
"""How many texts are drawn."""
CANDIDATES = (2, 5, 10)
CHEAP = "light"
SEED = 2
"""Of the draw; weight and rounds were looked at on 300 texts of Cooking drawn with seed 1."""
NAME = "budget"
NONE, RERANKED, BEST, ONE_ROUND, FULL, OPEN = (
    "nothing asked",
    "`--candidates M --rerank`",
    "each text's M best, as `--budget` joins them",
    "`--budget`, in 1 round",
    "`--budget`, weight 1",
    "`--budget`",
)


class Remembering:
    """A scorer that is asked about a pair once, however often it is wanted."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer, self.block_texts = scorer, scorer.block_texts
        self.known: dict[tuple[str, int], Tensor] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.scorer, name)

    def score(self, texts: Sequence[str], hypotheses: Sequence[Hypothesis], pairs: Tensor | None = None) -> Tensor:
        """See `Scorer`."""
        assert pairs is not None
        wanted = [(text, label) for text, labels in zip(texts, pairs.tolist(), strict=True) for label in labels]
        new = [pair for pair in dict.fromkeys(wanted) if pair not in self.known]
        if new:
            scores = self.scorer.score([text for text, _ in new], hypotheses, torch.tensor([[one] for _, one in new]))
            self.known |= {pair: scores[:, place, 0] for place, pair in enumerate(new)}
        return torch.stack([self.known[pair] for pair in wanted], dim=1).reshape(2, *pairs.shape)


def main(
    data: Annotated[Path, typer.Option(envvar="BNCL_DATA", help="The folder with the data sets.")],
    datasets: Annotated[str, typer.Option(help="Which of them, with commas between.")] = ",".join(DATASETS),
    out: Annotated[Path, typer.Option(help="The folder for JSON, Markdown and the plot.")] = FOLDER,
) -> None:
    """Measure what is missing and write the page."""
    torch.set_num_threads(1)
    file = out / f"{NAME}.json"
    content: dict[str, Any] = read_json(file) if file.is_file() else {"sets": {}, "sessions": []}
    content["sessions"].append(about_this_run())
    for name in datasets.split(","):
        if name not in content["sets"]:
            rows = []
            for row in measure(data / name, DATASETS[name]):
                rows.append(row)
                typer.echo(f"{name}: {row}")
            content["sets"][name] = {"texts": DATASETS[name], "rows": rows}
            write_json(file, content)
    plot(content, out / f"{NAME}.png")
    write_bytes(out / f"{NAME}.md", as_markdown(content).encode())


def measure(folder: Path, texts: int) -> Iterator[dict[str, Any]]:
    """Yield ebF1, miF1 and maF1 of each way and cost."""
    labels = LabelSet.read(folder / "labels.jsonl")
    corpus = Corpus.read(folder / "train.jsonl", labels)
    corpus = corpus.rows(np.sort(np.random.default_rng(SEED).choice(len(corpus), texts, replace=False)))
    assert corpus.annotations is not None
    priors, graph = Priors.from_annotations(corpus.annotations), build_graph(labels)
    light, marco = load_scorer(CHEAP), Remembering(load_scorer(RERANKER))
    cheap, hypotheses = score_texts(corpus, labels, light), hypotheses_of(labels.phrases())

    def row(way: str, pairs: int, features: Features) -> dict[str, Any]:
        predicted = BNCLClassifier(prevalence=priors, graph=graph).fit(features).predict(features)
        found = evaluate(corpus.annotations, predicted)
        return {"way": way, "pairs": pairs, "metrics": [round(one, 4) for one in (found.ebF1, found.miF1, found.maF1)]}

    yield row(NONE, 0, cheap)
    for count in CANDIDATES:
        pairs, best = count * texts, light.top_labels(corpus.texts, hypotheses, count)
        said = marco.score(corpus.texts, hypotheses, best)
        own = torch.stack([scores.gather(1, best) for scores in (cheap.entailment, cheap.contradiction)])
        entailment, contradiction = join_scores([own, said])
        reranked = replace(cheap, entailment=entailment, contradiction=contradiction, candidates=best)
        yield row(RERANKED, pairs, reranked)
        places = torch.stack([torch.arange(texts).repeat_interleave(count), best.flatten()], dim=1)
        odds = ((said[0] + 1e-9).log() - (said[1] + 1e-9).log()).flatten()
        yield row(BEST, pairs, with_answers(cheap, Answers(places, odds), PairBudget(pairs).weight))
        for way, plan in (
            (ONE_ROUND, PairBudget(pairs, rounds=1)),
            (FULL, PairBudget(pairs, weight=1.0)),
            (OPEN, PairBudget(pairs)),
        ):
            yield row(way, pairs, plan.spend(cheap, corpus.texts, hypotheses, marco, graph, priors)[0])


def as_markdown(content: dict[str, Any]) -> str:
    """Return the page that shows the figures."""
    lines = [
        "# Pairs that a cross-encoder is asked about\n",
        f"The default recipe on training texts, annotation-free with κ and λ known, by the cheap scorer `{CHEAP}` and "
        f"the cross-encoder `{RERANKER}`, asked about as many pairs in each way. `--candidates M --rerank` asks "
        "about the M best labels of every text, and forgets the others. `--budget` asks about pairs whose answers are "
        "expected to change F1 most, in 4 rounds, adds half of what the cross-encoder says beyond the cheap scorer, "
        "and keeps all labels. The rows between show what each of this is worth. The weight of a half was chosen, "
        "among 1 and a half, on 300 texts of Cooking's training split, another draw.\n",
        "![miF1 against pairs asked](budget.png)\n",
    ]
    for name, about in content["sets"].items():
        lines.append(f"## {name}\n\n{about['texts']} texts.\n")
        rows = [
            [row["way"], f"{row['pairs'] / about['texts']:g}", *(f"{value:.4f}" for value in row["metrics"])]
            for row in about["rows"]
        ]
        lines.append(markdown_table(["way", "pairs a text (M)", "ebF1", "miF1", "maF1"], rows))
    return "\n".join(lines) + footer(content["sessions"][-1])


def plot(content: dict[str, Any], path: Path) -> None:
    """Write miF1 against the pairs asked as PNG, a panel a set."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    sets = content["sets"]
    figure, axes = pyplot.subplots(1, len(sets), figsize=(6 * len(sets), 4.5), constrained_layout=True, squeeze=False)
    for axis, (name, about) in zip(axes[0], sets.items(), strict=True):
        start = about["rows"][0]["metrics"][1]
        for way in (RERANKED, BEST, ONE_ROUND, FULL, OPEN):
            found = [(row["pairs"], row["metrics"][1]) for row in about["rows"] if row["way"] == way]
            across, values = zip((0, start), *found, strict=True)
            axis.plot(across, values, "-o", lw=2.6 if way == OPEN else 1.3, markersize=4, label=way.replace("`", ""))
        axis.set(title=name, xlabel="pairs asked", ylabel="miF1")
    axes[0][0].legend(fontsize="small")
    write_file(path, lambda target: figure.savefig(target, format="png", dpi=110))
    pyplot.close(figure)


if __name__ == "__main__":
    typer.run(main)
