"""The short way from texts to features, in memory."""

from torch import Tensor

from bncl_pyg.corpus import Corpus, LabelSet
from bncl_pyg.features.features import Features
from bncl_pyg.features.words import word_counts
from bncl_pyg.scorers import TEMPLATE, Scorer, hypotheses_of, ranker_for


def score_texts(
    corpus: Corpus,
    labels: LabelSet,
    scorer: Scorer,
    template: str = TEMPLATE,
    *,
    candidates: int | None = None,
    label_vectors: Tensor | None = None,
) -> Features:
    """Score texts in memory; for many texts, `featurize` keeps them on disk.

    Args:
        corpus: the texts.
        labels: the labels.
        scorer: what reads them.
        template: how a label becomes a hypothesis.
        candidates: how many labels a text keeps; all, if not given.
        label_vectors: what the scorer's encoder made of the labels' hypotheses earlier, (labels, dimensions); they are
            encoded, if not given.
    """
    sentences = hypotheses_of(labels.descriptions, template)
    if label_vectors is not None:
        scorer.cache_label_vectors(sentences, label_vectors)
    columns = None if candidates is None else ranker_for(scorer).top_labels(corpus.texts, sentences, candidates)
    entailment, contradiction = scorer.score(corpus.texts, sentences, columns)
    config = {**scorer.config(), "template": template}
    vectors = scorer.vectors(corpus.texts)
    # Rounded as in a store, so that a text is the same text either way.
    vectors = None if vectors is None else vectors.half().float()
    words = word_counts(corpus.texts)
    return Features(corpus.ids, labels, entailment, contradiction, config, vectors, words, columns, label_vectors)
