"""``holdtrue fit``, ``train``, ``predict``, ``evaluate``, ``distill`` and ``models``: models on private rows."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from holdtrue.command.asking import list_costs, read_document
from holdtrue.command.output import Json, print_json, print_lines, print_table, show_progress, write_file
from holdtrue.command.paths import Analyst, Asking, Data, LedgerOption, RehashOption, open_curator, share_options
from holdtrue.errors import InvalidParameter, RequestError
from holdtrue.records import FittedModel
from holdtrue.requests import Basis, FitKind, Fourier, Polynomial

if TYPE_CHECKING:
    from holdtrue.hypotheses import HypothesisClass
    from holdtrue.verbs.training import Model

__all__ = ["distill", "evaluate", "fit", "models", "predict", "read_table", "train"]

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the model.")]
Kind = Annotated[
    Literal["logistic", "tree", "linear", "ridge"],
    typer.Option("--estimator", help="What each part trains: logistic and tree give labels, linear and ridge numbers."),
]
Epsilon = Annotated[float | None, typer.Option(help="Privacy to spend on each prediction. Default: a share of the reserve.")]
Mu = Annotated[float | None, typer.Option(help="For numbers: normal noise of this mu instead of an epsilon.")]
ScreenOption = Annotated[
    float | None, typer.Option(help="Answer only if about this share of the parts agrees, such as 0.6.")
]


def train(
    data: Data,
    name: Name,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="A column with public labels or bounds, or a yes-or-no question.")
    ],
    *,
    feature: Annotated[
        list[str] | None, typer.Option(help="A column of numbers or a yes-or-no question; repeat. Default: all numbers.")
    ] = None,
    label: Annotated[list[str] | None, typer.Option(help="A public label of a text column; repeat.")] = None,
    estimator: Kind = "logistic",
    hypotheses: Annotated[
        Path | None,
        typer.Option("--class", metavar="FILE.json", help="A finite class, as JSON: its best on each part votes instead."),
    ] = None,
    realizable: Annotated[
        bool, typer.Option("--assume-realizable", help="With --class: assume that some rule is never wrong.")
    ] = False,
    order: Annotated[
        Literal["fixed"] | None, typer.Option(help="'fixed' declares that no value decides the order of the rows.")
    ] = None,
    parts: Annotated[int, typer.Option(help="How many disjoint parts of the rows; each part has one vote.")] = 200,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Public keys that stay the same when a row is replaced. Without them, a row affects two votes.",
        ),
    ] = None,
    held_out: Annotated[
        float | None, typer.Option(help="Share of the rows kept out of training, to evaluate it; needs --key or --order.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Take the place of another model of the same name.")] = False,
    ledger: LedgerOption = None,
    rehash: RehashOption = False,
    as_json: Json = False,
) -> None:
    """Train a model on disjoint parts of the rows and keep it beside the ledger. Costs nothing and releases nothing."""
    with open_curator(data, ledger, rehash=rehash) as curator, show_progress("training"):
        given: dict[str, Any] = {"target": target, "features": feature, "labels": label, "parts": parts}
        given |= {"key": key, "order": order, "held_out": held_out, "assuming": "realizable" if realizable else None}
        given["replace"] = replace
        learner = _make_estimator(estimator) if hypotheses is None else None
        model = curator.train(name, learner, hypotheses=_read_class(hypotheses), **given)
    _print_model(model, as_json=as_json)


def _print_model(model: "Model", *, as_json: bool) -> None:
    """Print what is public about a model that was kept."""
    asked, columns = model.asked, list(model.columns)
    proven = [] if asked.certificate is None else [("proven", asked.certificate)]
    if as_json:
        public = {"labels": None if asked.labels is None else list(asked.labels), "bounds": asked.bounds}
        facts = {"model": asked.name, "parts": asked.parts, "features": columns, "rows": asked.cut.sentence}
        print_json(facts | public | ({} if asked.certificate is None else {"certificate": asked.certificate}))
        return
    gives = ", ".join(map(str, asked.labels)) if asked.labels else f"numbers in {asked.bounds}"
    parts = [] if asked.cut.by == "whole" else [("parts", f"{asked.parts:,}")]
    lines = [*parts, ("rows", asked.cut.sentence), ("reads", ", ".join(columns)), ("says", gives)]
    print_lines(asked.name, [*lines, *proven])


def _read_basis(text: str) -> Basis:
    """Return the functions that a text names; InvalidParameter for any other text."""
    word, *numbers = text.split(":")
    try:
        if word == "fourier":
            pairs, scale, seed = numbers
            return Fourier(int(pairs), float(scale), int(seed))
        if word == "polynomial":
            (degree,) = numbers
            return Polynomial(int(degree))
    except InvalidParameter:
        raise
    except ValueError:
        pass
    raise InvalidParameter("basis", text, "fourier:PAIRS:SCALE:SEED, such as fourier:64:2:7, or polynomial:DEGREE")


def _read_class(path: Path | None) -> "HypothesisClass | None":
    if path is None:
        return None
    from holdtrue.hypotheses import read_class

    return read_class(read_document(path))


@share_options
def fit(
    asking: Asking,
    name: Name,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="A number with public bounds, two labels, or a yes-or-no question.")
    ],
    *,
    kind: Annotated[
        FitKind,
        typer.Option(help="ridge, huber, squared-clipped: numbers; logistic, hinge: two labels; thresholds: one feature."),
    ] = "ridge",
    feature: Annotated[
        list[str] | None, typer.Option(help="A column of numbers or a yes-or-no question; repeat. Default: all numbers.")
    ] = None,
    label: Annotated[list[str] | None, typer.Option(help="A public label of a text column; repeat.")] = None,
    mu: Annotated[
        float | None, typer.Option(help="Privacy of the weights, or of each prediction. Default: a share of the reserve.")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="With --release each: privacy of each prediction.")] = None,
    release: Annotated[
        Literal["once", "each"] | None,
        typer.Option(help="once publishes the weights; each keeps them, and holdtrue predict is charged each time."),
    ] = None,
    method: Annotated[
        Literal["minimiser", "descent"], typer.Option(help="A regularised minimiser, or gradient steps without one.")
    ] = "minimiser",
    basis: Annotated[
        str | None,
        typer.Option(
            help="Functions of the features: fourier:PAIRS:SCALE:SEED, such as fourier:64:2:7, or polynomial:DEGREE."
        ),
    ] = None,
    radius: Annotated[float, typer.Option(help="The length of the weights that the model is compared with.")] = 1.0,
    strength: Annotated[
        float | None, typer.Option(help="Strength of the regulariser. Default: the best by the bound.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Take the place of another model of the same name.")] = False,
) -> None:
    """Publish the weights of a linear model with noise. Features are clipped to the public bounds of their columns."""
    functions = None if basis is None else _read_basis(basis)
    with asking.open() as curator:
        with show_progress("fitting"):
            given: dict[str, Any] = {"target": target, "features": feature, "labels": label, "mu": mu, "epsilon": epsilon}
            given |= {"release": release, "method": method, "basis": functions, "radius": radius, "strength": strength}
            given["replace"] = replace
            found = curator.fit(name, kind, **given, **asking.given)
        if not isinstance(found, FittedModel):
            _print_model(found, as_json=asking.as_json)
            return
        if asking.as_json:
            print_json(found)
            return
        weights = [(each, f"{weight:.4g}") for each, weight in found.coefficients.items()]
        last = [("intercept", f"{found.intercept:.4g}"), ("loss", found.behind)]
        print_lines(f"{name}: {found.brief}", [*weights, *last, *list_costs(found, curator)])


@share_options
def predict(
    asking: Asking,
    name: Name,
    values: Annotated[
        list[str] | None, typer.Argument(metavar="COLUMN=VALUE", help="The values of one point: age=71 bmi=31.5.")
    ] = None,
    *,
    points: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Many points: a CSV, Parquet or JSON-lines file of public rows.")
    ] = None,
    epsilon: Epsilon = None,
    mu: Mu = None,
    method: Annotated[
        Literal["soft-majority", "agnostic", "noisy-max"], typer.Option(help="How votes become a label.")
    ] = "soft-majority",
    screen: ScreenOption = None,
) -> None:
    """Predict for one point, or for every row of a file. A repeated point costs nothing, unless less noise is asked for."""
    rows = _read_points(values, points)
    with asking.open() as curator:
        with show_progress("predicting"):
            given: dict[str, Any] = {"epsilon": epsilon, "mu": mu, "method": method, "screen": screen}
            found = curator.predict(name, rows, **given, **asking.given)
        if asking.as_json:
            print_json({"predictions": found} if isinstance(found, list) else found)
        elif isinstance(found, list):
            table = ((str(number), one.brief, "nothing" if one.repeated else "") for number, one in enumerate(found))
            print_table(("row", name, "cost"), table, right=("row",))
            print_lines("", list_costs(found[-1], curator) if found else [("left", "no rows")])
        else:
            ends = [("interval", f"{found.interval}, for {found.about}")] if found.interval else []
            ends += [] if found.proven is None else [("proven", found.proven)]
            print_lines(" ".join(values or ()), [(name, found.brief), *ends, *list_costs(found, curator)])


def distill(
    data: Data,
    name: Name,
    public: Annotated[Path, typer.Argument(metavar="PUBLIC", help="A CSV, Parquet or JSON-lines file of public rows.")],
    out: Annotated[Path, typer.Argument(metavar="OUT.csv", help="Where the student's labels for all public rows go.")],
    *,
    labels: Annotated[int | None, typer.Option(help="How many labels to buy. Default: one for every row.")] = None,
    groups: Annotated[
        int | None, typer.Option(help="Group the public rows into this many groups, and buy one label for each.")
    ] = None,
    student: Kind = "logistic",
    epsilon: Epsilon = None,
    screen: ScreenOption = None,
    check: Annotated[bool, typer.Option("--check", help="Ask one more question: how often the student errs.")] = False,
    analyst: Analyst = None,
    ledger: LedgerOption = None,
    rehash: RehashOption = False,
    as_json: Json = False,
) -> None:
    """Buy labels for public rows, train a student on them, and label all public rows with it at no further cost."""
    rows = read_table(public)
    with open_curator(data, ledger, rehash=rehash) as curator:
        with show_progress("buying labels"):
            given: dict[str, Any] = {"labels": labels, "groups": groups, "epsilon": epsilon, "screen": screen}
            taught = curator.distill(name, rows, _make_estimator(student), **given, analyst=analyst)
            errs = curator.evaluate(taught, analyst=analyst) if check else None
        said = [value.item() if hasattr(value, "item") else value for value in taught.predict(rows)]
        spent = curator.budget
    write_file("OUT.csv", out, "\n".join([name, *map(str, said)]) + "\n")
    if as_json:
        checked = {} if errs is None else {"evaluation": errs}
        print_json({"student": name, "labels": taught.labels, "rows": len(said), "left": spent.left} | checked)
        return
    lines = [("taught", f"with {taught.labels:,} labels"), ("wrote", f"{len(said):,} labels to {out}")]
    lines += [] if errs is None else [("its errors", errs.brief)]
    print_lines(name, [*lines, ("left", f"{spent.reserve:.3g} {spent.reserve_unit} to select, learn and predict")])


@share_options
def evaluate(
    asking: Asking,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The name of the model.")] = None,
    at_most: Annotated[
        list[float] | None, typer.Argument(metavar="SHARE", help="Shares of errors to certify, falling: 0.3 0.2.")
    ] = None,
    *,
    entry: Annotated[
        int | None, typer.Option(help="Instead of a name: the entry of a learned rule or published model; one question.")
    ] = None,
    epsilon: Epsilon = None,
    mu: Annotated[
        float | None, typer.Option(help="Privacy to spend on each share. Default: a share of the reserve.")
    ] = None,
    beta: Annotated[float | None, typer.Option(help="Probability of being wrong. Default: the plan's.")] = None,
) -> None:
    """Certify how often a model's predictions err at most, on rows that train --held-out kept back.

    With --entry, ask how often a learned rule or a published model errs, or how far its numbers are off, for one question.
    """
    judged = name if entry is None else entry
    if judged is None or (name is not None and entry is not None):
        raise InvalidParameter.saying("name", "give the name of a model, or --entry and the number of an entry")
    with asking.open() as curator, show_progress("evaluating"):
        given: dict[str, Any] = {"epsilon": epsilon, "mu": mu, "beta": beta, **asking.given}
        found = curator.evaluate(judged, at_most=at_most or None, **given)
        costs = list_costs(found, curator)
    if asking.as_json:
        print_json(found)
    else:
        why = [("no bound", found.reason)] if found.reason is not None else []
        print_lines(found.model, [("found", found.brief), ("about", found.about), *why, *costs])


def models(
    data: Data, *, epsilon: Epsilon = None, ledger: LedgerOption = None, rehash: RehashOption = False, as_json: Json = False
) -> None:
    """List the models: what each reads, predicts and costs, and how many predictions are left. Free."""
    with open_curator(data, ledger, rehash=rehash) as curator:
        found = curator.models
        left = {each.name: curator.predictions_left(each.name, epsilon=epsilon) if epsilon else each.left for each in found}
    if as_json:
        print_json({"models": found, "predictions_left": left})
        return
    lines = (
        (each.name, each.target, ", ".join(each.features), f"{each.parts:,}", f"{left[each.name]:,}", each.certificate or "")
        for each in found
    )
    print_table(("model", "predicts", "reads", "parts", "left", "proven"), lines, right=("parts", "left"))


def _make_estimator(kind: str) -> Any:  # noqa: ANN401 - an estimator
    from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
    from sklearn.tree import DecisionTreeClassifier

    made = {
        "logistic": LogisticRegression,
        "linear": LinearRegression,
        "ridge": Ridge,
        "tree": lambda: DecisionTreeClassifier(max_depth=6),
    }
    return made[kind]()


def _read_points(values: list[str] | None, points: Path | None) -> Any:  # noqa: ANN401 - a record or a table
    if bool(values) == (points is not None):
        raise InvalidParameter("point", values, "COLUMN=VALUE for each column, or --points FILE")
    if points is not None:
        return read_table(points)
    point = {}
    for text in values or ():
        column, sign, value = text.partition("=")
        if not sign or not column:
            raise InvalidParameter("point", text, "COLUMN=VALUE, such as age=71")
        point[column] = _read_value(value)
    return point


def _read_value(text: str) -> object:
    try:
        found = json.loads(re.sub(r"^(-?)\.(?=\d)", r"\g<1>0.", text))  # .9 is a number, as 0.9 is
    except ValueError:
        return text
    return found if isinstance(found, (bool, int, float, str)) else text


def read_table(path: Path) -> Any:  # noqa: ANN401 - an Arrow table
    """Return public rows from a file."""
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow import csv, parquet
    from pyarrow import json as lines

    readers = {
        ".parquet": parquet.read_table,
        ".pq": parquet.read_table,
        ".csv": csv.read_csv,
        ".jsonl": lines.read_json,
        ".ndjson": lines.read_json,
    }
    read = readers.get(path.suffix.lower())
    if read is None:
        raise InvalidParameter("file", str(path), "a file that ends in .csv, .parquet or .jsonl")
    try:
        return read(path)
    except OSError as error:
        reason = error.strerror or "cannot be read"
    except pa.ArrowException:
        reason = "cannot be read as a table"
    message = f"{path}: {reason}"
    raise RequestError(message)
