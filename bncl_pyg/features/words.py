"""Which words a text has, without keeping the words: counts in numbered buckets."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from zlib import crc32

import numpy as np
from scipy.sparse import csr_array

BUCKETS = 2**18
"""Into how many buckets words are hashed; a store's manifest says it as `word_buckets`."""
HASH = "crc32"
"""How words are hashed; a store's manifest says it as `word_hash`."""
WORD = re.compile(r"\b\w\w+\b")


def word_counts(texts: Sequence[str], buckets: int = BUCKETS) -> csr_array:
    """Return how often each text has a word of each bucket; float32, (texts, buckets)."""
    places: dict[str, int] = {}
    columns: list[int] = []
    counts: list[int] = []
    starts = [0]
    for text in texts:
        buckets_of_text: dict[int, int] = {}
        for word in WORD.findall(text.lower()):
            place = places.get(word)
            if place is None:
                place = places[word] = crc32(word.encode()) % buckets
            buckets_of_text[place] = buckets_of_text.get(place, 0) + 1
        columns.extend(sorted(buckets_of_text))
        counts.extend(buckets_of_text[place] for place in sorted(buckets_of_text))
        starts.append(len(columns))
    content = np.array(counts, dtype=np.float32), np.array(columns, dtype=np.int32), np.array(starts, dtype=np.int64)
    return csr_array(content, shape=(len(texts), buckets))


def word_spans(text: str, buckets: int = BUCKETS) -> Iterator[tuple[int, int, int]]:
    """Yield the bucket of each word of a text, where the word begins and where it ends."""
    lowered = text.lower()
    # A few letters become two when they are lowered, such as the Turkish İ.
    ends = list(accumulate(len(letter.lower()) for letter in text)) if len(lowered) != len(text) else None
    for match in WORD.finditer(lowered):
        start, end = match.span()
        if ends is not None:
            start, end = bisect_right(ends, start), bisect_left(ends, end) + 1
        yield crc32(match.group().encode()) % buckets, start, end
