import numpy as np
from scipy.sparse import csr_array

from bncl_pyg.report.words import typical_words


def test_words_of_a_label_s_texts_are_typical_and_words_of_all_texts_are_not() -> None:
    texts = [f"the gold mine {place}" for place in range(20)] + [f"the wheat field {place}" for place in range(20)]
    given = np.zeros((40, 3), dtype=bool)
    given[:20, 0] = given[20:, 1] = True
    gold, wheat, nothing = typical_words(
        [*texts, *["the other news"] * 40], csr_array(np.vstack([given, given * 0])), 3
    )
    assert set(gold) == {"gold", "mine"}
    assert set(wheat) == {"wheat", "field"}
    assert nothing == []


def test_texts_without_words_have_none() -> None:
    assert typical_words(["1 2 3", "4"], csr_array(np.ones((2, 2), dtype=bool)), 3) == [[], []]
