"""Plans: frozen numbers from theorems, made before data."""

from holdtrue.planning.asking import Intractable, open_plan, plan
from holdtrue.planning.comparing import Comparison
from holdtrue.planning.holdout_plan import HoldoutPlan, plan_holdout
from holdtrue.planning.learning import LearningPlan, plan_learning
from holdtrue.planning.plans import AnyPlan, OpenPlan, Plan, find_intervals, read_plan
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
    "find_intervals",
    "open_plan",
    "plan",
    "plan_holdout",
    "plan_learning",
    "plan_prediction",
    "plan_selection",
    "read_plan",
]
