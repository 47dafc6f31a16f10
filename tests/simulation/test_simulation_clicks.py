import msgspec
import numpy as np
import pytest

from streamrank.errors import ConfigError
from streamrank.events.types import Interaction, Ranking
from streamrank.simulation import Settings, Simulator
from streamrank.simulation.clicks import CLICK_MODELS, informational, navigational, pbm, perfect, theta
from streamrank.simulation.draws import generator

N = 20_000
GRADES = np.array([4, 0, 3, 1, 2])


def rates(model, grades=GRADES, **options):
    rng = generator(3)
    return np.mean([model(grades, rng, **options) for _ in range(N)], axis=0)


def near(found, expected):
    expected = np.asarray(expected)
    return np.all(np.abs(found - expected) <= 4 * np.sqrt(expected * (1 - expected) / N) + 1e-12)


def test_pbm_clicks_with_examination_times_attraction():
    attraction = np.array([0.9, 0.05, 0.6, 0.15, 0.35])
    assert near(rates(pbm), attraction / np.arange(1, 6))
    given = np.array([0.5, 1.0, 0.0, 0.2, 0.3])
    assert near(rates(pbm, theta=given), attraction * given)
    assert near(rates(pbm, noise=0.5), (0.5 * attraction + 0.25) / np.arange(1, 6))


def test_perfect_looks_at_everything():
    assert near(rates(perfect), [1.0, 0.0, 0.8, 0.2, 0.4])
    assert near(rates(perfect, noise=0.2), [0.9, 0.1, 0.74, 0.26, 0.42])


@pytest.mark.parametrize(
    ("model", "click", "stop"),
    [
        (navigational, [0.05, 0.3, 0.5, 0.7, 0.95], [0.2, 0.3, 0.5, 0.7, 0.9]),
        (informational, [0.4, 0.6, 0.7, 0.8, 0.9], [0.1, 0.2, 0.3, 0.4, 0.5]),
    ],
)
def test_a_cascade_goes_on_with_the_product_of_not_stopping(model, click, stop):
    click, stop = np.array(click)[GRADES], np.array(stop)[GRADES]
    reached = np.concatenate(([1.0], np.cumprod(1 - click * stop)[:-1]))
    assert near(rates(model), reached * click)


def test_nobody_clicks_below_a_stop():
    """With grade 4 everywhere a navigational session seldom passes a click: mean clicks is geometric."""
    rng = generator(4)
    n_clicks = np.array([navigational(np.full(30, 4), rng).sum() for _ in range(N)])
    assert abs(n_clicks.mean() - 1 / 0.9) < 4 * n_clicks.std() / N**0.5


def test_click_rates_on_shuffled_lists_are_proportional_to_theta():
    clicks, lists = np.zeros(10), 0
    simulator = Simulator(Settings(events=30_000, shuffled=1.0))
    place, grades = {}, []
    for record in simulator.records():
        event = msgspec.json.decode(record, type=dict)
        if event["event"] == "ranking":
            shown = msgspec.json.decode(record, type=Ranking)
            lists += 1
            place.update({(shown.id, item.id): k for k, item in enumerate(shown.items)})
        elif event["event"] == "interaction":
            click = msgspec.json.decode(record, type=Interaction)
            clicks[place[click.ranking, click.item]] += click.type == "click"
    grades = np.concatenate([msgspec.json.decode(t)["relevance"] for t in simulator.truth_records()])
    appeal = np.array([0.05, 0.15, 0.35, 0.6, 0.9])[grades].mean()
    expected = appeal * theta("pbm", 10)
    assert np.all(np.abs(clicks / lists - expected) < 4 * np.sqrt(expected * (1 - expected) / lists))


@pytest.mark.parametrize("noise", [0.0, 0.4, 0.9])
def test_the_noise_of_the_settings_reaches_the_clicks_of_the_stream(noise):
    """Users who look at everything: P(click) of each grade is (1 - noise) P + noise / 2."""
    simulator = Simulator(Settings(events=20_000, click_model="perfect", noise=noise, purchases=False))
    shown, clicked = {}, set()
    for record in simulator.records():
        event = msgspec.json.decode(record)
        if event["event"] == "ranking":
            shown[event["id"]] = [item["id"] for item in event["items"]]
        elif event["event"] == "interaction":
            clicked.add((event["ranking"], event["item"]))
    grades, hits = [], []
    # clicks on the newest rankings may not have been sent yet
    for line in simulator.truth_records()[:-100]:
        truth = msgspec.json.decode(line)
        grades += truth["relevance"]
        hits += [(truth["ranking"], item) in clicked for item in shown[truth["ranking"]]]
    grades, hits = np.array(grades), np.array(hits)
    for grade, p in enumerate((0.0, 0.2, 0.4, 0.8, 1.0)):
        expected, n = (1 - noise) * p + noise / 2, (grades == grade).sum()
        assert n > 100
        assert abs(hits[grades == grade].mean() - expected) <= 4 * np.sqrt(expected * (1 - expected) / n)


def test_theta_is_known_where_it_does_not_depend_on_the_list():
    assert theta("pbm", 3) == pytest.approx([1, 1 / 2, 1 / 3])
    assert theta("perfect", 3).tolist() == [1, 1, 1]
    assert all(theta(name, 3) is None for name in ("cascade", "navigational", "informational"))
    assert CLICK_MODELS["cascade"] is CLICK_MODELS["informational"]
    with pytest.raises(ConfigError, match="click_model"):
        theta("guess", 3)
