"""The audit catalogue: planted faults, the zoo, and Holdtrue's own mechanisms and verbs, each on its worst pair."""

import time
from pathlib import Path

from holdtrue.auditing.catalogue import audit_all, audit_page, list_mechanisms, prove_curves
from reproductions.writing import write

__all__ = ["run"]


def run(data: Path | None, out: Path, *, samples: int = 10**5, confidence: float = 0.95) -> None:
    """Write gallery.md and gallery.html."""
    del data
    began = time.perf_counter()
    results = list(audit_all(list_mechanisms(), samples=samples, confidence=confidence))
    rows = [
        [
            each.mechanism.name,
            f"{each.finding.claimed:.4g}",
            f"{each.finding.lower_bound:.4f}",
            f"{each.finding.samples:,}",
            each.verdict,
            "as expected" if each.as_expected else "NOT AS EXPECTED",
        ]
        for each in results
    ]
    words = f"Lower bounds on epsilon that hold all at once with confidence {confidence}, beside what is claimed."
    header = ["mechanism", "claimed", "lower bound", "samples a side", "verdict", ""]
    write(out / "gallery.md", title="The audit gallery", words=words, header=header, rows=rows)
    page = audit_page(results, curves=prove_curves(), confidence=confidence, seconds=time.perf_counter() - began)
    (out / "gallery.html").write_text(page, encoding="utf-8")
