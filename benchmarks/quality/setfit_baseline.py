"""SetFit (Tunstall et al., 2022): the encoder itself is tuned on pairs of annotated texts, then a head is fitted."""

import logging
import tempfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bncl_pyg.evaluation.baselines import Evidence
from bncl_pyg.scorers import MAX_TOKENS, MINILM

PAIRS_A_TEXT = 20
"""How many pairs of like and of unlike texts each annotated text is put into, as in the publication."""
BATCH = 16


def decide(given: Evidence) -> NDArray[np.bool_]:
    """Return SetFit's decisions on the test texts; boolean, (texts, labels)."""
    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments

    for name in ("setfit", "sentence_transformers", "datasets"):
        logging.getLogger(name).setLevel(logging.ERROR)
    assert given.examples.annotations is not None
    truth = given.examples.annotations.toarray().astype(int)
    # SetFit's head, one logistic regression a label, cannot be fitted to a label that no text or every text has.
    learned = np.flatnonzero((truth.sum(axis=0) > 0) & (truth.sum(axis=0) < len(truth)))
    model: Any = SetFitModel.from_pretrained(str(MINILM.local()), multi_target_strategy="one-vs-rest", device="cpu")
    model.model_body.max_seq_length = MAX_TOKENS
    rows = Dataset.from_dict({"text": list(given.examples.texts), "label": truth[:, learned].tolist()})
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            batch_size=BATCH,
            num_epochs=1,
            num_iterations=PAIRS_A_TEXT,
            seed=given.seed,
            report_to="none",
            save_strategy="no",
            show_progress_bar=False,
        )
        Trainer(model=model, args=arguments, train_dataset=rows).train()
    decisions = np.tile(truth.all(axis=0), (len(given.test_texts), 1))
    decisions[:, learned] = np.asarray(model.predict(list(given.test_texts), batch_size=64)).astype(bool)
    return decisions
