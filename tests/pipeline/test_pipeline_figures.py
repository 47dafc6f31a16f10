"""The figures are what they say: known spectra, exponents and errors; and the page that shows them."""

import json

import numpy as np
import pytest

from streamrank.cli import main
from streamrank.errors import ConfigError
from streamrank.kernels.cg import cg
from streamrank.kernels.misorder import PairwiseError
from streamrank.learners.rankrls import RankRLS
from streamrank.pipeline import figures
from streamrank.pipeline.curve import LearningCurve
from streamrank.pipeline.evaluate import evaluate, linear_scores
from streamrank.pipeline.figures import Problem, compare_solvers, eigenvalue_estimates, error_path
from streamrank.sources.dataset import Dataset


def dataset(X, y, size):
    """Lists of `size` rows each."""
    m, n = X.shape
    return Dataset(
        indptr=np.arange(m + 1, dtype=np.int64) * n,
        indices=np.tile(np.arange(n, dtype=np.int32), m),
        data=X.ravel().copy(),
        y=np.asarray(y, np.float64),
        lists=np.arange(0, m + 1, size, dtype=np.int64),
        qids=[str(q) for q in range(m // size)],
        docs=[str(r) for r in range(m)],
        names=[f"f{j}" for j in range(n)],
    )


def spectrum(values, seed=0, offset=0.0):
    """A set whose X'LX has these eigenvalues, and whose X'Ly excites all of them alike."""
    rng = np.random.default_rng(seed)
    n, size = len(values), 6
    lists = 2 * n
    centred = rng.standard_normal((lists, size, n))
    centred -= centred.mean(axis=1, keepdims=True)
    U = np.linalg.qr(centred.reshape(-1, n))[0]
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    b = rng.standard_normal(n)
    y = U @ (Q.T @ b / np.sqrt(values))
    X = (U * np.sqrt(values)) @ Q.T + offset * np.repeat(rng.standard_normal((lists, n)), size, axis=0)
    return dataset(X, y, size)


def taste(lists, seed, n=6, noise=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(lists * 8, n))
    w = np.linspace(-1.0, 1.0, n)
    return dataset(X, np.digitize(X @ w + noise * rng.normal(size=len(X)), [0.5, 2.0]), 8)


def well_spread(n=60):
    return np.r_[1e-7, np.linspace(0.0, 1.0, n)[1:]]


def test_egdm_grows_as_the_root_of_the_condition_and_gdm_as_the_condition():
    found = compare_solvers(Problem(spectrum(well_spread())))
    assert found.exponents["egdm"] == pytest.approx(0.5, abs=0.1)
    assert found.exponents["gdm"] == pytest.approx(1.0, abs=0.15)
    assert found.exponents["cg"] <= found.exponents["egdm"]
    assert (found.n_iter["cg"] <= found.n_iter["egdm"]).all()
    assert (found.n_iter["egdm"] < found.n_iter["gdm"]).all()
    assert found.conditions[[0, -1]] == pytest.approx([10**0.5, 1e4], rel=0.01)
    hard = found.conditions >= 99
    ratio = found.n_iter["egdm"][hard] / np.sqrt(found.conditions[hard])
    assert ((ratio > 8) & (ratio < 16)).all()


def test_a_well_conditioned_problem_has_no_exponent():
    found = compare_solvers(Problem(spectrum(np.linspace(0.5, 1.0, 20))))
    assert found.conditions.max() < 2.0
    assert set(found.exponents.values()) == {None}
    assert np.isfinite(found.n_iter["gdm"]).all()


def test_the_estimates_reach_the_eigenvalues_and_the_printed_ones_those_of_another_matrix():
    lam = 0.05
    data = spectrum(np.r_[0.02, np.linspace(0.3, 0.7, 28), 1.0], offset=0.3)
    problem = Problem(data)
    values = np.linalg.eigvalsh(problem.operator.gram())
    found = eigenvalue_estimates(problem, lam)
    assert found.exact == pytest.approx((values[-1] + lam, values[0] + lam))
    assert found.corrected[-1] == pytest.approx(found.exact, rel=1e-6)
    assert (found.corrected[:, 0] <= found.exact[0] * (1 + 1e-12)).all()
    assert (found.corrected[:, 1] >= found.exact[1] * (1 - 1e-12)).all()
    assert (found.bound[2:, 1] >= found.exact[0] * (1 - 1e-12)).all()
    X = data.data.reshape(len(data.y), -1)
    assert found.printed[-1, 0] == pytest.approx(np.linalg.eigvalsh(X.T @ X)[-1] + lam, rel=0.01)
    assert found.printed[-1, 0] > 2 * found.exact[0]


def test_a_cluster_at_the_top_leaves_egdm_without_end_unless_the_bound_is_used():
    rng = np.random.default_rng(11)
    problem = Problem(spectrum(np.r_[rng.uniform(0.9, 1.0, 60), 1e-9], seed=11))
    found = eigenvalue_estimates(problem, 1 / 900)
    assert found.n_iter["corrected Algorithm 1"] is None
    assert found.n_iter["bound from above, and lambda"] is not None
    assert found.n_iter["exact"] is not None


def test_the_error_after_t_steps_is_that_of_t_steps_of_cg():
    train, held_out = taste(40, 1), taste(30, 2)
    problem = Problem(train)
    path = error_path(problem, held_out, 8.0)
    assert {0.0, 8.0} < set(path.lambdas)
    error = PairwiseError(held_out.y, held_out.lists)
    at = int(np.flatnonzero(path.lambdas == 8.0)[0])
    for t in (1, 3, len(path.errors)):
        w = cg(problem.product(8.0), problem.b, rtol=1e-15, max_iter=t).x
        assert path.errors[t - 1, at] == pytest.approx(error.one(linear_scores(held_out, w)), abs=1e-3)
    model = RankRLS(lam=8.0, solver="direct").fit(train)
    assert path.errors[-1, at] == pytest.approx(error.one(model.predict(held_out)), abs=1e-9)
    assert path.errors.min() == path.errors[path.best_t - 1][path.lambdas == path.best_lam][0]


def test_through_the_rows_a_solver_gives_up_in_time_and_the_picture_has_a_gap(monkeypatch):
    monkeypatch.setattr(figures, "DIRECT", 5)
    monkeypatch.setattr(figures, "MAX_ITER", 300)
    problem = Problem(spectrum(well_spread(30)))
    assert problem.H is None
    found = compare_solvers(problem)
    assert not found.formed
    assert np.isnan(found.n_iter["gdm"][-1])
    assert np.isfinite(found.n_iter["cg"]).all()
    assert found.exponents["gdm"] is None
    assert eigenvalue_estimates(problem, 0.1).exact is None
    monkeypatch.setattr(figures, "SECONDS", -1.0)
    assert np.isnan(compare_solvers(problem).n_iter["egdm"]).all()


def test_what_has_nothing_to_draw_says_so():
    with pytest.raises(ConfigError, match="nothing to draw"):
        Problem(dataset(np.ones((12, 3)), np.arange(12), 6))
    with pytest.raises(ConfigError, match="two different labels"):
        error_path(Problem(taste(5, 1)), dataset(np.ones((6, 6)), np.ones(6), 6), 1.0)


@pytest.mark.parametrize("learner", ["egdm", "ranknet"])
def test_looking_at_a_learner_changes_nothing_and_ends_with_its_measures(learner):
    train, test = taste(50, 1), taste(30, 2)
    curve = LearningCurve(test, 2 * train.n_lists)
    plain = evaluate(train, test, learner=learner, params={}, passes=2)
    watched = evaluate(train, test, learner=learner, params={}, passes=2, looks=curve.at, look=curve.look)
    assert watched["test"] == plain["test"]
    seen = [look.lists for look in curve.looks]
    assert sorted({*curve.at, train.n_lists}) == seen
    last = curve.looks[-1]
    assert (last.ndcg, last.error) == pytest.approx(
        (plain["test"]["ndcg@10"], plain["test"]["pairwise_error"])
    )
    assert (last.spectrum is not None) == (learner == "egdm")
    assert np.isnan(last.optimum_error) == (learner != "egdm")


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """`streamrank evaluate` on three small files."""
    monkeypatch.chdir(tmp_path)
    for name, seed in (("train", 1), ("valid", 2), ("test", 3)):
        data = taste(40, seed)
        rows = data.data.reshape(len(data.y), -1)
        lines = [
            f"{y:.0f} qid:{r // 8} " + " ".join(f"{j + 1}:{v:.5f}" for j, v in enumerate(x))
            for r, (x, y) in enumerate(zip(rows, data.y, strict=True))
        ]
        (tmp_path / f"{name}.svmlight").write_text("\n".join(lines) + "\n")

    def run(rest, train="train.svmlight"):
        line = f"evaluate --train {train} --valid valid.svmlight --test test.svmlight {rest}"
        code = main(line.split())
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_the_page_of_rankrls_holds_its_charts_and_the_json_the_exponents(command, tmp_path):
    code, out, _ = command("--learner rankrls --set method=hybrid --plot page.html --json")
    assert code == 0
    drawn = json.loads(out.splitlines()[-1])["figures"]
    assert set(drawn) == {"file", "exponents", "lam", "kappa_1", "kappa_n", "condition"}
    assert set(drawn["exponents"]) == {"cg", "egdm", "gdm"}
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.count('role="img"') == 1 + 4 + 3
    for words in (
        "Pairwise error on the validation lists",
        "κₙ: the smallest",
        "condition number",
        "seconds",
    ):
        assert words in page
    assert 'src="http' not in page
    code, out, _ = command("--learner rankrls --set lam=[1,2,4] --plot page.html")
    assert (code, "iterations of egdm" in out) == (0, True)


@pytest.mark.parametrize(("learner", "charts"), [("egdm", 6), ("ranknet", 2)])
def test_the_page_of_a_streaming_learner_shows_quality_against_lists(command, tmp_path, learner, charts):
    code, out, _ = command(f"--learner {learner} --plot page.html --json")
    assert code == 0
    drawn = json.loads(out.splitlines()[-1])["figures"]
    assert drawn["lists"][-1] == 40
    assert len(drawn["lists"]) == len(drawn["ndcg@10"]) == len(drawn["pairwise_error"])
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.count('role="img"') == charts
    assert "lists learnt" in page


def test_a_page_that_cannot_be_written_is_refused_before_anything_is_read(command, tmp_path):
    for path, why in (("nowhere/page.html", "no such folder"), (".", "folder")):
        code, _, err = command(f"--learner egdm --plot {path}", train="missing.svmlight")
        assert (code, why in err) == (2, True), err


def test_rankrls_without_lists_to_choose_on_is_refused_in_one_line(command, capsys):
    line = "evaluate --train train.svmlight --test test.svmlight --learner rankrls --set method=hybrid"
    assert main(line.split()) == 2
    assert "give them by --valid FILE" in capsys.readouterr().err
