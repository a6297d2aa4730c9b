"""Words that are typical of the texts of a label."""

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array

PRIOR_TEXTS, MOST_WORDS, LEAST_Z, MOST_SHARE = 10.0, 30_000, 1.0, 0.3
"""How many texts the words of all texts weigh beside a label's own, how many words are looked at, and from how many
standard errors on a word is typical. What a larger share of all texts has is no more than grammar."""


def typical_words(texts: Sequence[str], given: csr_array, count: int) -> list[list[str]]:
    """Return for each label the words that its texts have and others have not, the most typical first.

    The log-odds of a word in a label's texts and in all others, with a Dirichlet prior from all texts, over its
    standard error (Monroe, Colaresi and Quinn, "Fightin' Words", 2008).

    Args:
        texts: each counts a word once.
        given: which labels they are given; boolean, (texts, labels).
        count: how many words a label, at most.
    """
    # scikit-learn takes seconds to import.
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(
        binary=True, token_pattern=r"\b[^\W\d_]\w+\b", max_features=MOST_WORDS, max_df=max(MOST_SHARE, 2 / len(texts))
    )
    try:
        occurrences = csr_array(vectorizer.fit_transform(texts))
    except ValueError:  # no text has any such word
        return [[] for _ in range(given.shape[1])]
    vocabulary = vectorizer.get_feature_names_out()
    inside = csr_array(given.astype(np.float64).T @ occurrences.astype(np.float64))
    of_words = np.asarray(occurrences.sum(axis=0), dtype=np.float64).ravel()
    prior = PRIOR_TEXTS * of_words / max(len(texts), 1)
    sizes = np.asarray(given.sum(axis=0), dtype=np.float64).ravel()
    chosen = []
    for label in range(given.shape[1]):
        span = slice(inside.indptr[label], inside.indptr[label + 1])
        words, own = inside.indices[span], inside.data[span]
        rest = of_words[words] - own
        a, size = prior[words], sizes[label]
        odds = np.log((own + a) / (size + PRIOR_TEXTS - own - a).clip(1e-9))
        odds -= np.log((rest + a) / (len(texts) - size + PRIOR_TEXTS - rest - a).clip(1e-9))
        z = odds / np.sqrt(1 / (own + a) + 1 / (rest + a))
        best = np.argsort(-z, kind="stable")[:count]
        chosen.append([str(vocabulary[words[place]]) for place in best if z[place] >= LEAST_Z])
    return chosen
