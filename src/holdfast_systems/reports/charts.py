"""Charts of market data as PNG: candles above, volume below. The library is loaded when the first chart is drawn."""

from __future__ import annotations

import os
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from statistics import fmean
from threading import Lock
from typing import Any

from holdfast_systems.reports.ohlcv import Candle

INCHES = (8.2, 4.6)
DOTS_PER_INCH = 140
CANDLES_SHOWN_MAX = 240
"""More candles than that cannot be told apart; the newest are drawn."""
TICKS_MAX = 6
MARGINS = (0.1, 0.1, 0.985, 0.91)
"""Left, bottom, right, top, as shares of the picture."""
POINTS_PER_INCH = 72
BAR_SHARE = 0.62
AVERAGE = 10
RISE, FALL, INK, GRID, LINE = "#0f8a5f", "#c43d3d", "#22303c", "#dfe5ea", "#3568b8"
SIGNATURE = b"\x89PNG\r\n\x1a\n"
HEAD_BYTES = 4_096

_lock = Lock()
"""The library keeps fonts and caches that threads must not change at once."""


def draw_candles(candles: Sequence[Candle], title: str, *, source: str) -> bytes:
    """The prices of the newest candles, with a moving average; the source is written into the file."""
    shown = candles[-CANDLES_SHOWN_MAX:]
    with _lock:
        figure, axes = _figure(title)
        places = range(len(shown))
        colours = [RISE if one.close >= one.open else FALL for one in shown]
        axes.vlines(places, [one.low for one in shown], [one.high for one in shown], colors=colours, linewidth=1)
        # A candle that closes where it opened is a thin line, and visible.
        least = (max(one.high for one in shown) - min(one.low for one in shown)) * 0.003
        bottoms = [min(one.open, one.close) for one in shown]
        tops = [max(max(one.open, one.close), bottom + least) for one, bottom in zip(shown, bottoms, strict=True)]
        axes.vlines(places, bottoms, tops, colors=colours, linewidth=_bar_points(shown))
        average = [fmean(one.close for one in shown[max(0, at - AVERAGE + 1) : at + 1]) for at in places]
        axes.plot(places, average, color=LINE, linewidth=1.4, label=f"average of {AVERAGE}")
        axes.legend(loc="upper left", frameon=False, fontsize=9)
        axes.set_ylabel("price")
        return _png(figure, axes, shown, source)


def draw_volume(candles: Sequence[Candle], title: str, *, source: str) -> bytes:
    """The volume of the newest candles; the source is written into the file."""
    shown = candles[-CANDLES_SHOWN_MAX:]
    with _lock:
        figure, axes = _figure(title)
        colours = [RISE if one.close >= one.open else FALL for one in shown]
        volumes = [one.volume for one in shown]
        axes.vlines(range(len(shown)), [0.0] * len(shown), volumes, colors=colours, linewidth=_bar_points(shown))
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(_short_numbers())
        axes.set_ylabel("volume")
        return _png(figure, axes, shown, source)


def is_chart_of(content: bytes, source: str) -> bool:
    """Whether this is a chart that was drawn here for the source."""
    return content.startswith(SIGNATURE) and b"tEXtSource\0" + source.encode("latin-1") in content[:HEAD_BYTES]


def keep_caches_in(folder: Path) -> None:
    """Let the chart library keep its font list below this folder, where it is looked for after the next start."""
    os.environ.setdefault("MPLCONFIGDIR", str(folder / "matplotlib"))


def _figure(title: str) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=INCHES, dpi=DOTS_PER_INCH)
    FigureCanvasAgg(figure)
    # Fixed margins: to measure every label first takes as long as to draw.
    figure.subplots_adjust(*MARGINS)
    axes = figure.add_subplot()
    # A dollar sign would begin a formula.
    axes.set_title(title.replace("$", r"\$"), loc="left", color=INK, fontsize=13)
    axes.grid(visible=True, axis="y", color=GRID)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def _short_numbers() -> Any:
    from matplotlib.ticker import EngFormatter

    return EngFormatter(sep="")


def _bar_points(shown: Sequence[Candle]) -> float:
    """The width of a bar."""
    width = INCHES[0] * (MARGINS[2] - MARGINS[0]) * POINTS_PER_INCH
    return min(24.0, BAR_SHARE * width / (len(shown) + 1))


def _png(figure: Any, axes: Any, shown: Sequence[Candle], source: str) -> bytes:
    step = max(1, len(shown) // TICKS_MAX)
    places = list(range(0, len(shown), step))
    axes.set_xticks(places, [shown[place].time[:16].replace("T", "\n").replace("\n00:00", "") for place in places])
    axes.set_xlim(-1, len(shown))
    axes.tick_params(labelsize=9, colors=INK)
    file = BytesIO()
    # The same candles give the same bytes.
    figure.savefig(file, format="png", metadata={"Software": None, "Source": source})
    return file.getvalue()
