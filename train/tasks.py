"""The tasks: seeded generators of (prompt, answer) pairs.  Those with numbers are in number_tasks.py.

A generator takes a ``random.Random`` and returns an :class:`Example`.  It is independent of the held-out split:
:class:`data.Source` draws until an example is on the wanted side.

The grade is the text after ``Answer:`` (:func:`final_answer`).
"""

from __future__ import annotations

import dataclasses
import json
import random
from typing import Callable, List, Optional, Sequence, Tuple


@dataclasses.dataclass
class Example:
    task: str
    prompt: str
    answer: str
    references: Optional[List[str]] = None  # other correct answers, if a task has several


def final_answer(text: str) -> str:
    """The graded part of an answer: the text after the last ``Answer:``, otherwise all."""
    return text.rsplit("Answer:", 1)[-1].strip().rstrip(".")


# --------------------------------------------------------------------------------------------- word lists

NAMES = """Alice Bob Carol David Emma Frank Grace Henry Irene Jack Karen Liam Maria Noah Olivia Peter Quinn Rosa Sam
Tina Uma Victor Wendy Xavier Yara Zoe Anna Ben Clara Daniel Elena Felix Gina Hugo Ivy Jonas Kate Leo Mia Nina Oscar
Paul Rita Simon Tom Vera Walter Yusuf Amir Bianca Carlos Diana Erik Fatima George Hannah Ines Julia Kevin Laura Marco
Nadia Otto Priya Ravi Sofia Theo Mom Dad""".split()
PLACES = """Paris London Berlin Madrid Rome Vienna Prague Lisbon Dublin Oslo Athens Tokyo Boston Chicago Seattle Denver
Toronto Sydney Cairo Delhi Munich Milan Porto Warsaw Geneva Zurich Bergen Leeds York Bath Austin Dallas Miami Houston
Lima Quito Seoul Osaka Kyoto Nairobi""".split() + [
    "New York",
    "San Diego",
    "Hong Kong",
    "Cape Town",
]
SPOTS = """the airport;the train station;the library;the office;the gym;the museum;the city park;the hospital;the harbour;
the town hall;the stadium;the supermarket;the post office;the cinema;the university;the beach;Central Station;Green Park;
Baker Street;Market Square;Mill Road;King Street;River Avenue;Hill Lane;the bakery;the pharmacy;the old bridge""".replace(
    "\n", ""
).split(
    ";"
)
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
ROOMS = [
    "kitchen",
    "bedroom",
    "living room",
    "bathroom",
    "office",
    "garage",
    "hallway",
    "garden",
    "dining room",
    "attic",
]
ITEMS = """milk eggs bread butter apples bananas rice pasta cheese tomatoes onions coffee tea sugar flour salt soap batteries
carrots potatoes chicken fish yogurt honey oranges lemons shampoo paper cereal pepper beans grapes""".split()
LISTS = ["shopping", "grocery", "party", "packing", "kitchen", "weekend"]
SONGS = """Blue Moon;Yellow Sky;Summer Rain;Silent River;Golden Hour;Night Train;Paper Planes;Winter Song;Ocean Drive;
Morning Light;Old Road;Wild Hearts;Little Star;Dancing Fire;Northern Wind;Broken Clock;Sweet Home;Long Way Down""".replace(
    "\n", ""
).split(
    ";"
)
ARTISTS = """Luna Park;The Rivers;Mara Stone;Red Harbor;Nico Vale;The Lanterns;Ada Moss;Silver Fox;Jon Hale;City Birds;
Iris Bloom;The Maples;Owen Gray;Pine Street;Ruby Lake;Sunset Club""".replace(
    "\n", ""
).split(
    ";"
)
VERBS = """call;email;visit;thank;meet;help;invite;remind;pay;text""".split(";")
CHORES = """walk the dog;water the plants;take out the trash;pay the rent;buy a birthday gift;clean the kitchen;do the laundry;
feed the cat;book a table;pick up the parcel;wash the car;return the books;renew the passport;fix the bike;pack the bags;
charge the phone;check the mail;take the medicine;order new shoes;send the report;finish the homework;cook dinner;
bake a cake;mow the lawn;practice the piano;print the tickets;back up the laptop""".replace(
    "\n", ""
).split(
    ";"
)
EVENTS = """team meeting;dentist appointment;lunch with {n};dinner with {n};project review;piano lesson;football practice;
parent evening;yoga class;job interview;coffee with {n};book club;doctor visit;birthday party;budget meeting;
call with {n};movie night;haircut;planning session;study group""".replace(
    "\n", ""
).split(
    ";"
)
MESSAGES = """I will be {m} minutes late;I will bring {i};please buy {i};see you on {d};happy birthday;I am on my way;
the meeting is on {d};can you call me back;dinner is ready;thank you for the {i};I am at {s};we need more {i};
I cannot come on {d};good luck on {d};the train to {p} is late;I left the {i} at home;meet me at {s};do not forget the {i};
I arrive in {p} on {d};the keys are in the {r};let us meet on {d};how was the trip to {p}""".replace(
    "\n", ""
).split(
    ";"
)


def pick(rng: random.Random, items: Sequence):
    return items[rng.randrange(len(items))]


def fill(rng: random.Random, text: str) -> str:
    """Replaces the {letter} slots of a phrase."""
    slots = {
        "n": NAMES,
        "d": DAYS,
        "p": PLACES,
        "s": SPOTS,
        "i": ITEMS,
        "r": ROOMS,
        "m": [str(5 * k) for k in range(1, 13)],
    }
    for key, values in slots.items():
        if "{" + key + "}" in text:
            text = text.replace("{" + key + "}", pick(rng, values))
    return text


# ---------------------------------------------------------------------------------------------- tool calls


def clock(rng: random.Random) -> Tuple[str, str]:
    """A spoken time and the same in 24-hour form: ("7:30 pm", "19:30")."""
    hour, minute = rng.randrange(24), pick(
        rng, [0, 0, 0, 30, 15, 45, 5, 10, 20, 25, 35, 40, 50, 55]
    )
    written = f"{hour:02d}:{minute:02d}"
    if rng.random() < 0.15:
        return written, written
    short = f"{(hour + 11) % 12 + 1}" + (f":{minute:02d}" if minute or rng.random() < 0.5 else "")
    return short + (" pm" if hour >= 12 else " am"), written


def _send_message(rng):
    name, text = pick(rng, NAMES), fill(rng, pick(rng, MESSAGES))
    form = pick(
        rng,
        [
            "text {n} {t}",
            "tell {n} {t}",
            "send a message to {n} saying {t}",
            "message {n} that {t}",
            "let {n} know: {t}",
        ],
    )
    return form.format(n=name, t=text), "send_message", {"to": name, "text": text}


def _set_reminder(rng):
    chore = pick(rng, CHORES) if rng.random() < 0.6 else f"{pick(rng, VERBS)} {pick(rng, NAMES)}"
    day, (spoken, written) = pick(rng, DAYS), clock(rng)
    form = pick(
        rng,
        [
            "remind me to {c} on {d} at {t}",
            "on {d} at {t} remind me to {c}",
            "set a reminder for {d} at {t} to {c}",
            "I need to {c} on {d} at {t}, remind me",
        ],
    )
    return (
        form.format(c=chore, d=day, t=spoken),
        "set_reminder",
        {"text": chore, "day": day, "time": written},
    )


def _create_event(rng):
    title, day, (spoken, written) = (fill(rng, pick(rng, EVENTS)), pick(rng, DAYS), clock(rng))
    form = pick(
        rng,
        [
            "schedule a {c} on {d} at {t}",
            "put a {c} in my calendar for {d} at {t}",
            "add a {c} on {d} at {t}",
            "book a {c} for {t} on {d}",
        ],
    )
    return (
        form.format(c=title, d=day, t=spoken),
        "create_event",
        {"title": title, "day": day, "time": written},
    )


def _set_alarm(rng):
    spoken, written = clock(rng)
    form = pick(
        rng,
        [
            "wake me up at {t}",
            "set an alarm for {t}",
            "set the alarm to {t}",
            "I need an alarm at {t}",
        ],
    )
    if rng.random() < 0.5:
        day = pick(rng, DAYS)
        return (form.format(t=spoken) + f" on {day}", "set_alarm", {"time": written, "day": day})
    return form.format(t=spoken), "set_alarm", {"time": written}


def _set_timer(rng):
    minutes = rng.randrange(1, 91)
    form = pick(
        rng,
        [
            "set a timer for {m} minutes",
            "start a {m} minute timer",
            "timer for {m} minutes, please",
            "count down {m} minutes",
        ],
    )
    return form.format(m=minutes), "set_timer", {"minutes": minutes}


def _play_music(rng):
    song, artist = pick(rng, SONGS), pick(rng, ARTISTS)
    if rng.random() < 0.4:
        return (
            pick(rng, ["play something by {a}", "play music by {a}", "I want to hear {a}"]).format(
                a=artist
            ),
            "play_music",
            {"artist": artist},
        )
    form = pick(rng, ["play {s} by {a}", "put on {s} by {a}", "I want to hear {s} by {a}"])
    return form.format(s=song, a=artist), "play_music", {"song": song, "artist": artist}


def _get_weather(rng):
    place, day = pick(rng, PLACES), pick(rng, DAYS + ["today", "tomorrow"])
    when = day if day in ("today", "tomorrow") else "on " + day
    form = pick(
        rng,
        [
            "what is the weather in {p} {d}",
            "will it rain in {p} {d}",
            "weather for {p} {d}",
            "how warm will it be in {p} {d}",
        ],
    )
    return form.format(p=place, d=when), "get_weather", {"city": place, "day": day}


def _set_light(rng):
    room = pick(rng, ROOMS)
    if rng.random() < 0.5:
        level = 5 * rng.randrange(1, 20)
        form = pick(rng, ["dim the {r} lights to {l} percent", "set the {r} light to {l} percent"])
        return (form.format(r=room, l=level), "set_light", {"room": room, "brightness": level})
    state = pick(rng, ["on", "off"])
    form = pick(
        rng, ["turn {s} the lights in the {r}", "switch {s} the {r} light", "lights {s} in the {r}"]
    )
    return form.format(r=room, s=state), "set_light", {"room": room, "state": state}


def _set_temperature(rng):
    room, degrees = pick(rng, ROOMS), rng.randrange(15, 29)
    form = pick(
        rng,
        ["set the {r} to {g} degrees", "make the {r} {g} degrees", "heat the {r} to {g} degrees"],
    )
    return (form.format(r=room, g=degrees), "set_temperature", {"room": room, "degrees": degrees})


def _navigate(rng):
    place = pick(rng, SPOTS) if rng.random() < 0.6 else pick(rng, PLACES)
    mode = pick(rng, ["walking", "driving", "cycling", "transit"])
    spoken = {"walking": "on foot", "driving": "by car", "cycling": "by bike", "transit": "by bus"}[
        mode
    ]
    form = pick(
        rng,
        [
            "take me to {p} {m}",
            "how do I get to {p} {m}",
            "directions to {p} {m}",
            "navigate to {p} {m}",
        ],
    )
    return (form.format(p=place, m=spoken), "navigate", {"destination": place, "mode": mode})


def _add_to_list(rng):
    items, name = rng.sample(ITEMS, rng.choice([1, 1, 2, 3])), pick(rng, LISTS)
    spoken = items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]
    form = pick(
        rng, ["add {i} to my {l} list", "put {i} on the {l} list", "I need {i} on my {l} list"]
    )
    return form.format(i=spoken, l=name), "add_to_list", {"list": name, "items": items}


def _call(rng):
    name = pick(rng, NAMES)
    video = rng.random() < 0.4
    form = pick(
        rng,
        ["video call {n}", "start a video call with {n}"]
        if video
        else ["call {n}", "phone {n}", "ring {n} please"],
    )
    return form.format(n=name), "call", {"contact": name, "video": video}


TOOLS: List[Callable] = [
    _send_message,
    _send_message,
    _set_reminder,
    _set_reminder,
    _create_event,
    _create_event,
    _set_alarm,
    _set_timer,
    _play_music,
    _get_weather,
    _set_light,
    _set_temperature,
    _navigate,
    _add_to_list,
    _call,
]


def tool_call(rng: random.Random) -> Example:
    """A spoken command and the tool call for it as one line of JSON."""
    command, name, arguments = pick(rng, TOOLS)(rng)
    if rng.random() < 0.5:
        command = command[0].upper() + command[1:]
    if rng.random() < 0.15:
        command += ", please" if "please" not in command else ""
    return Example("tool", command, json.dumps({"name": name, "arguments": arguments}))


# -------------------------------------------------------------------------------------------- text to SQL

ENTITIES = """students teachers courses books authors films actors songs albums cities countries rivers hotels rooms guests
flights airports trains stations ships cars drivers shops products orders customers employees teams players matches
hospitals doctors patients drugs farms animals plants museums paintings recipes ingredients workouts phones laptops
concerts tickets houses owners parks trips projects tasks bills invoices schools buildings bridges races events""".split()
TEXT_COLUMNS = """name city country color kind category status brand language owner title genre level team material region
model author district season style""".split()
NUMBER_COLUMNS = """age price weight height year rating size duration distance score capacity salary stock speed length
calories population budget pages floors seats""".split()
TEXT_VALUES = (
    NAMES
    + PLACES
    + """red blue green black white yellow small large medium open closed new old active French
Italian Spanish German English Chinese wood steel glass jazz rock drama comedy winter summer spring autumn gold silver
basic premium north south east west""".split()
)


def random_schema(rng: random.Random) -> Tuple[str, List[str], List[str]]:
    """(table, text columns, number columns)"""
    return (
        pick(rng, ENTITIES),
        rng.sample(TEXT_COLUMNS, rng.choice([1, 2, 2, 3])),
        rng.sample(NUMBER_COLUMNS, rng.choice([1, 2, 2, 3])),
    )


def _condition(
    rng: random.Random, text_columns: List[str], number_columns: List[str]
) -> Tuple[str, str]:
    if text_columns and (not number_columns or rng.random() < 0.5):
        column, value = pick(rng, text_columns), pick(rng, TEXT_VALUES)
        return f"{column} is {value}", f"{column} = '{value}'"
    column, value = pick(rng, number_columns), rng.randrange(1, 1000)
    words, sign = pick(
        rng,
        [
            ("over", ">"),
            ("above", ">"),
            ("more than", ">"),
            ("under", "<"),
            ("below", "<"),
            ("less than", "<"),
            ("at least", ">="),
            ("at most", "<="),
            ("exactly", "="),
        ],
    )
    return f"{column} is {words} {value}", f"{column} {sign} {value}"


def sql_query(
    rng: random.Random, schema: Optional[Tuple[str, List[str], List[str]]] = None
) -> Example:
    """A question about one table whose columns are listed in the prompt."""
    table, texts, numbers = schema or random_schema(rng)
    columns = texts + numbers
    rng.shuffle(columns)
    where_words = where = ""
    if rng.random() < 0.8:
        parts = [_condition(rng, texts, numbers)]
        if rng.random() < 0.4:
            rest = [c for c in texts if c not in parts[0][1]], [
                c for c in numbers if c not in parts[0][1]
            ]
            if rest[0] or rest[1]:
                parts.append(_condition(rng, *rest))
        where_words = " where " + " and ".join(p[0] for p in parts)
        where = " WHERE " + " AND ".join(p[1] for p in parts)
    kind = rng.randrange(7)
    if kind == 0:
        question = pick(rng, ["How many {t} are there{w}?", "Count the {t}{w}."])
        query = f"SELECT COUNT(*) FROM {table}{where}"
    elif kind == 1 and numbers:
        column, (word, name) = pick(rng, numbers), pick(
            rng, [("average", "AVG"), ("highest", "MAX"), ("lowest", "MIN"), ("total", "SUM")]
        )
        question = (
            pick(rng, ["What is the {f} {c} of {t}{w}?", "Give the {f} {c} of {t}{w}."])
            .replace("{f}", word)
            .replace("{c}", column)
        )
        query = f"SELECT {name}({column}) FROM {table}{where}"
    elif kind == 2 and numbers:
        shown, column, count = (pick(rng, columns), pick(rng, numbers), rng.randrange(2, 11))
        word, order = pick(rng, [("highest", "DESC"), ("lowest", "ASC")])
        question = f"Show the {shown} of the {count} {{t}} with the {word} {column}{{w}}."
        query = f"SELECT {shown} FROM {table}{where} ORDER BY {column} {order} LIMIT {count}"
    elif kind == 3 and texts:
        column = pick(rng, texts)
        question = pick(
            rng, ["Count the {t} per {c}{w}.", "How many {t} are there for each {c}{w}?"]
        ).replace("{c}", column)
        query = f"SELECT {column}, COUNT(*) FROM {table}{where} GROUP BY {column}"
    elif kind == 4:
        column = pick(rng, columns)
        question = pick(
            rng, ["List the different {c} of {t}{w}.", "Which different {c} do the {t} have{w}?"]
        ).replace("{c}", column)
        query = f"SELECT DISTINCT {column} FROM {table}{where}"
    else:
        shown = rng.sample(columns, min(len(columns), rng.choice([1, 1, 2])))
        question = pick(
            rng,
            [
                "Show the {c} of {t}{w}.",
                "What is the {c} of {t}{w}?",
                "List the {c} of all {t}{w}.",
            ],
        ).replace("{c}", " and ".join(shown))
        query = f"SELECT {', '.join(shown)} FROM {table}{where}"
    question = question.replace("{t}", table).replace("{w}", where_words)
    return Example("sql", f"Table {table}({', '.join(columns)}). {question}", query + ";")


def vary_ending(rng: random.Random, prompt: str) -> str:
    """The prompt with varying final punctuation: sometimes omitted, sometimes added to commands."""
    if prompt[-1] in ".?":
        return prompt[:-1] if rng.random() < 0.3 else prompt
    if rng.random() < 0.6:
        return prompt
    return prompt + ("?" if prompt.split()[0].lower() in ("what", "will", "how") else ".")
