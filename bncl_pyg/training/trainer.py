"""The training loop: seeded, logged, and stoppable after any epoch."""

import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from bncl_pyg.corpus import Supervision
from bncl_pyg.errors import InputError
from bncl_pyg.features import Candidates, Features, Pairs, pairs_of, reachable
from bncl_pyg.nn import BNCL, CollectiveLoss, choose_sharpness
from bncl_pyg.persistence import write_file
from bncl_pyg.training.recipes import Recipe

FEW_NUMBERS, TRIED_STEPS = 2**15, 8
"""With fewer numbers a batch, more threads than one help on an idle machine only: the first steps of an epoch tell."""
FORMAT = "bncl-checkpoint-2"
SHARPNESS_SAMPLE = 100
"""How many texts the paper's "small set of examples" is here."""


@dataclass(frozen=True)
class EpochLog:
    """The loss of one epoch: each part is the mean over the steps, before its weight."""

    epoch: int
    learning_rate: float
    loss: float
    hesitation: float
    prevalence: float
    cardinality: float
    annotation: float


class Trainer:
    """Trains a model by a recipe; the same inputs and seed give the same weights.

    Args:
        model: whose weights are drawn anew from the seed.
        features: the training texts.
        supervision: κ, λ and perhaps annotated texts.
        recipe: how.
        seed: of the weights and the batches.
    """

    def __init__(
        self, model: BNCL, features: Features, supervision: Supervision, recipe: Recipe, seed: int = 0
    ) -> None:
        if not len(features):
            raise InputError("Training needs at least 1 text.")
        self.model, self.recipe, self.seed = model, recipe, seed
        self.entailment, self.contradiction = features.entailment, features.contradiction
        self.pairs = pairs_of(features.candidates, len(features), len(features.labels))
        self.annotated = torch.from_numpy(supervision.annotated)
        self._truth, self._truth_row = supervision.annotations, _truth_rows(supervision, len(features))
        labels = len(features.labels)
        self.loss = CollectiveLoss(
            supervision.cardinality / (labels if recipe.cardinality_a_cell else 1),
            self._reachable(torch.from_numpy(supervision.prevalence)),
            recipe.loss_weights,
            self._sharpness(),
            recipe.hesitation,
            recipe.annotation,
        )
        model.reset_parameters(torch.Generator().manual_seed(seed))
        self.weights = list(model.parameters())
        self.optimizer = torch.optim.Adam(self.weights, lr=recipe.learning_rate, betas=recipe.betas, fused=True)
        self.log: list[EpochLog] = []
        self._threads = _Threads(is_small=recipe.batch * labels < FEW_NUMBERS)

    def run(self, checkpoint: "Checkpoint | None" = None, progress: Callable[[EpochLog], None] | None = None) -> None:
        """Train the epochs that are not done yet; `progress` is told of each, and each is kept in `checkpoint`."""
        while len(self.log) < self.recipe.epochs:
            self.log.append(self.train_epoch(len(self.log) + 1))
            if checkpoint is not None:
                checkpoint.save(self)
            if progress is not None:
                progress(self.log[-1])

    def train_epoch(self, epoch: int) -> EpochLog:
        """Train one epoch (the first is 1) and return its losses."""
        recipe = self.recipe
        rate = recipe.learning_rate * recipe.decay ** ((epoch - 1) // recipe.decay_every)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        sums = torch.zeros(5, dtype=torch.float64)
        with self._threads:
            corpus = self.corpus_indicators() if recipe.prevalence_over == "corpus" else None
            for steps, rows in enumerate(self._batches(epoch), start=1):
                with self._threads.trying(steps):
                    sums += self.train_step(rows, corpus)
        return EpochLog(epoch, rate, *(sums / steps).tolist())

    def train_step(self, rows: Tensor, corpus: "Indicators | None") -> Tensor:
        """Train on the texts of these rows and return the loss and its four parts, (5,)."""
        pairs = self.pairs.rows(rows)
        parts, predicted = self._parts(rows, pairs, corpus)
        total = self.loss.total(parts)
        for weight in self.weights:
            weight.grad = None
        total.backward()
        self.optimizer.step()
        if corpus is not None:
            corpus.put_back(rows, predicted.detach(), pairs)
        return torch.cat([total.detach()[None], parts.detach()])

    def _parts(self, rows: Tensor, pairs: Pairs, corpus: "Indicators | None") -> tuple[Tensor, Tensor]:
        """Return the parts of the loss and s of these texts' pairs."""
        entailment, contradiction = self._states(rows)
        others, texts = (None, None) if corpus is None else (corpus.taken_out(rows, pairs), len(self.entailment))
        truth = annotated = None
        if self._truth is not None:
            annotated = (self._truth_row[rows] >= 0).nonzero()[:, 0]
            truth = pairs.rows(annotated).of(self._truth[self._truth_row[rows[annotated]].numpy()])
        found: tuple[Tensor, Tensor] = self.loss(entailment, contradiction, truth, annotated, others, texts, pairs)
        return found

    def _reachable(self, prevalence: Tensor) -> Tensor:
        """Return λ, capped where a label is the candidate of few texts: most of its true texts may lie elsewhere."""
        texts = self.pairs.texts
        return reachable(prevalence * texts, self.pairs) / texts

    def _states(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return p and p̄ of some texts, (texts, labels) or of their candidates."""
        scores = self.entailment.index_select(0, rows), self.contradiction.index_select(0, rows)
        if isinstance(self.pairs, Candidates):
            return self.model.of_candidates(*scores, self.pairs.candidates.index_select(0, rows))
        found: tuple[Tensor, Tensor] = self.model(*scores)
        return found

    def _batches(self, epoch: int) -> Iterator[Tensor]:
        everything = torch.arange(len(self.entailment))
        groups = [everything]
        if self.recipe.annotated_apart:
            rest = torch.ones(len(everything), dtype=torch.bool)
            rest[self.annotated] = False
            groups = [everything[rest], self.annotated]
        # A generator of its own for each epoch: resuming needs no record of the random state.
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
        for rows in groups:
            order = torch.randperm(len(rows), generator=generator) if self.recipe.shuffle else torch.arange(len(rows))
            yield from (part for part in rows[order].split(self.recipe.batch) if len(part))

    @torch.no_grad()
    def corpus_indicators(self) -> "Indicators":
        """Return s for all texts with the weights as they are; refreshed every epoch, updated batch by batch."""
        # A batch of texts with candidates works on few labels, many texts on many.
        size = self.recipe.batch if isinstance(self.pairs, Candidates) else 512
        found, counts = torch.empty_like(self.entailment), torch.zeros(self.pairs.labels, dtype=torch.float64)
        for rows in torch.arange(len(found)).split(size):
            found[rows[0] : rows[-1] + 1] = indicators = self.loss.indicator(*self._states(rows))
            counts += self.pairs.rows(rows).sums(indicators)
        return Indicators(found, counts, is_revisited=len(torch.unique(self.annotated)) < len(self.annotated))

    def _sharpness(self) -> float:
        if self.recipe.sharpness != "auto":
            return self.recipe.sharpness
        rows = torch.randperm(len(self.entailment), generator=torch.Generator().manual_seed(self.seed))
        sample = rows[:SHARPNESS_SAMPLE]
        try:
            return choose_sharpness(self.entailment[sample], self.contradiction[sample])
        except ValueError as error:
            raise InputError(f"The sharpness cannot be chosen: {error} Give a number instead of 'auto'.") from None


class Indicators:
    """Each text's latest s and their sum, so that a batch's L2 counts over the whole corpus.

    Args:
        indicators: s, of the pairs.
        counts: their sum, (labels,), in a type in which sums of many batches are near enough.
        is_revisited: whether a text may come a second time, so that its new s must be kept.
    """

    def __init__(self, indicators: Tensor, counts: Tensor, *, is_revisited: bool) -> None:
        self.indicators, self.counts, self.is_revisited = indicators, counts, is_revisited

    def taken_out(self, rows: Tensor, pairs: Pairs) -> Tensor:
        """Take these texts, whose pairs are given, out of the sum, and return it in the indicators' type."""
        self.counts -= pairs.sums(self.indicators.index_select(0, rows))
        return self.counts.to(self.indicators.dtype, copy=True)

    def put_back(self, rows: Tensor, indicators: Tensor, pairs: Pairs) -> None:
        """Put these texts back with new ones."""
        self.counts += pairs.sums(indicators)
        if self.is_revisited:
            self.indicators.index_copy_(0, rows, indicators)


class Checkpoint:
    """A file beside the model to come, in which training leaves off and goes on.

    Args:
        path: the file; it is replaced as a whole after every epoch.
        fingerprint: what the training depends on; a checkpoint with another one is refused.
    """

    def __init__(self, path: Path, fingerprint: dict[str, Any]) -> None:
        self.path, self.fingerprint = path, fingerprint

    def save(self, trainer: Trainer) -> None:
        """Keep weights, optimizer and log."""
        tensors = {f"model.{name}": value for name, value in trainer.model.state_dict().items()}
        for place, state in trainer.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{place}.{name}": value for name, value in state.items()}
        log = [asdict(entry) for entry in trainer.log]
        about = {
            "format": FORMAT,
            "fingerprint": json.dumps(self.fingerprint),
            "log": json.dumps(log),
        }
        write_file(self.path, lambda temporary: save_file(tensors, temporary, metadata=about))

    def restore(self, trainer: Trainer) -> int:
        """Bring the trainer to where the last run stopped; return how many epochs are done."""
        if not self.path.exists():
            return 0
        tensors, about = self._read()
        self._check(json.loads(about["fingerprint"]))
        model = {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
        trainer.model.load_state_dict(model)
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            if name.startswith("optimizer."):
                _, place, key = name.split(".")
                state.setdefault(int(place), {})[key] = value
        groups = trainer.optimizer.state_dict()["param_groups"]
        trainer.optimizer.load_state_dict({"state": state, "param_groups": groups})
        trainer.log = [EpochLog(**entry) for entry in json.loads(about["log"])]
        return len(trainer.log)

    def _read(self) -> tuple[dict[str, Tensor], dict[str, str]]:
        try:
            with safe_open(self.path, framework="pt") as file:
                about = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dictionary)
        except SafetensorError as error:
            raise InputError(f"{self.path} is not a readable checkpoint ({error}).") from None
        if about.get("format") != FORMAT:
            raise InputError(f"{self.path} is not a checkpoint of this release of bncl; pass --fresh to start anew.")
        return tensors, about

    def _check(self, found: dict[str, Any]) -> None:
        keys = self.fingerprint.keys() | found.keys()
        changed = sorted(key for key in keys if self.fingerprint.get(key) != found.get(key))
        if changed:
            raise InputError(
                f"{self.path} holds an unfinished training with another {', '.join(changed)}; "
                f"pass --fresh to start anew, or use another name for the model."
            )


class _Threads:
    """As many threads as make steps fastest, which is not known beforehand where they are small.

    More than one are a gain on an idle machine, and a loss on a busy one or where threads sleep while they wait. Every
    epoch tries both in turn. What is computed does not depend on it.

    Args:
        is_small: whether to try; else there are as many threads as usual.
    """

    def __init__(self, *, is_small: bool) -> None:
        self.is_small, self._best = is_small, 1
        self._seconds: dict[int, list[float]] = {}

    def __enter__(self) -> None:
        self._usual = torch.get_num_threads()
        self._seconds = {1: [], self._usual: []}
        if self.is_small:
            torch.set_num_threads(min(self._best, self._usual))

    def __exit__(self, *_: object) -> None:
        torch.set_num_threads(self._usual)

    @contextmanager
    def trying(self, step: int) -> Iterator[None]:
        """Take a step (the first is 1) with the number of threads whose turn it is, or with the best."""
        if not self.is_small or step > TRIED_STEPS or self._usual == 1:
            yield
            return
        threads = (1, self._usual)[step % 2]
        torch.set_num_threads(threads)
        began = time.perf_counter()
        yield
        self._seconds[threads].append(time.perf_counter() - began)
        if step == TRIED_STEPS:
            self._best = min(self._seconds, key=lambda tried: statistics.median(self._seconds[tried]))
            torch.set_num_threads(self._best)


def _truth_rows(supervision: Supervision, texts: int) -> Tensor:
    """Return for each text its row in the annotations, or -1; (texts,)."""
    row = torch.full((texts,), -1)
    row[torch.from_numpy(supervision.annotated)] = torch.arange(len(supervision.annotated))
    return row
