"""ML-ARAM: texts with the same labels are gathered in boxes; a new text takes the labels of the boxes nearest to it."""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from torch import Tensor

from bncl_pyg.errors import InputError

ROWS_AT_ONCE = 256


class MLARAM(BaseEstimator):
    r"""`"HARAM: A Hierarchical ARAM Neural Network for Large-Scale Text Classification" (Benites and Sapozhnikova,
    2015)`, the multi-label ARAM network that its hierarchy is put on.

    A text x in :math:`[0, 1]^d` is coded as :math:`I = (x, 1 - x)`. Each prototype is a box with weights w; its choice
    is :math:`|I ∧ w| / |w|`, its match :math:`|I ∧ w| / |I|`, where ∧ is the smaller of two and |·| the sum. In
    training, the prototype of the same set of labels with the highest choice among those whose match exceeds the
    vigilance is stretched to :math:`w ∧ I` and counts the labels once more; without one, the text becomes a prototype.
    In prediction, the prototypes whose choice is nearly as high as the best vote with their counts, weighted by their
    choice, and the set is cut where the votes drop most.

    Args:
        vigilance: how small a box stays; 1 keeps every text by itself.
        threshold: how much lower than the best a voting prototype's choice may be, as a share of the range of choices.
    """

    def __init__(self, vigilance: float = 0.9, threshold: float = 0.02) -> None:
        self.vigilance = vigilance
        self.threshold = threshold

    def fit(self, vectors: NDArray[np.floating], annotations: csr_array) -> "MLARAM":
        """Make the prototypes, in the order of the texts.

        Args:
            vectors: (texts, dimensions); brought into [0, 1] by their lowest and highest number.
            annotations: boolean, (texts, labels).
        """
        if not len(vectors):
            raise InputError("ML-ARAM needs at least 1 annotated text.")
        self.lowest_, self.highest_ = float(np.min(vectors)), float(np.max(vectors))
        if self.lowest_ >= 0 and self.highest_ <= 1:
            self.lowest_, self.highest_ = 0.0, 1.0
        elif self.lowest_ == self.highest_:
            self.highest_ = self.lowest_ + 1.0  # all texts are the same point
        coded = self._coded(vectors)
        sets = csr_array(annotations)
        sets.sort_indices()
        groups: dict[tuple[int, ...], list[int]] = {}
        for row in range(len(vectors)):
            members = sets.indices[sets.indptr[row] : sets.indptr[row + 1]]
            groups.setdefault(tuple(members.tolist()), []).append(row)
        boxes, counts, members_of = [], [], []
        for labels, rows in groups.items():
            weights, texts = self._prototypes(coded[rows])
            boxes.append(weights)
            counts += texts
            members_of += [labels] * len(texts)
        self.boxes_ = torch.cat(boxes)
        ends = np.cumsum([0, *map(len, members_of)])
        columns = np.array([label for labels in members_of for label in labels], dtype=np.int64)
        values = np.repeat(np.array(counts, dtype=np.float64), np.diff(ends))
        self.counts_ = csr_array((values, columns, ends), shape=(len(counts), sets.shape[1]))
        return self

    def votes(self, vectors: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return each label's weighted votes, (texts, labels)."""
        sums = self.boxes_.sum(dim=1)
        parts = []
        for block in self._coded(vectors).split(ROWS_AT_ONCE):
            choice = (_overlap(block, self.boxes_, sums) / sums).numpy().astype(np.float64)
            best, worst = choice.max(axis=1, keepdims=True), choice.min(axis=1, keepdims=True)
            choice[(best - choice) / best > self.threshold * (best - worst)] = 0
            parts.append(choice @ self.counts_ / choice.sum(axis=1, keepdims=True))
        return np.concatenate(parts)

    def predict(self, vectors: NDArray[np.floating]) -> NDArray[np.bool_]:
        """Return which labels each text has; boolean, (texts, labels)."""
        votes = self.votes(vectors)
        if votes.shape[1] == 1:
            return votes > 0
        order = np.argsort(-votes, axis=1, kind="stable")
        ranked = np.take_along_axis(votes, order, axis=1)
        kept = np.argmax(-np.diff(ranked, axis=1), axis=1) + 1
        kept[ranked[:, 0] <= 0] = 0  # the nearest prototypes are of texts without any label
        decisions = np.zeros(votes.shape, dtype=bool)
        np.put_along_axis(decisions, order, np.arange(votes.shape[1]) < kept[:, None], axis=1)
        return decisions

    def _prototypes(self, coded: Tensor) -> tuple[Tensor, list[int]]:
        """Return the boxes of texts with the same labels, and how many texts each holds."""
        boxes, counts = coded[:1].clone(), [1]
        total = coded.shape[1] / 2  # |I| is the same for every text
        for text in coded[1:]:
            meeting = torch.minimum(boxes, text)
            overlap = meeting.sum(dim=1)
            choice = torch.where(overlap / total > self.vigilance, overlap / boxes.sum(dim=1), -1)
            winner = int(choice.argmax())
            if choice[winner] < 0:
                boxes = torch.cat([boxes, text[None]])
                counts.append(1)
            else:
                boxes[winner] = meeting[winner]
                counts[winner] += 1
        return boxes, counts

    def _coded(self, vectors: NDArray[np.floating]) -> Tensor:
        values = (torch.as_tensor(vectors, dtype=torch.float32) - self.lowest_) / (self.highest_ - self.lowest_)
        values = values.clamp(0, 1)
        return torch.cat([values, 1 - values], dim=1)


def _overlap(texts: Tensor, boxes: Tensor, sums: Tensor) -> Tensor:
    """Return |I ∧ w| for every text and box, by min(a, b) = (a + b − |a − b|) / 2."""
    return (texts.sum(dim=1, keepdim=True) + sums - torch.cdist(texts, boxes, p=1)) / 2
