"""Requests that make models or use them: learn, train, fit, predict, evaluate and distill."""

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from holdtrue.errors import InvalidParameter
from holdtrue.requests.fields import (
    Bounds,
    ClassColumns,
    Columns,
    Count,
    GivenClasses,
    Label,
    Labels,
    ModelName,
    Privacy,
    RequestRecord,
    Row,
    Rows,
    Share,
    Text,
)


class Learn(RequestRecord, frozen=True, kw_only=True):
    """A hypothesis of a finite class that errs about as seldom as the best."""

    hypotheses: Annotated[GivenClasses, Meta(description="The class, or several that are joined.")]
    target: Annotated[Text, Meta(description="The yes-or-no question to predict.")]
    features: ClassColumns = None
    epsilon: Annotated[Privacy | None, Meta(description="The privacy of the pick; a share of the reserve unless given.")] = (
        None
    )
    alpha: Annotated[Share | None, Meta(description="The excess error that the rows must certify.")] = None
    beta: Annotated[Share | None, Meta(description="How often the certificate may fail; the plan's unless given.")] = None
    weights: Annotated[
        Annotated[tuple[Annotated[float, Meta(gt=0, le=1)], ...], Meta(min_length=2, max_length=64)] | None,
        Meta(description="The prior share of each of several classes; equal unless given."),
    ] = None
    anyway: Annotated[bool, Meta(description="Whether to go on where the rows do not certify alpha.")] = False
    assuming: Annotated[
        Literal["realizable"] | None, Meta(description="What is assumed: that some hypothesis of the class is never wrong.")
    ] = None
    check: Annotated[bool, Meta(description="Whether one more question is asked, about the errors of what was picked.")] = (
        False
    )
    row_weights: Annotated[
        Annotated[tuple[Annotated[int, Meta(ge=0, le=1_000_000)], ...], Meta(min_length=1, max_length=10**7)] | None,
        Meta(description="Public whole numbers, one for each row in its order: how often its error counts."),
    ] = None


class EstimatorDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """A scikit-learn estimator by name, with parameters from a short public list; code is never in it."""

    kind: Annotated[
        Literal[
            "logistic-regression",
            "decision-tree",
            "gaussian-naive-bayes",
            "linear-regression",
            "ridge",
            "decision-tree-regressor",
        ],
        Meta(description="Which estimator."),
    ]
    parameters: Annotated[
        Annotated[dict[str, Label | None], Meta(max_length=16)], Meta(description="Its parameters, by name.")
    ] = msgspec.field(default_factory=dict)


class Train(RequestRecord, frozen=True, kw_only=True):
    """A model to train on disjoint parts of the rows; releases nothing."""

    name: Annotated[ModelName, Meta(description="The model's name.")]
    estimator: Annotated[
        EstimatorDocument | None, Meta(description="What is trained on each part, unless hypotheses are given.")
    ] = None
    target: Annotated[Text, Meta(description="The column or yes-or-no question to predict.")]
    features: Annotated[Columns | None, Meta(description="What the model reads; all number columns unless given.")] = None
    parts: Annotated[Annotated[int, Meta(ge=1, le=100_000)], Meta(description="How many disjoint parts vote.")] = 200
    labels: Annotated[Labels | None, Meta(description="The public labels of the target, where the card has none.")] = None
    bounds: Annotated[Bounds | None, Meta(description="The public bounds of a target that is a number.")] = None
    key: Annotated[Text | None, Meta(description="The column of public keys by which rows are dealt to parts.")] = None
    order: Annotated[Literal["fixed"] | None, Meta(description="Declares that no value decides the order of the rows.")] = (
        None
    )
    held_out: Annotated[Share | None, Meta(description="The share of rows kept out of training, to judge the model by.")] = (
        None
    )
    hypotheses: Annotated[
        GivenClasses | None,
        Meta(description="The class whose best on each part votes, or several that are joined; in place of an estimator."),
    ] = None
    assuming: Annotated[
        Literal["realizable"] | None, Meta(description="What is assumed: that some hypothesis of the class is never wrong.")
    ] = None
    replace: Annotated[bool, Meta(description="Whether it takes the place of another model of the same name.")] = False


class Fourier(Struct, frozen=True, forbid_unknown_fields=True, tag_field="basis", tag="fourier"):
    """Random Fourier features, from a public seed: every row has length 1 exactly, up to rounding (V5).

    x becomes (cos of each of ``pairs`` random combinations of x, and their sines) / sqrt(pairs), for features that their
    public bounds bring into [-1, 1]; the combinations have normal weights of deviation ``scale``. A seed that was chosen by
    looking at the rows voids the bound on the loss.
    """

    pairs: Annotated[int, Meta(ge=1, le=10_000, description="How many random combinations of the features.")]
    scale: Annotated[float, Meta(gt=0, le=1e6, description="How fast they turn.")]
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1, description="The public seed of the random weights.")]

    def __post_init__(self) -> None:
        _check_field("pairs", self.pairs, int, low=1, high=10_000)
        _check_field("scale", self.scale, (int, float), low=1e-300, high=1e6)
        _check_field("seed", self.seed, int, low=0, high=2**63 - 1)


class Polynomial(Struct, frozen=True, forbid_unknown_fields=True, tag_field="basis", tag="polynomial"):
    """All products of up to ``degree`` features, weighted and scaled so that no row is longer than 1 (V5)."""

    degree: Annotated[int, Meta(ge=1, le=16, description="The most features in one product.")]

    def __post_init__(self) -> None:
        _check_field("degree", self.degree, int, low=1, high=16)


Basis: TypeAlias = Fourier | Polynomial


def _check_field(name: str, value: object, kind: Any, *, low: float, high: float) -> None:  # noqa: ANN401 - a type or two
    """Refuse what the annotations refuse, also where a record is made in Python."""
    if not isinstance(value, kind) or isinstance(value, bool) or not low <= value <= high:
        whole = "a whole number" if kind is int else "a number"
        raise InvalidParameter(name, value, f"{whole} from {low:g} to {high:g}")


FitKind: TypeAlias = Literal["ridge", "logistic", "huber", "hinge", "squared-clipped", "thresholds"]


class Fit(RequestRecord, frozen=True, kw_only=True):
    """A linear model that one row changes very little: weights published once with noise, or predictions one by one."""

    name: Annotated[ModelName, Meta(description="The model's name.")]
    kind: Annotated[
        FitKind,
        Meta(
            description="Which loss: ridge, huber and squared-clipped for numbers, logistic and hinge for two labels, or"
            " thresholds for two labels by one feature."
        ),
    ]
    target: Annotated[Text, Meta(description="The column or yes-or-no question to predict.")]
    features: Annotated[Columns | None, Meta(description="What the model reads; all number columns unless given.")] = None
    bounds: Annotated[
        Bounds | None, Meta(description="The public bounds of features, which are clipped to them, and of the target.")
    ] = None
    labels: Annotated[Labels | None, Meta(description="The two public labels of the target, where the card has none.")] = (
        None
    )
    mu: Annotated[
        Privacy | None,
        Meta(description="The privacy of the weights, or of one prediction; a share of the reserve unless given."),
    ] = None
    epsilon: Annotated[
        Privacy | None, Meta(description="For release each: the privacy of one prediction, by Laplace noise.")
    ] = None
    release: Annotated[
        Literal["once", "each"] | None,
        Meta(
            description="Whether weights are published once, or kept by the owner and each prediction charged; once unless"
            " given, each for thresholds."
        ),
    ] = None
    method: Annotated[
        Literal["minimiser", "descent"],
        Meta(description="The minimiser with a regulariser, or a fixed number of gradient steps without one."),
    ] = "minimiser"
    basis: Annotated[
        Basis | None, Meta(description="Functions of the features that the model is linear in; the features unless given.")
    ] = None
    radius: Annotated[
        Annotated[float, Meta(gt=0, le=1e6)], Meta(description="The length of the weights that it is compared with.")
    ] = 1
    strength: Annotated[
        Annotated[float, Meta(gt=0, le=1e6)] | None,
        Meta(description="The strength of the regulariser; what makes the bound least unless given."),
    ] = None
    replace: Annotated[bool, Meta(description="Whether a kept fit takes the place of another model of the same name.")] = (
        False
    )


class Predict(RequestRecord, frozen=True, kw_only=True):
    """Private predictions of a trained model, for one row or several."""

    model: Annotated[ModelName, Meta(description="The model's name.")]
    row: Annotated[Row | None, Meta(description="One row, by column.")] = None
    rows: Annotated[Rows | None, Meta(description="Several rows, in place of one.")] = None
    epsilon: Annotated[
        Privacy | None, Meta(description="The privacy of one prediction; a share of the reserve unless given.")
    ] = None
    mu: Annotated[Privacy | None, Meta(description="The same in Gaussian differential privacy.")] = None
    method: Annotated[Literal["soft-majority", "agnostic", "noisy-max"], Meta(description="How votes become a label.")] = (
        "soft-majority"
    )
    screen: Annotated[Share | None, Meta(description="The share of parts that must agree, about, for an answer.")] = None


class Evaluate(RequestRecord, frozen=True, kw_only=True):
    """How often a model's private predictions err at most, by held-out rows, or the error of what was released."""

    model: Annotated[ModelName | None, Meta(description="The name of a model that predicts privately.")] = None
    at_most: Annotated[
        Share | Annotated[tuple[Share, ...], Meta(min_length=1, max_length=100)] | None,
        Meta(description="The share of errors to certify; several falling ones are tried until one is refused."),
    ] = None
    epsilon: Annotated[
        Privacy | None,
        Meta(description="The privacy of the predictions that are judged; a share of the reserve unless given."),
    ] = None
    mu: Annotated[
        Privacy | None, Meta(description="The privacy of the evaluation, for each share; of the reserve unless given.")
    ] = None
    beta: Annotated[Share | None, Meta(description="The probability that it is wrong; the plan's unless given.")] = None
    entry: Annotated[
        Count | None, Meta(description="The ledger's entry of a learned rule or published model, in place of a name.")
    ] = None
    digest: Annotated[
        Annotated[str, Meta(max_length=64)] | None,
        Meta(description="With an entry: the digest of the rule or model that is meant; no other is judged."),
    ] = None


class Distill(RequestRecord, frozen=True, kw_only=True):
    """Labels for public rows, and a student that is taught with them and predicts at no further cost."""

    model: Annotated[ModelName, Meta(description="The model that labels.")]
    rows: Annotated[
        Annotated[tuple[Row, ...], Meta(min_length=1, max_length=100_000)], Meta(description="The public rows to label.")
    ]
    student: Annotated[EstimatorDocument | None, Meta(description="What is taught; left to whoever asks unless given.")] = (
        None
    )
    labels: Annotated[Count | None, Meta(description="How many rows are labelled; all unless given.")] = None
    groups: Annotated[Count | None, Meta(description="Into how many groups of like rows they go, with one label each.")] = (
        None
    )
    epsilon: Annotated[
        Privacy | None, Meta(description="The privacy of one label; a share of the reserve unless given.")
    ] = None
    mu: Annotated[Privacy | None, Meta(description="The same in Gaussian differential privacy.")] = None
    screen: Annotated[Share | None, Meta(description="The share of parts that must agree, about, for a label.")] = None
