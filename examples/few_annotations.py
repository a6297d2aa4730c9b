"""A few annotated texts among many that nobody annotated: what they add to label names alone.

The texts are from the bundled set: descriptions of Debian packages, and what the packages are used for.
"""

import numpy as np

from bncl_pyg import BNCLClassifier, Corpus, LabelSet
from bncl_pyg.demo import demo_folder
from bncl_pyg.evaluation import evaluate
from bncl_pyg.features import score_texts
from bncl_pyg.scorers import load_scorer

labels = LabelSet.read(demo_folder() / "labels.jsonl")
train = Corpus.read(demo_folder() / "train.jsonl.gz", labels).rows(np.arange(320))
test = Corpus.read(demo_folder() / "test.jsonl.gz", labels).rows(np.arange(100))

# The language model reads each text once. `fit` and `predict` take texts as well, and score them themselves.
scorer = load_scorer("light")
train_features, test_features = (score_texts(corpus, labels, scorer) for corpus in (train, test))

# The labels of every sixth text; None says that nobody annotated the text, which is not the same as no label.
truth = train.annotations.toarray()
y = [
    [labels.names[place] for place in row.nonzero()[0]] if number % 6 == 0 else None for number, row in enumerate(truth)
]
annotated = sum(names is not None for names in y)

for name, known in (("label names alone", None), (f"and {annotated} annotated texts", y)):
    classifier = BNCLClassifier(labels=labels).fit(train_features, known)
    metrics = evaluate(test.annotations, classifier.predict(test_features))
    print(f"{name:24} ebF1 {metrics.ebF1:.3f}  miF1 {metrics.miF1:.3f}  maF1 {metrics.maF1:.3f}")

descriptions = labels.as_dict()
for text, names in zip(test.texts[:5], classifier.predict_labels(test_features)[:5], strict=True):
    print(f"{text.splitlines()[0][:60]:60} → {', '.join(descriptions[name] for name in names) or 'none'}")
