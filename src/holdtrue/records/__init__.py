"""What crosses a boundary: responses, with the interval and the certificate that come with them.

Records are frozen, hold public numbers only, and read back as they were written: with :mod:`holdtrue.codec`,
``decode(encode(record), Response)`` is the record.
"""

from typing import TypeAlias

from holdtrue.records.answers import Answer, Certificate, FactTable, Interval, Prediction, Tagged, mark_repeat
from holdtrue.records.choices import Choice, Deduction, WatchAnswer, WatchRun
from holdtrue.records.marginals import Marginals, Synthetic, Workload
from holdtrue.records.means import MOST_PEOPLE, Contrast, Estimates, Means, Statistic
from holdtrue.records.models import Evaluation, FittedModel, Hypothesis
from holdtrue.records.quantiles import DateAnswer, DateInterval, Quantiles
from holdtrue.records.showing import Listing, fit_columns, fold_line, html_table, make_frame, text_table
from holdtrue.records.tables import Table, Unions, count_boxes

__all__ = [
    "MOST_PEOPLE",
    "Answer",
    "Certificate",
    "Choice",
    "Contrast",
    "DateAnswer",
    "DateInterval",
    "Deduction",
    "Estimates",
    "Evaluation",
    "FactTable",
    "FittedModel",
    "Hypothesis",
    "Interval",
    "Listing",
    "Marginals",
    "Means",
    "Prediction",
    "Quantiles",
    "Response",
    "Statistic",
    "Synthetic",
    "Table",
    "Tagged",
    "Unions",
    "WatchAnswer",
    "WatchRun",
    "Workload",
    "count_boxes",
    "fit_columns",
    "fold_line",
    "html_table",
    "make_frame",
    "mark_repeat",
    "text_table",
]

Response: TypeAlias = (
    Answer
    | Choice
    | Hypothesis
    | Prediction
    | Table
    | Workload
    | Means
    | Quantiles
    | Statistic
    | WatchAnswer
    | WatchRun
    | Evaluation
    | FittedModel
)
