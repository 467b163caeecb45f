"""Writes internal/kit/stats/testdata/scipy.json: what scipy and statsmodels say
of 20 data sets, which the tests of internal/kit/stats are held against.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install scipy statsmodels
    /tmp/venv/bin/python tools/stats/reference.py

Intervals are found the slow way: a shift lies within when scipy's exact test
does not refuse it. So they don't depend on anybody's formula for their ends.
"""
import json
import pathlib

import numpy as np
import scipy
import statsmodels
from scipy import stats
from statsmodels.stats.multitest import multipletests

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIDENCE = 0.95


def untied(values):
    return len(set(values)) == len(values)


def mann_whitney(x, y):
    """The exact p over all arrangements of the values, the normal one, and U."""
    exact = None
    if untied(x + y):
        exact = stats.mannwhitneyu(x, y, method="exact").pvalue
    elif len(x) + len(y) <= 20:
        # Ties: scipy's exact method takes no notice of them, so all
        # arrangements of the ranks are gone through.
        n = len(x)
        ranks = stats.rankdata(x + y)
        exact = stats.permutation_test(
            (ranks[:n], ranks[n:]), lambda a, b, axis: a.sum(axis=axis),
            vectorized=True, n_resamples=np.inf, alternative="two-sided").pvalue
    normal = stats.mannwhitneyu(x, y, method="asymptotic")
    return {"u": normal.statistic, "exact": exact, "normal": normal.pvalue}


def signed_rank(d):
    nonzero = [v for v in d if v != 0]
    if not nonzero:
        return None
    if untied([abs(v) for v in nonzero]):
        p = stats.wilcoxon(nonzero, method="exact").pvalue
    else:
        if len(nonzero) > 16:
            return None
        p = stats.wilcoxon(nonzero, method=stats.PermutationMethod(n_resamples=np.inf)).pvalue
    ranks = stats.rankdata(np.abs(nonzero))
    return {"w": float(ranks[np.array(nonzero) > 0].sum()), "exact": p}


def inverted(points, p_of):
    """The ends of the range of shifts that are not refused. Between two
    neighbours of points the p does not change."""
    points = np.sort(points)
    inside = [i for i in range(len(points) - 1)
              if points[i] < points[i + 1] and p_of((points[i] + points[i + 1]) / 2) > 1 - CONFIDENCE]
    if not inside:
        return None
    # A p above the level outside all points: no finite end.
    far = points[-1] - points[0] + 1
    if p_of(points[0] - far) > 1 - CONFIDENCE:
        return None
    return [points[inside[0]], points[inside[-1] + 1]]


def shift_between(x, y):
    if not untied(x + y) or len(x) * len(y) > 1000:
        return None
    d = np.subtract.outer(np.array(y), np.array(x)).ravel()
    ends = inverted(d, lambda s: stats.mannwhitneyu(x, np.array(y) - s, method="exact").pvalue)
    return {"middle": float(np.median(d)), "interval": ends}


def shift_of_pairs(d):
    if len(d) > 30 or not untied(d):
        return None
    d = np.array(d)
    i, j = np.triu_indices(len(d))
    walsh = (d[i] + d[j]) / 2
    if not untied(list(walsh)):
        return None
    ends = inverted(walsh, lambda s: stats.wilcoxon(d - s, method="exact").pvalue)
    return {"middle": float(np.median(walsh)), "interval": ends}


def median_interval(x):
    ci = stats.quantile_test(x, q=np.median(x), p=0.5).confidence_interval(CONFIDENCE)
    return None if np.isnan(ci.low) or np.isnan(ci.high) else [ci.low, ci.high]


def seed_rows(field, ctx):
    lines = (ROOT / "internal/kit/row/testdata/seed-rows.jsonl").read_text().splitlines()
    return [r[field] for r in map(json.loads, lines) if r["ctx"] == ctx]


def data_sets():
    rng = np.random.default_rng(20261202)

    def near(center, spread, n, digits=3):
        return [round(float(v), digits) for v in center * np.exp(spread * rng.standard_normal(n))]

    yield "seed rows, decode 4K and 32K", seed_rows("decode_tok_s", "4K"), seed_rows("decode_tok_s", "32K")
    yield "seed rows, TTFT 32K and 128K", seed_rows("ttft_ms", "32K"), seed_rows("ttft_ms", "128K")
    yield "seed rows, prompt 4K and 128K", seed_rows("prompt_tok_s_client", "4K"), seed_rows("prompt_tok_s_client", "128K")
    yield "one and one", [50.0], [51.0]
    yield "four and four, apart", [50.1, 50.2, 50.3, 50.4], [40.1, 40.25, 40.3, 40.45]
    yield "six and six, alike", near(50, 0.02, 6), near(50, 0.02, 6)
    yield "six and six, 10 % slower", near(50, 0.02, 6), near(45, 0.02, 6)
    yield "six and six, one far off", near(50, 0.02, 5) + [12.5], near(50, 0.02, 6)
    yield "six and six, ties", [50.0, 50.0, 50.1, 50.2, 50.2, 50.3], [50.1, 50.1, 50.2, 50.4, 50.4, 50.5]
    yield "six and six, all equal", [50.0] * 6, [50.0] * 6
    yield "five and nine", near(100, 0.05, 5), near(107, 0.05, 9)
    yield "ten and ten, skewed", near(20, 0.5, 10), near(30, 0.5, 10)
    yield "twelve and seven, whole numbers", [float(v) for v in rng.integers(1, 9, 12)], [float(v) for v in rng.integers(3, 12, 7)]
    yield "two modes", near(50, 0.01, 6) + near(60, 0.01, 6), near(50, 0.01, 4) + near(60, 0.01, 8)
    yield "thirty and thirty", near(70, 0.03, 30), near(71, 0.03, 30)
    yield "twenty and forty, ties", near(70, 0.03, 20, 0), near(71, 0.03, 40, 0)
    yield "sixty and sixty", near(5, 0.1, 60), near(5.2, 0.1, 60)
    yield "sixty and sixty, ties", near(5, 0.1, 60, 1), near(5.2, 0.1, 60, 1)
    yield "large and tiny values", [v * 1e12 for v in near(1, 0.2, 8)], [v * 1e12 for v in near(1.5, 0.2, 8)]
    yield "logarithms of 1.1", [float(v) for v in np.log(near(1.1, 0.04, 8, 6))], [float(v) for v in np.log(near(1.0, 0.04, 8, 6))]


def main():
    sets = []
    for name, x, y in data_sets():
        d = [b - a for a, b in zip(x, y)] if len(x) == len(y) else None
        sets.append({
            "name": name, "x": x, "y": y,
            "median_interval": median_interval(x),
            "mann_whitney": mann_whitney(x, y), "shift_between": shift_between(x, y),
            "differences": d,
            "signed_rank": signed_rank(d) if d else None,
            "shift_of_pairs": shift_of_pairs(d) if d else None,
        })
    p = [s["mann_whitney"]["normal"] for s in sets]
    holm = [{"p": p[:n], "adjusted": list(multipletests(p[:n], method="holm")[1])} for n in (1, 2, 5, 10, len(p))]
    out = {"scipy": scipy.__version__, "statsmodels": statsmodels.__version__, "confidence": CONFIDENCE, "sets": sets, "holm": holm}
    path = ROOT / "internal/kit/stats/testdata/scipy.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(out, indent=1) + "\n")
    print(f"{path}: {len(sets)} data sets")


main()
