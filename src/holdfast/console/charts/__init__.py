"""Charts as SVG, drawn here: no script, no style in the page, words in HTML so that they stay readable on a telephone.

Every chart over time can also be read as a table, which is how the keyboard and a screen reader reach what a point
links to.
"""

from holdfast.console.charts.bars import Bar, bars, columns
from holdfast.console.charts.lines import Line, Threshold, line_chart, line_table
from holdfast.console.charts.schedule import schedule_chart
from holdfast.console.charts.spark import sparkline

__all__ = ["Bar", "Line", "Threshold", "bars", "columns", "line_chart", "line_table", "schedule_chart", "sparkline"]
