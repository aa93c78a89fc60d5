"""``holdtrue train``, ``predict`` and ``distill``: a model behind the curator, and what it says."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from holdtrue.command.asking import Analyst, Key, paid_line, receipt_line
from holdtrue.command.places import LEDGER, Data, LedgerOption, opened
from holdtrue.command.showing import JSON, Json, print_json
from holdtrue.command.talking import print_lines, print_table, watched
from holdtrue.errors import InvalidParameter, RequestError

if TYPE_CHECKING:
    from holdtrue.curator import Curator
    from holdtrue.records import Prediction

__all__ = ["distill", "predict", "train"]

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the model.")]
Kind = Annotated[
    Literal["logistic", "tree", "linear", "ridge"],
    typer.Option("--estimator", help="What each part trains: logistic and tree give labels, linear and ridge numbers."),
]
Epsilon = Annotated[
    float | None, typer.Option(help="Privacy to spend on each prediction. Without it: a share of the reserve.")
]
Mu = Annotated[float | None, typer.Option(help="Normal noise of this mu for a number, in the place of an epsilon.")]
ScreenOption = Annotated[
    float | None, typer.Option(help="Answer only where about this share of the parts agrees; 0.6, say.")
]


def train(
    data: Data,
    name: Name,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="A column with public labels or bounds, or a yes-or-no question.")
    ],
    *,
    feature: Annotated[
        list[str] | None, typer.Option(help="A column of numbers or a yes-or-no question; repeat. Without: all numbers.")
    ] = None,
    label: Annotated[list[str] | None, typer.Option(help="A public label of a text column; repeat.")] = None,
    estimator: Kind = "logistic",
    parts: Annotated[int, typer.Option(help="Disjoint parts of the rows, a vote each.")] = 200,
    key: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Public keys that stay when a row is replaced. Without: two votes a row."),
    ] = None,
    ledger: LedgerOption = LEDGER,
    as_json: Json = JSON,
) -> None:
    """Train a model on disjoint parts of the rows and keep it beside the ledger. Costs nothing, and tells nothing."""
    with opened(data, ledger) as curator, watched("training"):
        given: dict[str, Any] = {"target": target, "features": feature, "labels": label, "parts": parts}
        model = curator.train(name, _estimator(estimator), key=key, **given)
    facts = {"model": name, "parts": model.asked.parts, "features": list(model.columns)}
    facts |= {"rows": model.asked.cut.sentence}
    facts |= {"labels": None if model.asked.labels is None else list(model.asked.labels), "bounds": model.asked.bounds}
    if as_json:
        print_json(facts)
        return
    gives = ", ".join(map(str, model.asked.labels)) if model.asked.labels else f"numbers in {model.asked.bounds}"
    lines = [("parts", f"{parts:,}"), ("rows", model.asked.cut.sentence), ("reads", ", ".join(model.columns))]
    print_lines(name, [*lines, ("says", gives)])


def predict(
    data: Data,
    name: Name,
    values: Annotated[
        list[str] | None, typer.Argument(metavar="COLUMN=VALUE", help="A point, a column at a time: age=71 bmi=31.5.")
    ] = None,
    *,
    points: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Many points: a CSV, Parquet or JSON-lines file of public rows.")
    ] = None,
    epsilon: Epsilon = None,
    mu: Mu = None,
    screen: ScreenOption = None,
    key: Key = None,
    analyst: Analyst = None,
    ledger: LedgerOption = LEDGER,
    as_json: Json = JSON,
) -> None:
    """Predict for one point, or for every row of a file. A point that was asked before costs nothing."""
    rows = _points(values, points)
    with opened(data, ledger) as curator:
        with watched("predicting"):
            found = curator.predict(name, rows, epsilon=epsilon, mu=mu, screen=screen, key=key, analyst=analyst)
        if as_json:
            print_json({"predictions": found} if isinstance(found, list) else found)
        elif isinstance(found, list):
            table = ((str(number), one.brief, "nothing" if one.repeated else "") for number, one in enumerate(found))
            print_table(("row", name, "cost"), table, right=("row",))
            print_lines("", _left(curator, found[-1]) if found else [("left", "no rows")])
        else:
            print_lines(" ".join(values or ()), [(name, found.brief), *_left(curator, found)])


def distill(
    data: Data,
    name: Name,
    public: Annotated[Path, typer.Argument(metavar="PUBLIC", help="A CSV, Parquet or JSON-lines file of public rows.")],
    out: Annotated[Path, typer.Argument(metavar="OUT.csv", help="Where the student's labels for all public rows go.")],
    *,
    labels: Annotated[int | None, typer.Option(help="How many labels to buy; all rows' unless given.")] = None,
    groups: Annotated[
        int | None, typer.Option(help="Gather the public rows into so many groups, and buy one label for each.")
    ] = None,
    student: Kind = "logistic",
    epsilon: Epsilon = None,
    screen: ScreenOption = None,
    analyst: Analyst = None,
    ledger: LedgerOption = LEDGER,
    as_json: Json = JSON,
) -> None:
    """Buy labels for public rows, teach a student with them, and label all of them by it at no further cost."""
    rows = _table(public)
    with opened(data, ledger) as curator:
        with watched("buying labels"):
            taught = curator.distill(
                name,
                rows,
                _estimator(student),
                labels=labels,
                groups=groups,
                epsilon=epsilon,
                screen=screen,
                analyst=analyst,
            )
        said = [value.item() if hasattr(value, "item") else value for value in taught.predict(rows)]
        spent = curator.budget
    out.write_text("\n".join([name, *map(str, said)]) + "\n", encoding="utf-8")
    if as_json:
        print_json({"student": name, "labels": taught.labels, "rows": len(said), "left": spent.left})
        return
    lines = [("taught", f"with {taught.labels:,} labels"), ("wrote", f"{len(said):,} labels to {out}")]
    print_lines(name, [*lines, ("left", f"{spent.reserve:.3g} {spent.unit} for verbs other than ask")])


def _left(curator: "Curator", found: "Prediction") -> list[tuple[str, str]]:
    budget = curator.budget
    return [
        ("cost", paid_line(found.certificate, curator, repeated=found.repeated)),
        ("left", f"{budget.reserve:.3g} {budget.unit} for verbs other than ask"),
        ("receipt", receipt_line(found.certificate)),
    ]


def _estimator(kind: str) -> Any:  # noqa: ANN401 - an estimator
    from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
    from sklearn.tree import DecisionTreeClassifier

    made = {
        "logistic": LogisticRegression,
        "linear": LinearRegression,
        "ridge": Ridge,
        "tree": lambda: DecisionTreeClassifier(max_depth=6),
    }
    return made[kind]()


def _points(values: list[str] | None, points: Path | None) -> Any:  # noqa: ANN401 - a record or a table
    if bool(values) == (points is not None):
        raise InvalidParameter("point", values, "COLUMN=VALUE for each column, or --points FILE")
    if points is not None:
        return _table(points)
    point = {}
    for text in values or ():
        column, sign, value = text.partition("=")
        if not sign or not column:
            raise InvalidParameter("point", text, "COLUMN=VALUE, such as age=71")
        point[column] = _value(value)
    return point


def _value(text: str) -> object:
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return found if isinstance(found, (bool, int, float, str)) else text


def _table(path: Path) -> Any:  # noqa: ANN401 - an Arrow table
    """Return public rows from a file."""
    import pyarrow as pa  # type: ignore[import-untyped]

    try:
        return _read(path)
    except OSError as error:
        reason = error.strerror or "cannot be read"
    except pa.ArrowException:
        reason = "cannot be read as a table"
    message = f"{path}: {reason}"
    raise RequestError(message)


def _read(path: Path) -> Any:  # noqa: ANN401 - an Arrow table
    from pyarrow import csv, parquet
    from pyarrow import json as lines

    match path.suffix.lower():
        case ".parquet" | ".pq":
            return parquet.read_table(path)
        case ".csv":
            return csv.read_csv(path)
        case ".jsonl" | ".ndjson":
            return lines.read_json(path)
        case _:
            raise InvalidParameter("file", str(path), "a file that ends in .csv, .parquet or .jsonl")
