"""Compares the figures that bench-compare.sh collected: a table of medians, ranges and ratios."""

import json
import re
import statistics
import sys
from collections import defaultdict
from pathlib import Path

HIGHER = re.compile(r"per_s$|per_second$")
LOWER = re.compile(r"(_ms|_s|_mib|_us_per_host)$")
# What the run was asked to do, not what it found out, and the largest single value, which is chance.
NOT_A_FIGURE = re.compile(r"rate_per_s$|max_ms$|outage_s$|bare_timer|(^|\.)seconds$|first_1000_ms$|last_1000_ms$|median_ratio$")


def figures(value, path=""):
    """Yields every number of a document with its dotted path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from figures(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, float(value)


def collect(directory):
    found = defaultdict(lambda: {"old": [], "new": []})
    for file in Path(directory).glob("*.json"):
        engine, part, _pair, which, _ = file.name.split(".")
        for path, value in figures(json.loads(file.read_text())):
            if not NOT_A_FIGURE.search(path) and (HIGHER.search(path) or LOWER.search(path)):
                found[engine, part, path][which].append(value)
    return found


def main():
    rows = []
    for (engine, part, path), values in sorted(collect(sys.argv[1]).items()):
        if not values["old"] or not values["new"]:
            continue
        old, new = statistics.median(values["old"]), statistics.median(values["new"])
        if not old or not new:
            continue
        ratio = new / old if HIGHER.search(path) else old / new
        spread = f"{min(values['old']):g}..{max(values['old']):g}"
        rows.append((engine, part, path, f"{old:g}", f"{new:g}", spread, f"{ratio:.2f}" + (" <" if ratio < 0.95 else "")))
    heads = ("engine", "part", "figure", "old", "new", "range of old", "ratio")
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    for row in [heads, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    below = sum(row[-1].endswith("<") for row in rows)
    print(f"{below} of {len(rows)} figures below 0.95")
    return 1 if below or not rows else 0


sys.exit(main())
