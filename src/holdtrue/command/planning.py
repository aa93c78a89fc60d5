"""``holdtrue plan``: how many rows, how many questions, how wide, at what privacy; no data is touched."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from holdtrue.command.showing import JSON, Json, print_json, save_plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from holdtrue.planning import LearningPlan, PredictionPlan, SelectionPlan

__all__ = ["application"]

application = typer.Typer(
    invoke_without_command=True,
    help="Plan before touching data. Without a subcommand: plan for asking; leave out one of rows, queries and alpha.",
)

Beta = Annotated[float, typer.Option(help="How often any of the promises may fail.")]
Epsilon = Annotated[float | None, typer.Option(help="Privacy, or the cap on it.")]
Plot = Annotated[Path | None, typer.Option(help="Also draw a plot into this file (.svg, .png or .pdf).", metavar="FILE")]


def _show(
    plan: "LearningPlan | SelectionPlan | PredictionPlan", *, as_json: bool, plot: Path | None, axes: "Axes | None"
) -> None:
    if axes is not None and plot is not None:
        save_plot(axes, plot)
    if as_json:
        print_json(plan.to_json())
    else:
        typer.echo(str(plan))


@application.callback()
def asking(
    context: typer.Context,
    *,
    rows: Annotated[int | None, typer.Option(help="How many rows there are.")] = None,
    queries: Annotated[int | None, typer.Option(help="How many adaptive questions will be asked.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Largest distance from the population to allow.")] = None,
    beta: Beta = 0.05,
    epsilon: Epsilon = None,
    delta: Annotated[float | None, typer.Option(help="Privacy slack, with epsilon.")] = None,
    reserve: Annotated[float, typer.Option(help="Share of the ledger kept for other verbs.")] = 0.0,
    uses: Annotated[int, typer.Option(help="How many uses share the reserve.")] = 10,
    method: Annotated[str, typer.Option(help="Theorem to plan by; --compare lists them.")] = "transfer-gaussian",
    compare: Annotated[bool, typer.Option("--compare", help="Also show every method side by side.")] = False,
    plot: Plot = None,
    as_json: Json = JSON,
) -> None:
    """Plan for asking."""
    if context.invoked_subcommand is not None:
        return
    if rows is None and queries is None and alpha is None:
        typer.echo(context.get_help())
        raise typer.Exit
    from holdtrue.planning import plan

    made = plan(
        rows=rows,
        queries=queries,
        alpha=alpha,
        beta=beta,
        epsilon=epsilon,
        delta=delta,
        reserve=reserve,
        uses=uses,
        method=method,
    )
    compared = made.compare() if compare or plot else None
    if compared is not None and plot is not None:
        save_plot(compared.plot(), plot)
    if as_json:
        lines = {} if compared is None or not compare else {"comparison": [asdict(line) for line in compared]}
        print_json(made.to_json() | lines)
        return
    typer.echo(str(made))
    if compare:
        typer.echo(f"\n{compared}")


@application.command()
def learning(
    *,
    size: Annotated[int, typer.Option(help="How many hypotheses the class has.")],
    alpha: Annotated[float | None, typer.Option(help="Largest excess error to allow.")] = None,
    beta: Beta = 0.05,
    epsilon: Epsilon = None,
    rows: Annotated[int | None, typer.Option(help="How many rows there are.")] = None,
    method: Annotated[
        Literal["best", "lecture4", "lecture4-hoeffding", "lecture16"], typer.Option(help="Bound to plan by.")
    ] = "best",
    realizable: Annotated[bool, typer.Option("--realizable", help="Some hypothesis is never wrong.")] = False,
    plot: Plot = None,
    as_json: Json = JSON,
) -> None:
    """Plan for learning a hypothesis; leave out one of rows, alpha and epsilon."""
    from holdtrue.planning import plan_learning
    from holdtrue.planning.plotting import plot_learning

    made = plan_learning(size=size, alpha=alpha, beta=beta, epsilon=epsilon, rows=rows, method=method, realizable=realizable)
    _show(made, as_json=as_json, plot=plot, axes=plot_learning(made) if plot else None)


@application.command()
def selection(
    *,
    candidates: Annotated[int, typer.Option(help="How many candidates there are.")],
    epsilon: Epsilon = None,
    beta: Beta = 0.05,
    shortfall: Annotated[float | None, typer.Option(help="Rows by which the choice may miss the best.")] = None,
    monotone: Annotated[bool, typer.Option("--monotone", help="All scores move the same way.")] = False,
    plot: Plot = None,
    as_json: Json = JSON,
) -> None:
    """Plan for selecting a candidate; leave out one of epsilon and shortfall."""
    from holdtrue.planning import plan_selection
    from holdtrue.planning.plotting import plot_selection

    made = plan_selection(candidates=candidates, beta=beta, epsilon=epsilon, shortfall=shortfall, monotone=monotone)
    _show(made, as_json=as_json, plot=plot, axes=plot_selection(made) if plot else None)


@application.command()
def prediction(
    *,
    alpha: Annotated[float | None, typer.Option(help="Largest error to allow.")] = None,
    beta: Beta = 0.05,
    epsilon: Epsilon = None,
    size: Annotated[int | None, typer.Option(help="How many hypotheses the base learner's class has.")] = None,
    dimension: Annotated[int | None, typer.Option(help="Or its VC dimension.")] = None,
    rows: Annotated[int | None, typer.Option(help="How many rows there are.")] = None,
    predictions: Annotated[int, typer.Option(help="How many predictions will be made.")] = 1,
    agnostic: Annotated[bool, typer.Option("--agnostic", help="No hypothesis need be right everywhere.")] = False,
    method: Annotated[Literal["best", "seed", "laplace"], typer.Option(help="Way to answer from votes.")] = "best",
    plot: Plot = None,
    as_json: Json = JSON,
) -> None:
    """Plan for private predictions by vote; leave out one of alpha and rows."""
    from holdtrue.planning import plan_prediction
    from holdtrue.planning.plotting import plot_prediction

    made = plan_prediction(
        beta=beta,
        size=size,
        dimension=dimension,
        alpha=alpha,
        rows=rows,
        epsilon=epsilon,
        predictions=predictions,
        realizable=not agnostic,
        method=method,
    )
    _show(made, as_json=as_json, plot=plot, axes=plot_prediction(made) if plot else None)
