"""Predictors trained on disjoint parts, their votes, and responses and learners that one row changes very little.

::

    ensemble = train(LogisticRegression(), X, y, parts=200, labels=[0, 1])
    ensemble.votes(points)      # private: points by labels, to be answered through a mechanism
    save(ensemble, "risk.npz")
"""

from holdtrue.ensembles.members import Ensemble
from holdtrue.ensembles.parts import part_of
from holdtrue.ensembles.saving import load, save
from holdtrue.ensembles.training import train

__all__ = ["Ensemble", "load", "part_of", "save", "train"]
