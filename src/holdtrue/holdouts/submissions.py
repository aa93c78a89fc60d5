"""What a look asks of the cases: a sum of integers with a public ceiling, and how a score is read off it.

Submissions may be kept under a name, in a folder beside the ledger: which entry each is, and what a comparison needs. A
score stands in the ledger. Results of single cases tell about the cases, so they are as private as the results file: the
folder is its owner's alone, and nothing of it is in the ledger's public text.
"""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue.errors import IntegrityError, InvalidParameter, RefusedError, UnknownName
from holdtrue.holdouts.cases import BITS, Array, Cases, clamped_results, unit_interval
from holdtrue.holdouts.result_files import check_ids, is_result_source, read_results

__all__ = [
    "METRICS",
    "Kept",
    "Metric",
    "Names",
    "Question",
    "case_comparison",
    "comparison",
    "given_cases",
    "kept_question",
    "question",
]

Metric: TypeAlias = str | Callable[[Any, Any], Any]
METRICS = ("accuracy", "error", "brier", "recall")
_UNIT = 1 << BITS


def _no_values() -> npt.NDArray[np.int64]:
    message = "this question has no values of single cases"
    raise NotImplementedError(message)


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """One query by position: case i has a value in [0, c_i], c_i public, in units of 2^-20.

    ``content`` is what makes two submissions the same one; ``total`` measures the sum of values, and must only be called
    once it is paid for; so does ``values``, which accuracy and results have, for each case. ``ceiling`` is the sum of the
    c_i, ``divisor`` what the score divides by. A ``flipped`` score is shown as 1 minus that; a ``difference`` has values
    (1 + d_i)/2 where two submissions differ, and is read off as 2 sum - ceiling. ``whole``: every value is 0 or
    c_i = 2^20. ``submitted`` are predictions or results, in the holdout's order.
    ``narrowed``: the ceilings were read off these cases, so the truth is theirs with fresh labels, whatever was declared.
    """

    name: str
    content: tuple[bytes, ...]
    total: Callable[[], int]
    ceiling: int
    divisor: int
    flipped: bool = False
    difference: bool = False
    whole: bool = False
    submitted: Array | None = None
    narrowed: bool = False
    values: Callable[[], npt.NDArray[np.int64]] = _no_values

    def name_under_key(self, key: bytes) -> str:
        """Return the submission's name under the ledger's key: nobody can check a guess of it."""
        digest = hashlib.blake2b(key=key, digest_size=32)
        for piece in self.content:
            digest.update(len(piece).to_bytes(8, "little"))
            digest.update(piece)
        return digest.hexdigest()

    def score(self, total: float) -> float:
        """Return the score that a sum stands for; sums beyond what is possible are brought back."""
        value = min(max(total, 0.0), float(self.ceiling))
        if self.difference:
            return (2 * value - self.ceiling) / self.divisor
        return min(1.0, value / self.divisor)


def question(cases: Cases, y_pred: object, *, metric: Metric, ids: object = None, of: object = None) -> Question:
    """Return the question that a metric asks about predictions. Nothing of the labels is looked at here."""
    if callable(metric):
        return _ask_by_function(cases, y_pred, metric, ids)
    given: object = metric
    match given if isinstance(given, str) else None:
        case "accuracy" | "error":
            return _ask_accuracy(cases, cases.predictions(y_pred, ids), flipped=metric == "error")
        case "brier":
            return _ask_brier(cases, y_pred, ids)
        case "recall":
            return _ask_recall(cases, cases.predictions(y_pred, ids), of)
        case _:
            shown = given if isinstance(given, str) else type(given).__name__
            message = (
                f"there is no metric {shown!r}: give one of {', '.join(METRICS)}, or a function of labels and predictions"
            )
            raise UnknownName(message)


def _identify_predictions(array: Array, words: str) -> tuple[bytes, ...]:
    """Return what tells a submission from others. Zeros and ones are hashed as bits: an eighth of the time."""
    if array.dtype == np.int8 and array.view(np.uint8).max() <= 1:
        return words.encode(), b"bits", np.packbits(array).tobytes()
    return words.encode(), array.dtype.str.encode(), array.tobytes()


def _total_weight(cases: Cases) -> int:
    return cases.grid if cases.weights is None else int(cases.weights.sum())


def _ask_accuracy(cases: Cases, predicted: Array, *, flipped: bool) -> Question:
    # Accuracy and error are one question: whoever has asked the one has the other for nothing.
    def total() -> int:
        right = cases.truth == predicted
        if cases.weights is None:
            return int(np.count_nonzero(right)) << BITS
        return int(cases.weights[right].sum())

    whole = cases.weights is None
    number = _total_weight(cases)
    name = "error" if flipped else "accuracy"
    return Question(
        name,
        _identify_predictions(predicted, "accuracy"),
        total,
        number,
        number,
        flipped=flipped,
        whole=whole,
        submitted=predicted,
        values=lambda: (cases.truth == predicted).astype(np.int64) << BITS,
    )


def _ask_brier(cases: Cases, y_pred: object, ids: object) -> Question:
    chance = cases.order_by_ids(unit_interval("y_pred", y_pred, cases=cases.number), ids)
    if cases.label_kind != "numbers":
        raise InvalidParameter.saying("metric", "metric='brier' is for labels 0 and 1; choose another metric")
    return _ask_by_values(cases, "brier", _identify_predictions(chance, "brier"), lambda: (chance - (cases.truth == 1)) ** 2)


def _ask_recall(cases: Cases, predicted: Array, of: object) -> Question:
    """Return the share of a class that is found; its number of cases is public, and so is who was predicted to be of it."""
    if not isinstance(of, (str, int, float, np.generic)) or of not in cases.classes:
        raise InvalidParameter("of", of, "a class whose number of cases was given (classes={label: number})")
    if cases.weights is not None:
        raise InvalidParameter.saying("metric", "metric='recall' needs a holdout without weights")
    claimed = predicted == of
    ceiling = int(np.count_nonzero(claimed)) << BITS
    return Question(
        name=f"recall of {of}",
        content=_identify_predictions(claimed, f"recall {of!r}"),
        total=lambda: int(np.count_nonzero(claimed & (cases.truth == of))) << BITS,
        ceiling=ceiling,
        divisor=cases.classes[of] << BITS,
        narrowed=True,
    )


def _ask_by_function(cases: Cases, y_pred: object, metric: Callable[[Any, Any], Any], ids: object) -> Question:
    """Return the mean of a function of labels and predictions, case by case, clamped to [0, 1].

    It is code that the custodian trusts; it runs once it is paid for, and what it says of a case must depend on that case
    alone. A function has no name that tells it from others, so its scores are never taken for repeated ones.
    """
    predicted = cases.order_by_ids(np.array(y_pred), ids)

    def values() -> npt.NDArray[np.float64]:
        found = np.asarray(metric(cases.truth, predicted), dtype=np.float64)
        if found.shape != (cases.number,):
            raise InvalidParameter.saying(
                "metric", f"metric returned an array of shape {found.shape}; it must return one number per case"
            )
        return np.clip(np.nan_to_num(found, nan=1.0, posinf=1.0, neginf=0.0), 0.0, 1.0)

    return _ask_by_values(cases, getattr(metric, "__name__", "loss"), (), values)


def given_cases(
    cases: Cases, values: object, ids: object = None, *, known_as: str | None = None, metric: str = "cases"
) -> Question:
    """Return the mean of results that came from elsewhere, one per case: passed or not, or a number in [0, 1].

    Law: results are made with the labels, so whether two are equal is a fact about the cases and is told to nobody: only
    the public name ``known_as`` makes them the same submission, and without one they are never taken for an earlier one.
    ``metric``: "hits" counts a result of 1 as a hit and any other as none.
    """
    numbers = _order_results(cases, "cases", values, ids)
    if metric == "hits":
        numbers = np.floor(numbers)
    return _ask_by_results(cases, numbers, _identify_by_name(known_as, "cases"), metric)


def _order_results(cases: Cases, name: str, values: object, ids: object) -> npt.NDArray[np.float64]:
    """Return results in the holdout's own order: numbers, or what a result file has under the ids of these cases."""
    if not is_result_source(values):
        return cases.order_by_ids(clamped_results(name, values, cases=cases.number), ids)
    if ids is not None or cases.ids is None:
        raise InvalidParameter.saying(
            "ids", f"{name} is read from a file: open the holdout with ids=, and leave them out here"
        )
    found = read_results(values)
    known = cases.ids.astype(str)
    places = {case: place for place, case in enumerate(found.ids.tolist())}
    check_ids(found.ids.tolist(), known.tolist())
    return found.values[[places[case] for case in known.tolist()]]


def kept_question(cases: Cases, submitted: Array, *, metric: str) -> Question:
    """Return the question of a submission that was kept, in the holdout's own order."""
    if metric == "accuracy":
        return _ask_accuracy(cases, submitted, flipped=False)
    return _ask_by_results(cases, submitted, (), metric)


def _ask_by_results(cases: Cases, numbers: npt.NDArray[np.float64], content: tuple[bytes, ...], metric: str) -> Question:
    whole = bool(((numbers == 0) | (numbers == 1)).all())
    asked = _ask_by_values(cases, metric, content, lambda: numbers, whole=whole)
    return replace(asked, submitted=numbers, values=lambda: np.rint(numbers * _UNIT).astype(np.int64))


def _identify_by_name(name: str | None, words: str) -> tuple[bytes, ...]:
    """Return what tells submissions apart that have a public name; nothing, and so never the same, without one."""
    return () if name is None else (words.encode(), b"known as", name.encode("utf-8", "surrogatepass"))


def _ask_by_values(
    cases: Cases,
    name: str,
    content: tuple[bytes, ...],
    values: Callable[[], npt.NDArray[np.float64]],
    *,
    whole: bool = False,
) -> Question:
    def total() -> int:
        limit = _UNIT if cases.weights is None else cases.weights
        return int(np.rint(values() * limit).astype(np.int64).sum())

    number = _total_weight(cases)
    return Question(name, content, total, number, number, whole=whole and cases.weights is None)


def comparison(cases: Cases, first: object, second: object, *, ids: object = None) -> Question:
    """Return the difference in accuracy of two submissions, case by case.

    Where both say the same, no label makes a difference: only the cases where they differ count, and their number is
    public. That makes it narrower than two scores, and it is one look.
    """
    one, other = cases.predictions(first, ids), cases.predictions(second, ids)
    differ = one != other
    weights = np.full(cases.number, _UNIT) if cases.weights is None else cases.weights
    # Weights are even, so that the half of one is whole.
    halves = weights[differ] // 2
    better, worse = one[differ], other[differ]

    def total() -> int:
        truth = cases.truth[differ]
        return int((halves * (1 + (truth == better).astype(np.int64) - (truth == worse))).sum())

    content = (*_identify_predictions(one, "compare"), *_identify_predictions(other, "with"))
    ceiling, name = 2 * int(halves.sum()), "difference in accuracy"
    return Question(name, content, total, ceiling, _total_weight(cases), difference=True, narrowed=True)


def case_comparison(  # noqa: PLR0913 - two submissions, and what is public about them
    cases: Cases,
    first: object,
    second: object,
    *,
    differ: object = None,
    ids: object = None,
    known_as: str | None = None,
) -> Question:
    """Return the difference of two submissions' results, case by case.

    ``differ`` says where they can differ, and must be known without the results: from unequal outputs, say. Elsewhere the
    difference is 0 by declaration. Left out, any case may differ, and the question is no narrower than two scores.
    ``known_as`` is the pair's public name; without one it is never taken for one that was compared before.
    """
    one, other = _order_results(cases, "first", first, ids), _order_results(cases, "second", second, ids)
    apart = np.ones(cases.number, dtype=bool) if differ is None else np.asarray(differ)
    if apart.shape != (cases.number,) or apart.dtype != bool:
        raise InvalidParameter.saying("differ", f"differ must be True or False for each of {cases.number:,} cases")
    apart = cases.order_by_ids(apart, ids)
    weights = np.full(cases.number, _UNIT) if cases.weights is None else cases.weights
    halves = weights[apart] // 2
    better, worse = one[apart], other[apart]

    def total() -> int:
        return int(np.rint(halves * (1 + better - worse)).astype(np.int64).sum())

    content = _identify_by_name(known_as, "compare cases")
    content = (*content, np.packbits(apart).tobytes()) if content else ()
    ceiling, narrowed = 2 * int(halves.sum()), differ is not None
    return Question("difference", content, total, ceiling, _total_weight(cases), difference=True, narrowed=narrowed)


@dataclass(frozen=True, slots=True)
class Kept:
    """A named submission: the charge it is in the ledger, its receipt, and results with digests of outputs, where told."""

    name: str
    entry: int = 0
    digest: str = ""
    values: tuple[float, ...] | None = None
    outputs: tuple[str, ...] | None = None


class Names:
    """One file a name, written whole or not at all; the last submission of a name is the one that counts."""

    def __init__(self, ledger: str) -> None:
        if "://" in ledger:
            message = "names are kept in a folder beside the ledger, so the ledger must be a file"
            raise RefusedError(message)
        self.folder = Path(f"{ledger}.names")

    def keep(self, kept: Kept) -> None:
        """Write a submission down under its name."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        place = self._place(kept.name)
        draft = place.with_suffix(f".{os.getpid()}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as text:
            json.dump(asdict(kept), text)
            text.flush()
            os.fsync(text.fileno())
        draft.replace(place)

    def find(self, name: str) -> Kept | None:
        """Return what a name stands for; None where it is not known."""
        place = self._place(name)
        if not place.exists():
            return None
        try:
            held = json.loads(place.read_text(encoding="utf-8"))
            pieces = {part: None if held[part] is None else tuple(held[part]) for part in ("values", "outputs")}
            return Kept(str(held["name"]), int(held["entry"]), str(held["digest"]), **pieces)
        except (ValueError, KeyError, TypeError):
            pass
        message = f"{place}: what is kept of this submission cannot be read"
        raise IntegrityError(message)

    def _place(self, name: str) -> Path:
        # People choose names, and a name is not a path.
        return self.folder / f"{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"
