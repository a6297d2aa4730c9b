"""The training loop of the paper's network: seeded, logged, and stoppable after any epoch."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import torch
from scipy.sparse import csr_array
from torch import Tensor

from bncl_pyg.errors import InputError
from bncl_pyg.features import Candidates, Features, Pairs, pairs_of, reachable
from bncl_pyg.nn import CollectiveLoss, choose_sharpness
from bncl_pyg.priors import Priors
from bncl_pyg.ranks import GRADIENTS, LABEL_SUMS
from bncl_pyg.training.annotated import Annotated
from bncl_pyg.training.denormals import without_denormals
from bncl_pyg.training.recipe import Progress, TrainingStep
from bncl_pyg.training.threads import FEW_NUMBERS, FastestThreads

if TYPE_CHECKING:
    from bncl_pyg.nn import BNCL

EPOCH = "epoch"
LOSSES = ("loss", "hesitation", "prevalence", "cardinality", "annotation")
"""The whole loss, and its parts L1 to L4."""


class Keeper(Protocol):
    """What keeps weights, optimizer and log after every epoch: a `Checkpoint`."""

    def save(self, tensors: Mapping[str, Tensor], log: Sequence[TrainingStep]) -> None:
        """Keep them."""
        ...


@dataclass(frozen=True)
class TrainingNumbers:
    """Everything that is chosen before training; the defaults are the recipe `paper`'s.

    Args:
        epochs: passes over the texts.
        batch: texts a step.
        learning_rate: of Adam, at first.
        betas: of Adam.
        decay_every: epochs between two decays of the learning rate.
        decay: what it is multiplied with; "10% decay" can also be read as 0.9.
        loss_weights: α₂ (prevalence), α₃ (cardinality), α₄ (annotation).
        sharpness: C of the sharpened sigmoid; `auto` chooses it by the paper's procedure, `choose_sharpness`.
        sharpness_texts: of how many texts the paper's "small set of examples" is, for `auto`.
        shuffle: whether batches are drawn anew every epoch.
        prevalence_over: whether L2 counts over the whole corpus or over each batch alone.
        hesitation: see `CollectiveLoss`.
        annotation: see `CollectiveLoss`.
        separate_annotated: whether annotated texts have batches of their own after the others, or stand among them.
        simple_hops: see `balanced_neighbourhoods`.
        cardinality_per_cell: whether κ is divided by the number of labels, as the authors' code does.
        ties_count: whether p = p̄ is a prediction.
        replacement: whether annotated texts are drawn with replacement.
        least_reachable: see `bncl_pyg.features.reachable`, where texts have candidates.
    """

    epochs: int = 30
    batch: int = 128
    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.8, 0.9)
    decay_every: int = 10
    decay: float = 0.1
    loss_weights: tuple[float, float, float] = (0.1, 0.5, 100.0)
    sharpness: int | Literal["auto"] = 10
    sharpness_texts: int = 100
    shuffle: bool = True
    prevalence_over: Literal["corpus", "batch"] = "batch"
    hesitation: Literal["norm", "squares"] = "norm"
    annotation: Literal["likelihood", "literal", "sharpened"] = "sharpened"
    separate_annotated: bool = False
    simple_hops: bool = False
    cardinality_per_cell: bool = False
    ties_count: bool = False
    replacement: bool = False
    least_reachable: float = 0.5

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise InputError(f"Training needs at least 1 epoch, but {self.epochs} were asked for.")
        if self.batch < 1:
            raise InputError(f"A batch needs at least 1 text, but {self.batch} were asked for.")
        if self.sharpness != "auto" and self.sharpness < 1:
            raise InputError(f"The sharpness must be at least 1, but is {self.sharpness}.")


class Trainer:
    """Trains a model by a recipe; the same inputs and seed give the same weights.

    Args:
        model: whose weights are drawn anew from the seed.
        features: the training texts.
        priors: κ and λ in numbers.
        annotated: annotated texts, if there are any; of those that are annotated in part, L4 has the known pairs.
        numbers: how.
        seed: of the weights and the batches.
    """

    def __init__(
        self,
        model: "BNCL",
        features: Features,
        priors: Priors,
        annotated: Annotated | None,
        numbers: TrainingNumbers,
        seed: int = 0,
    ) -> None:
        assert priors.cardinality is not None
        self.model, self.numbers, self.seed = model, numbers, seed
        self.entailment, self.contradiction = features.entailment, features.contradiction
        self.ranks = features.ranks
        self.pairs = pairs_of(features.candidates, features.entailment, len(features.labels), self.ranks)
        if not self.pairs.texts:
            raise InputError("Training needs at least 1 text.")
        self._first, self._last = self.ranks.span(len(features))
        self.annotated = torch.zeros(0, dtype=torch.int64) if annotated is None else torch.from_numpy(annotated.rows)
        self._known: csr_array | None = None
        self._truth: csr_array | Tensor | None = None
        # For each text that this process holds its row in the annotations, or -1.
        self._truth_row = torch.full((len(features),), -1)
        if annotated is not None:
            _, own = annotated.held_by(features)
            # Of candidates alone truth is picked batch by batch; else it is a matrix like the scores.
            is_sparse = isinstance(self.pairs, Candidates)
            self._truth = own.labels if is_sparse else torch.from_numpy(own.labels.toarray())
            self._known = own.known
            self._truth_row[torch.from_numpy(own.rows)] = torch.arange(len(own))
        labels = len(features.labels)
        self.loss = CollectiveLoss(
            priors.cardinality / (labels if numbers.cardinality_per_cell else 1),
            self._reachable(torch.from_numpy(priors.shares)),
            numbers.loss_weights,
            self._sharpness(),
            numbers.hesitation,
            numbers.annotation,
        )
        model.reset_parameters(torch.Generator().manual_seed(seed))
        self.weights = list(model.parameters())
        self.optimizer = torch.optim.Adam(self.weights, lr=numbers.learning_rate, betas=numbers.betas, fused=True)
        self.log: list[TrainingStep] = []
        self._threads = FastestThreads(is_small=numbers.batch * labels < FEW_NUMBERS)

    def run(self, checkpoint: Keeper | None = None, progress: Progress | None = None) -> None:
        """Train the epochs that are not done yet; `progress` is told of each, and each is kept in `checkpoint`."""
        if progress is not None:
            for entry in self.log:
                progress(entry)
        while len(self.log) < self.numbers.epochs:
            self.log.append(self.train_epoch(len(self.log) + 1))
            if checkpoint is not None:
                checkpoint.save(self.state(), self.log)
            if progress is not None:
                progress(self.log[-1])

    def train_epoch(self, epoch: int) -> TrainingStep:
        """Train one epoch (the first is 1) and return its losses: each part is the mean over the steps, unweighted."""
        numbers = self.numbers
        rate = numbers.learning_rate * numbers.decay ** ((epoch - 1) // numbers.decay_every)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        sums, before = torch.zeros(5, dtype=torch.float64), self.ranks.traffic.total
        with self._threads, without_denormals():
            corpus = self.corpus_indicators() if numbers.prevalence_over == "corpus" else None
            for steps, rows in enumerate(self._batches(epoch), start=1):
                with self._threads.trying(steps):
                    sums += self.train_step(rows, corpus)
        figures = {**dict(zip(LOSSES, (sums / steps).tolist(), strict=True)), "learning_rate": rate}
        if self.ranks.size > 1:
            figures["bytes_a_step"] = (self.ranks.traffic.total - before) / steps
        return TrainingStep(epoch, numbers.epochs, EPOCH, figures)

    def state(self) -> dict[str, Tensor]:
        """Return weights and optimizer, for a checkpoint."""
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        for place, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{place}.{name}": value for name, value in state.items()}
        return tensors

    def load_state(self, tensors: Mapping[str, Tensor], log: Sequence[TrainingStep]) -> None:
        """Go to where another training stopped."""
        model = {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
        self.model.load_state_dict(model)
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            if name.startswith("optimizer."):
                _, place, key = name.split(".")
                state.setdefault(int(place), {})[key] = value
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})
        self.log = list(log)

    def train_step(self, rows: Tensor, corpus: "Indicators | None") -> Tensor:
        """Train on the texts of these rows and return the loss and its four parts, (5,).

        Rows are counted over all processes, and given to all: each takes those that it holds.
        """
        texts, rows = len(rows), self._held(rows)
        pairs = self.pairs.rows(rows, texts)
        given = self._given(rows, pairs, corpus)
        if not len(rows):
            parts, predicted = self._no_backward(rows, given)
        elif isinstance(self.pairs, Candidates) or not self.model.is_fused or given.known is not None:
            parts, predicted = self._backward(rows, given)
        else:
            parts, predicted = self._backward_on_tape(rows, given)
        parts = self._sum_gradients(parts)
        self.optimizer.step()
        if corpus is not None:
            corpus.add(rows, predicted, pairs)
        return torch.cat([self.loss.total(parts)[None], parts])

    def sum_parts(self, parts: Tensor) -> Tensor:
        """Return the parts of the loss over all processes, (4,); L2 is of all in each of them."""
        return self.ranks.sum(self._own_parts(parts))

    def _own_parts(self, parts: Tensor) -> Tensor:
        return parts if not self.ranks.rank else parts * parts.new_tensor([1.0, 0.0, 1.0, 1.0])

    def _sum_gradients(self, parts: Tensor) -> Tensor:
        """Sum the weights' gradients over all processes, and return the sum of the parts of the loss."""
        if self.ranks.size == 1:
            return parts
        gradients = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in self.weights]
        sizes = [len(parts), *(gradient.numel() for gradient in gradients)]
        flat = torch.cat([self._own_parts(parts), *(gradient.flatten() for gradient in gradients)])
        parts, *summed = self.ranks.sum(flat, GRADIENTS).split(sizes)
        for weight, gradient in zip(self.weights, summed, strict=True):
            weight.grad = gradient.view_as(weight)
        return parts

    def _held(self, rows: Tensor) -> Tensor:
        """Return those of the rows, counted over all processes, that this one holds, counted over its own."""
        if self.ranks.size == 1:
            return rows
        return rows[(rows >= self._first) & (rows < self._last)] - self._first

    def _no_backward(self, rows: Tensor, given: "Given") -> tuple[Tensor, Tensor]:
        """Take part in the sums of a batch that other processes hold."""
        for weight in self.weights:
            weight.grad = None
        parts, predicted = self.loss(self.entailment[rows], self.contradiction[rows], **given._asdict())
        return parts, predicted

    def _backward(self, rows: Tensor, given: "Given") -> tuple[Tensor, Tensor]:
        """Set the weights' gradients; return the parts of the loss, and s of these texts' pairs."""
        parts, predicted = self.loss(*self._states(rows), **given._asdict())
        for weight in self.weights:
            weight.grad = None
        self.loss.total(parts).backward()
        return parts.detach(), predicted.detach()

    def _backward_on_tape(self, rows: Tensor, given: "Given") -> tuple[Tensor, Tensor]:
        """Do the same without torch's autograd, whose bookkeeping would be a third of a small step."""
        scores = self.entailment.index_select(0, rows), self.contradiction.index_select(0, rows)
        states, tape = self.model.on_tape(*scores)
        parts, predicted, of_states = self.loss.with_gradients(
            *states, given.truth, given.annotated, given.others, given.texts, given.pairs
        )
        _, of_weights = tape.gradients(of_states, wants_states=False)
        for weight, gradient in zip(self.weights, of_weights, strict=True):
            weight.grad = gradient
        return parts, predicted

    def _given(self, rows: Tensor, pairs: Pairs, corpus: "Indicators | None") -> "Given":
        """Return what the loss is given beside the states of these texts."""
        others, texts = (None, None) if corpus is None else (corpus.without(rows, pairs), self.pairs.texts)
        if self._truth is None:
            return Given(None, None, others, texts, pairs)
        of_rows = self._truth_row[rows]
        annotated = (of_rows >= 0).nonzero()[:, 0]
        places, of_annotated = of_rows[annotated], pairs.rows(annotated)
        if isinstance(self._truth, Tensor):
            truth = self._truth.index_select(0, places).to(self.entailment.dtype)
        else:
            truth = of_annotated.select(self._truth[places.numpy()])
        known = None if self._known is None else of_annotated.select(self._known[places.numpy()])
        return Given(truth, annotated, others, texts, pairs, known)

    def _reachable(self, prevalence: Tensor) -> Tensor:
        """Return λ, capped where a label is the candidate of few texts: most of its true texts may lie elsewhere."""
        texts = self.pairs.texts
        return reachable(prevalence * texts, self.pairs, self.numbers.least_reachable) / texts

    def _states(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return p and p̄ of some texts, (texts, labels) or of their candidates."""
        scores = self.entailment.index_select(0, rows), self.contradiction.index_select(0, rows)
        if isinstance(self.pairs, Candidates):
            return self.model.of_candidates(*scores, self.pairs.candidates.index_select(0, rows))
        states: tuple[Tensor, Tensor] = self.model(*scores)
        return states

    def _batches(self, epoch: int) -> Iterator[Tensor]:
        """Yield the rows of each batch, counted over all processes and the same in each of them."""
        everything = torch.arange(self.pairs.texts)
        groups = [everything]
        if self.numbers.separate_annotated:
            rest = torch.ones(len(everything), dtype=torch.bool)
            rest[self.annotated] = False
            groups = [everything[rest], self.annotated]
        # A generator of its own for each epoch: resuming needs no record of the random state.
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
        for rows in groups:
            order = torch.randperm(len(rows), generator=generator) if self.numbers.shuffle else torch.arange(len(rows))
            yield from (part for part in rows[order].split(self.numbers.batch) if len(part))

    @torch.no_grad()
    def corpus_indicators(self) -> "Indicators":
        """Return s for all texts with the weights as they are; refreshed every epoch, updated batch by batch."""
        # A batch of texts with candidates works on few labels, many texts on many.
        size = self.numbers.batch if isinstance(self.pairs, Candidates) else 512
        latest, counts = torch.empty_like(self.entailment), torch.zeros(self.pairs.labels, dtype=torch.float64)
        candidates = self.pairs.candidates if isinstance(self.pairs, Candidates) else None
        # The sums of this process alone: how many parts there are depends on how many texts it holds.
        own = pairs_of(candidates, self.entailment, self.pairs.labels)
        for rows in torch.arange(len(latest)).split(size) if len(latest) else ():
            latest[rows[0] : rows[-1] + 1] = indicators = self.loss.indicator(*self._states(rows))
            counts += own.rows(rows).sums(indicators)
        counts = self.ranks.sum(counts, LABEL_SUMS)
        return Indicators(latest, counts, is_revisited=len(torch.unique(self.annotated)) < len(self.annotated))

    def _sharpness(self) -> float:
        if self.numbers.sharpness != "auto":
            return self.numbers.sharpness
        rows = torch.randperm(self.pairs.texts, generator=torch.Generator().manual_seed(self.seed))
        own = self._held(rows[: self.numbers.sharpness_texts])
        sample = self.ranks.gather(self.entailment[own]), self.ranks.gather(self.contradiction[own])
        try:
            return choose_sharpness(*sample)
        except ValueError as error:
            raise InputError(f"The sharpness cannot be chosen: {error} Give a number instead of 'auto'.") from None


class Given(NamedTuple):
    """What the loss is given beside the states; see `CollectiveLoss`."""

    truth: Tensor | None
    annotated: Tensor | None
    others: Tensor | None
    texts: int | None
    pairs: Pairs
    known: Tensor | None = None


class Indicators:
    """Each text's latest s and their sum, so that a batch's L2 counts over the whole corpus.

    Args:
        indicators: s, of the pairs.
        counts: their sum, (labels,), in a type in which sums of many batches are near enough.
        is_revisited: whether a text may come a second time, so that its new s must be kept.
    """

    def __init__(self, indicators: Tensor, counts: Tensor, *, is_revisited: bool) -> None:
        self.indicators, self.counts, self.is_revisited = indicators, counts, is_revisited

    def without(self, rows: Tensor, pairs: Pairs) -> Tensor:
        """Take these texts, whose pairs are given, out of the sum, and return it in the indicators' type."""
        self.counts -= pairs.sums(self.indicators.index_select(0, rows))
        return self.counts.to(self.indicators.dtype, copy=True)

    def add(self, rows: Tensor, indicators: Tensor, pairs: Pairs) -> None:
        """Put these texts back with new ones."""
        self.counts += pairs.sums(indicators)
        if self.is_revisited:
            self.indicators.index_copy_(0, rows, indicators)
