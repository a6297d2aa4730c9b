"""The trainings that one process and two do in tests, and the stores that they read."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from bncl_pyg.corpus import Corpus
from bncl_pyg.distributed.training import TrainingJob
from bncl_pyg.features import write_features
from bncl_pyg.priors import Priors
from bncl_pyg.training import PAPER, PAPER_LITERAL, REFERENCE, DefaultRecipe
from tests.training.world import World, make_world, with_candidates

CANDIDATES = 4


def write_stores(folder: Path) -> World:
    """Write all that jobs read: a store, one with candidates, one that is damaged, and the label graph."""
    world = make_world()
    write_features(world.train, folder / "features")
    write_features(with_candidates(world.train, CANDIDATES), folder / "candidates")
    write_features(world.train, folder / "damaged")
    last = sorted((folder / "damaged").glob("block-*"))[-1]
    last.write_bytes(last.read_bytes()[:-4])
    world.graph.save(folder / "graph")
    return world


def make_jobs(folder: Path, by: str) -> dict[str, TrainingJob]:
    """Return the jobs by name; the models go into folders that are named after who trains."""
    world = make_world()
    rows = DefaultRecipe().draw(len(world.train), 60, 0)
    texts = tuple(world.corpus.texts[row] for row in rows)
    annotated = Corpus(tuple(world.train.ids[row] for row in rows), texts, world.annotations[rows])
    known = csr_array(np.random.default_rng(0).random(annotated.annotations.shape) < 0.6)  # type: ignore[union-attr]
    has = csr_array(annotated.annotations.multiply(known), dtype=bool)  # type: ignore[union-attr]
    in_part = replace(annotated, annotations=has, known=known)
    rough = {"gold": "common", "silver": (0.1, 0.3), "money": 0.1, "trade": "almost unseen"}
    first = TrainingJob(folder / "features", folder / by, priors=world.priors, graph=folder / "graph")
    paper, literal, reference = (recipe.adapted(epochs=2) for recipe in (PAPER, PAPER_LITERAL, REFERENCE))
    jobs = {
        "annotation-free": first,
        "auto": replace(first, priors=Priors.nothing(len(world.train.labels))),
        "rough": replace(first, priors=Priors.of(world.train.labels, rough)),
        "annotated": replace(first, annotated=annotated),
        "scarce": replace(first, priors=None, annotated=annotated, annotations=40),
        "in-part": replace(first, priors=None, annotated=in_part),
        "candidates": replace(first, features=folder / "candidates"),
        "candidates-annotated": replace(first, features=folder / "candidates", annotated=annotated),
        "paper": replace(first, recipe=paper, annotated=annotated, graph=None),
        "paper-auto": replace(
            first, recipe=replace(paper, sharpness="auto"), priors=Priors.nothing(len(world.train.labels)), graph=None
        ),
        "paper-candidates": replace(first, recipe=paper, features=folder / "candidates"),
        "paper-in-part": replace(first, recipe=replace(paper, batch=3), annotated=in_part),
        "paper-literal": replace(first, recipe=literal, annotated=annotated),
        "reference": replace(first, recipe=reference, annotated=annotated, annotations=80),
        "damaged": replace(first, features=folder / "damaged"),
        "no-such-text": replace(first, annotated=replace(annotated, ids=("none", *annotated.ids[1:]))),
    }
    return {name: replace(job, out=folder / by / name) for name, job in jobs.items()}
