"""The short way from texts to features, in memory."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.features.features import Features
from bncl_pyg.features.words import word_counts
from bncl_pyg.scorers import (
    TEMPLATE,
    Scorer,
    hypotheses_of,
    join_scores,
    join_vectors,
    ranker_for,
    scorer_parts,
)


def score_texts(
    corpus: Corpus,
    labels: LabelSet,
    scorer: Scorer,
    template: str | Sequence[str] = TEMPLATE,
    *,
    candidates: int | None = None,
    label_tensors: Mapping[str, Tensor] | None = None,
    parts: bool = False,
) -> Features:
    """Score texts in memory; for many texts, `featurize` keeps them on disk.

    Args:
        corpus: the texts.
        labels: the labels.
        scorer: what reads them.
        template: how a label becomes a hypothesis; or several templates.
        candidates: how many labels a text keeps; all, if not given.
        label_tensors: what the scorer computed of the labels' hypotheses earlier; it is computed, if not given.
        parts: whether to keep what each part of an ensemble says.
    """
    sentences = hypotheses_of(labels.phrases(), template)
    tensors = dict(label_tensors) if label_tensors else scorer.encode_labels(sentences)
    if tensors:
        scorer.use_labels(sentences, tensors)
    columns = None if candidates is None else ranker_for(scorer).top_labels(corpus.texts, sentences, candidates)
    own = scorer_parts(scorer)
    scores = {name: part.score(corpus.texts, sentences, columns) for name, part in own.items()}
    entailment, contradiction = join_scores(list(scores.values()))
    # Rounded as in a store, so that a text is the same text either way.
    vectors = [part.vectors(corpus.texts) for part in own.values()]
    joined = join_vectors([None if one is None else one.half().float() for one in vectors])
    return Features(
        corpus.ids,
        labels,
        entailment,
        contradiction,
        {**scorer.config(), "template": template if isinstance(template, str) else list(template)},
        joined,
        word_counts(corpus.texts),
        columns,
        tensors,
        scores if parts and len(scores) > 1 else {},
    )
