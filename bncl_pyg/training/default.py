"""The default recipe: rival full supervision without annotated texts, and never lose to them where they are.

No step looks at anything but what the setting allows; docs/default-recipe.md says where every number comes from.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from bncl_pyg.corpus import RoughPriors, Supervision
from bncl_pyg.errors import InputError
from bncl_pyg.features import Features, Pairs, WordAxes, pairs_of, row_blocks, text_inputs
from bncl_pyg.graph import SignedLabelGraph
from bncl_pyg.nn import (
    FARTHEST,
    CollectiveModel,
    CollectiveProjection,
    ScoreScale,
    SignedMessages,
    decided,
    free_logits,
)
from bncl_pyg.training.decisions import clearly_worse, expected_thresholds, widened
from bncl_pyg.training.priors import adding_up, estimated_prevalence, guessed, pooled, settled
from bncl_pyg.training.regression import Inputs, Regression, regress

Part = Literal["vectors", "words", "graph"]
LESS_WITH_AN_EXAMPLE = 0.7
"""By how much an estimate's share falls with every example."""
MANY_WITHOUT = 0.05
"""From this share of annotated texts without any label on, texts may stay without one."""


@dataclass(frozen=True)
class DefaultRecipe:
    """Every number of the default recipe.

    Args:
        name: what it is called on the command line.
        parts: what is used besides the scores: the encoder's `vectors`, the `words`, the label `graph`.
        rounds: how often the text is fitted to what the predictions say; 0 leaves the scores and the graph.
        start_slope: how steep scores become first probabilities.
        score_weight: of the score, beside the text.
        text_weight: of the text.
        graph_weight: of the label graph.
        competition: ρ, see `CollectiveProjection`, where no text is annotated.
        text_strength: C of the regression on the text, times the number of texts (the errors of what it is fitted to do
            not average out over more texts, so that the penalty must grow with them).
        most_strength: C at most.
        graph_strength: the same for the graph.
        softness: what logits without annotated texts are multiplied with to become probabilities, times the dispersion
            of the scores: the variance of how many labels they give a text, over its mean, where texts do not compete.
            Scores of which some texts get many and others none are the same evidence many times over.
        softness_bounds: between which it is then kept.
        steepness: what logits learned from annotated texts are multiplied with to become decisions.
        own_weight: see `expected_thresholds`.
        strengths: C of the regression on annotated texts, of which the likelihood of those held out chooses.
        folds: into how many parts annotated texts are cut.
        intercept_spread: how far labels' intercepts are expected to be off.
        slope_spread: the same for slopes.
        estimate_weight: how many annotated texts is worth what is known without them of λ and of how sure to be.
        estimate_share: how much a guess at λ without annotated texts says, beside what was learned with them, of a
            label that none of them has; with every example, less.
    """

    name: str = "default"
    parts: tuple[Part, ...] = ("vectors", "words", "graph")
    rounds: int = 3
    start_slope: float = 3.0
    score_weight: float = 2.0
    text_weight: float = 4.0
    graph_weight: float = 1.0
    competition: float = 0.75
    text_strength: float = 500.0
    most_strength: float = 0.2
    graph_strength: float = 20.0
    softness: float = 0.32
    softness_bounds: tuple[float, float] = (0.15, 0.5)
    steepness: float = 2.0
    own_weight: float = 5.0
    strengths: tuple[float, ...] = (0.3, 3.0, 30.0)
    folds: int = 3
    intercept_spread: float = 2.0
    slope_spread: float = 0.25
    estimate_weight: float = 50.0
    estimate_share: float = 0.5

    def as_dict(self) -> dict[str, Any]:
        """Return the recipe as JSON can hold it."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}


@dataclass(frozen=True)
class StageLog:
    """One stage of training.

    Args:
        stage: its number, from 1.
        of: how many there are.
        what: was done.
        figures: what it found.
    """

    stage: int
    of: int
    what: str
    figures: dict[str, float]


WEAK_PULL, MOST_STEPS_OF_LINE, LEAST_STEP_OF_LINE = 4.0, 30, 1e-6
STEPS_OF_ROUND, STEPS_OF_GRAPH, STEPS_OF_CHOICE, STEPS_OF_FIT = 10, 15, 12, 25


class DefaultTrainer:
    """Trains by the default recipe; the same inputs and seed give the same model.

    Args:
        features: the training texts.
        graph: the signed label graph.
        recipe: how.
        seed: of the choice of annotated texts held out.
        progress: told of every stage.
    """

    def __init__(
        self,
        features: Features,
        graph: SignedLabelGraph,
        recipe: DefaultRecipe,
        seed: int = 0,
        progress: Callable[[StageLog], None] | None = None,
    ) -> None:
        if len(features) < 2:
            raise InputError("The default recipe needs at least 2 training texts.")
        self.features, self.recipe, self.seed, self._progress = features, recipe, seed, progress
        self.log: list[StageLog] = []
        self._stages = 0
        self.pairs = pairs_of(features.candidates, len(features), len(features.labels))
        self.scale = ScoreScale.fit(features.entailment, features.contradiction, self.pairs)
        self.scores: Tensor = self.scale(features.entailment, features.contradiction, self.pairs)
        vectors = features.vectors if "vectors" in recipe.parts else None
        words = features.words if "words" in recipe.parts else None
        self.seen = replace(features, vectors=vectors, words=words)
        self.axes = None if words is None else WordAxes.fit(words)
        self.inputs = text_inputs(vectors, words, self.axes, len(features))
        self.turned = Inputs.of(self.inputs)
        edges, are_friends = graph.message_edges()
        self.edges = edges if "graph" in recipe.parts and edges.shape[1] else None
        self.friends = are_friends.nonzero()[:, 0]
        self.strength = min(recipe.most_strength, recipe.text_strength / len(features))

    def settle(self, rough: RoughPriors) -> Supervision:
        """Return κ and λ where they are only roughly known."""

        def logits(known: Supervision) -> Tensor:
            prevalence = torch.from_numpy(known.prevalence).float()
            return self._free(prevalence, known.cardinality).logits

        progress, self._progress = self._progress, None
        found = settled(rough, self.seen, self.turned, self.strength, logits)
        self.log.clear()
        self._progress = progress
        return found

    def start(self, known: Supervision) -> "Start":
        """Learn what κ and λ teach without annotated texts; `run` does that itself unless it is given."""
        progress, self._progress = self._progress, None
        found = self._free(torch.from_numpy(_agreeing(known)).float(), known.cardinality)
        self.log.clear()
        self._progress = progress
        return found

    def run(
        self,
        known: Supervision,
        *,
        estimated: bool,
        sure: NDArray[np.bool_] | None = None,
        guess: Supervision | None = None,
        start: "Start | None" = None,
    ) -> CollectiveModel:
        """Train; `prevalence` is then the λ that the model ended with.

        Args:
            known: κ, λ and perhaps annotated texts.
            estimated: whether λ is only a guess: annotated texts then help to estimate it, and decisions need not be as
                common as it says.
            sure: of which labels λ is known all the same, as long as no text is annotated; none, if not given.
            guess: where λ is not known, what `settle` made of what is; estimated from the scores if not given.
            start: where λ is known, what `start` learned, for whoever trains more than once with the same κ and λ.
        """
        if estimated and start is not None:
            raise ValueError("Where λ is to be estimated, there is no start that knows it.")
        model, self.prevalence = self._run(known, guess, start, estimated=estimated)
        if sure is not None and not len(known.annotated):
            model.get_buffer("thresholds")[torch.from_numpy(sure)] = 0
        return model

    def _run(
        self, known: Supervision, guess: Supervision | None, start: "Start | None", *, estimated: bool
    ) -> tuple[CollectiveModel, NDArray[np.float64]]:
        self.log.clear()
        exact = _agreeing(known)
        prevalence = torch.from_numpy(exact).float()
        if not len(known.annotated):
            self._stages = 1 - (start is not None)
            free = start or self._free(prevalence, known.cardinality)
            return self._finished(known, prevalence, free, None, estimated=estimated), exact
        self._stages = 5 if estimated else 2 - (start is not None)
        rows, truth = self._annotated(known)
        assert known.annotations is not None
        # Also those that are no candidates: a text whose labels are unknown is not a text without any.
        labels = torch.from_numpy(np.asarray(known.annotations.sum(axis=1)))
        if estimated:
            among_few, prevalence = self._pooled(known, guess)
        free = start or self._free(prevalence, known.cardinality)
        correction = self._corrected(free, rows, truth, labels)
        if estimated:
            # What the model says of all texts is a better estimate than what few annotated texts could show.
            prevalence = self._said(correction, known, among_few)
            free = self._free(prevalence, known.cardinality)
            correction = self._corrected(free, rows, truth, labels)
            prevalence = self._said(correction, known, among_few)
        found = prevalence.double().numpy() if estimated else exact
        return self._finished(known, prevalence, free, correction, estimated=estimated), found

    def _annotated(self, known: Supervision) -> tuple[Tensor, Tensor]:
        """Return the annotated rows and, of their pairs, whether they are true, 0 or 1."""
        assert known.annotations is not None
        rows = torch.from_numpy(known.annotated)
        return rows, self.pairs.rows(rows).of(known.annotations)

    def _pooled(self, known: Supervision, guess: Supervision | None) -> tuple[Tensor, Tensor]:
        """Return a guess at λ without annotated texts, and with their counts, before anything was learned."""
        assert known.annotations is not None
        if guess is None:
            estimate = estimated_prevalence(self.features, self.turned, known.cardinality, self.strength)
            among_few = guessed(self.seen, estimate, known.cardinality)
        else:
            estimate = among_few = guess.prevalence
        counts = np.asarray(known.annotations.sum(axis=0), dtype=np.int64)
        shares = pooled(counts, len(known.annotated), estimate, self.recipe.estimate_weight)
        found = torch.from_numpy(adding_up(shares, known.cardinality)).float()
        self._tell("estimating how common the labels are", {"cardinality": known.cardinality})
        return torch.from_numpy(among_few).float(), found

    def _said(self, correction: "_Correction", known: Supervision, guess: Tensor) -> Tensor:
        """Return λ as the corrected logits have it, and the annotated texts their labels.

        Labels that no annotated text has would be too rare: nothing but their absence was learned of them. Together
        they are as common as those that a single annotated text has (Good and Turing's estimate), pooled with what the
        logits have as if `estimate_weight` more texts had shown it. Which of the labels with the same few examples is
        more common, few examples cannot tell: there the guess without annotated texts has a say.
        """
        assert known.annotations is not None
        weight, share = self.recipe.estimate_weight, self.recipe.estimate_share
        said = torch.sigmoid(correction.logits)
        said[correction.rows] = 0
        counts = torch.from_numpy(np.asarray(known.annotations.sum(axis=0), dtype=np.float32))
        found = (self.pairs.sums(said) + counts) / len(said)
        learned = found[counts == 0].sum().clamp_min(1e-6)
        together = ((counts == 1).sum() + weight * learned) / (len(known.annotated) + weight)
        found = torch.where(counts == 0, found * together / learned, found)
        shares = share * LESS_WITH_AN_EXAMPLE**counts
        mixed = (1 - shares) * found.clamp_min(1e-7).log() + shares * guess.clamp_min(1e-7).log()
        # As common as before are all labels together that have as many examples.
        alike = torch.unique(counts, return_inverse=True)[1]
        before, after = (torch.zeros(len(counts)).index_add(0, alike, values)[alike] for values in (found, mixed.exp()))
        return (mixed.exp() * before / after).clamp(max=1.0)

    def _free(self, prevalence: Tensor, cardinality: float) -> "Start":
        """Learn without annotated texts: scores, text and graph, each round fitted to the last one's predictions."""
        recipe, pairs = self.recipe, self.pairs

        def project(logits: Tensor) -> tuple[CollectiveProjection, Tensor]:
            found = CollectiveProjection.solved(logits, prevalence, cardinality, recipe.competition, pairs)
            return found, torch.sigmoid(found(logits, pairs))

        labels = pairs.labels
        rounds = recipe.rounds if self.inputs.shape[1] else 0
        tensors = {
            "score_weight": torch.tensor(recipe.score_weight if rounds else recipe.start_slope),
            "text_weights": torch.zeros(self.inputs.shape[1], labels),
            "text_intercepts": torch.zeros(labels),
        }
        logits = recipe.start_slope * self.scores
        apart = CollectiveProjection.solved(logits, prevalence, cardinality, 0.0, pairs)
        counts = torch.sigmoid(apart(logits, pairs)).sum(dim=1)
        dispersion = float(counts.var() / counts.mean().clamp_min(1e-6))
        projection, likely = project(logits)
        messages, change = None, 0.0
        for turn in range(max(rounds, 1)):
            if rounds:
                base = torch.logit(_shares(likely, pairs))
                text = regress(self.turned, likely, base, self.strength, steps=STEPS_OF_ROUND, pairs=pairs)
                tensors["text_weights"] = recipe.text_weight * text.weights
                tensors["text_intercepts"] = -tensors["text_weights"].T @ self.turned.centre
            if self.edges is not None and turn == max(rounds, 1) - 1:
                # Only now: learned in every round, rivalry among like labels would feed on itself.
                messages = self._messages(likely)
            with torch.no_grad():
                logits = free_logits(self.scores, self.inputs, messages, tensors, pairs)
            projection, now = project(logits)
            change, likely = float((now - likely).abs().sum() / len(now)), now
        figures = {"labels_changed_a_text": change, "dispersion": dispersion}
        if messages is not None:
            figures["helping_friends"] = float((messages.weight[self.friends] > 0).sum() / max(len(self.friends), 1))
        self._tell("learning from what the predictions agree on", figures)
        return Start(tensors, messages, projection, logits, dispersion)

    def _messages(self, targets: Tensor) -> SignedMessages:
        """Learn who helps and who rivals whom: logistic regression on the neighbours' scores beside a label's own."""
        assert self.edges is not None
        pairs = self.pairs
        found = SignedMessages(self.edges, pairs.labels)
        texts, share = len(targets), _shares(targets, pairs)
        curvature = pairs.counts.clamp_min(1) * (share * (1 - share)).clamp_min(1e-6)
        penalty = texts / self.recipe.graph_strength
        step = (curvature[self.edges[1]] + penalty).rsqrt()
        own = torch.zeros(2, len(share), requires_grad=True)
        moves = torch.zeros(len(step), requires_grad=True)
        optimizer = torch.optim.LBFGS(
            [moves, own], max_iter=STEPS_OF_GRAPH, tolerance_change=1e-7, line_search_fn="strong_wolfe"
        )
        base = torch.logit(share)

        def loss() -> Tensor:
            optimizer.zero_grad()
            weight = moves * step
            intercepts, slopes = base + own[0] * curvature.rsqrt(), 1 + own[1] * curvature.rsqrt()
            logits = pairs.spread(intercepts) + pairs.spread(slopes) * self.scores
            logits = logits + found(self.scores, weight, pairs)
            fit = binary_cross_entropy_with_logits(logits, targets, reduction="sum")
            total = fit + penalty * weight.square().sum() / 2
            total.backward()
            return total

        optimizer.step(loss)
        found.weight.data = self.recipe.graph_weight * moves.detach() * step
        found.requires_grad_(False)
        return found

    def _corrected(self, free: "Start", rows: Tensor, truth: Tensor, labels: Tensor | None = None) -> "_Correction":
        """Learn from annotated texts how the logits without them are to be corrected; the weaker, the fewer there are.

        Labels with few examples fall back to the common slope and intercept. The penalty on the text is the one that
        predicts annotated texts best that were held out.

        Args:
            free: what was learned without them.
            rows: which texts.
            truth: of their pairs, whether they are true.
            labels: how many labels each of them has; as many as `truth` says, if not given.
        """
        recipe = self.recipe
        known = free.projection(free.logits, self.pairs).clamp(-FARTHEST, FARTHEST)
        mine, inputs, pairs = known[rows], self.turned.rows(rows), self.pairs.rows(rows)
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(self.seed))
        folds = [order[fold :: recipe.folds] for fold in range(min(recipe.folds, len(rows)))]

        def fit(places: Tensor, strength: float, steps: int) -> tuple[Regression, Tensor]:
            slope, intercept = _common(mine[places], truth[places])
            found = regress(
                inputs.rows(places),
                truth[places],
                slope * mine[places] + intercept,
                strength,
                steps=steps,
                intercept_spread=recipe.intercept_spread,
                scores=mine[places],
                slope_spread=recipe.slope_spread,
                pairs=pairs.rows(places),
            )
            whole = Regression(found.weights, found.intercepts + intercept, found.slopes + slope)
            return whole, whole.added(self.inputs[rows], pairs, mine)

        def without(fold: Tensor, strength: float) -> Tensor:
            rest = torch.ones(len(rows), dtype=torch.bool)
            rest[fold] = False
            return fit(rest.nonzero()[:, 0], strength, STEPS_OF_CHOICE)[1][fold]

        if len(folds) == 1:
            chosen = recipe.strengths[0]
            held = fit(torch.arange(1), chosen, STEPS_OF_FIT)[1]
        else:
            found = {strength: without(folds[0], strength) for strength in recipe.strengths}
            losses = {
                strength: float(binary_cross_entropy_with_logits(said, truth[folds[0]], reduction="sum"))
                for strength, said in found.items()
            }
            chosen = min(losses, key=losses.__getitem__)
            held = torch.zeros_like(mine)
            held[folds[0]] = found[chosen]
            for fold in folds[1:]:
                held[fold] = without(fold, chosen)
        final, _ = fit(torch.arange(len(rows)), chosen, STEPS_OF_FIT)
        logits = final.added(self.inputs, self.pairs, known)
        logits[rows] = held
        self._tell("learning from annotated texts", {"strength": chosen, "common_slope": float(final.slopes.median())})
        softness, _ = _common(held, truth, usual=1.0)
        labels = truth.sum(dim=1) if labels is None else labels
        at_least_one = bool((labels == 0).float().mean() < MANY_WITHOUT)
        return _Correction(rows, truth, final, logits, at_least_one, float(softness))

    def _finished(
        self,
        known: Supervision,
        prevalence: Tensor,
        free: "Start",
        correction: "_Correction | None",
        *,
        estimated: bool = False,
    ) -> CollectiveModel:
        recipe, cardinality = self.recipe, known.cardinality

        def solved(logits: Tensor, competition: float) -> CollectiveProjection:
            return CollectiveProjection.solved(logits, prevalence, cardinality, competition, self.pairs)

        lowest, highest = recipe.softness_bounds
        softness = min(max(recipe.softness / max(free.dispersion, 1e-6), lowest), highest)
        ceiling = torch.ones(len(prevalence))
        if correction is None:
            # Scores that say the same thing many times over are wrong together: even where they are surest.
            ceiling = ((1 + prevalence) / 2).clamp_min(1 / max(free.dispersion, 1.0))
            logits, competition, steepness = free.logits, recipe.competition, 1.0
            at_least_one, tensors = bool(cardinality >= 1), free.tensors
        else:
            logits, competition, steepness = correction.logits, 0.0, recipe.steepness
            # Few texts cannot tell how sure to be; the probabilities without them were as sure as this.
            soft = solved(softness * free.logits, recipe.competition)
            usual = _spread(soft(softness * free.logits, self.pairs), self.pairs)
            doubt = recipe.estimate_weight / (recipe.estimate_weight + len(correction.rows))
            learned = correction.softness
            softness = learned * (usual / _spread(learned * logits, self.pairs)) ** doubt
            at_least_one, tensors = correction.at_least_one, {**free.tensors, **correction.tensors()}
        calibration = CollectiveProjection.solved(
            softness * logits, prevalence, cardinality, competition, self.pairs, ceiling
        )
        sharp = steepness * logits
        decision = solved(sharp, competition)
        if correction is not None:
            rows, truth = correction.once()
            decision = widened(decision, sharp, prevalence, self.pairs, rows, truth, at_least_one=at_least_one)
        thresholds = torch.zeros(len(prevalence))
        if estimated:
            # Who gives λ gets decisions about as common as that. Where λ is a guess, there is nothing to keep to.
            certain, likely = decision(sharp, self.pairs), calibration(softness * logits, self.pairs)
            thresholds = self._thresholds(certain, likely, ceiling, softness / steepness, correction)
        projections = {"free": free.projection, "calibration": calibration, "decision": decision}
        return CollectiveModel(
            self.scale,
            self.axes,
            free.messages,
            vectors="vectors" in recipe.parts and self.features.vectors is not None,
            tensors={**tensors, "ceiling": ceiling, "thresholds": thresholds},
            projections=projections,
            steepness=steepness,
            softness=softness,
            at_least_one=at_least_one,
        ).eval()

    def _thresholds(
        self, certain: Tensor, logits: Tensor, ceiling: Tensor, slope: float, correction: "_Correction | None"
    ) -> Tensor:
        """Return `expected_thresholds`, or 0 where annotated texts that were held out clearly fare better so."""
        pairs, own = self.pairs, self.recipe.own_weight
        if correction is None:
            return expected_thresholds(certain, logits, ceiling, slope, own, pairs)
        rows, truth = correction.once()
        # What few texts say of how sure to be is little to go by.
        own *= 1 + self.recipe.estimate_weight / len(rows)
        found, mine = expected_thresholds(certain, logits, ceiling, slope, own, pairs), pairs.rows(rows)
        before, after = (
            decided(said, at_least_one=correction.at_least_one)
            for said in (certain[rows], certain[rows] - mine.spread(found))
        )
        return torch.zeros_like(found) if clearly_worse(after, before, truth, mine) else found

    def _tell(self, what: str, figures: dict[str, float]) -> None:
        entry = StageLog(len(self.log) + 1, self._stages, what, figures)
        self.log.append(entry)
        if self._progress is not None:
            self._progress(entry)


@dataclass
class Start:
    """What was learned without annotated texts."""

    tensors: dict[str, Tensor]
    messages: SignedMessages | None
    projection: CollectiveProjection
    logits: Tensor
    """Of the training texts, before projection."""
    dispersion: float
    """Of the scores."""


@dataclass
class _Correction:
    """What was learned from annotated texts."""

    rows: Tensor
    """Which texts are annotated."""
    truth: Tensor
    """Of their pairs, whether they are true, 0 or 1."""
    found: Regression
    logits: Tensor
    """Of the training texts; of annotated ones, as predicted without having seen their labels."""
    at_least_one: bool
    softness: float
    """What logits are multiplied with to become probabilities: the slope that fits texts that were held out."""

    def once(self) -> tuple[Tensor, Tensor]:
        """Return the annotated rows and their truth, without repetitions."""
        places = torch.from_numpy(np.unique(self.rows.numpy(), return_index=True)[1])
        return self.rows[places], self.truth[places]

    def tensors(self) -> dict[str, Tensor]:
        return {"weights": self.found.weights, "intercepts": self.found.intercepts, "slopes": self.found.slopes}


def _agreeing(known: Supervision) -> NDArray[np.float64]:
    """Return λ that adds up to κ: where they disagree, the one number is more likely right than the many."""
    return adding_up(known.prevalence, known.cardinality, most=1.0)


def _shares(likely: Tensor, pairs: Pairs) -> Tensor:
    """Return how likely each label is among the texts whose candidate it is, kept from 0 and 1; (labels,)."""
    return (pairs.sums(likely) / pairs.counts.clamp_min(1)).clamp(1e-6, 1 - 1e-6)


def _spread(logits: Tensor, pairs: Pairs) -> float:
    """Return how far logits are from their label's mean, by and large."""
    mean = pairs.sums(logits) / pairs.counts.clamp_min(1)
    return float((logits - pairs.spread(mean)).square().mean().sqrt().clamp_min(1e-3))


def _common(logits: Tensor, truth: Tensor, usual: float = 0.5) -> tuple[Tensor, Tensor]:
    """Return the slope and the intercept that all labels share, fitted to all (text, label) pairs together.

    Newton's method, with steps that are halved until the loss falls; a weak pull towards where both are usually found,
    for when there is next to nothing to learn from.

    Args:
        logits: (texts, labels).
        truth: 0 or 1, (texts, labels).
        usual: what the slope usually is.
    """
    start = torch.tensor([usual, 0.0], dtype=torch.float64)

    def look(line: Tensor) -> tuple[float, Tensor, Tensor]:
        """Return the loss, its gradient and its curvature."""
        away = line - start
        loss = float(WEAK_PULL / 2 * away.square().sum())
        gradient, curvature = WEAK_PULL * away, WEAK_PULL * torch.eye(2, dtype=torch.float64)
        for rows in row_blocks(logits):
            mine, true = logits[rows], truth[rows]
            said = (float(line[0]) * mine).add_(float(line[1]))
            loss += float((softplus(said) - said * true).sum(dtype=torch.float64))
            likely = said.sigmoid_()
            wrong, weight = likely - true, likely * (1 - likely)
            weighed = weight * mine
            across = weighed.sum()
            gradient += torch.stack([(wrong * mine).sum(), wrong.sum()])
            curvature += torch.stack([(weighed * mine).sum(), across, across, weight.sum()]).view(2, 2)
        return loss, gradient, curvature

    line = start.clone()
    loss, gradient, curvature = look(line)
    for _ in range(MOST_STEPS_OF_LINE):
        step = torch.linalg.solve(curvature, gradient)
        while float(step.abs().max()) > LEAST_STEP_OF_LINE:
            found = look(line - step)
            if found[0] <= loss:
                break
            step /= 2
        else:
            break
        line, (loss, gradient, curvature) = line - step, found
    return line[0].float().clamp_min(0), line[1].float()
