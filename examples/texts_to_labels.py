"""Texts to labels: nobody has annotated anything, only the label names are known."""

from bncl_pyg import BNCLClassifier

LABELS = {
    "earn": "company earnings and profit",
    "acq": "mergers and acquisitions",
    "oil": "crude oil and fuel",
    "grain": "wheat, corn and other grain",
    "ship": "shipping and ports",
    "rates": "interest rates",
}
TEXTS = [
    "The company's profit rose 12 percent in the third quarter.",
    "Net income fell as sales of spare parts were weak.",
    "Full-year earnings beat what analysts had expected.",
    "The bank reported a loss of 40 million dollars.",
    "The board accepted the takeover bid of its rival.",
    "Both firms agreed to merge by the end of the year.",
    "It bought a majority stake in the paper mill.",
    "OPEC will raise its crude oil output in spring.",
    "Gasoline prices went up after the refinery fire.",
    "A tanker with crude oil ran aground outside the harbour.",
    "Heavy rain damaged the wheat harvest in the north.",
    "Corn exports were higher than a year ago.",
    "Farmers will plant less barley and more soybeans.",
    "Ships with wheat wait for days to unload at the port.",
    "Dock workers went on strike and the port was closed.",
    "Freight rates for container ships doubled.",
    "The central bank left its key interest rate unchanged.",
    "Mortgage rates climbed to the highest level in ten years.",
    "The bank cut its prime lending rate by half a point.",
    "Higher interest rates weighed on the bank's profit.",
]

# Roughly which share of the texts has each label. A word does too ("common", "uncommon"), or None, or no prevalence at
# all: what is not known is estimated from the texts.
SHARES = {"earn": 0.3, "acq": 0.15, "oil": 0.2, "grain": 0.2, "ship": 0.2, "rates": 0.2}

classifier = BNCLClassifier(labels=LABELS, prevalence=SHARES).fit(TEXTS)

for text, names in zip(TEXTS, classifier.predict_labels(TEXTS), strict=True):
    print(f"{', '.join(names):12}  {text}")

probabilities = classifier.predict_proba(["The shipping company wants to buy a refinery."])[0]
for name, probability in sorted(zip(classifier.classes_, probabilities, strict=True), key=lambda pair: -pair[1]):
    print(f"{name:6} {probability:.2f}")
