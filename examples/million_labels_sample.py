"""Many labels: each text keeps its best candidates, each label its nearest and farthest labels.

Nothing here is texts × labels or labels × labels, so that the same lines go to a million labels. There, let `featurize`
write to disk what `score_texts` holds in memory (it stops and resumes anywhere), build the graph once with
`build_graph` (beyond 200,000 labels it needs faiss: pip install "bncl-pyg[scale]") and hand it over as `graph=`.
benchmarks/results/scale.md says what that costs.
"""

from itertools import product

import numpy as np

from bncl_pyg import BNCLClassifier, Corpus, LabelSet
from bncl_pyg.features import score_texts
from bncl_pyg.scorers import load_scorer

COLOURS = ("red", "blue", "green", "yellow", "black", "white", "brown", "purple", "orange", "grey")
MATERIALS = ("wooden", "leather", "cotton", "glass", "steel", "plastic", "paper", "wool", "stone", "silver")
FURNITURE = ("chair", "table", "lamp", "shelf", "bed", "carpet", "curtain", "mirror", "clock", "vase", "basket", "box")
WARES = ("bowl", "plate", "cup", "spoon", "knife", "bottle", "bag", "belt", "shoe", "hat", "coat", "ring")
FRAMES = ("I am looking for a {}.", "For sale: {}, hardly used.", "Somebody left a {} on the train.", "We need one {}.")
CANDIDATES = 20

names = tuple(" ".join(parts) for parts in product(COLOURS, MATERIALS, FURNITURE + WARES))
labels = LabelSet(names, names)
drawn = np.random.default_rng(0).choice(len(names), 200, replace=False)
texts = tuple(FRAMES[place % len(FRAMES)].format(names[place]) for place in drawn)
corpus = Corpus(tuple(map(str, range(len(texts)))), texts)

# A label that is not among a text's candidates is unknown, not false.
features = score_texts(corpus, labels, load_scorer("light"), candidates=CANDIDATES)
print(f"{len(labels):,} labels, {len(texts)} texts: {features.entailment.numel():,} scores")

# Beyond 2,000 labels the graph that is built by default joins each label with its 10 nearest and 10 farthest.
classifier = BNCLClassifier(labels=labels, cardinality=1.0).fit(features)
predicted = classifier.predict(features)  # sparse: (texts, labels)
hits = predicted[np.arange(len(texts)), drawn].sum()
print(f"{predicted.nnz} labels given; in {hits} texts, the label that the text names is among them")

for text, given in zip(texts[:4], classifier.predict_labels(features)[:4], strict=True):
    print(f"{text:50} → {', '.join(given)}")
