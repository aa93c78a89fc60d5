"""What is fixed when rows or cases are registered, what is asked of a holdout, and what else a custodian asks."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from holdtrue.requests.fields import (
    Bounds,
    Classes,
    Columns,
    Count,
    DatasetName,
    Flags,
    Label,
    Labels,
    Margin,
    Planned,
    Privacy,
    PublicName,
    RequestRecord,
    Results,
    Share,
    ShareOrNothing,
    TeamName,
    Text,
    Values,
    Weights,
    Words,
)


class Grant(RequestRecord, frozen=True, kw_only=True):
    """An analyst's allowance: a limit under the one budget of all."""

    analyst: Annotated[PublicName, Meta(description="Who it is for.")]
    asks: Annotated[
        Annotated[int, Meta(ge=0, le=10**12)] | None, Meta(description="How many questions' worth; null lifts the limit.")
    ]


class ReceiptDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """A receipt that was kept outside the ledger."""

    entry: Annotated[Annotated[int, Meta(ge=0, le=2**53)], Meta(description="The number of an entry.")]
    digest: Annotated[Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")], Meta(description="Its digest.")]


class Verify(RequestRecord, frozen=True, kw_only=True):
    """A ledger to be recomputed from its first entry."""

    receipts: Annotated[
        Annotated[tuple[ReceiptDocument, ...], Meta(max_length=1000)], Meta(description="Receipts to hold it against.")
    ] = ()


class Reserved(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Predictions that a reserve is kept for, in the currency that leaves the questions most unless one is named."""

    predictions: Annotated[Count, Meta(description="How many predictions, or other draws of bounded range.")]
    epsilon: Annotated[Privacy, Meta(description="The epsilon of each at most.")]
    currency: Annotated[
        Literal["mu", "rho", "draws"] | None,
        Meta(description="mu squared, as the questions; a purse in rho; or a purse counted in draws."),
    ] = None


class Terms(RequestRecord, frozen=True, kw_only=True):
    """All that is fixed for good when a ledger is created for rows."""

    queries: Annotated[Planned | None, Meta(description="How many questions are planned.")] = None
    alpha: Annotated[Share | None, Meta(description="How far every answer may be from the population.")] = None
    beta: Annotated[Share, Meta(description="How often any of the promises may fail.")] = 0.05
    epsilon: Annotated[Privacy | None, Meta(description="The privacy of everything that is ever released.")] = None
    delta: Annotated[ShareOrNothing | None, Meta(description="The slack of that privacy.")] = None
    reserve: Annotated[
        ShareOrNothing | Reserved,
        Meta(
            description="The share of the budget that is kept for other verbs than ask, or the predictions it is kept for."
        ),
    ] = 0.25
    uses: Annotated[Count, Meta(description="For how many uses of those verbs the reserve is planned.")] = 10
    cap: Annotated[
        Literal["validity", "privacy"] | None, Meta(description="Whether the plan or epsilon and delta cap the ledger.")
    ] = None
    iid: Annotated[bool, Meta(description="Whether the rows are independent draws from the population.")] = False
    pure: Annotated[bool, Meta(description="Whether the ledger counts pure epsilon.")] = False
    types: Annotated[
        Annotated[dict[Text, Literal["boolean", "integer", "real", "text", "date", "timestamp"]], Meta(max_length=4096)]
        | None,
        Meta(description="The types of columns, where they are not to be inferred."),
    ] = None
    bounds: Annotated[Bounds | None, Meta(description="The public bounds of columns of numbers.")] = None
    labels: Annotated[
        Annotated[dict[Text, Labels], Meta(max_length=4096)] | None, Meta(description="The public labels of columns.")
    ] = None
    header: Annotated[bool | Columns | None, Meta(description="Whether a CSV file has a header, or its columns' names.")] = (
        None
    )
    second_budget: Annotated[bool, Meta(description="Whether rows that have a budget already get another one.")] = False
    unit: Annotated[
        Text, Meta(description="Who is protected: a row, or whoever has one key in the column of this name.")
    ] = "row"
    tables: Annotated[
        Annotated[dict[Text, Text], Meta(max_length=64)] | None,
        Meta(description="The files with rows that units own, by name; the data have one row for each unit then."),
    ] = None
    side: Annotated[
        Literal["both", "low", "high"], Meta(description="Which ends of intervals for the population are promised.")
    ] = "both"
    group: Annotated[
        Annotated[int, Meta(ge=1, le=10**6)] | None,
        Meta(description="The most rows that one person owns, who is then protected with all of them."),
    ] = None


class Register(Terms, frozen=True, kw_only=True):
    """A dataset to guard."""

    name: Annotated[DatasetName, Meta(description="The dataset's name.")]
    path: Annotated[Text, Meta(description="Where its files are.")]
    description: Annotated[Words, Meta(description="What it is, in words.")] = ""


class Score(RequestRecord, frozen=True, kw_only=True):
    """The score of a submission: one look at a holdout."""

    y_pred: Annotated[Values | None, Meta(description="Predictions, one for each case.")] = None
    cases: Annotated[
        Results | None, Meta(description="Results from elsewhere, one for each case, in place of predictions.")
    ] = None
    metric: Annotated[Literal["accuracy", "error", "brier", "recall"], Meta(description="How predictions are scored.")] = (
        "accuracy"
    )
    train: Annotated[
        Values | None, Meta(description="Predictions, or results, for the training cases of a reusable holdout.")
    ] = None
    of: Annotated[Label | None, Meta(description="The class whose recall is scored.")] = None
    ids: Annotated[Values | None, Meta(description="The id of each case, where they come in another order.")] = None
    name: Annotated[PublicName | None, Meta(description="The public name by which results are known again.")] = None
    threshold: Annotated[Share | None, Meta(description="By how much this training score may differ.")] = None


class Compare(RequestRecord, frozen=True, kw_only=True):
    """By how much the first submission is above the second: one look."""

    first: Annotated[Values, Meta(description="Predictions of the first, or its results.")]
    second: Annotated[Values, Meta(description="Predictions of the second, or its results.")]
    ids: Annotated[Values | None, Meta(description="The id of each case, where they come in another order.")] = None
    results: Annotated[bool, Meta(description="Whether these are results, not predictions.")] = False
    differ: Annotated[Flags | None, Meta(description="The cases where results can differ.")] = None
    name: Annotated[PublicName | None, Meta(description="The public name by which these results are known again.")] = None


class Gate(RequestRecord, frozen=True, kw_only=True):
    """Whether a submission is better than the incumbent: one look, yes or no."""

    y_pred: Annotated[Values | None, Meta(description="Predictions, one for each case.")] = None
    cases: Annotated[
        Results | None, Meta(description="Results from elsewhere, one for each case, in place of predictions.")
    ] = None
    margin: Annotated[Margin, Meta(description="By how much it must be better; below 0, by how much it may be worse.")] = 0
    ids: Annotated[Values | None, Meta(description="The id of each case, where they come in another order.")] = None
    name: Annotated[PublicName | None, Meta(description="The public name by which results are known again.")] = None


class Certify(RequestRecord, frozen=True, kw_only=True):
    """The score of a gate's incumbent, or its gain, or the bound of a yes; closes the gate for good."""

    what: Annotated[
        Literal["score", "gain", "bound"],
        Meta(description="The score, or the gain over whom the gate was opened with, or the lower bound of a yes."),
    ] = "score"
    of: Annotated[
        Text | None,
        Meta(description="For a bound: the submission of the verdict that was a yes; the incumbent unless given."),
    ] = None


class Submit(RequestRecord, frozen=True, kw_only=True):
    """A submission to a leaderboard."""

    y_pred: Annotated[Values, Meta(description="Predictions, one for each case.")]
    name: Annotated[TeamName | None, Meta(description="Under which name it stands; over HTTP behind the caller's own.")] = (
        None
    )
    ids: Annotated[Values | None, Meta(description="The id of each case, where they come in another order.")] = None


class HoldoutTerms(RequestRecord, frozen=True, kw_only=True):
    """All that is fixed for good when a ledger is created for cases."""

    looks: Annotated[Count | None, Meta(description="How many looks are planned.")] = None
    beta: Annotated[Share | None, Meta(description="How often any of the promises may fail; 0.05 unless given.")] = None
    yes: Annotated[Count | None, Meta(description="How often a gate may say yes.")] = None
    incumbent: Annotated[Values | None, Meta(description="What a gate's first submission must be better than.")] = None
    train: Annotated[Values | None, Meta(description="The labels of the training cases of a reusable holdout.")] = None
    overfits: Annotated[Count | None, Meta(description="How many training scores of a reusable holdout may be wrong.")] = (
        None
    )
    private: Annotated[
        bool | None, Meta(description="Whether the cases keep their secrets; as the mode has it unless given.")
    ] = None
    epsilon: Annotated[Privacy | None, Meta(description="The privacy of everything that is ever told.")] = None
    delta: Annotated[Share | None, Meta(description="The slack of that privacy.")] = None
    threshold: Annotated[Share | None, Meta(description="By how much training scores may differ.")] = None
    tolerance: Annotated[Share | None, Meta(description="How far a guess may be from the holdout's score.")] = None
    reserve: Annotated[
        ShareOrNothing, Meta(description="The share of the budget that full scores leave for other releases.")
    ] = 0
    metric: Annotated[
        Literal["accuracy", "cases", "hits"] | None,
        Meta(description="Whether predictions, results in [0, 1], or results that are right or not are given."),
    ] = None
    ids: Annotated[Values | None, Meta(description="The id of each case.")] = None
    weights: Annotated[Weights | None, Meta(description="The weight of each case.")] = None
    labels: Annotated[Labels | None, Meta(description="The public labels.")] = None
    classes: Annotated[
        Classes | None, Meta(description="Labels whose number of cases is public, each with that number.")
    ] = None
    unseen: Annotated[bool | None, Meta(description="Whether submissions are made without sight of the cases.")] = None
    cluster: Annotated[
        Values | None, Meta(description="The unit that each case belongs to, on a gate or for full scores.")
    ] = None
    tells: Annotated[
        Literal["bounds at the end", "bounds"] | None,
        Meta(description="Whether a gate tells a lower bound of every yes after it has closed, or with the yes."),
    ] = None
    gain: Annotated[Share | None, Meta(description="The gain that a gate plans its bets for.")] = None
    discordant: Annotated[
        Share | None, Meta(description="The share of cases in which two submissions are expected to differ.")
    ] = None
    submissions: Annotated[Count | None, Meta(description="How many submissions a leaderboard takes.")] = None
    rule: Annotated[
        Literal["ladder", "parameter-free ladder", "private ladder", "private"] | None,
        Meta(description="What a leaderboard tells; a ladder unless given."),
    ] = None
    step: Annotated[Share | None, Meta(description="By how much a submission must be better to lead.")] = None
    moves: Annotated[Count | None, Meta(description="How often the lead of a private ladder may change.")] = None


class RegisterHoldout(HoldoutTerms, frozen=True, kw_only=True, tag="register-holdout"):
    """Cases to guard: labels, a file of them, or a number of cases whose results come with every look."""

    name: Annotated[DatasetName, Meta(description="The holdout's name.")]
    kind: Annotated[Literal["holdout", "leaderboard"], Meta(description="What is registered.")] = "holdout"
    description: Annotated[Words, Meta(description="What it is, in words.")] = ""
    y_true: Annotated[Values | None, Meta(description="The label of each case.")] = None
    path: Annotated[Text | None, Meta(description="The file with the labels.")] = None
    column: Annotated[Text | None, Meta(description="The column of that file.")] = None
    cases: Annotated[Annotated[int, Meta(ge=1, le=10**7)] | None, Meta(description="How many cases there are.")] = None
