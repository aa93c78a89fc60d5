"""Run benches by name or by the start of one: ``python -m benchmarks noise``, or ``all``."""

import importlib
import pkgutil
import sys

import benchmarks

names = sorted(
    module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name not in ("__main__", "peers")
)
wanted = sys.argv[1] if len(sys.argv) > 1 else "all"
chosen = names if wanted == "all" else [name for name in names if name.startswith(wanted)]
if not chosen:
    sys.exit(f"no bench named {wanted!r}; there are: {', '.join(names)}, and all")
for name in chosen:
    print(f"# {name}", flush=True)
    importlib.import_module(f"benchmarks.{name}").run()
    print(flush=True)
