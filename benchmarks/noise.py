"""Exact noise against OpenDP's exact noise and NumPy's insecure floats: vectors of a million, and single draws."""

import numpy as np

import holdtrue as ht
from benchmarks.peers import best_time, show
from holdtrue.noise.samplers import discrete_laplace, rounded_gaussian

__all__ = ["run"]

MILLION = 10**6
FOR_OPENDP = 20_000
SINGLE = 20_000
SCALE = 100


def run() -> None:
    """Print nanoseconds a draw, and the ratios that the project promises."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    generator = np.random.default_rng()  # noqa: TID251 - the insecure peer
    vectors = dp.vector_domain(dp.atom_domain(T=int))
    laplace = (vectors, dp.l1_distance(T=int)) >> dp.m.then_laplace(scale=float(SCALE))
    gaussian = (vectors, dp.l2_distance(T=float)) >> dp.m.then_gaussian(scale=float(SCALE))
    zeros = [0] * FOR_OPENDP
    rows = []
    for name, ours, theirs, floats, most in (
        ("Laplace", lambda: discrete_laplace(SCALE, size=MILLION), laplace, generator.laplace, 1.0),
        ("Gaussian", lambda: rounded_gaussian(SCALE, size=MILLION), gaussian, generator.normal, 3.0),
    ):
        mine = best_time(ours, repeat=15) / MILLION
        exact = best_time(lambda theirs=theirs: theirs(zeros), repeat=3) / FOR_OPENDP  # type: ignore[misc]
        plain = best_time(lambda floats=floats: floats(size=MILLION), repeat=15) / MILLION  # type: ignore[misc]
        rows.append(
            [
                f"{name}, a million",
                *_times(mine, exact, plain),
                f"{exact / mine:.0f} (>= 300)",
                f"{mine / plain:.2f} (<= {most:g})",
            ]
        )
    rows.append(_single())
    show(
        f"nanoseconds a draw at scale {SCALE}",
        ["what", "holdtrue", "opendp", "numpy", "opendp / holdtrue", "holdtrue / numpy"],
        rows,
    )


def _single() -> list[str]:
    import opendp.prelude as dp

    alone = (dp.atom_domain(T=int), dp.absolute_distance(T=int)) >> dp.m.then_laplace(scale=float(SCALE))
    mechanism = ht.Laplace(epsilon=1 / SCALE)
    pooled = best_time(lambda: [mechanism.release(0) for _ in range(SINGLE)]) / SINGLE
    scalar = best_time(lambda: [alone(0) for _ in range(SINGLE // 10)], repeat=3) / (SINGLE // 10)
    return ["Laplace, one at a time", *_times(pooled, scalar, None), f"{scalar / pooled:.0f} (>= 20)", ""]


def _times(*seconds: float | None) -> list[str]:
    return ["" if value is None else f"{value * 1e9:,.1f}" for value in seconds]
