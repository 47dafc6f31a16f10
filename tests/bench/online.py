"""Learners that rank for simulated users and learn from their clicks alone, on MQ2007.

As `streamrank evaluate --online`: EGDM, RankNet and SONG by the judge's default rule, with a tenth of the
rankings shuffled; PDGD draws what it shows. Figures are means over the four folds, each with its own users.
"""

from typing import Any

import numpy as np

from streamrank.pipeline.online import Users, online

from .quality import DATA, SETS, Fold, folds

LEARNERS = ("pdgd", "song", "ranknet", "robirank", "egdm")
CLICK_MODELS = ("pbm", "navigational", "informational")
ROUNDS = (10_000, 30_000)
# NDCG@10 of prototypes on the test lists after 30,000 rounds: IPS on statistics, and PDGD
EXPECTED = {"egdm": (0.513, 0.508, 0.502), "pdgd": (0.510, 0.511, 0.505)}
LABELS = 0.516  # of RankRLS on the labels themselves


def served(learner: str, click_model: str, rounds: int, sets: list[Fold]) -> str:
    """NDCG@10 on the test lists in the end, and that of what was shown."""
    found: list[dict[str, Any]] = [
        online(Users(fold.train, click_model, rounds, seed), fold.test, learner=learner, params={})
        for seed, fold in enumerate(sets)
    ]
    test, shown = (float(np.mean([one[key]["ndcg@10"] for one in found])) for key in ("test", "online"))
    return f"{test:10.4f} ({shown:.3f})"


def main() -> None:
    """Print a table for each number of rounds."""
    folder = DATA / SETS["MQ2007"]
    if not folder.is_dir():
        print(f"MQ2007 left out: no {folder}; STREAMRANK_DATA names the folder of data sets")
        return
    sets = list(folds(folder))
    for rounds in ROUNDS:
        print(f"MQ2007, {rounds} rounds: NDCG@10 on test lists (of what was shown); labels {LABELS:.3f}")
        print(f"  {'':10}" + "".join(f"{name:>18}" for name in CLICK_MODELS) + "  expected")
        for learner in LEARNERS:
            cells = "".join(served(learner, click_model, rounds, sets) for click_model in CLICK_MODELS)
            expected = EXPECTED.get(learner, ()) if rounds == max(ROUNDS) else ()
            print(f"  {learner:10}{cells}  {' '.join(f'{e:.3f}' for e in expected)}".rstrip(), flush=True)


if __name__ == "__main__":
    main()
