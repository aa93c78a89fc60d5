"""Plans: frozen numbers from theorems, made before data."""

from holdtrue.planning.asking import Intractable, Plan, plan
from holdtrue.planning.comparing import Comparison
from holdtrue.planning.learning import LearningPlan, plan_learning
from holdtrue.planning.predicting import PredictionPlan, plan_prediction
from holdtrue.planning.selecting import SelectionPlan, plan_selection

__all__ = [
    "Comparison",
    "Intractable",
    "LearningPlan",
    "Plan",
    "PredictionPlan",
    "SelectionPlan",
    "plan",
    "plan_learning",
    "plan_prediction",
    "plan_selection",
]
