"""The models of a curator by name: in memory, and sealed beside a ledger that lasts."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from holdtrue.codec import digest_of, encode
from holdtrue.curator.pipeline import Pipeline
from holdtrue.ensembles.parts import PartRule
from holdtrue.ensembles.saving import from_bytes, to_bytes
from holdtrue.errors import HoldtrueError, IntegrityError, UnknownName
from holdtrue.ledgers.sealed_store import SealedDocument, SealedStore, check_seal, seal_document
from holdtrue.verbs.training import Model, ModelFacts, is_model_name, plan_training

__all__ = ["Model", "Models"]


class Models:
    """The models of one curator, by name: in memory, and with a ledger that lasts where their members can be written.

    Law: which model a name means is what the store says, for every worker that shares the ledger: one that was trained
    again elsewhere is read again before it answers. What is read was sealed by this ledger's curator, and its public facts
    are those that its digest names; IntegrityError otherwise. Members other than linear ones and trees are in the memory of
    one process only.
    """

    def __init__(self, pipeline: Pipeline, *, store: SealedStore | None) -> None:
        self._pipeline = pipeline
        self._store = store
        self._held: dict[str, Model] = {}
        self._seals: dict[str, str] = {}

    def train(self, name: str, estimator: Any, **facts: Any) -> Model:  # noqa: ANN401 - as the verb has them
        """Train a model on all rows and keep it under a name, in the place of any other; see :func:`plan_training`."""
        training = plan_training(self._pipeline, name, estimator, **facts)
        asked = replace(training.asked, split_first=self._is_split_first(training.asked.cut))
        model = replace(training, asked=asked).run(self._pipeline)
        self._store_model(model, training.made)
        self._held[name] = model
        return model

    def find_model(self, name: str) -> Model:
        """Return the model of a name, as it is now; UnknownName where there is none."""
        given: object = name
        if self._store is not None and is_model_name(given):
            current = self._store.read_seal(name)
            if current != self._seals.get(name):
                self._held.pop(name, None)
                stored = None if current is None else self._store.read(name)
                if stored is not None:
                    self._held[name] = self._open_stored(name, stored)
                self._seals.pop(name, None)
                if stored is not None:
                    self._seals[name] = stored.seal
        found = self._held.get(name) if isinstance(given, str) else None
        if found is None:
            known = ", ".join(sorted(self._held)) or "none"
            shown = given if isinstance(given, str) else type(given).__name__
            message = f"there is no model {shown!r}; trained: {known}. Train it first, or again if it was only in memory"
            raise UnknownName(message)
        return found

    def list_models(self) -> list[Model]:
        """Return all models in the order of their names: those of the store as they are now, and those in memory."""
        stored = [] if self._store is None else self._store.list_names()
        names = sorted({*stored, *self._held})
        found = []
        for name in names:
            with suppress(UnknownName):  # another worker may have removed it since
                found.append(self.find_model(name))
        return found

    @property
    def held(self) -> list[Model]:
        """Return the models that this process has used."""
        return list(self._held.values())

    def close(self) -> None:
        """Close the store; what it keeps stays."""
        if self._store is not None:
            self._store.close()

    def _is_split_first(self, cut: PartRule) -> bool:
        """Return whether it was said before the first answer which rows a rule holds out, for this model or another."""
        if not cut.held_out:
            return False
        ledger = self._pipeline.ledger
        newest = ledger.newest()
        if not newest or ledger.entries(newest)[0].charges == 0:
            return True
        return any(model.asked.split_first and model.asked.cut == cut for model in self.list_models())

    def _store_model(self, model: Model, made: Mapping[str, object]) -> None:
        """Store a model, sealed, replacing any other of its name; one that cannot be written also removes the other."""
        name = model.asked.name
        self._seals.pop(name, None)
        if self._store is None:
            return
        if not model.ensemble.stored:
            self._store.remove(name)
            return
        kept: dict[str, object] = {"made": dict(made), "digest": model.asked.digest, "span": model.asked.bounds}
        facts = encode(kept | ({"split_first": True} if model.asked.split_first else {}))
        sealed = seal_document(self._pipeline.ledger.terms.key, name, facts=facts, content=to_bytes(model.ensemble))
        self._store.write(name, sealed)
        self._seals[name] = sealed.seal

    def _open_stored(self, name: str, stored: SealedDocument) -> Model:
        """Return a stored model; IntegrityError unless its seal, its digest and its members are right."""
        check_seal(self._pipeline.ledger.terms.key, name, stored)
        try:
            kept = json.loads(stored.facts)
            made = kept["made"]
            right = digest_of(made) == kept["digest"]
            labels = None if made["labels"] is None else tuple(made["labels"])
            span = None if kept["span"] is None else (float(kept["span"][0]), float(kept["span"][1]))
            cut = PartRule(**made["rows"]) if "rows" in made else PartRule("position")
            about = {"target": str(made["target"]), "kind": str(made["estimator"])}
            first = kept.get("split_first") is True
            asked = ModelFacts(name, str(kept["digest"]), int(made["parts"]), labels, span, cut, **about, split_first=first)
            chosen = tuple(map(str, made["features"]))
            model = Model.of(asked, from_bytes(stored.content, where=name), chosen, card=self._pipeline.card)
        except (HoldtrueError, ValueError, KeyError, TypeError, IndexError):
            right = False
        if not right:
            message = f"the stored model {name!r} is inconsistent; train it again"
            raise IntegrityError(message)
        return model
