"""Which words a text has, without keeping the words: counts in numbered buckets."""

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import HashingVectorizer

BUCKETS = 2**18
"""Into how many buckets words are hashed; a store's manifest says it as `word_buckets`."""


def word_counts(texts: Sequence[str], buckets: int = BUCKETS) -> csr_array:
    """Return how often each text has a word of each bucket; float32, (texts, buckets)."""
    if not len(texts):
        return csr_array((0, buckets), dtype=np.float32)  # scikit-learn's counter needs a text
    counter = HashingVectorizer(n_features=buckets, alternate_sign=False, norm=None, dtype=np.float32)
    counts = csr_array(counter.transform(texts))
    counts.sum_duplicates()
    return counts
