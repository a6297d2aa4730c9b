"""Labels that change after a model was trained: added, removed, renamed, merged; only what is new is scored."""

from bncl_pyg.relabel.change import LabelChange
from bncl_pyg.relabel.mixin import RelabelledModel
from bncl_pyg.relabel.retrain import Changed, Work, change_labels

__all__ = ["Changed", "LabelChange", "RelabelledModel", "Work", "change_labels"]
