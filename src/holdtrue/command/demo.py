"""``holdtrue demo``: a demonstration on synthetic data, in the browser or in the terminal."""

import sys
from importlib.util import find_spec
from typing import Annotated

import typer

from holdtrue.errors import MissingExtra

__all__ = ["demo"]

_PACKAGES = ("fastapi", "jwt", "limits", "uvicorn")


def demo(
    *,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="The port of the page on this machine; 0 picks a free one.")
    ] = 8000,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    terminal: Annotated[
        bool, typer.Option("--terminal", help="Run the demonstration in the terminal, without a page.")
    ] = False,
) -> None:
    """Show what Holdtrue does, on synthetic data with known true values.

    Ask questions, see what they cost, and run the attack that fools a plain holdout. All data is deleted at the end.
    """
    if terminal:
        from holdtrue.demo.story import tell_story

        tell_story()
        return
    if any(find_spec(package) is None for package in _PACKAGES):
        raise MissingExtra("server", purpose="the demonstration's page")
    from holdtrue.service.demo import serve_demo

    typer.echo("Drawing rows …", err=True)
    serve_demo(port=port, ready=lambda address, key: _show_address(address, key, browser=browser))


def _show_address(address: str, key: str, *, browser: bool) -> None:
    told = (
        f"\n  Holdtrue is at  {address}\n\n"
        "  Ask from a shell, as an analyst:\n"
        f"    curl -s {address}/v1/datasets/demo/ask -H 'Authorization: Bearer {key}' \\\n"
        "      -H 'Idempotency-Key: first' -H 'Content-Type: application/json' -d '{\"query\": \"age >= 65\"}'\n\n"
        "  Ctrl-C stops it and deletes all of its data.\n"
    )
    typer.echo(told)
    sys.stdout.flush()
    if browser:
        import webbrowser

        webbrowser.open(address)
