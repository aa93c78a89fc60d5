"""The cases of a holdout, in an order of their own, and what a submission may look like.

A holdout has labels, one per case. With ids, cases are kept in the order of their ids, so that any order in which they come
is the same holdout. A submission is public: it is checked before anything is charged, by rules that never look at a label.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from holdtrue import exact
from holdtrue.errors import InvalidParameter
from holdtrue.exact import count, read_list
from holdtrue.holdouts.result_files import compare_ids

__all__ = ["BITS", "Array", "Cases", "array_of", "cases_of", "clamped_results", "narrow_array", "unit_interval"]

BITS = 20
"""Values are whole multiples of 2^-20."""

Array: TypeAlias = npt.NDArray[Any]
_WHOLE = 2.0**53
_TEXT = "U"


def array_of(name: str, values: object) -> Array:
    """Return labels or ids as one row of numbers or of text; refuse anything else by its type, never by a value."""
    expected = "one row of numbers, of text or of True and False"
    try:
        array = exact.array_of(name, values, expected=expected)
        if array.dtype.kind == _TEXT and isinstance(values, (list, tuple)):
            array = np.asarray(values, dtype=object)  # beside a text, NumPy makes texts of numbers
        if array.dtype == object:
            kinds = {_kind(value) for value in array.flat}
            if len(kinds) != 1 or None in kinds:
                raise InvalidParameter.saying(name, f"{name} has missing values or several types; expected {expected}")  # noqa: TRY301
            array = array.astype(kinds.pop())
    except InvalidParameter:
        raise
    except Exception:  # noqa: BLE001 - whatever is no array; its own words may quote a label
        raise InvalidParameter(name, type(values).__name__, expected) from None
    if array.ndim != 1 or array.dtype.kind not in "biufU":
        raise InvalidParameter.saying(name, f"{name} has {array.ndim} dimensions of {array.dtype}; expected {expected}")
    if not array.size:
        raise InvalidParameter.saying(name, f"{name} is empty; expected at least one case")
    return narrow_array(name, array)


def _kind(value: object) -> type | None:
    match value:
        case str():
            return str
        case bool() | np.bool_():
            return bool
        case int() | np.integer():
            return int
        case float() | np.floating():
            return float
        case _:
            return None


def narrow_array(name: str, array: Array) -> Array:
    """Return a copy in the narrowest type that holds every value, so that equal labels have equal bytes.

    True is 1, whole floats are integers, and text is as wide as its longest.
    """
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise InvalidParameter.saying(name, f"{name} has NaN or infinity; expected a finite value for every case")
        if not ((np.abs(array) < _WHOLE) & (array == np.rint(array))).all():
            return array.astype(np.float64)
        array = array.astype(np.int64)
    if array.dtype.kind == _TEXT:
        width = int(np.char.str_len(array).max(initial=1))
        return array.astype(f"<U{max(1, width)}")
    if array.dtype.kind == "b":
        return array.astype(np.int8)
    low, high = int(array.min()), int(array.max())
    for dtype in (np.int8, np.int16, np.int32):
        held = np.iinfo(dtype)
        if held.min <= low and high <= held.max:
            return array.astype(dtype)
    return array.astype(np.uint64 if high > np.iinfo(np.int64).max else np.int64)


def unit_interval(name: str, values: object, *, cases: int) -> npt.NDArray[np.float64]:
    """Return numbers in [0, 1], one per case. They are the request's own and public, so a number outside is refused."""
    numbers = _numbers(name, values, cases=cases)
    if not ((numbers >= 0) & (numbers <= 1)).all():  # NaN is neither
        raise InvalidParameter.saying(name, f"{name} must be numbers in [0, 1]; one is outside, or NaN")
    return numbers


def clamped_results(name: str, values: object, *, cases: int) -> npt.NDArray[np.float64]:
    """Return results clamped to [0, 1], one per case; NaN is 0.

    Results are made with the labels, so a refusal may depend on their type and number, and on nothing that they hold.
    """
    return np.clip(np.nan_to_num(_numbers(name, values, cases=cases), nan=0.0), 0.0, 1.0)


def _numbers(name: str, values: object, *, cases: int) -> npt.NDArray[np.float64]:
    try:
        numbers = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameter(name, type(values).__name__, "an array of numbers in [0, 1]") from None
    if numbers.shape != (cases,):
        raise InvalidParameter.saying(name, f"{name} has shape {numbers.shape}, not one number for each of {cases:,} cases")
    return numbers


@dataclass(frozen=True, slots=True, eq=False)
class Cases:
    """Labels in the holdout's own order, and everything about the cases that is public.

    ``order`` brings an array in the order of the constructor's cases into the holdout's own. ``weights`` are whole numbers
    up to 2^20; ``labels`` are those declared, ``classes`` the public number of cases of some of them. ``clusters`` numbers
    each case's cluster from 0 on; ``sizes`` is how many cases each one has, None where every case is its own.
    """

    truth: Array
    ids: Array | None
    order: npt.NDArray[np.intp] | None
    weights: npt.NDArray[np.int64] | None
    labels: tuple[Any, ...] | None
    classes: Mapping[Any, int]
    clusters: npt.NDArray[np.intp] | None = None
    sizes: npt.NDArray[np.int64] | None = None

    @property
    def number(self) -> int:
        """Return how many cases there are."""
        return int(self.truth.size)

    @property
    def label_kind(self) -> str:
        """Return whether labels are "text" or "numbers": fixed and public once the holdout is created."""
        return _kind_of(self.truth)

    @property
    def units(self) -> int:
        """Return how many independent units there are: clusters, or cases."""
        return self.number if self.sizes is None else int(self.sizes.size)

    def sum_clusters(self, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the sum over each cluster; the values themselves where every case is its own."""
        if self.clusters is None or self.sizes is None:
            return values
        sums = np.zeros(self.sizes.size, dtype=np.int64)
        np.add.at(sums, self.clusters, values)
        return sums

    def weigh_clusters(self) -> "Cases":
        """Return the cases with weights that add up to 2^20 in each cluster, so that its mean counts once (U4).

        Weights are even, and those of one cluster differ by at most 2, by position; without clusters nothing changes.
        """
        if self.clusters is None or self.sizes is None:
            return self
        order = np.argsort(self.clusters, kind="stable")
        rank = np.empty(self.number, dtype=np.int64)
        rank[order] = np.arange(self.number) - np.repeat(np.cumsum(self.sizes) - self.sizes, self.sizes)
        share, rest = np.divmod(1 << BITS - 1, self.sizes)
        return replace(self, weights=2 * (share[self.clusters] + (rank < rest[self.clusters])))

    @property
    def grid(self) -> int:
        """Return the sum of values when every case has the value 1, or every cluster where they are weighed."""
        return (self.number if self.weights is None else self.units) << BITS

    def order_by_ids(self, array: Array, ids: object = None) -> Array:
        """Return an array of one value a case in the holdout's own order: by its ids, or as the labels were given."""
        if array.shape[:1] != (self.number,):
            raise InvalidParameter.saying(
                "y_pred", f"y_pred has {array.size:,} values; expected {self.number:,}, one per case"
            )
        if ids is None:
            return array if self.order is None else array[self.order]
        if self.ids is None:
            raise InvalidParameter.saying("ids", "this holdout was opened without ids; leave ids out")
        given = array_of("ids", ids)
        order = np.argsort(given, kind="stable")
        if given.size != self.ids.size or not np.array_equal(given[order], self.ids):
            words = compare_ids(given.astype(str).tolist(), self.ids.astype(str).tolist())
            raise InvalidParameter.saying("ids", f"ids must be those of the holdout, each once{words and f'; {words}'}")
        return array[order]

    def predictions(self, values: object, ids: object = None) -> Array:
        """Return submitted labels in the holdout's own order; refuse kinds and labels that cannot be right.

        A refusal depends on the submission and on what is declared (kind, number of cases, labels), never on a label.
        """
        array = array_of("y_pred", values)
        given = _kind_of(array)
        if given != self.label_kind:
            raise InvalidParameter("y_pred", given, f"{self.label_kind}, as the labels of this holdout are")
        if self.labels is not None and not np.isin(array, np.asarray(self.labels)).all():
            raise InvalidParameter.saying(
                "y_pred", f"y_pred has labels that were never declared; the labels are {list(self.labels)}"
            )
        return self.order_by_ids(array, ids)

    def columns(self) -> dict[str, Array]:
        """Return what the fingerprint is taken of: who the cases are, their labels and their weights."""
        case = np.arange(self.number) if self.ids is None else self.ids
        found = {"case": _wide(case), "label": _wide(self.truth)}
        if self.clusters is not None:
            found["cluster"] = self.clusters.astype(np.int64)
        return found if self.weights is None else found | {"weight": self.weights}

    def identify(self) -> bytes | None:
        """Return what tells these cases from others in this process; None where there are neither ids nor labels to tell."""
        if self.ids is None and (self.truth == self.truth[0]).all():
            return None
        digest = hashlib.blake2b(str(self.number).encode())
        for array in (self.truth, self.ids):
            digest.update(b"" if array is None else array.dtype.str.encode() + array.tobytes())
        return digest.digest()


def _kind_of(array: Array) -> str:
    return "text" if array.dtype.kind == _TEXT else "numbers"


def _wide(array: Array) -> Array:
    """Return 64 bits a value, so that the fingerprint does not depend on how narrowly the values could be kept."""
    match array.dtype.kind:
        case "i":
            return array.astype(np.int64)
        case "U" | "u":  # beyond 63 bits a number is kept as its digits
            return array.astype(str).astype(object)
        case _:
            return array.astype(np.float64)


def cases_of(  # noqa: PLR0913 - all that is said of the cases
    y_true: object,
    *,
    ids: object = None,
    weights: object = None,
    labels: Sequence[object] | None = None,
    classes: Mapping[Any, int] | None = None,
    cluster: object = None,
) -> Cases:
    """Return the cases of a holdout, checked; what is said of them here is the custodian's to know."""
    truth = array_of("y_true", y_true)
    named, order = (None, None) if ids is None else _sorted_ids(ids, truth.size)
    declared = None if labels is None else tuple(read_list("labels", labels, expected="a list of labels"))
    if declared is not None and not np.isin(truth, array_of("labels", declared)).all():
        raise InvalidParameter.saying("labels", "labels must include every label that occurs in y_true")
    if classes is not None and not isinstance(classes, Mapping):
        raise InvalidParameter("classes", type(classes).__name__, "a mapping from labels to numbers of cases")
    held = {label: count("classes", number) for label, number in (classes or {}).items()}
    for label, number in held.items():
        if int(np.count_nonzero(truth == label)) != number:
            raise InvalidParameter.saying("classes", "classes must give the number of cases of each class it names")
    whole = None if weights is None else _whole_weights(weights, truth.size)
    groups = None if cluster is None else array_of("cluster", cluster)
    if groups is not None and groups.size != truth.size:
        raise InvalidParameter.saying(
            "cluster", f"cluster has {groups.size:,} values; expected {truth.size:,}, one per case"
        )
    if groups is not None and whole is not None:
        raise InvalidParameter.saying("weights", "leave out weights with cluster: every cluster counts once")
    if order is not None:
        truth = truth[order]
        whole = None if whole is None else whole[order]
        groups = None if groups is None else groups[order]
    if groups is None:
        return Cases(truth, named, order, whole, declared, held)
    _, numbered, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    return Cases(truth, named, order, whole, declared, held, numbered.astype(np.intp), sizes.astype(np.int64))


def _sorted_ids(ids: object, cases: int) -> tuple[Array, npt.NDArray[np.intp]]:
    given = array_of("ids", ids)
    if given.size != cases:
        raise InvalidParameter.saying("ids", f"ids has {given.size:,} values; expected {cases:,}, one per case")
    order = np.argsort(given, kind="stable")
    known = given[order]
    if (known[1:] == known[:-1]).any():
        raise InvalidParameter.saying("ids", "ids must be unique")
    return known, order


def _whole_weights(weights: object, cases: int) -> npt.NDArray[np.int64]:
    """Return weights as whole, even multiples of 2^-20 of the largest, rounded; these are the weights from then on."""
    try:
        numbers = exact.array_of("weights", weights, expected="an array of numbers, 0 or above").astype(np.float64)
    except Exception:  # noqa: BLE001 - whatever is no array of numbers
        raise InvalidParameter("weights", type(weights).__name__, "an array of numbers, 0 or above") from None
    if numbers.shape != (cases,) or not np.isfinite(numbers).all() or (numbers < 0).any() or not numbers.any():
        raise InvalidParameter.saying(
            "weights", f"weights must be {cases:,} finite numbers, one per case, 0 or above and not all 0"
        )
    whole: npt.NDArray[np.int64] = 2 * np.rint(numbers / numbers.max() * (1 << BITS - 1)).astype(np.int64)
    return whole
