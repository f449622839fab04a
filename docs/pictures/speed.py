#!/usr/bin/env python3
"""Draws speed over round-trip time from the record of 28 November 2026.

python3 docs/pictures/speed.py > docs/pictures/speed.svg
"""
import pathlib
import re

RECORD = pathlib.Path(__file__).parents[1] / "records/experiments/2026-11-28.md"

# Median round trip of each link in ms (docs/networks.md), in the order of the record's columns.
LINKS = {"5g-near": 14, "paper-5g": 30, "leo": 50, "paper-4g": 52, "4g-busy": 82, "5g-far": 147}

# Anchor and offset of labels that would overlap their neighbour's.
ANCHORS = {"leo": ("end", 2), "paper-4g": ("start", -2)}

# Row of the record, label, colour, and offset in pixels that keeps intervals apart.
ARMS = [
    ("cloud drafts itself", "server drafts for itself", "#3c8a57", 4),
    ("overlap, tree", "split, hold none", "#c2410c", 0),
    ("sequential, tree of 12", "split, lockstep", "#1d4ed8", 0),
]

HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 880 454" width="880" height="454" role="img"
  aria-labelledby="title desc" font-family="sans-serif" font-size="12" fill="#1f2328">
  <title id="title">Speed relative to a plain stream over round-trip time</title>
  <desc id="desc">{description}</desc>
  <!-- Written by speed.py from docs/records/experiments/2026-11-28.md. -->
  <style>
    .grid {{ stroke: #d0d7de }}
    .axis {{ stroke: #1f2328; stroke-width: 1.2 }}
    .arm {{ stroke-width: 2; fill: none }}
    .interval {{ stroke-width: 1.5 }}
    .name {{ font-size: 14px; font-weight: bold }}
  </style>
  <rect width="880" height="454" rx="8" fill="#f6f8fa"/>
  <text class="name" x="16" y="28">Speed relative to a plain stream</text>"""

NOTES = [
    "28 November 2026, protocol 3 or earlier, emulated links; demo models at Llama-3-8B's pace,"
    " eight stories. Bars: 95 % intervals.",
    "The split's drafts are synthetic (first choice right with probability 0.8). The server's are"
    " real, and better in these stories.",
]


def read_row(name):
    """Returns the cells of a row of the record, one per link."""
    row = re.search(rf"^\| {re.escape(name)}\b[^|]*\|(.*)\|$", RECORD.read_text(), re.M)
    cells = row[1].split("|")
    assert len(cells) == len(LINKS), name
    return cells


def read_ratios(name):
    """Returns (ratio, low, high) per link."""
    return [tuple(map(float, re.findall(r"\d+\.\d+", cell)[:3])) for cell in read_row(name)]


def x_of(milliseconds):
    return round(80 + 3.9 * milliseconds)


def y_of(ratio):
    return round(354 - 128 * ratio)


def path(kind, d):
    print(f'  <path class="{kind}" d="{d}"/>')


def text(x, y, content, anchor="start"):
    print(f'  <text x="{x}" y="{y}" text-anchor="{anchor}">{content}</text>')


arms = [(read_ratios(row), label, colour, offset) for row, label, colour, offset in ARMS]
stream = [cell.strip() for cell in read_row("stream, tokens/s")]
falls = [
    f"{label.capitalize()}: {ratios[0][0]:.2f} to {ratios[-1][0]:.2f}"
    for ratios, label, _, _ in arms
]
print(HEAD.format(description=f"Ratios from 14 to 147 ms. {'. '.join(falls)}."))
for link, delay in LINKS.items():
    anchor, shift = ANCHORS.get(link, ("middle", 0))
    path("grid", f"M{x_of(delay)} 58V354")
    text(x_of(delay) + shift, 52, link, anchor)
for ratio in (0, 0.5, 1, 1.5, 2):
    path("axis" if ratio in (0, 1) else "grid", f"M80 {y_of(ratio)}H665")
    text(70, y_of(ratio) + 4, f"{ratio:g}", "end")
text(672, y_of(1) + 4, "plain stream")
text(672, y_of(1) + 20, f"({stream[0]} to {stream[-1]} tokens/s)")
for delay in range(0, 151, 25):
    path("axis", f"M{x_of(delay)} 354v5")
    text(x_of(delay), 374, delay, "middle")
text(372, 394, "median round trip in ms", "middle")
for ratios, label, colour, offset in arms:
    points = [(x_of(delay) + offset, *map(y_of, r)) for delay, r in zip(LINKS.values(), ratios)]
    print(f'  <g stroke="{colour}" fill="{colour}">')
    path("arm", "M" + " ".join(f"{x} {y}" for x, y, _, _ in points))
    path("interval", "".join(f"M{x} {low}V{high}" for x, _, low, high in points))
    for x, y, _, _ in points:
        print(f'  <circle cx="{x}" cy="{y}" r="3.5"/>')
    print("  </g>")
    print(f'  <text class="name" fill="{colour}" x="672" y="{points[-1][1] + 4}">{label}</text>')
for line, note in enumerate(NOTES):
    text(16, 424 + 18 * line, note)
print("</svg>")
