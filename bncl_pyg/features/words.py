"""Which words a text has, without keeping the words: counts in numbered buckets."""

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import HashingVectorizer

BUCKETS = 2**18


def word_counts(texts: Sequence[str]) -> csr_array:
    """Return how often each text has a word of each bucket; float32, (texts, buckets)."""
    counter = HashingVectorizer(n_features=BUCKETS, alternate_sign=False, norm=None, dtype=np.float32)
    counts = csr_array(counter.transform(texts))
    counts.sum_duplicates()
    return counts
