"""A data set as every method sees it: texts, scores, vectors, priors and the label graph."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from benchmarks.quality.vectors import RememberingEncoder
from benchmarks.stores import STRONG, read_scored, store_of
from bncl_pyg.corpus import Corpus, LabelSet, digest, rows_of
from bncl_pyg.errors import InputError
from bncl_pyg.features import Features, featurize, read_features
from bncl_pyg.graph import SignedLabelGraph, build_graph, default_graph, embed_labels
from bncl_pyg.persistence import sha256_of
from bncl_pyg.priors import Priors
from bncl_pyg.scorers import LIGHT, TEMPLATE, BiEncoderScorer, embedded_head, hypotheses_of

GLOVE = "glove6B-100d-core.f16.npy"
FILES = ("labels.jsonl", "train.jsonl", "test.jsonl")


@dataclass
class DataSet:
    """A folder with labels, training texts and test texts.

    Args:
        folder: holds `labels.jsonl`, `train.jsonl` and `test.jsonl`, each perhaps with `.gz`; its name is the data
            set's.
        cache: where vectors and scores are kept between runs.
        told: called with a line about slow steps.
        features: a folder with feature stores (see `benchmarks.stores`) to read instead of scoring the texts. A store
            may hold a part of the texts: then the data set is this part, and its name says how many.
    """

    folder: Path
    cache: Path
    told: Callable[[str], None] = print
    features: Path | None = None
    _graphs: dict[tuple[str, tuple[float, ...]], SignedLabelGraph] = field(default_factory=dict)
    _scored: dict[str, tuple[Features, Features]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in FILES:
            if not self._file(name).is_file():
                raise InputError(f"{self.folder / name} does not exist; a data set needs {', '.join(FILES)}.")

    @property
    def name(self) -> str:
        """What the data set is called."""
        if self.features is None or len(self.train) == len(self._corpora["train"]):
            return self.folder.name
        return f"{self.folder.name}-{len(self.train)}"

    @cached_property
    def about(self) -> dict[str, Any]:
        """The hashes and counts that identify what was measured."""
        return {
            "name": self.name,
            "sha256": {name: sha256_of(self._file(name)) for name in FILES},
            "scorer": self._scorer_config,
            "word_vectors": sha256_of(self._glove) if self._glove.is_file() else None,
            "labels": len(self.labels),
            "train": len(self.train),
            "test": len(self.test),
            "cardinality": self.priors.cardinality,
        }

    @cached_property
    def labels(self) -> LabelSet:
        """The labels."""
        return LabelSet.read(self._file("labels.jsonl"))

    @cached_property
    def train(self) -> Corpus:
        """The training texts with all their annotations; `draw` says which of them a method sees."""
        return self._stored("train")

    @cached_property
    def test(self) -> Corpus:
        """The test texts and the truth."""
        return self._stored("test")

    @cached_property
    def priors(self) -> Priors:
        """κ and λ from the whole training split, as the paper takes them."""
        assert self.train.annotations is not None
        return Priors.from_annotations(self.train.annotations)

    @cached_property
    def encoder(self) -> RememberingEncoder:
        """The embedded encoder, which knows all texts of the set."""
        return self._encoder_of(LIGHT)

    @cached_property
    def strong_encoder(self) -> RememberingEncoder:
        """The same with the vectors that the scorer `strong` has of the texts."""
        return self._encoder_of(STRONG)

    def _encoder_of(self, scorer: str) -> RememberingEncoder:
        encoder = RememberingEncoder(self.cache, lambda line: self.told(f"{self.name}: {line}"))
        for place, corpus in enumerate((self.train, self.test)):
            vectors = None if self.features is None else self.scored_by(scorer)[place].vectors
            if vectors is None:
                encoder.learn(corpus.texts)
            else:
                encoder.remember(corpus.texts, vectors)
        return encoder

    @property
    def scored(self) -> tuple[Features, Features]:
        """What the scorer `light` says of training and test texts; `prepare` must have been called once."""
        return self.scored_by(LIGHT)

    def scored_by(self, scorer: str) -> tuple[Features, Features]:
        """Return what `light` or `strong` says of training and test texts."""
        if scorer not in self._scored:
            if self.features is not None:
                train, test = (
                    read_scored(store_of(self.features, self.folder.name, split), scorer) for split in ("train", "test")
                )
            elif scorer == LIGHT:
                train, test = read_features(self._store(self.train)), read_features(self._store(self.test))
            else:
                raise InputError(f"There are no features of the scorer '{scorer}': give a folder of feature stores.")
            self._scored[scorer] = train, test
        return self._scored[scorer]

    @property
    def has_strong(self) -> bool:
        """Whether there are features of the scorer `strong`, too."""
        return "parts" in self._scorer_config

    @cached_property
    def cosines(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The plain cosine between text and hypothesis, of training and test texts; (texts, labels)."""
        against = self.encoder.encode(hypotheses_of(self.labels.descriptions)).T
        return self.encoder.encode(self.train.texts) @ against, self.encoder.encode(self.test.texts) @ against

    @property
    def default_vectors(self) -> str:
        """GloVe's word vectors where they are beside the data set, as in the paper; else the embedded encoder's."""
        return "GloVe" if self._glove.is_file() else "embedded"

    def graph(self, vectors: str, percentiles: tuple[float, ...], hops: int) -> SignedLabelGraph:
        """Return the label graph from `GloVe` or `embedded` vectors; without percentiles, a recipe may choose them."""
        key = vectors, percentiles
        if key not in self._graphs:
            source = str(self._glove) if vectors == "GloVe" else "embedded"
            of_labels = embed_labels(self.labels, source)
            if percentiles:
                self._graphs[key] = build_graph(self.labels, of_labels, (percentiles[0], percentiles[1]))
            else:
                self._graphs[key] = default_graph(self.labels, of_labels)
        graph: SignedLabelGraph = self._graphs[key].clone()
        graph.hops = hops
        return graph

    def prepare(self) -> None:
        """Do the slow steps whose results are kept on disk; only one process may."""
        if self.features is not None:
            return
        for corpus in (self.train, self.test):
            texts = list(zip(corpus.ids, corpus.texts, strict=True))
            done = featurize(lambda texts=texts: texts, self.labels, self._scorer, self._store(corpus))  # type: ignore[misc]
            if done.scored_blocks:
                self.told(f"{self.name}: scored {done.texts} texts × {done.labels} labels")

    def _file(self, name: str) -> Path:
        compressed = self.folder / f"{name}.gz"
        return compressed if compressed.is_file() else self.folder / name

    @cached_property
    def _corpora(self) -> dict[str, Corpus]:
        """All texts of both splits."""
        return {split: Corpus.read(self._file(f"{split}.jsonl"), self.labels) for split in ("train", "test")}

    def _stored(self, split: str) -> Corpus:
        """Return the texts that are in the split's store, in its order; all, where there is none."""
        corpus = self._corpora[split]
        if self.features is None:
            return corpus
        scored = read_scored(store_of(self.features, self.folder.name, split), LIGHT)
        scored.labels.check_same(self.labels, "the feature store", "the data set")
        return corpus.rows(rows_of(scored.ids, corpus.ids, str(self._file(f"{split}.jsonl"))))

    @cached_property
    def _scorer_config(self) -> dict[str, Any]:
        """What makes the scores."""
        if self.features is None:
            return {**self._scorer.config(), "template": TEMPLATE}
        return read_features(store_of(self.features, self.folder.name, "train")).scorer

    @cached_property
    def _scorer(self) -> BiEncoderScorer:
        return BiEncoderScorer(self.encoder, embedded_head(), LIGHT)

    @property
    def _glove(self) -> Path:
        return self.folder.parent / GLOVE

    def _store(self, corpus: Corpus) -> Path:
        about = self._scorer.config()
        parts = [f"{key}={about[key]}" for key in sorted(about)]
        return self.cache / "features" / digest([*parts, self.labels.digest(), *corpus.ids, *corpus.texts])
