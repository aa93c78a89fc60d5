"""The models of a curator by name: in memory, and sealed beside a ledger that lasts."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from holdtrue.codec import digest_of, encode
from holdtrue.curator.pipeline import Pipeline
from holdtrue.ensembles.certificates import ClassTerms
from holdtrue.ensembles.parts import PartRule
from holdtrue.ensembles.saving import from_bytes, to_bytes
from holdtrue.errors import HoldtrueError, IntegrityError, RefusedError, UnknownName
from holdtrue.hypotheses import read_class
from holdtrue.ledgers.sealed_store import SealedDocument, SealedStore, check_seal, seal_document
from holdtrue.verbs.fitting import NOT_FIRST
from holdtrue.verbs.keeping import FitFacts, FitModel, KeepTask, open_fit
from holdtrue.verbs.training import Model, ModelFacts, Training, is_model_name, plan_training

__all__ = ["Model", "Models"]

_LATE_CLASS = "the class was chosen after answers about these rows; train before the first answer, or evaluate the model"


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

    def train(self, name: str, estimator: Any, *, replacing: bool, **facts: Any) -> Model:  # noqa: ANN401 - as the verb has them
        """Train a model on all rows and keep it under a name; see :func:`plan_training`.

        One that was made of other things under that name stays unless ``replacing``: RefusedError.
        """
        training = plan_training(self._pipeline, name, estimator, **facts)
        if not replacing:
            self._refuse_taken(training.asked)
        first, terms = self._is_split_first(training.asked.cut), self._find_terms(training)
        asked = replace(training.asked, split_first=first, terms=terms)
        model = replace(training, asked=asked).run(self._pipeline)
        self._store_model(model, training.made)
        self._held[name] = model
        return model

    def _refuse_taken(self, asked: ModelFacts) -> None:
        known = None
        with suppress(HoldtrueError):  # none of that name, or one that cannot be read and is trained again
            known = self.find_model(asked.name)
        if known is not None and known.asked.digest != asked.digest:
            message = f"another model is named {asked.name!r}; choose another name, or replace it (replace=True)"
            refused = RefusedError(message)
            refused.parameter = "name"
            raise refused

    def keep_fit(self, task: KeepTask, *, replacing: bool) -> Model:
        """Fit all rows and keep the fit under a name; nothing is charged, and nothing leaves.

        A model that was made of the same before the first answer keeps its bound when it is fitted again (V5); one that was
        made of other things stays unless ``replacing``: RefusedError.
        """
        if not replacing:
            self._refuse_taken(task.asked)
        known = any(
            isinstance(each.asked, FitFacts) and each.asked.digest == task.asked.digest and each.asked.reason != NOT_FIRST
            for each in self.list_models()
        )
        model = task.run(first=known or self._is_untouched())
        self._store_model(model, task.made)
        self._held[model.asked.name] = model
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
            known = ", ".join(self._list_names()) or "none"
            shown = given if isinstance(given, str) else type(given).__name__
            message = f"there is no model {shown!r}; trained: {known}. Train it first, or again if it was only in memory"
            raise UnknownName(message)
        return found

    def list_models(self) -> list[Model]:
        """Return all models in the order of their names: those of the store as they are now, and those in memory."""
        found = []
        for name in self._list_names():
            with suppress(UnknownName):  # another worker may have removed it since
                found.append(self.find_model(name))
        return found

    def _list_names(self) -> list[str]:
        return sorted({*([] if self._store is None else self._store.list_names()), *self._held})

    def close(self) -> None:
        """Close the store; what it keeps stays."""
        if self._store is not None:
            self._store.close()

    def _find_terms(self, training: Training) -> ClassTerms | None:
        """Return what a certificate rests on, without one where the class may follow from answers about these rows (V4.1).

        A model that was made of the same before the first answer keeps its certificate when it is trained again.
        """
        asked = training.asked
        if asked.terms is None or asked.terms.lost is not None or self._is_untouched():
            return asked.terms
        if any(model.asked.digest == asked.digest and model.asked.terms == asked.terms for model in self.list_models()):
            return asked.terms
        return replace(asked.terms, lost=_LATE_CLASS)

    def _is_untouched(self) -> bool:
        """Return whether nothing was answered about these rows yet."""
        ledger = self._pipeline.ledger
        newest = ledger.newest()
        return not newest or ledger.entries(newest)[0].charges == 0

    def _is_split_first(self, cut: PartRule) -> bool:
        """Return whether it was said before the first answer which rows a rule holds out, for this model or another."""
        if not cut.held_out:
            return False
        if self._is_untouched():
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
        if isinstance(model.asked, FitFacts) and isinstance(model, FitModel):
            self._write_sealed(name, {"made": dict(made), "fit": model.asked.document}, model.write())
            return
        kept: dict[str, object] = {"made": dict(made), "digest": model.asked.digest, "span": model.asked.bounds}
        kept |= {"split_first": True} if model.asked.split_first else {}
        kept |= {} if model.asked.terms is None else {"terms": asdict(model.asked.terms)}
        self._write_sealed(name, kept, to_bytes(model.ensemble))

    def _write_sealed(self, name: str, kept: Mapping[str, object], content: bytes) -> None:
        sealed = seal_document(self._pipeline.ledger.terms.key, name, facts=encode(kept), content=content)
        if self._store is not None:
            self._store.write(name, sealed)
            self._seals[name] = sealed.seal

    def _open_stored(self, name: str, stored: SealedDocument) -> Model:
        """Return a stored model; IntegrityError unless its seal, its digest and its members are right."""
        check_seal(self._pipeline.ledger.terms.key, name, stored)
        try:
            kept = json.loads(stored.facts)
            made = kept["made"]
            if "fit" in kept:
                return self._open_fit(name, kept, stored.content)
            right = digest_of(made) == kept["digest"]
            labels = None if made["labels"] is None else tuple(made["labels"])
            span = None if kept["span"] is None else (float(kept["span"][0]), float(kept["span"][1]))
            cut = PartRule(**made["rows"]) if "rows" in made else PartRule("position")
            about: dict[str, Any] = {"target": str(made["target"]), "kind": str(made["estimator"])}
            about |= {"split_first": kept.get("split_first") is True}
            about |= {"terms": ClassTerms(**kept["terms"]) if "terms" in kept else None}
            asked = ModelFacts(name, str(kept["digest"]), int(made["parts"]), labels, span, cut, **about)
            chosen = tuple(map(str, made["features"]))
            ensemble = from_bytes(stored.content, where=name, read_class=read_class)
            model = Model.of(asked, ensemble, chosen, card=self._pipeline.card)
        except (HoldtrueError, ValueError, KeyError, TypeError, IndexError):
            right = False
        if not right:
            message = f"the stored model {name!r} is inconsistent; train it again"
            raise IntegrityError(message)
        return model

    def _open_fit(self, name: str, kept: Mapping[str, Any], content: bytes) -> Model:
        """Return a stored fit; the caller tells of whatever is wrong with it."""
        asked = FitFacts.read(kept["fit"])
        if asked.name != name or asked.digest != digest_of(kept["made"]):
            raise ValueError(name)
        return open_fit(asked, tuple(map(str, kept["made"]["features"])), content, card=self._pipeline.card)
