"""Plans whose reserve is kept for a number of predictions, in the currency that leaves the questions most (V3.1)."""

import math
from collections.abc import Mapping
from typing import get_args

from holdtrue.accounting.purses import Currency, Purse, largest_mu, purse_of
from holdtrue.bounds.transfer import Shift, gaussian_mu, gaussian_shift
from holdtrue.errors import InsufficientSamples, InvalidParameter
from holdtrue.exact import count, positive, text_among, units_down
from holdtrue.planning.methods import AskingTask
from holdtrue.planning.transfer import JointGaussian, NoiseOnly

__all__ = ["PurseGaussian", "PurseNoise", "read_reserve"]

_CURRENCIES: tuple[Currency, ...] = get_args(Currency)
_KEYS = ("predictions", "epsilon", "currency")
_LEAST_SQUARE = 1e-12


def read_reserve(reserve: Mapping[str, object]) -> list[Purse]:
    """Return the purses that would hold a reserve such as {"predictions": 120, "epsilon": 0.1}, one for each currency.

    With a "currency", "mu", "rho" or "draws", that one only. Draws that are too many to be counted are left out.
    """
    unknown = [key for key in reserve if key not in _KEYS]
    if unknown or not {"predictions", "epsilon"} <= set(reserve):
        raise InvalidParameter.saying(
            "reserve",
            'reserve must be a share, or name predictions and epsilon, such as {"predictions": 120, "epsilon": 0.1}',
        )
    predictions = count("predictions", reserve["predictions"])
    epsilon = positive("epsilon", reserve["epsilon"])
    chosen = reserve.get("currency")
    if chosen is not None:
        return [purse_of(text_among("currency", chosen, _CURRENCIES), predictions=predictions, epsilon=epsilon)]  # type: ignore[arg-type]
    found = []
    for currency in _CURRENCIES:
        try:
            found.append(purse_of(currency, predictions=predictions, epsilon=epsilon))
        except InvalidParameter:
            if currency != "draws":
                raise
    return found


class _Pursed:
    """What questions may spend where a purse is kept beside them: all that the curve of both leaves."""

    def __init__(self, purse: Purse) -> None:
        self.purse = purse

    def limit(self, task: AskingTask) -> int | None:
        """Return the most units of mu squared for which both purses together keep the privacy asked for."""
        if task.epsilon is None:
            return None
        mu = largest_mu(self.purse, epsilon=task.epsilon, delta=task.delta or 0.0)
        most = units_down(positive("mu", mu) ** 2) if mu else 0
        if most < 1:
            predictions = f"{self.purse.predictions:,} predictions at epsilon {float(self.purse.epsilon):g}"
            message = f"{predictions} leave no privacy for questions; take fewer of them, or a smaller epsilon for each"
            raise InsufficientSamples(message, required=None)
        return most


class PurseNoise(_Pursed, NoiseOnly):
    """Noise on answers about the sample, with a purse beside them."""


class PurseGaussian(_Pursed, JointGaussian):
    """The default method with the curve of both purses (V3.1).

    The search treats the purse as if it were so much more of mu squared; what is certified is by the curve itself.
    """

    theorem = "transfer theorem, one beta for noise and gap (S1, T6), on the curve of both purses (V3.1)"

    def start(self, task: AskingTask, alpha: float) -> list[float]:
        """Start at the gap of the purse together with what questions alone would start at."""
        questions = gaussian_mu(alpha / 2, beta=task.beta)
        return [math.log(self.shift(questions, task.beta).gamma)]

    def delta(self, cap: float, epsilon: float) -> float:
        """Return the delta of both purses at epsilon, with the questions' mu capped."""
        return self.purse.delta(cap, epsilon)

    def shift(self, cap: float, beta: float) -> Shift:
        """Return about where T5's gap is least, to start from."""
        return gaussian_shift(self.find_whole_mu(cap), beta=beta)

    def find_whole_mu(self, cap: float) -> float:
        """Return about the mu of both purses."""
        return math.sqrt(cap * cap + self.purse.square)

    def cap(self, gamma: float, beta: float) -> float:
        """Return about the mu of the questions at which the gap is gamma, to start from."""
        return math.sqrt(max(_LEAST_SQUARE, gaussian_mu(gamma, beta=beta) ** 2 - self.purse.square))
