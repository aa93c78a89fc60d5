"""Plans: frozen numbers from theorems, made before data."""

from holdtrue.planning.asking import Intractable, Plan, plan
from holdtrue.planning.comparing import Comparison
from holdtrue.planning.holding import HoldoutPlan, plan_holdout
from holdtrue.planning.learning import LearningPlan, plan_learning
from holdtrue.planning.open_ended import AnyPlan, OpenPlan, open_plan, read_plan
from holdtrue.planning.predicting import PredictionPlan, plan_prediction
from holdtrue.planning.selecting import SelectionPlan, plan_selection

__all__ = [
    "AnyPlan",
    "Comparison",
    "HoldoutPlan",
    "Intractable",
    "LearningPlan",
    "OpenPlan",
    "Plan",
    "PredictionPlan",
    "SelectionPlan",
    "open_plan",
    "plan",
    "plan_holdout",
    "plan_learning",
    "plan_prediction",
    "plan_selection",
    "read_plan",
]
