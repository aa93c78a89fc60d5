"""An example of each subcommand, for the end of its help."""

from collections.abc import Iterator
from typing import Any

import typer

__all__ = ["EXAMPLES", "add_examples"]

EXAMPLES = {
    "demo": "demo --terminal",
    "theorem": "theorem advanced-composition --epsilon 0.1 --count 100 --delta 1e-6",
    "open": "open people.csv --queries 500 --epsilon 1 --delta 1e-6 --iid",
    "preview": 'preview people.csv "age > 65 AND smoker"',
    "deduce": 'deduce people.csv "age > 65"',
    "ask": 'ask people.csv "age > 65 AND smoker" --explain',
    "table": "table people.csv smoker age:18,30,65",
    "marginals": "marginals people.csv smoker age:18,65",
    "synthesize": "synthesize people.csv smoker age --out made.csv",
    "mean": "mean people.csv age --low 0 --high 100 --by smoker",
    "quantile": "quantile people.csv age 0.5 --low 0 --high 127",
    "select": "select people.csv \"north=region = 'N'\" \"south=region = 'S'\"",
    "watch": 'watch people.csv "age > 65" "smoker" --threshold 0.3',
    "learn": "learn people.csv smoker --stumps age=0:100",
    "variance": "variance people.csv age --low 0 --high 100",
    "covariance": "covariance people.csv age bmi --bounds age=0:100 --bounds bmi=10:60",
    "correlation": "correlation people.csv age bmi --bounds age=0:100 --bounds bmi=10:60",
    "r-squared": "r-squared people.csv predicted bmi --low 10 --high 60",
    "gini": "gini people.csv income --high 200000",
    "ratio": 'ratio visits.csv "SUM(cost)" "COUNT(*)" --cap 20',
    "auc": 'auc people.csv score "readmitted"',
    "pairs": 'pairs people.csv "ABS(a.age - b.age) / 100"',
    "best-error": "best-error people.csv smoker --class rules.json",
    "fit": "fit people.csv stay hours --kind ridge",
    "train": "train people.csv risk smoker --feature age --key id",
    "predict": "predict people.csv risk age=44 --epsilon 0.1",
    "evaluate": "evaluate people.csv risk 0.2",
    "distill": "distill people.csv risk public.csv labelled.csv --labels 100",
    "models": "models people.csv",
    "score": "score results.csv --holdout exam.holdout",
    "certify": "certify results.csv --holdout exam.holdout",
    "submit": "submit labels.csv team-one predictions.csv --ledger board.ledger",
    "standings": "standings labels.csv --ledger board.ledger",
    "budget": "budget people.csv",
    "history": "history people.csv",
    "verify": "verify people.ledger",
    "report": "report people.csv people.html",
    "serve": "serve --host 0.0.0.0 --allow-host data.example.org",
    "register": "register people.csv --queries 300 --epsilon 1 --delta 1e-6 --iid",
    "retire": "retire people-october",
    "mcp": "mcp people.csv",
    "plan": "plan --rows 10000 --queries 100 --compare",
    "plan learning": "plan learning --size 1000 --alpha 0.05 --epsilon 0.5",
    "plan selection": "plan selection --candidates 50 --epsilon 0.5",
    "plan prediction": "plan prediction --epsilon 1 --alpha 0.1 --size 1000",
    "plan regression": "plan regression --rows 10000 --mu 0.2",
    "plan holdout": "plan holdout --cases 1200 --looks 100",
    "plan budget": "plan budget --rows 10000 --epsilon 1 --delta 1e-6",
    "audit self": "audit self",
    "audit ledger": "audit ledger people.ledger",
    "key create": "key create ada --allow people=200 --days 90",
    "key list": "key list",
    "key revoke": "key revoke uwhadqyk",
    "ledger accept": "ledger accept people --receipt 12:" + "0" * 64,
}


def add_examples(application: typer.Typer, *, before: str = "") -> None:
    """Put the example of each subcommand at the end of its help."""
    for name, info in _list_commands(application):
        told = EXAMPLES.get(f"{before}{name}")
        info.epilog = None if told is None else f"Example: holdtrue {told}"
    for group in application.registered_groups:
        if group.typer_instance is not None and group.name:
            add_examples(group.typer_instance, before=f"{group.name} ")


def _list_commands(application: typer.Typer) -> Iterator[tuple[str, Any]]:
    yield from ((group.name or "", group) for group in application.registered_groups)
    for info in application.registered_commands:
        called = getattr(info.callback, "__name__", "")
        yield info.name or called.replace("_", "-"), info
