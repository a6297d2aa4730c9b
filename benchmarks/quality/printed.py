"""What the paper prints: ACC, HA, ebF1, miF1, maF1, for the trials that it reports."""

from benchmarks.quality.plan import PAPER, PAPERS, Trial
from benchmarks.stores import LIGHT

Five = tuple[float, float, float, float, float]

REUTERS = "reuters21578"
STAND_IN = "stackex-cooking"
"""Stands in for StackEx-Philosophy, whose texts could not be had."""

_REUTERS: dict[str, Five] = {
    "zero-shot": (0.0834, 0.9799, 0.2778, 0.2981, 0.1844),
    "annotation-free": (0.3159, 0.9917, 0.4613, 0.5053, 0.2184),
    "scarce-annotation": (0.5083, 0.9944, 0.6318, 0.6595, 0.2340),
    "domain-supervisor": (0.5078, 0.9944, 0.6320, 0.6606, 0.2353),
    "ML-kNN": (0.6513, 0.9956, 0.7101, 0.7228, 0.2536),
    "ML-ARAM": (0.4742, 0.9923, 0.6734, 0.6265, 0.1633),
    "100%": (0.6674, 0.9961, 0.7772, 0.7720, 0.2784),
    "50%": (0.6039, 0.9954, 0.7120, 0.7286, 0.2589),
    "20%": (0.5618, 0.9949, 0.6881, 0.7028, 0.2459),
    "5%": (0.3784, 0.9922, 0.5763, 0.5853, 0.2439),
    "2 groups": (0.0950, 0.9903, 0.1654, 0.2401, 0.1663),
    "4 groups": (0.2753, 0.9918, 0.3926, 0.4612, 0.1740),
    "6 groups": (0.2758, 0.9918, 0.3936, 0.4621, 0.1741),
    "8 groups": (0.2765, 0.9918, 0.3945, 0.4631, 0.1740),
    "10 groups": (0.2770, 0.9918, 0.3950, 0.4637, 0.1743),
}
_PHILOSOPHY: dict[str, Five] = {
    "zero-shot": (0.0010, 0.8802, 0.0924, 0.0665, 0.1528),
    "annotation-free": (0.0382, 0.9902, 0.2119, 0.2423, 0.2292),
    "scarce-annotation": (0.0547, 0.9913, 0.2655, 0.3024, 0.2304),
    "domain-supervisor": (0.0551, 0.9913, 0.2648, 0.3021, 0.2309),
    "ML-kNN": (0.0904, 0.9925, 0.2866, 0.3198, 0.0993),
    "ML-ARAM": (0.0622, 0.9888, 0.2045, 0.1796, 0.0075),
    "100%": (0.0803, 0.9917, 0.3394, 0.3749, 0.2387),
    "50%": (0.0723, 0.9917, 0.3283, 0.3642, 0.2586),
    "20%": (0.0643, 0.9916, 0.2948, 0.3241, 0.2418),
    "5%": (0.0331, 0.9880, 0.2696, 0.2813, 0.2266),
    "without L2": (0.0236, 0.9899, 0.1921, 0.2222, 0.2267),
    "without L3": (0.0347, 0.9865, 0.2373, 0.2458, 0.2025),
    "without L2 and L3": (0.0004, 0.7996, 0.0509, 0.0374, 0.0736),
    "2 groups": (0.0226, 0.9900, 0.1899, 0.2218, 0.2290),
    "4 groups": (0.0355, 0.9901, 0.2078, 0.2390, 0.2294),
    "6 groups": (0.0358, 0.9902, 0.2084, 0.2392, 0.2302),
    "8 groups": (0.0363, 0.9902, 0.2096, 0.2399, 0.2298),
    "10 groups": (0.0370, 0.9902, 0.2108, 0.2415, 0.2303),
}
_REUTERS_STD: dict[str, Five] = {
    "annotation-free": (0.0446, 0.0007, 0.0393, 0.0343, 0.0034),
    "scarce-annotation": (0.0134, 0.0001, 0.0131, 0.0101, 0.0091),
    "domain-supervisor": (0.0120, 0.0001, 0.0145, 0.0108, 0.0085),
}
_PHILOSOPHY_STD: dict[str, Five] = {
    "annotation-free": (0.0035, 0.0001, 0.0042, 0.0035, 0.0054),
    "scarce-annotation": (0.0030, 0.0002, 0.0055, 0.0047, 0.0091),
    "domain-supervisor": (0.0028, 0.0001, 0.0058, 0.0059, 0.0090),
}
"""The paper prints standard deviations, over ten seeds, for its three settings alone."""
_TABLES = {
    REUTERS: ("the paper", _REUTERS, _REUTERS_STD),
    STAND_IN: ("the paper, on StackEx-Philosophy", _PHILOSOPHY, _PHILOSOPHY_STD),
}


def printed(dataset: str, trial: Trial, vectors: str) -> tuple[str, Five, Five | None] | None:
    """Return where a figure for the trial is printed, the figure, and its standard deviation if that is printed too.

    Only for the recipe `paper` with its own choices and the graph made from `vectors`, and for baselines, so that a
    figure stands once in a table; `None` if there is none.
    """
    if dataset not in _TABLES or (trial.method in PAPERS and trial.method != PAPER):
        return None
    source, table, deviations = _TABLES[dataset]
    name = trial.method
    if trial.method == PAPER:
        if trial.percentiles or trial.hops != 2 or trial.start or trial.decay or trial.scorer != LIGHT:
            return None
        if trial.vectors != vectors:
            return None
        name = trial.level if trial.level.endswith("%") else trial.setting
        if trial.groups:
            name = f"{trial.groups} groups"
        elif trial.without:
            name = f"without {' and '.join(trial.without)}"
    elif trial.level not in ("0", "100%"):
        return None
    return (source, table[name], deviations.get(name)) if name in table else None
