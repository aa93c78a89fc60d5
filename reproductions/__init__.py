"""Published figures, computed again from public data: `run(data, out)` of each module writes one page."""
