"""MEAN: conditional means in own units by two cells for each group, for the price of a few questions (U1, U2, S1)."""

import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction

import msgspec
import numpy as np
import pytest

import holdtrue as ht
from holdtrue.bounds.accuracy import gaussian_maximum, gaussian_overshoot, grid
from holdtrue.bounds.transfer import interval, ratio_in_box, ratio_interval
from holdtrue.codec import decode, encode
from holdtrue.errors import BudgetExceeded, InvalidParameter, NotCertified, UnknownColumn
from holdtrue.events import Pure, Repeated
from holdtrue.exact import UNIT
from holdtrue.mechanisms import Gaussian, Laplace
from holdtrue.planning.tables import find_ratio, price_means, price_table
from holdtrue.records import Contrast, Estimates, Response
from holdtrue.verbs import means
from holdtrue.verbs.means import plan_mean, plan_share

ROWS = 4000


def make_rows(rows=ROWS, seed=0):
    random = np.random.default_rng([seed, 2026])
    sex = random.choice(["men", "women"], rows, p=[0.6, 0.4]).astype(object)
    hours = random.normal(np.where(sex == "men", 42.0, 36.0), 10).round(1)
    hours[::53] = np.nan
    sex[::97] = None
    return {"sex": sex, "hours": hours, "age": random.integers(0, 100, rows), "smoker": random.random(rows) < 0.3}


def open_curator(rows=None, **given):
    terms = {"queries": 100, "iid": True, "labels": {"sex": ["men", "women"]}} | given
    return ht.Curator(make_rows() if rows is None else rows, **terms)


def without_noise(monkeypatch):
    monkeypatch.setattr(Gaussian, "release", lambda _, values: values)


def test_u2_the_ratio_over_a_box():
    assert ratio_in_box((0.2, 0.3), (0.1, 0.4)) == pytest.approx((1 / 3, 3 / 4), abs=1e-12)
    assert ratio_in_box((0.0, 0.0), (0.0, 0.0)) == (0.0, 1.0)
    random = np.random.default_rng(3)
    for _ in range(3000):
        part, rest = random.random(2)
        boxes = [(at * random.random(), at + (1 - at) * random.random()) for at in (part, rest)]
        low, high = ratio_in_box(*boxes)
        assert low <= part / (part + rest) <= high


def test_u2_the_mixed_rule_is_found_by_bisection():
    low, high = ratio_interval(0.25, 0.35, whole=(0.52, 0.68), noise=0.02, epsilon=0.1, slack=0.004)
    assert (low, high) == pytest.approx((0.352131, 0.482787), abs=1e-6)
    ends = [interval(answer, noise=0.02, epsilon=0.1, slack=0.004) for answer in (0.25, 0.35)]
    assert ratio_in_box(*ends) == pytest.approx((0.344705, 0.491234), abs=1e-6)
    # A scan of a grid ends one step outside at most.
    grid_points = np.linspace(0, 1, 2001)
    inside = [at for at in grid_points if low <= at <= high]
    assert inside[0] - low <= 1 / 2000
    assert high - inside[-1] <= 1 / 2000


# Adult's hours a week, clamped to bounds: means of men and women in units of the bounds. 66.85 % of 48,842 are men.
WIDTHS = {
    # questions, bounds, units: sigma, epsilon, slack; box; then half-widths of all, men and women, box, and of rows
    (500, 100, 2): ((0.00838, 0.1298, 0.00486), 0.0430, (0.42417, 0.36401), (6.72, 9.7, 16.5), (11.2, 18.8), (6.4, 13.0)),
    (500, 100, 20): ((0.00838, 0.1298, 0.00486), 0.0136, (0.42417, 0.36401), (4.58, 6.5, 9.7), (6.90, 10.37), (2.0, 4.1)),
    (50, 100, 2): ((0.00502, 0.0685, 0.00249), 0.0235, (0.42417, 0.36401), (3.6, 5.2, 8.8), (6.08, 10.38), (3.5, 7.1)),
    (50, 40, 2): ((0.00502, 0.0685, 0.00249), 0.0235, (0.5525, 0.4215), (1.45, 2.09, 3.54), (2.44, 4.21), (1.41, 2.84)),
}


@pytest.mark.parametrize("case", list(WIDTHS), ids=lambda case: "-".join(map(str, case)))
def test_u2_widths_of_hours_on_adult(case):
    """The table of the sheet, whose plans split beta, within 2 %: the rules without noise. Reproductions have the rows."""
    (questions, width, units), (frozen, box, means, wanted, boxes, alone) = case, WIDTHS[case]
    share, (sigma, epsilon, slack) = 0.6685, frozen
    constant = gaussian_maximum(8, beta=0.1 * 0.015 / (questions // 2))
    assert sigma * math.sqrt(2 / units) * constant == pytest.approx(box, rel=0.02)
    everybody = share * means[0] + (1 - share) * means[1]
    for place, (part, mean) in enumerate([(1.0, everybody), (share, means[0]), (1 - share, means[1])]):
        over, under = part * mean, part * (1 - mean)
        near = [(max(0.0, each - box), min(1.0, each + box)) for each in (over, under)]
        ends = [interval(each, noise=box, epsilon=epsilon, slack=slack) for each in (over, under)]
        whole = ends[0][0] + ends[1][0], min(1.0, ends[0][1] + ends[1][1])
        mixed = ratio_interval(over, under, whole=whole, noise=box, epsilon=epsilon, slack=slack)
        wide = ratio_in_box(*ends)
        both = max(wide[0], mixed[0]), min(wide[1], mixed[1])
        assert width * (both[1] - both[0]) / 2 == pytest.approx(wanted[place], rel=0.02)
        if place:
            assert width * (wide[1] - wide[0]) / 2 == pytest.approx(boxes[place - 1], rel=0.02)
            rows = ratio_in_box(*near)
            assert width * (rows[1] - rows[0]) / 2 == pytest.approx(alone[place - 1], rel=0.02)


def test_u2_what_is_out_of_the_mixed_rule_is_a_segment_for_raw_answers_below_zero():
    """Clipping on the side that weakens the test leaves one segment, and more noise a wider one."""
    random = np.random.default_rng(7)
    for _ in range(300):
        part, rest = random.uniform(-0.1, 0.6, 2)
        noise, epsilon, slack = random.uniform(0.001, 0.1), random.uniform(0.01, 0.5), random.uniform(0, 0.05)
        whole = tuple(sorted(random.uniform(0, 1, 2)))
        low, high = ratio_interval(part, rest, whole=whole, noise=noise, epsilon=epsilon, slack=slack)
        assert 0 <= low <= 1
        assert 0 <= high <= 1
        wider = ratio_interval(part, rest, whole=whole, noise=noise * 1.5, epsilon=epsilon, slack=slack)
        assert wider[0] <= low + 1e-12
        assert high <= wider[1] + 1e-12


@pytest.mark.parametrize("verb", ["mean", "share"])
def test_u1_replacing_one_row_moves_all_cells_by_a_square_of_two(verb):
    """Brute force over every pair of rows, values outside, NULL and no group included; exact in units of 2^-bits."""
    groups, values = ["men", "women", "other", None], [None, -5.0, 0.0, 12.5, 33.3, 100.0, 140.0]
    rows = list(itertools.product(groups, values))
    data = {
        "sex": np.array([each[0] for each in rows], dtype=object),
        "hours": np.array([math.nan if each[1] is None else each[1] for each in rows]),
    }
    terms = {"queries": 50, "epsilon": 50, "delta": 1e-3, "labels": {"sex": ["men", "women"]}}
    worst = 0
    with ht.Curator(data, **terms) as curator:
        unit = 1 << curator.plan.bits
        plan = (
            plan_mean(curator.pipeline, "hours", low=0, high=100, by="sex")
            if verb == "mean"
            else plan_share(curator.pipeline, "hours / 100", by="sex")
        )
        each = _sums_of_single_rows(plan.cells, data, unit)
        layout_cells = [_cells_of(sums, verb, unit) for sums in each]
        for first, second in itertools.product(layout_cells, repeat=2):
            assert sum(first) <= unit
            assert min(first) >= 0
            worst = max(worst, sum((a - b) ** 2 for a, b in zip(first, second, strict=True)))
    assert worst == 2 * unit**2


def _sums_of_single_rows(cells, data, unit):
    """Return, for each row, the integers that the engine measures of a table of that row alone."""
    from holdtrue.engines import open_engine

    found = []
    for place in range(len(data["hours"])):
        one = {name: column[place : place + 1] for name, column in data.items()}
        engine = open_engine(one, types={"sex": "text", "hours": "real"})
        found.append([int(value) for value in engine.sum_cells(cells, bits=unit.bit_length() - 1)])
        engine.close()
    return found


def _cells_of(sums, verb, unit):
    step, cells = (4 if verb == "mean" else 2), []
    for start in range(0, len(sums), step):
        whole, part, *sides = sums[start : start + step]
        cells += [part, whole - part, *sides]
    return [*cells, unit - sum(cells)]


def test_u1_the_charge_pays_for_two_moves_of_one_row():
    """Planted: the ledger refuses the charge of a single move."""
    with open_curator() as curator:
        release = plan_mean(curator.pipeline, "hours", low=0, high=100, by="sex")
        assert isinstance(release.event, Repeated)
        assert release.event.times == 2
        assert 2 * Fraction(release.event.event.mu) ** 2 <= release.cost * UNIT
        assert curator.pipeline.limit.cost(release.event) <= release.cost
        assert curator.pipeline.limit.cost(release.event.event) < curator.pipeline.limit.cost(release.event)


def test_a_charge_of_half_the_price_is_refused_and_one_move_of_a_row_is_found_by_the_audit(monkeypatch, tmp_path):
    """Planted: less than the event costs never reaches the ledger; an event of one move does, and the audit names it."""
    price = means.price_means
    monkeypatch.setattr(means, "price_means", lambda *at, **given: _halve(price(*at, **given)))
    with open_curator() as curator:
        with pytest.raises(InvalidParameter, match="at least what the event costs"):
            curator.mean("hours", low=0, high=100)
        assert curator.history == []
    monkeypatch.setattr(means, "Repeated", lambda event, _: event)
    with open_curator(ledger=tmp_path / "rows.ledger") as curator:
        curator.mean("hours", low=0, high=100)
    assert ht.audit_ledger(tmp_path / "rows.ledger").violated


def _halve(price):
    return replace(price, cost=price.cost // 2)


@pytest.mark.parametrize(("groups", "outside"), [(1, True), (2, False), (50, True)])
def test_s1_everything_that_is_said_of_a_group_is_in_the_purse(groups, outside):
    plan = ht.plan(queries=300, rows=20_000)
    price = price_means(plan, groups, outside=outside)
    box = plan.transfer.noise - grid(plan.rows, bits=plan.bits)
    root = math.sqrt(2)
    # Y and Z, two mixed combinations, the share of the group; the sides; and the further cell.
    weight = 1 + groups * ((4 + 4 * root + 2) if outside else (4 + root))
    booked = weight * price.sigma * gaussian_overshoot(box / price.sigma)
    assert booked <= plan.transfer.overshoot * price.questions / plan.queries * (1 + 1e-9)
    assert price.questions <= 5


def test_a_mean_is_exact_without_noise_and_says_what_lies_outside(monkeypatch):
    without_noise(monkeypatch)
    rows = make_rows()
    with open_curator(rows) as curator:
        found = curator.mean("hours", low=20, high=60, by="sex")
        whole = curator.mean("hours", low=20, high=60)
    for label, mean, share in zip(found.labels, found.values, found.shares.values, strict=True):
        mine = (rows["sex"] == label[0]) & ~np.isnan(rows["hours"])
        assert mean == pytest.approx(np.clip(rows["hours"][mine], 20, 60).mean(), abs=1e-4)
        assert share == pytest.approx(mine.mean(), abs=1e-6)
    men = rows["sex"] == "men"
    assert found.below.values[0] == pytest.approx((men & (rows["hours"] < 20)).mean(), abs=1e-9)
    assert found.above.values[0] == pytest.approx((men & (rows["hours"] > 60)).mean(), abs=1e-9)
    nobody = np.isnan(rows["hours"]) | ~np.isin(rows["sex"], ["men", "women"])
    assert found.missing.values[0] == pytest.approx(nobody.mean(), abs=1e-6)
    known = ~np.isnan(rows["hours"])
    assert whole.value == pytest.approx(np.clip(rows["hours"][known], 20, 60).mean(), abs=1e-4)
    assert whole.interval.low <= whole.value <= whole.interval.high
    assert whole.missing.values[0] == pytest.approx((~known).mean(), abs=1e-6)


def test_missing_values_are_never_dropped_silently(monkeypatch):
    without_noise(monkeypatch)
    with open_curator() as curator:
        said = curator.mean("hours", low=20, high=60).sentence
    assert said.startswith("the mean of hours, counting values above 60 as 60 and below 20 as 20; at most ")
    assert "over rows with a value: at most" in said


def test_u2_the_sentence_on_clamping_has_the_upper_ends_of_the_shares_outside():
    with open_curator() as curator:
        found = curator.mean("hours", low=1, high=99, by="sex", where="age > 10")
    above, below = (math.ceil(1000 * max(each.high)) / 10 for each in (found.above, found.below))
    assert "counting values above 99 as 99 and below 1 as 1" in found.sentence
    assert f"at most {above:g} % of the population lies above and {below:g} % below in any one group" in found.sentence
    assert " by sex where age > 10" in found.sentence


def test_a_mean_over_files_is_that_over_arrays(monkeypatch, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    without_noise(monkeypatch)
    rows = make_rows()
    hours = [None if math.isnan(each) else each for each in rows["hours"]]
    pq.write_table(
        pa.table({name: list(column) for name, column in rows.items()} | {"hours": hours}), tmp_path / "r.parquet"
    )
    found = []
    for data in (rows, tmp_path / "r.parquet"):
        with open_curator(data) as curator:
            mean = curator.mean("hours", low=20, high=60, by=["sex", ht.cut("age", [18, 65])], where="NOT smoker")
            found.append((mean.values, mean.shares, mean.missing))
    assert found[0] == found[1]


def test_u2_means_of_groups_hold_for_the_population_at_once():
    """Own units on every sample: the mixed rule is never wider than the box, and no interval misses."""
    population = make_rows(200_000, seed=3)
    known = ~np.isnan(population["hours"])
    truth = [np.clip(population["hours"][known & (population["sex"] == name)], 0, 100).mean() for name in ("men", "women")]
    smoke = [population["smoker"][population["sex"] == name].mean() for name in ("men", "women")]
    misses = 0
    for seed in range(30):
        drawn = np.random.default_rng([seed, 11]).integers(0, 200_000, ROWS)
        with open_curator({name: column[drawn] for name, column in population.items()}) as curator:
            hours = curator.mean("hours", low=0, high=100, by="sex")
            shares = curator.ask("smoker", by="sex")
            misses += any(value not in each.interval for value, each in zip(truth, hours, strict=True))
            misses += any(value not in each.interval for value, each in zip(smoke, shares, strict=True))
            misses += truth[0] - truth[1] not in hours.difference("men", "women")
    assert misses == 0


def test_u2_the_mixed_rule_is_narrower_than_the_box():
    plan = ht.plan(queries=500, rows=48_842)
    price = price_means(plan, 2, outside=True)
    ends = find_ratio(plan, price, [0.28, 0.002], [0.38, 0.001])
    noise = math.sqrt(2) * plan.transfer.noise
    from holdtrue.bounds.transfer import interval

    frozen = {"noise": noise, "epsilon": plan.transfer.epsilon, "slack": plan.transfer.slack}
    box = ratio_in_box(interval(0.282, **frozen), interval(0.381, **frozen))
    assert ends.population[1] - ends.population[0] < box[1] - box[0]
    assert ends.population[0] >= box[0] - 1e-9
    assert ends.sample[0] >= ends.population[0]
    assert ends.sample[1] <= ends.population[1]


def test_a_share_by_group_is_the_share_within_it(monkeypatch):
    without_noise(monkeypatch)
    rows = make_rows()
    with open_curator(rows) as curator:
        found = curator.ask("smoker", by="sex")
        number = curator.ask("age / 100", by=ht.cut("age", [50]))
    for label, value, share in zip(found.labels, found.values, found.shares.values, strict=True):
        mine = rows["sex"] == label[0]
        assert value == pytest.approx(rows["smoker"][mine].mean(), abs=1e-6)
        assert share == pytest.approx(mine.mean(), abs=1e-6)
    assert (found.measure, found.below, found.above, found.bounds) == ("share", None, None, (0.0, 1.0))
    assert number.values[0] == pytest.approx(rows["age"][rows["age"] < 50].mean() / 100, abs=1e-5)
    assert "the share of smoker by sex" in found.sentence


def test_sums_are_of_these_rows_unless_the_population_has_a_size(monkeypatch):
    without_noise(monkeypatch)
    rows = make_rows()
    with open_curator(rows) as curator:
        found = curator.sum("hours", low=-20, high=60, by="sex")
        total = curator.sum("hours", low=-20, high=60, by="sex", population=10**6)
        means = curator.mean("hours", low=-20, high=60, by="sex")
        assert len(curator.history) == 1  # one release for all three
    mine = (rows["sex"] == "men") & ~np.isnan(rows["hours"])
    right = np.clip(rows["hours"][mine], -20, 60).sum()
    assert found.values[0] == pytest.approx(right, rel=1e-5)
    assert found[0].sample_interval.low <= right <= found[0].sample_interval.high
    assert (found.low, found[0].interval) == (None, None)
    assert "population=" in found.reason
    assert total.values[0] == pytest.approx(right * 10**6 / ROWS, rel=1e-5)
    assert total.low[0] <= right * 10**6 / ROWS <= total.high[0]
    assert total.low[0] == pytest.approx(10**6 * means.per_head.low[0])
    assert means.total().values == found.values


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (0.0, 0.1), (0.3, 7.1), (-7.1, -0.3), (-0.1, 0.0), (-0.3, 0.7)])
def test_u2_1_what_is_added_per_head_lies_between_the_bounds_and_zero(bounds):
    """However little the cells say: a group is at most all rows, and at least none."""
    random = np.random.default_rng(11)
    for _ in range(300):
        part, rest, whole = (tuple(sorted(random.choice([0.0, 1.0, *random.random(2)], 2))) for _ in range(3))
        low, high = means._find_per_head(bounds, part, rest, whole)
        assert min(bounds[0], 0) <= low <= high <= max(bounds[1], 0)
        # Every mixture of low and high that lies in all three boxes is between the ends.
        for over, under in itertools.product((*part, sum(part) / 2), (*rest, sum(rest) / 2)):
            if whole[0] <= over + under <= min(1.0, whole[1]):
                right = Fraction(bounds[0]) * Fraction(under) + Fraction(bounds[1]) * Fraction(over)
                assert low <= right <= high


@pytest.mark.parametrize(("low", "high"), [(0, 100), (30, 100), (-100, -30), (-100, 0), (-20, 60)])
def test_sums_stay_where_public_numbers_say_that_they_are(low, high):
    """A sum of values that are not negative never begins below 0, and never ends above all rows at the upper bound."""
    with open_curator(queries=500) as curator:
        rows = curator.sum("hours", low=low, high=high, by="sex", where="age < 3")
        people = curator.sum("hours", low=low, high=high, by="sex", where="age < 3", population=10**12)
    for least, most, size in [(rows.sample_low, rows.sample_high, ROWS), (people.low, people.high, 10**12)]:
        assert all(end >= size * min(low, 0) for end in least)
        assert all(end <= size * max(high, 0) for end in most)
    assert 0.0 in (*people.low, *people.high) or low * high < 0


def test_sums_of_stored_means_with_ends_beyond_the_bounds_are_cut():
    with open_curator() as curator:
        found = curator.mean("hours", low=0, high=100)
    stored = msgspec.structs.replace(
        found, per_head=msgspec.structs.replace(found.per_head, low=(-1e-9,), sample_low=(-1e-9,), high=(100 + 1e-9,))
    )
    total = stored.total(10**12)
    assert (total.low, total.high, total.sample_low) == ((0.0,), (1e14,), (0.0,))


@pytest.mark.parametrize("population", [0, -1, 10**12 + 1, 1.5, True, 10**400])
def test_the_size_of_a_population_is_checked_before_anything_is_charged(population):
    with open_curator() as curator:
        with pytest.raises(InvalidParameter, match="population"):
            curator.sum("hours", low=0, high=100, population=population)
        assert curator.ledger.spent == 0
        with pytest.raises(InvalidParameter, match="population"):
            curator.mean("hours", low=0, high=100).total(population)


def test_differences_and_ratios_follow_from_the_ends():
    with open_curator() as curator:
        found = curator.mean("hours", low=20, high=60, by="sex")
        shares = curator.ask("age < 0", by="sex")
        spent = curator.ledger.spent
        difference, ratio = found.difference("men", "women"), found.ratio("men", "women")
        assert curator.ledger.spent == spent
    assert difference.value == found.values[0] - found.values[1]
    assert difference.low == pytest.approx(found.low[0] - found.high[1])
    assert difference.high == pytest.approx(found.high[0] - found.low[1])
    assert ratio.low == pytest.approx(found.low[0] / found.high[1])
    assert ratio.high == pytest.approx(found.high[0] / found.low[1])
    assert decode(encode(ratio), Contrast) == ratio
    open_ended = shares.ratio("men", "women")
    assert shares.low[1] == 0
    assert open_ended.high is None
    assert "denominator may be 0" in open_ended.reason
    assert "open" in str(open_ended)
    with pytest.raises(InvalidParameter):
        found.difference("men", "children")


@pytest.mark.parametrize(
    ("first", "second", "ends"),
    [
        ((1, 2), (4, 8), (1 / 8, 1 / 2)),
        ((-1, 2), (4, 8), (-1 / 4, 1 / 2)),
        ((1, 2), (-8, -4), (-1 / 2, -1 / 8)),
        ((1, 2), (0, 4), (1 / 4, None)),
        ((-2, -1), (0, 4), (None, -1 / 4)),
        ((-1, 1), (0, 4), (None, None)),
        ((1, 2), (-4, 0), (None, -1 / 4)),
        ((1, 2), (-1, 1), (None, None)),
        ((1, 2), (0, 0), (None, None)),
    ],
)
def test_a_denominator_that_touches_zero_gives_an_open_end(first, second, ends):
    from holdtrue.records.means import _divide_ends

    found = _divide_ends(first, second)
    assert (
        found == pytest.approx(ends) if None not in ends else [each is None for each in found] == [e is None for e in ends]
    )
    for over in np.linspace(*first, 7):
        for under in np.linspace(*second, 7):
            if under:
                assert found[0] is None or found[0] <= over / under
                assert found[1] is None or over / under <= found[1]


AWKWARD = (
    0.1,
    1 / 3,
    1.0,
    3.0,
    0.7,
    5e-324,
    1e-308,
    2.0**-1022,
    1e-200,
    1e200,
    1.7e308,
    2.0**53 + 1,
    1 - 2.0**-53,
    1 + 2.0**-52,
)


def test_u2_4_differences_and_quotients_are_rounded_outward_and_exact_where_they_can_be():
    from holdtrue.records.means import _divide_ends, _subtract_ends

    random = np.random.default_rng(5)
    pool = [*AWKWARD, *random.lognormal(0, 30, 40).tolist()]
    for one, other in itertools.product(pool, pool):
        a, b = Fraction(one), Fraction(other)
        for low, high, right in [
            (*_divide_ends((one, one), (other, other)), a / b),
            (*_divide_ends((-one, -one), (other, other)), -a / b),
            (*_subtract_ends((one, one), (other, other)), a - b),
        ]:
            assert low is None or (Fraction(low) <= right and math.nextafter(low, math.inf) > right)
            assert high is None or math.isinf(high) or (Fraction(high) >= right and math.nextafter(high, -math.inf) < right)
    assert _subtract_ends((0.0, 100.0), (0.0, 100.0)) == (-100.0, 100.0)
    assert _divide_ends((0.0, 3.0), (1.0, 4.0)) == (0.0, 3.0)


def test_u2_2_the_ratio_over_a_box_is_rounded_outward():
    random = np.random.default_rng(6)
    pool = [0.0, 5e-324, 2.0**-1022, 2.0**-60, 2.0**-48, 1 / 3, 0.1, 1 - 2.0**-53, 1.0, *random.random(12).tolist()]
    for part, rest in itertools.product(pool, pool):
        low, high = ratio_in_box((part, part), (rest, rest))
        if part + rest > 0:
            right = Fraction(part) / (Fraction(part) + Fraction(rest))
            assert Fraction(low) <= right <= Fraction(high)
            assert high - low <= 2.0**-46
        else:
            assert (low, high) == (0.0, 1.0)


def test_u2_3_no_ratio_that_explains_the_answers_is_left_out_by_rounding():
    """Just outside each end the rule fails in exact numbers, with a growth that is off by as much as expm1 may be."""
    random = np.random.default_rng(8)
    for case in range(300):
        epsilon, slack = float(random.choice([1e-9, 0.01, 0.5, 3.0])), float(random.choice([0.0, 1e-12, 0.01]))
        noise = float(random.choice([0.0, 1e-12, 1e-6, 0.01]))
        part, rest = random.random(2) * (1e-6 if case % 3 == 0 else 0.5)
        whole = tuple(sorted(random.random(2) * min(1.0, 2 * (part + rest))))
        low, high = ratio_interval(part, rest, whole=whole, noise=noise, epsilon=epsilon, slack=slack)
        for end, above, below in [(low, part, rest), (1 - high, rest, part)]:
            if end > 0:
                ratio = Fraction(end)
                for share, nudge in itertools.product(whole, (1 - 2.0**-51, 1 + 2.0**-51)):
                    growth, held = Fraction(math.expm1(epsilon)) * Fraction(nudge), Fraction(share)
                    first = (1 - ratio) * (1 + growth * ratio * held)
                    second = ratio * (1 + growth - growth * (1 - ratio) * held)
                    left = first * Fraction(above) - second * Fraction(below)
                    left -= ratio * (1 - ratio) * held * growth + Fraction(slack)
                    assert left > 0
                    assert left**2 > Fraction(noise) ** 2 * (first**2 + second**2)


def test_a_ratio_of_these_rows_alone_says_that_its_end_is_open():
    with open_curator(iid=False, epsilon=1, delta=1e-6) as curator:
        found = curator.ask("age < 0", by="sex").ratio("men", "women")
    assert (found.low, found.sample_high) == (None, None)
    assert "denominator may be 0" in found.reason
    assert "independent" in found.reason


def test_own_units_in_json_and_in_words():
    with open_curator() as curator:
        found = curator.mean("hours", low=20, high=60, by="sex")
        single = curator.mean("hours", low=20, high=60)
    told = json.loads(encode(found))
    assert (told["record"], told["measure"], told["column"], told["bounds"]) == ("means", "mean", "hours", [20.0, 60.0])
    assert all(20 <= each <= 60 for each in (*told["values"], *told["low"], *told["high"]))
    assert decode(encode(found), Response) == found
    assert "the mean of hours" in str(found)
    assert "<table>" in found._repr_html_()
    assert found.brief == "mean of hours in 2 groups"
    assert list(found.to_pandas().columns) == ["sex", "mean", "low", "high", "group_share"]
    assert found.to_polars().shape == found.to_arrow().shape == (2, 5)
    assert len(found.plot().patches) == 2
    assert found.cell("men") == found[0]
    assert single.brief.startswith("mean of hours: ")
    assert single.value == single[0].value
    assert len(single.total().plot().patches) == 1
    with pytest.raises(InvalidParameter, match="2 groups"):
        _ = found.value


def test_rows_that_are_not_independent_have_means_of_these_rows_only():
    with open_curator(iid=False, epsilon=1, delta=1e-6) as curator:
        found = curator.mean("hours", low=20, high=60, by="sex")
        total = curator.sum("hours", low=20, high=60, population=100)
    assert (found.low, found.high, found.shares.low) == (None, None, None)
    assert "independent" in found.reason
    assert "independent" in total.reason
    assert "of these rows lies above" in found.sentence
    assert found.difference("men", "women").low is None
    assert found.difference("men", "women").sample_low is not None


def test_p5_the_same_mean_again_costs_nothing(tmp_path):
    path = tmp_path / "rows.ledger"
    with open_curator(ledger=path) as curator:
        first = curator.mean("hours", low=20, high=60, by="sex", key="k")
        spent = curator.ledger.spent
        assert curator.mean("hours", low=20, high=60, by="sex", key="k") == first
        again = curator.mean("hours", low=20.0, high=60, by=["sex"])
        assert (again.repeated, again.values, curator.ledger.spent) == (True, first.values, spent)
        assert curator.budget.asks == 100 - price_means(curator.plan, 2, outside=True).questions
        assert curator.mean("hours", low=20, high=61, by="sex").repeated is False
        with pytest.raises(ht.RefusedError):
            curator.mean("hours", low=20, high=60, key="k")
    assert ht.verify(path)
    assert not ht.audit_ledger(path).violated


def test_a_plan_that_splits_beta_counts_every_member_as_a_draw():
    plan = ht.plan(queries=100, rows=ROWS, method="transfer-gaussian")
    with ht.Curator(make_rows(), plan=plan, labels={"sex": ["men", "women"]}) as curator:
        found = curator.mean("hours", low=20, high=60, by="sex")
        assert curator.budget.asks == 100 - (2 * 9 + 1)
        assert found.certificate.cost == pytest.approx(2 * plan.cost * 1e-15)
        assert all(low <= value <= high for low, value, high in zip(found.low, found.values, found.high, strict=True))


def test_means_beyond_the_plan_are_refused_and_nothing_is_spent():
    with open_curator(queries=4) as curator:
        curator.ask(["age > 1", "age > 2", "age > 3"])
        spent = curator.ledger.spent
        with pytest.raises(BudgetExceeded):
            curator.mean("hours", low=20, high=60)
        assert curator.ledger.spent == spent


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda c: c.mean("hours", low=5, high=5), InvalidParameter),
        (lambda c: c.mean("hours", low=6, high=5), InvalidParameter),
        (lambda c: c.mean("hours", low=math.nan, high=5), InvalidParameter),
        (lambda c: c.mean("hours", low=0, high=1e250), InvalidParameter),
        (lambda c: c.mean("hours", low=0, high=1e-250), InvalidParameter),
        (lambda c: c.mean("sex", low=0, high=1), InvalidParameter),
        (lambda c: c.mean("smoker", low=0, high=1), InvalidParameter),
        (lambda c: c.mean("nowhere", low=0, high=1), UnknownColumn),
        (lambda c: c.mean("hours", low=0, high=1, by="age"), NotCertified),
        (lambda c: c.mean("hours", low=0, high=1, by=["sex", "sex"]), InvalidParameter),
        (lambda c: c.mean("hours", low=0, high=1, by=3), InvalidParameter),
        (lambda c: c.mean("hours", low=0, high=1, by=[3]), InvalidParameter),
        (lambda c: c.mean("hours", low=0, high=1, by="sex", keys=["men", "men"]), InvalidParameter),
        (lambda c: c.mean("hours", low=0, high=1, by="sex", keys={"age": [1]}), InvalidParameter),
        (lambda c: c.mean("hours", low=0, high=1, keys=["men"]), InvalidParameter),
        (lambda c: c.mean("hours", low=0, high=1, where="age / 100"), InvalidParameter),
        (lambda c: c.mean("hours", low=0, high=1, where="age > 1) OR (age < 1"), ht.UnsupportedQuery),
        (lambda c: c.sum("hours", low=0, high=1, population=0), InvalidParameter),
        (lambda c: c.ask(["smoker"], by="sex"), InvalidParameter),
        (lambda c: c.ask("smoker) OR (TRUE", by="sex"), ht.UnsupportedQuery),
        (lambda c: c.ask("smoker", by=[]), InvalidParameter),
        (lambda c: c.ask("smoker", keys=["men"]), InvalidParameter),
        (lambda c: c.ask(values=np.zeros(ROWS), by="sex"), InvalidParameter),
    ],
)
def test_bad_means_are_named_before_anything_is_charged(wrong, error):
    with open_curator() as curator:
        with pytest.raises(error):
            wrong(curator)
        assert curator.history == []


def test_groups_that_a_column_cannot_tell_apart_are_refused():
    rows = {"x": np.full(50, 2.0**53), "y": np.zeros(50)}
    with ht.Curator(rows, queries=10, epsilon=5, delta=1e-6) as curator:
        with pytest.raises(InvalidParameter, match="each once"):
            curator.mean("y", low=0, high=1, by="x", keys=[2**53, 2**53 + 1])
        assert curator.history == []


def test_t7_means_of_open_ended_plans_cover_at_once(tmp_path):
    population = make_rows(200_000, seed=3)
    known = ~np.isnan(population["hours"])
    truth = [np.clip(population["hours"][known & (population["sex"] == name)], 0, 100).mean() for name in ("men", "women")]
    for seed in range(15):
        drawn = np.random.default_rng([seed, 12]).integers(0, 200_000, ROWS)
        rows, path = {name: column[drawn] for name, column in population.items()}, tmp_path / f"{seed}.ledger"
        with open_curator(rows, queries=None, epsilon=2, delta=1e-6, ledger=path) as curator:
            found = curator.mean("hours", low=0, high=100, by="sex")
            later = curator.mean("hours", low=0, high=100, by="sex", where="age >= 0")
            for means in (found, later):
                assert all(value in each.interval for value, each in zip(truth, means, strict=True))
            assert curator.budget.spent == pytest.approx(4 * curator.plan.cost * float(UNIT))
            assert (
                later.missing.sample_high[0] - later.missing.values[0]
                > found.missing.sample_high[0] - found.missing.values[0]
            )
        assert not ht.audit_ledger(path).violated


def test_u1_5_a_mean_of_all_rows_is_narrower_than_one_among_some(tmp_path):
    """Its cells are all rows: a union of two of five has the noise of sqrt(1.2) cells in place of sqrt(2)."""
    with open_curator(ledger=tmp_path / "rows.ledger") as curator:
        whole, part = curator.mean("hours", low=0, high=100), curator.mean("hours", low=0, high=100, where="age >= 0")
        assert (whole.whole, part.whole) == (True, msgspec.UNSET)
        assert whole.certificate.cost == part.certificate.cost
        widths = [each.shares.values[0] - each.shares.sample_low[0] for each in (whole, part)]
        assert widths[0] == pytest.approx(math.sqrt(0.8 / 4) * widths[1], rel=0.01)  # four cells of five
    assert not ht.audit_ledger(tmp_path / "rows.ledger").violated


def test_u1_3_means_on_a_pure_ledger_are_charged_for_two_whole_cells_and_have_the_boxes_of_theirs(tmp_path):
    """Y and Z are cells of their own for a share, and two cells each for a mean with bounds: their boxes add up (U1.6 b)."""
    path = tmp_path / "rows.ledger"
    with open_curator(queries=30, pure=True, epsilon=5, ledger=path) as curator:
        plan, rows = curator.plan, ROWS
        for found, outside in (
            (curator.mean("hours", low=0, high=100, by="sex"), True),
            (curator.ask("smoker", by="sex"), False),
        ):
            event = found.certificate.event
            assert isinstance(event, Pure)
            assert curator.pipeline.limit.cost(event) <= round(found.certificate.cost * UNIT.denominator)
            price = price_means(plan, 2, outside=outside)
            assert float(event.epsilon) == pytest.approx(found.certificate.cost, rel=1e-9)
            boxes = (4 if outside else 2) * price.sample_box
            shares = found.shares
            for low, near, far, high in zip(shares.low, shares.sample_low, shares.sample_high, shares.high, strict=True):
                assert near == 0 or far == 1 or far - near == pytest.approx(2 * boxes, rel=1e-9)
                assert far - near <= 2 * boxes * (1 + 1e-9)
                assert low <= near < far <= high
            ends = zip(found.low, found.sample_low, found.values, found.high, strict=True)
            assert all(a <= b <= c <= d for a, b, c, d in ends)
        assert price.sigma == pytest.approx(math.sqrt(2) / (rows * found.certificate.cost / 2), rel=1e-9)
    assert not ht.audit_ledger(path).violated


def test_u1_3_one_replaced_row_moves_the_log_of_pure_means_by_what_they_are_charged(monkeypatch):
    """Whatever group and value the row has before and after; the charge of one whole cell would not do (planted)."""
    drawn = []
    monkeypatch.setattr(Laplace, "release", lambda self, values: drawn.append((self.scale, list(values))) or values)
    lasts = [("men", 0.0), ("men", 100.0), ("men", 37.3), ("women", 62.4), ("women", 130.0), (None, 10.0), ("men", np.nan)]
    for sex, hours in lasts:
        rows = {"sex": np.array(["men", "women"] * 20 + [sex], dtype=object), "hours": np.array([30.0, 50.0] * 20 + [hours])}
        with open_curator(rows, queries=None, iid=False, pure=True, epsilon=1, delta=0) as curator:
            event = curator.mean("hours", low=0, high=100, by="sex").certificate.event
    moved = [
        sum(abs(a - b) for a, b in zip(left, right, strict=True)) / scale
        for (scale, left), (_, right) in itertools.combinations(drawn, 2)
    ]
    assert max(moved) == pytest.approx(float(event.epsilon), rel=1e-12)
    assert max(moved) <= event.epsilon
    assert max(moved) > event.epsilon / 2


def test_u1_3_means_on_pure_ledgers_cover_the_means_of_their_rows():
    """At beta .05 for all that one ledger says, 60 ledgers; intervals without their noise miss in nearly all."""
    rows = make_rows()
    kept = [(rows["sex"] == sex) & ~np.isnan(rows["hours"]) for sex in ("men", "women")]
    exact = [rows["hours"][mine].clip(0, 100).mean() for mine in kept]
    missed = bare = 0
    for _ in range(60):
        with open_curator(rows, queries=4, pure=True, epsilon=2) as curator:
            found = curator.mean("hours", low=0, high=100, by="sex")
        ends = list(zip(found.sample_low, found.sample_high, strict=True))
        missed += any(not low <= mean <= high for (low, high), mean in zip(ends, exact, strict=True))
        bare += any(abs(value - mean) > 0.01 for value, mean in zip(found.values, exact, strict=True))
    assert missed <= 3
    assert bare > 54


def test_a_mean_costs_about_as_much_as_a_table():
    plan = ht.plan(queries=500, rows=10_000)
    assert [price_means(plan, number, outside=True).questions for number in (1, 10, 100, 1000)] == [3, 3, 4, 4]
    assert price_means(plan, 1, outside=True).cost >= price_table(plan, 5).cost


def test_estimates_tell_their_largest_upper_end():
    assert Estimates((0.1, 0.2), None, None, (0.0, 0.1), (0.2, 0.3)).most == 0.3
    assert Estimates((0.1, 0.2), (0.0, 0.0), (0.4, 0.3), (0.0, 0.1), (0.2, 0.3)).most == 0.4
