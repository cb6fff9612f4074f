"""Write docs/results.md from what is in docs/results: ``make results``.

With a folder, first take over the report that ``ccml reproduce`` has written there:
``python docs/_results.py report``.
"""

import shutil
import sys
from pathlib import Path

from ccml.experiments import records, typeset

DOCS = Path(__file__).parent
KEPT = DOCS / "results"
FIGURES = {
    "sandwich.svg": "Figure 2: the Sandwich data in input space and under CCML, NCA and ITML. Each "
    "point is linked to its nearest neighbour, in red where that is of another class.",
    "retrieval.svg": "Figure 3: nDCG@k, and the fraction of the k nearest rows that are of the "
    "query's class, on test rows.",
    "gallery-mnist.svg": "Figure 4: five nearest images of MNIST, for queries that Euclidean "
    "distances get wrong and CCML right, and for some that ConvCCML gets wrong.",
    "gallery-norb.svg": "Figure 4 on NORB's stand-in.",
}


def page() -> str:
    """Put the page together."""
    found = records.read(KEPT / "results.json")
    comparisons = records.read_comparisons(KEPT / "comparisons.json")
    blocks = [
        "<!-- Written by `make results` from docs/results; change nothing here. -->",
        "# Results",
        "The paper's Table I and Figures 2 to 4, by `ccml reproduce`. Every number with its seeds, "
        "settings, runtime and command is in [results.json](results/results.json); how settings "
        "were chosen, and everything else that was measured, is in "
        "[measurements](measurements.md).",
        f"Computed on {'; '.join(records.all_of('machine', found))}, one core for each cell, at "
        f"commit {', '.join(records.all_of('commit', found))}.",
        "## Table I",
        typeset.markdown(found, comparisons).strip(),
        "## Figures",
        *(
            f"![{text}](results/{name})\n\n*{text}*"
            for name, text in FIGURES.items()
            if (KEPT / name).exists()
        ),
    ]
    return "\n\n".join(blocks) + "\n"


if __name__ == "__main__":
    for report in map(Path, sys.argv[1:]):
        for name in ("results.json", "comparisons.json", *FIGURES):
            if (report / name).exists():
                shutil.copyfile(report / name, KEPT / name)
    (DOCS / "results.md").write_text(page(), encoding="utf-8")
