"""Populations whose truth is known, questions about them, and controls that answer those without noise.

A row has a label ``y``, a fair coin, and columns ``x0``, ``x1``, ... of zeros and ones, each of which agrees with the label
with a known probability, independently of the others. So the accuracy of every vote of the columns is known exactly.
Controls answer as if all questions had been fixed in advance: an audit that finds nothing wrong with them has no power.
They release exact means of rows: never give them private data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue.auditing.catalogue.mechanism import draw_uniform
from holdtrue.auditing.search.confidence_bounds import Floats
from holdtrue.bounds.accuracy import hoeffding_alpha
from holdtrue.engines import open_engine
from holdtrue.entropy import Bits
from holdtrue.errors import InvalidParameter, UnsupportedQuery
from holdtrue.exact import Number, count, probability
from holdtrue.queries.cards import Card, Column
from holdtrue.queries.evaluator import Values, evaluate
from holdtrue.queries.parser import parse
from holdtrue.records import Interval

__all__ = ["Labelled", "PlainAnswer", "PlainMeans", "PlainScores", "Population", "Signs", "Vote"]

Labels: TypeAlias = npt.NDArray[np.int8]
Labelled: TypeAlias = Mapping[str, Labels]

_FAIR = 0.5
_MOST_READ = 16
_GRID_BITS = 20


class Population(Protocol):
    """Where samples come from, and what is true of it."""

    def draw(self, bits: Bits) -> Any:  # noqa: ANN401 - whatever a factory opens
        """Return a fresh sample."""
        ...

    def mean(self, question: Any, *, sample: Any) -> float:  # noqa: ANN401 - whatever an analyst asks
        """Return the truth that an interval must cover. ``sample`` is for truths about its own cases."""
        ...


@dataclass(frozen=True, slots=True)
class Vote:
    """A question: does the weighted vote of some columns say what the label is? ``weights`` has columns and whole weights.

    The vote is 1 where the sum of weight (2 x - 1) is above 0, and 0 otherwise.
    """

    weights: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        columns = [count("column", column, least=0) for column, _ in self.weights]
        if not columns or len(set(columns)) != len(columns) or not all(weight for _, weight in self.weights):
            raise InvalidParameter("weights", self.weights, "different columns, at least one, with weights other than 0")

    @classmethod
    def of(cls, weights: Mapping[int, int]) -> "Vote":
        """Return the vote of these columns."""
        return cls(tuple(sorted(weights.items())))

    def to_query(self) -> str:
        """Return the question in the query language; columns of one weight are added up in halves, so it is not deep."""
        if len(self.weights) == 1 and self.weights[0][1] == 1:
            return f"x{self.weights[0][0]} = y"
        groups: dict[int, list[str]] = {}
        for column, weight in self.weights:
            groups.setdefault(weight, []).append(f"x{column}")
        terms = [
            _add_in_halves(names) if weight == 1 else f"{weight} * {_add_in_halves(names)}"
            for weight, names in groups.items()
        ]
        total = sum(weight for _, weight in self.weights)
        return f"(CASE WHEN 2 * {_add_in_halves(terms)} > {total} THEN 1 ELSE 0 END) = y"

    def predict(self, sample: Labelled) -> Labels:
        """Return what the vote says of each row."""
        sums = sum(weight * (2 * sample[f"x{column}"].astype(np.int64) - 1) for column, weight in self.weights)
        return (np.asarray(sums) > 0).astype(np.int8)

    def __str__(self) -> str:
        names = ", ".join(f"x{column}" for column, _ in self.weights[:3])
        return f"vote of {names}" + (f" and {len(self.weights) - 3:,} more" if len(self.weights) > len("abc") else "")


def _add_in_halves(terms: Sequence[str]) -> str:
    if len(terms) == 1:
        return terms[0] if terms[0].startswith(("x", "(")) else f"({terms[0]})"
    middle = len(terms) // 2
    return f"({_add_in_halves(terms[:middle])} + {_add_in_halves(terms[middle:])})"


def _toss_coins(shape: tuple[int, int], bits: Bits) -> Labels:
    number = shape[0] * shape[1]
    words = bits.words(-(-number // 64))
    return np.unpackbits(words.view(np.uint8), count=number).astype(np.int8).reshape(shape)


@dataclass(frozen=True, slots=True)
class Signs:
    """Rows with a label ``y`` and ``columns`` columns, each of which agrees with the label with probability ``agreement``.

    At one half, the default, columns are coins that know nothing of the label, and the truth of every vote is one half:
    whatever an analyst finds beyond that is overfitting (N6). ``agreement`` is one number, or one for each column.
    """

    rows: int
    columns: int
    agreement: Number | tuple[Number, ...] = _FAIR

    def __post_init__(self) -> None:
        count("rows", self.rows)
        count("columns", self.columns)
        given = self.agreement if isinstance(self.agreement, tuple) else (self.agreement,)
        for chance in given:
            probability("agreement", chance, zero=True, one=True)
        if isinstance(self.agreement, tuple) and len(given) != self.columns:
            raise InvalidParameter.without_value(
                "agreement", f"one number, or {self.columns}, one per column; {len(given)} were given"
            )

    @property
    def chances(self) -> Floats:
        """Return for each column how probable it is that it agrees with the label."""
        given = [float(chance) for chance in self.agreement] if isinstance(self.agreement, tuple) else float(self.agreement)
        return np.broadcast_to(np.asarray(given, dtype=np.float64), (self.columns,))

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns, the label's last."""
        return (*(f"x{column}" for column in range(self.columns)), "y")

    def draw(self, bits: Bits) -> dict[str, Labels]:
        """Return a fresh sample: zeros and ones by column."""
        label, *coins = _toss_coins((1 + self.columns, self.rows), bits)
        for column in np.flatnonzero(self.chances != _FAIR):
            agree = draw_uniform(self.rows, bits) < self.chances[column]
            coins[column] = np.where(agree, label, 1 - label)
        return {f"x{column}": coin for column, coin in enumerate(coins)} | {"y": label}

    def mean(self, question: "Vote | str | npt.NDArray[Any]", *, sample: Labelled | None = None) -> float:
        """Return the truth of a question.

        Of a vote, its accuracy on a fresh row, exactly. Of a text over at most 16 columns, its mean on a fresh row. Of
        predictions for the cases of a ``sample``, their expected accuracy there if the labels were drawn afresh (T6b).
        """
        if isinstance(question, Vote):
            return self._vote_accuracy(question)
        return self._text_mean(question) if isinstance(question, str) else self._fresh_accuracy(question, sample)

    def _vote_accuracy(self, vote: Vote) -> float:
        """Return the chance that agreeing columns outweigh the others. A tie says 0, which is right half of the time."""
        reach = sum(abs(weight) for _, weight in vote.weights)
        if vote.weights[-1][0] >= self.columns:
            raise InvalidParameter("question", str(vote), f"about the columns x0 to x{self.columns - 1}")
        law = np.zeros(2 * reach + 1)
        law[reach] = 1.0
        for column, weight in vote.weights:
            chance = self.chances[column]
            law = chance * np.roll(law, weight) + (1 - chance) * np.roll(law, -weight)
        return float(law[reach + 1 :].sum() + law[reach] / 2)

    def _text_mean(self, text: str) -> float:
        query = parse(text, Card(tuple(Column(name, "integer") for name in self.names), self.rows))
        read = [name for name in query.columns if name != "y"]
        if len(read) > _MOST_READ:
            message = f"the truth of a query is known for up to {_MOST_READ} columns, not {len(read)}; ask a Vote instead"
            raise UnsupportedQuery(message)
        cells = np.arange(2 << len(read))
        label = cells & 1
        table, weight = {"y": label}, np.full(cells.size, _FAIR)
        for place, name in enumerate(read, start=1):
            table[name] = (cells >> place) & 1
            chance = self.chances[int(name[1:])]
            weight = weight * np.where(table[name] == label, chance, 1 - chance)
        columns = {name: Values(values.astype(np.int64)) for name, values in table.items()}
        values = evaluate(query, columns, _GRID_BITS, rows=cells.size)
        return float((values * weight).sum() / (1 << _GRID_BITS))

    def _fresh_accuracy(self, predictions: "npt.NDArray[Any]", sample: Labelled | None) -> float:
        if sample is None or np.shape(predictions) != (self.rows,):
            raise InvalidParameter.without_value(
                "question", f"one prediction per case, {self.rows:,} in all, given with its sample"
            )
        ones, zeros = np.full(self.rows, _FAIR), np.full(self.rows, _FAIR)
        for column, chance in enumerate(self.chances):
            if chance != _FAIR:
                said = sample[f"x{column}"] == 1
                ones = ones * np.where(said, chance, 1 - chance)
                zeros = zeros * np.where(said, 1 - chance, chance)
                ones, zeros = ones / (ones + zeros), zeros / (ones + zeros)
        return float(np.where(np.asarray(predictions) == 1, ones, zeros).mean())


@dataclass(frozen=True, slots=True)
class PlainAnswer:
    """An exact mean, and the interval around it."""

    value: float
    interval: Interval


def _make_answer(value: float, *, rows: int, beta: Number, questions: int) -> PlainAnswer:
    near = hoeffding_alpha(rows, beta=beta, queries=questions)
    return PlainAnswer(value, Interval(max(0.0, value - near), min(1.0, value + near), 1 - float(beta), "population"))


class PlainMeans:
    """Answers questions by sample means, without noise, as a :class:`~holdtrue.Curator` would be asked.

    The interval is Hoeffding's for ``questions`` of them at once: right if they had all been fixed in advance.
    """

    def __init__(self, sample: Labelled, *, beta: Number = 0.05, questions: int = 1) -> None:
        self._engine = open_engine(sample)
        self._beta, self._questions = beta, count("questions", questions)

    def ask(self, text: str) -> PlainAnswer:
        """Return the sample mean of a question."""
        card = self._engine.card
        (total,) = self._engine.sums([parse(text, card)], bits=_GRID_BITS)
        return _make_answer(total / (card.rows << _GRID_BITS), rows=card.rows, beta=self._beta, questions=self._questions)

    def close(self) -> None:
        """Release the sample."""
        self._engine.close()


class PlainScores:
    """Scores predictions by plain accuracy, without noise, as a :class:`~holdtrue.Holdout` would be looked at."""

    def __init__(self, y_true: npt.ArrayLike, *, beta: Number = 0.05, looks: int = 1) -> None:
        self._truth = np.asarray(y_true)
        self._beta, self._looks = beta, count("looks", looks)

    def score(self, y_pred: npt.ArrayLike) -> PlainAnswer:
        """Return the share of predictions that are right."""
        value = float((np.asarray(y_pred) == self._truth).mean())
        return _make_answer(value, rows=self._truth.size, beta=self._beta, questions=self._looks)
