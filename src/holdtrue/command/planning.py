"""``holdtrue plan``: how many rows, how many questions, how wide, how private. Reads no data."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from holdtrue.codec import plain
from holdtrue.command.opening import Reserve, read_reserve
from holdtrue.command.output import Json, print_json, print_table, save_plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from holdtrue.planning.holdout_plan import HoldoutPlan
    from holdtrue.planning.learning import LearningPlan
    from holdtrue.planning.predicting import PredictionPlan
    from holdtrue.planning.regression import RegressionPlan
    from holdtrue.planning.selecting import SelectionPlan

__all__ = ["application"]

application = typer.Typer(
    invoke_without_command=True,
    help="Plan before reading data. Without a subcommand: plan for asking; leave out one of rows, queries and alpha.",
)

Beta = Annotated[float, typer.Option(help="The probability that any promise fails, at most.")]
Epsilon = Annotated[float | None, typer.Option(help="Privacy, or a cap on it.")]
Plot = Annotated[Path | None, typer.Option(help="Also save a plot in this file (.svg, .png or .pdf).", metavar="FILE")]

_CASES, _LOOKS = (1_000, 5_000, 20_000), (50, 500)
_ABREAST = 6  # sizes beside each other in 80 columns


def _print_plan(
    plan: "LearningPlan | SelectionPlan | PredictionPlan | RegressionPlan",
    *,
    as_json: bool,
    plot: Path | None,
    axes: "Axes | None",
) -> None:
    if axes is not None and plot is not None:
        save_plot(axes, plot)
    if as_json:
        print_json(plan)
    else:
        typer.echo(str(plan))


@application.callback()
def plan_asking(
    context: typer.Context,
    *,
    rows: Annotated[int | None, typer.Option(help="How many rows there are.")] = None,
    queries: Annotated[int | None, typer.Option(help="How many adaptive questions will be asked.")] = None,
    alpha: Annotated[float | None, typer.Option(help="The largest allowed distance from the population.")] = None,
    beta: Beta = 0.05,
    epsilon: Epsilon = None,
    delta: Annotated[float | None, typer.Option(help="Privacy slack, with epsilon.")] = None,
    reserve: Reserve = "0",
    uses: Annotated[int, typer.Option(help="How many uses share the reserve.")] = 10,
    shares: Annotated[float | None, typer.Option(help="Answers up to this share are to be narrowest.")] = None,
    side: Annotated[
        Literal["both", "low", "high"], typer.Option(help="Which ends of intervals are promised: one needs fewer rows.")
    ] = "both",
    method: Annotated[str, typer.Option(help="The theorem to plan by; --compare lists them.")] = "joint-gaussian",
    compare: Annotated[bool, typer.Option("--compare", help="Also show every method side by side.")] = False,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Plan for asking."""
    if context.invoked_subcommand is not None:
        return
    if rows is None and queries is None and alpha is None:
        typer.echo(context.get_help())
        raise typer.Exit
    from holdtrue.planning.asking import plan

    made = plan(
        rows=rows,
        queries=queries,
        alpha=alpha,
        beta=beta,
        epsilon=epsilon,
        delta=delta,
        reserve=read_reserve(reserve),
        uses=uses,
        shares=shares,
        side=side,
        method=method,
    )
    compared = made.compare() if compare or plot else None
    if compared is not None and plot is not None:
        save_plot(compared.plot(), plot)
    if as_json:
        lines = {} if compared is None or not compare else {"comparison": list(compared)}
        print_json(plain(made) | lines)
        return
    typer.echo(str(made))
    if compare:
        typer.echo(f"\n{compared}")


@application.command("budget")
def show_purchases(
    *,
    rows: Annotated[int, typer.Option(help="How many rows there are.")],
    epsilon: Annotated[float, typer.Option(help="The privacy of everything that is ever released.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Its slack.")] = 1e-6,
    beta: Beta = 0.05,
    as_json: Json = False,
) -> None:
    """Show what a privacy budget buys by each verb, if all of it is spent on that alone. Reads no data."""
    from dataclasses import asdict

    from holdtrue.planning.purchases import list_purchases

    found = list_purchases(rows=rows, epsilon=epsilon, delta=delta, beta=beta)
    if as_json:
        print_json({"purchases": [asdict(each) for each in found]})
        return
    typer.echo(f"What epsilon {epsilon:g}, delta {delta:g} buys over {rows:,} rows, all of it spent on one line:\n")
    print_table(("verb", "buys", "how good"), [(each.verb, each.buys, each.quality) for each in found])


@application.command("learning")
def show_learning_plan(
    *,
    size: Annotated[int, typer.Option(help="The number of hypotheses in the class.")],
    alpha: Annotated[float | None, typer.Option(help="The largest allowed excess error.")] = None,
    beta: Beta = 0.05,
    epsilon: Epsilon = None,
    rows: Annotated[int | None, typer.Option(help="How many rows there are.")] = None,
    method: Annotated[
        Literal["best", "lecture4", "lecture4-hoeffding", "lecture16"], typer.Option(help="The bound to plan by.")
    ] = "best",
    realizable: Annotated[bool, typer.Option("--realizable", help="Some hypothesis is never wrong.")] = False,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Plan for learning a hypothesis; leave out one of rows, alpha and epsilon."""
    from holdtrue.planning.learning import plan_learning
    from holdtrue.planning.plotting import plot_learning

    made = plan_learning(size=size, alpha=alpha, beta=beta, epsilon=epsilon, rows=rows, method=method, realizable=realizable)
    _print_plan(made, as_json=as_json, plot=plot, axes=plot_learning(made) if plot else None)


@application.command("selection")
def show_selection_plan(
    *,
    candidates: Annotated[int, typer.Option(help="How many candidates there are.")],
    epsilon: Epsilon = None,
    beta: Beta = 0.05,
    shortfall: Annotated[float | None, typer.Option(help="How many rows the choice may be behind the best.")] = None,
    monotone: Annotated[
        bool, typer.Option("--monotone", help="A changed row moves all scores in the same direction.")
    ] = False,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Plan for selecting a candidate; leave out one of epsilon and shortfall."""
    from holdtrue.planning.plotting import plot_selection
    from holdtrue.planning.selecting import plan_selection

    made = plan_selection(candidates=candidates, beta=beta, epsilon=epsilon, shortfall=shortfall, monotone=monotone)
    _print_plan(made, as_json=as_json, plot=plot, axes=plot_selection(made) if plot else None)


@application.command("prediction")
def show_prediction_plan(
    *,
    alpha: Annotated[float | None, typer.Option(help="The largest allowed error.")] = None,
    beta: Beta = 0.05,
    epsilon: Epsilon = None,
    size: Annotated[int | None, typer.Option(help="The number of hypotheses in the base learner's class.")] = None,
    dimension: Annotated[int | None, typer.Option(help="Instead of size: the VC dimension of that class.")] = None,
    rows: Annotated[int | None, typer.Option(help="How many rows there are.")] = None,
    predictions: Annotated[int, typer.Option(help="How many predictions will be made.")] = 1,
    agnostic: Annotated[
        bool, typer.Option("--agnostic", help="Do not assume that some hypothesis is always right.")
    ] = False,
    method: Annotated[Literal["best", "seed", "laplace"], typer.Option(help="How votes become an answer.")] = "best",
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Plan for private predictions by vote; leave out one of alpha and rows."""
    from holdtrue.planning.plotting import plot_prediction
    from holdtrue.planning.predicting import plan_prediction

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
    _print_plan(made, as_json=as_json, plot=plot, axes=plot_prediction(made) if plot else None)


@application.command("regression")
def show_regression_plan(
    *,
    rows: Annotated[int | None, typer.Option(help="How many rows there are.")] = None,
    excess: Annotated[float | None, typer.Option(help="The largest expected loss above the best model's.")] = None,
    mu: Annotated[float | None, typer.Option(help="Privacy of weights that are published once.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Instead of mu: privacy of each prediction.")] = None,
    release: Annotated[
        Literal["once", "each"] | None, typer.Option(help="Which privacy to compute where neither is given.")
    ] = None,
    radius: Annotated[float, typer.Option(help="The length of the weights that the model is compared with.")] = 1.0,
    loss_lipschitz: Annotated[float, typer.Option(help="The largest slope of the loss.")] = 1.0,
    predictor_lipschitz: Annotated[float, typer.Option(help="The largest length of a row's features.")] = 1.0,
    smoothness: Annotated[
        float | None, typer.Option(help="How fast the loss's slope may change: plans gradient steps instead.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Plan for fitting a linear model; give two of rows, excess, and one of mu and epsilon."""
    from holdtrue.planning.regression import plan_regression

    made = plan_regression(
        rows=rows,
        excess=excess,
        mu=mu,
        epsilon=epsilon,
        release=release,
        radius=radius,
        loss_lipschitz=loss_lipschitz,
        predictor_lipschitz=predictor_lipschitz,
        smoothness=smoothness,
    )
    _print_plan(made, as_json=as_json, plot=None, axes=None)


@application.command("holdout")
def show_holdout_plan(
    *,
    cases: Annotated[list[int] | None, typer.Option(help="How many cases the holdout has; repeat for a table.")] = None,
    looks: Annotated[list[int] | None, typer.Option(help="The total number of looks; repeat for a table.")] = None,
    yes: Annotated[int | None, typer.Option(help="For a gate: how often it may say yes.")] = None,
    overfits: Annotated[
        int | None, typer.Option(help="For a reusable holdout: how many training scores may be wrong.")
    ] = None,
    beta: Beta = 0.05,
    private: Annotated[
        bool | None,
        typer.Option("--private/--validity", help="Keep the cases private, or take the narrowest valid mode."),
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="The half-width you want, used for the advice; 0.1 unless given.")
    ] = None,
    gain: Annotated[
        float | None, typer.Option(help="For a gate: the true gain to be found; without --cases, how many cases find it.")
    ] = None,
    discordant: Annotated[
        float | None, typer.Option(help="For a gate: the share of cases in which two submissions differ.")
    ] = None,
    tells: Annotated[
        str | None, typer.Option(help="For a gate: bounds it tells as well, 'bounds' or 'bounds at the end'.")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="For a private gate: its privacy; 1 unless given.")] = None,
    delta: Annotated[
        float | None, typer.Option(help="For a private gate: the slack of its privacy; 0 where only epsilon is given.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Plan for a holdout: every mode's width before the first look. For several sizes, or none, print a table."""
    from holdtrue.planning.holdout_plan import plan_holdout

    wish = {"yes": yes, "overfits": overfits, "beta": beta, "private": private, "alpha": alpha, "tells": tells}
    wish |= {"epsilon": epsilon, "delta": delta}
    sizes: Sequence[int | None] = cases or (_CASES if gain is None else (None,))
    plans = [
        plan_holdout(cases=size, looks=number, gain=gain, discordant=discordant, **wish)  # type: ignore[arg-type]  # by name
        for size in sizes
        for number in looks or _LOOKS
    ]
    if as_json:
        print_json(plans[0] if len(plans) == 1 else {"plans": plans})
    elif len(plans) == 1:
        typer.echo(str(plans[0]))
    else:
        _print_widths(plans)


def _print_widths(plans: "list[HoldoutPlan]") -> None:
    """Print a column for each size and a row for each mode, a few abreast; the chosen mode is marked."""

    def cell(made: "HoldoutPlan", mode: str) -> str:
        width = made[mode].alpha
        return f"{'*' if mode == made.mode else ''}{'-' if width is None else f'±{width:.3f}'}"

    modes = [line.mode for line in plans[0]]
    for first in range(0, len(plans), _ABREAST):
        shown = plans[first : first + _ABREAST]
        cases = [f"{made.cases:,}" for made in shown]
        rows = [(mode, *(cell(made, mode) for made in shown)) for mode in modes]
        print_table(("cases", *cases), [("looks", *(f"{made.looks:,}" for made in shown)), *rows], right=cases)
    yes, overfits = _join_numbers(plans, "yes"), _join_numbers(plans, "overfits")
    typer.echo(
        "*: the best mode for these numbers; -: too few cases for any promise. "
        f"Gates with {yes} yes, reusable holdouts with {overfits} overfits. naive is right for one look only."
    )


def _join_numbers(plans: "list[HoldoutPlan]", name: str) -> str:
    return " or ".join(sorted({f"{getattr(made, name):,}" for made in plans}, key=lambda text: (len(text), text)))
