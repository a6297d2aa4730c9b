import numpy as np
import pytest

from bncl_pyg.corpus import Corpus, Supervision
from bncl_pyg.errors import InputError
from bncl_pyg.features import Features
from bncl_pyg.training import Setting, supervise


def test_annotation_free_sees_priors_only(features: Features, priors: Supervision, corpus: Corpus) -> None:
    assert supervise(Setting.ANNOTATION_FREE, features, priors) is priors
    with pytest.raises(InputError, match="annotation-free needs priors"):
        supervise(Setting.ANNOTATION_FREE, features)
    with pytest.raises(InputError, match="annotation-free takes no annotated texts"):
        supervise(Setting.ANNOTATION_FREE, features, priors, corpus)
    with pytest.raises(InputError, match="so that none can be drawn"):
        supervise(Setting.ANNOTATION_FREE, features, priors, annotations=3)


def test_scarce_annotation_estimates_from_what_is_drawn(
    features: Features, priors: Supervision, corpus: Corpus
) -> None:
    found = supervise(Setting.SCARCE_ANNOTATION, features, annotated=corpus, annotations=10, seed=4)
    assert corpus.annotations is not None
    drawn = corpus.annotations.toarray()[found.annotated]
    assert len(set(found.annotated.tolist())) == 10
    assert found.cardinality == drawn.sum() / 10
    assert found.prevalence.tolist() == pytest.approx(drawn.mean(axis=0).tolist())
    with pytest.raises(InputError, match="leave priors out"):
        supervise(Setting.SCARCE_ANNOTATION, features, priors, corpus)
    with pytest.raises(InputError, match="needs annotated texts"):
        supervise(Setting.SCARCE_ANNOTATION, features)


def test_domain_supervisor_sees_both(features: Features, priors: Supervision, corpus: Corpus) -> None:
    found = supervise(Setting.DOMAIN_SUPERVISOR, features, priors, corpus)
    assert found.cardinality == priors.cardinality
    assert found.annotated.tolist() == list(range(60))
    with pytest.raises(InputError, match="needs priors"):
        supervise(Setting.DOMAIN_SUPERVISOR, features, annotated=corpus)


def test_annotated_texts_are_found_by_id(features: Features, corpus: Corpus) -> None:
    assert corpus.annotations is not None
    turned = Corpus(corpus.ids[::-1], corpus.texts[::-1], corpus.annotations[::-1])
    found = supervise(Setting.SCARCE_ANNOTATION, features, annotated=turned)
    assert found.annotations is not None
    assert found.annotated.tolist() == list(range(60))[::-1]
    assert (found.annotations.toarray()[::-1] == corpus.annotations.toarray()).all()
    foreign = Corpus(("elsewhere",), ("x",), corpus.annotations[:1])
    with pytest.raises(InputError, match="has no text with id 'elsewhere'"):
        supervise(Setting.SCARCE_ANNOTATION, features, annotated=foreign)


def test_draws(features: Features, corpus: Corpus) -> None:
    def drawn(seed: int, wanted: int, replacement: bool = False) -> list[int]:
        found = supervise(Setting.SCARCE_ANNOTATION, features, None, corpus, wanted, seed, replacement=replacement)
        return found.annotated.tolist()  # type: ignore[no-any-return]

    assert drawn(0, 20) == drawn(0, 20)
    assert drawn(0, 20) != drawn(1, 20)
    assert len(np.unique(drawn(0, 60))) == 60
    assert len(np.unique(drawn(0, 60, replacement=True))) < 60
    with pytest.raises(InputError, match="Between 1 and 60 annotated texts can be drawn, but 61"):
        drawn(0, 61)
