"""The tasks with numbers: time, arithmetic and units, as in tasks.py.

Arithmetic is written out.  A small model cannot add in its head, but it can look up one-digit sums:
    478 + 56   ->  478+056: 8+6+0=14, 7+5+1=13, 4+0+1=05. Answer: 534
The numbers are first repeated with equal width.  Each column is digit + digit + carry; its result always has two
digits, the first of which is the next carry.  In a subtraction the upper number of a column starts with 1 if it
borrowed from the next column:
    52 - 38    ->  52-38: 12-8-0=4, 05-3-1=1. Answer: 14
"""

from __future__ import annotations

import random

from tasks import DAYS, Example, pick

# --------------------------------------------------------------------------------------- time arithmetic


def time_arithmetic(rng: random.Random) -> Example:
    """Clock and calendar questions with the working written out.  Minutes are multiples of five."""
    kind = rng.randrange(4)
    hour, minute = rng.randrange(24), 5 * rng.randrange(12)
    now = f"{hour:02d}:{minute:02d}"
    if kind == 0:
        half = "pm" if hour >= 12 else "am"
        spoken = f"{(hour + 11) % 12 + 1}:{minute:02d} {half}"
        prompt = pick(
            rng,
            [
                "What is {t} in 24-hour time?",
                "Write {t} in 24-hour time.",
                "Convert {t} to 24-hour time.",
            ],
        ).format(t=spoken)
        h12 = (hour + 11) % 12 + 1
        shift = (12 if hour >= 12 else 0) - (12 if h12 == 12 else 0)
        return Example(
            "time",
            prompt,
            f"{half}: {h12:02d}{'+' if shift >= 0 else '-'}{abs(shift):02d}={hour:02d}. Answer: {now}",
        )
    if kind == 1:
        hours, minutes = rng.randrange(0, 7), 5 * rng.randrange(12)
        if hours == 0 and minutes == 0:
            hours = 1
        spoken = " and ".join(
            x
            for x in (
                f"{hours} hour{'s' * (hours > 1)}" if hours else "",
                f"{minutes} minutes" if minutes else "",
            )
            if x
        )
        prompt = pick(
            rng,
            [
                "It is {t}. What time is it in {d}?",
                "What time is {d} after {t}?",
                "A train leaves at {t} and takes {d}. When does it arrive?",
            ],
        ).format(t=now, d=spoken)
        total = minute + minutes
        carry, rest = divmod(total, 60)
        raw = hour + hours + carry
        working = f"minutes {minute:02d}+{minutes:02d}={total:02d}, carry {carry}, left {rest:02d}. hours {hour:02d}+{hours}+{carry}={raw:02d}"
        if raw >= 24:
            working += f", minus 24 is {raw - 24:02d}"
        return Example("time", prompt, f"{working}. Answer: {raw % 24:02d}:{rest:02d}")
    if kind == 2:
        length = 5 * rng.randrange(1, 12 * 10)
        start = rng.randrange(0, 24 * 12 - length // 5) * 5
        a, b = divmod(start, 60), divmod(start + length, 60)
        prompt = pick(
            rng,
            [
                "How long is it from {a} to {b}?",
                "A film runs from {a} to {b}. How long is it?",
                "How much time is between {a} and {b}?",
            ],
        ).format(a=f"{a[0]:02d}:{a[1]:02d}", b=f"{b[0]:02d}:{b[1]:02d}")
        borrow = int(b[1] < a[1])
        top = b[1] + 60 * borrow
        hours, minutes = b[0] - a[0] - borrow, top - a[1]
        working = f"minutes {top:02d}-{a[1]:02d}={minutes:02d}, borrow {borrow}. hours {b[0]:02d}-{a[0]:02d}-{borrow}={hours}"
        return Example("time", prompt, f"{working}. Answer: {hours} hours {minutes} minutes")
    day, count = rng.randrange(7), rng.randrange(1, 22)
    prompt = pick(
        rng,
        [
            "Today is {d}. What day is it in {n} days?",
            "If today is {d}, which day comes {n} days later?",
            "It is {d}. What day will it be {n} days from now?",
        ],
    ).format(d=DAYS[day], n=count)
    weeks, rest = divmod(count, 7)
    steps = ", ".join(DAYS[(day + k) % 7] for k in range(1, rest + 1)) or "same day"
    return Example(
        "time", prompt, f"{count}={weeks * 7}+{rest}: {steps}. Answer: {DAYS[(day + rest) % 7]}"
    )


# --------------------------------------------------------------------- plain arithmetic, unit conversion


def column_sum(a: int, b: int) -> str:
    """The written addition of the module's docstring."""
    width = max(len(str(a)), len(str(b)))
    carry, steps = 0, []
    a_digits, b_digits = f"{a:0{width}d}", f"{b:0{width}d}"
    for x, y in zip(reversed(a_digits), reversed(b_digits)):
        total = int(x) + int(y) + carry
        steps.append(f"{x}+{y}+{carry}={total:02d}")
        carry = total // 10
    return f"{a_digits}+{b_digits}: " + ", ".join(steps)


def column_difference(a: int, b: int) -> str:
    """The written subtraction of the module's docstring, a >= b."""
    width = len(str(a))
    borrow, steps = 0, []
    a_digits, b_digits = f"{a:0{width}d}", f"{b:0{width}d}"
    for x, y in zip(reversed(a_digits), reversed(b_digits)):
        top = int(x) + (10 if int(x) - borrow < int(y) else 0)
        steps.append(f"{top:02d}-{y}-{borrow}={top - int(y) - borrow}")
        borrow = top // 10
    return f"{a_digits}-{b_digits}: " + ", ".join(steps)


def arithmetic(rng: random.Random) -> Example:
    """Addition and subtraction of two- and three-digit numbers."""
    a, b = (rng.randrange(10, pick(rng, [100, 1000])) for _ in range(2))
    if rng.random() < 0.5:
        prompt = pick(
            rng,
            [
                "What is {a} plus {b}?",
                "What is {a} + {b}?",
                "Add {a} and {b}.",
                "Calculate {a} + {b}.",
            ],
        ).format(a=a, b=b)
        return Example("arith", prompt, f"{column_sum(a, b)}. Answer: {a + b}")
    a, b = max(a, b), min(a, b)
    prompt = pick(
        rng,
        [
            "What is {a} minus {b}?",
            "What is {a} - {b}?",
            "Take {b} from {a}.",
            "Calculate {a} - {b}.",
        ],
    ).format(a=a, b=b)
    return Example("arith", prompt, f"{column_difference(a, b)}. Answer: {a - b}")


# (larger unit, smaller unit, smaller units in one larger)
UNITS = [
    ("kilometers", "meters", 1000),
    ("kilograms", "grams", 1000),
    ("liters", "milliliters", 1000),
    ("meters", "centimeters", 100),
    ("dollars", "cents", 100),
    ("centimeters", "millimeters", 10),
    ("hours", "minutes", 60),
    ("minutes", "seconds", 60),
    ("days", "hours", 24),
    ("weeks", "days", 7),
    ("feet", "inches", 12),
    ("years", "months", 12),
    ("yards", "feet", 3),
    ("gallons", "quarts", 4),
    ("pounds", "ounces", 16),
]


def conversion(rng: random.Random) -> Example:
    """Conversion between two units in either direction, whole numbers only."""
    large, small, factor = pick(rng, UNITS)
    count = rng.randrange(2, 100) if factor in (10, 100, 1000) else rng.randrange(2, 13)
    total = count * factor
    if rng.random() < 0.5:
        prompt = pick(
            rng,
            ["How many {s} are in {n} {l}?", "Convert {n} {l} to {s}.", "What is {n} {l} in {s}?"],
        ).format(s=small, l=large, n=count)
        return Example("units", prompt, f"{count} x {factor} = {total}. Answer: {total} {small}")
    prompt = pick(
        rng, ["How many {l} are {n} {s}?", "Convert {n} {s} to {l}.", "What is {n} {s} in {l}?"]
    ).format(s=small, l=large, n=total)
    return Example("units", prompt, f"{total} / {factor} = {count}. Answer: {count} {large}")
