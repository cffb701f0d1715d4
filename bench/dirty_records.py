"""Make records with duplicates as people write them: persons with addresses, companies, and products with sizes.

Near records that are other things are part of it: two sizes of a product, two branches of a company, relatives.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


def _words(text: str, between: str = " ") -> tuple[str, ...]:
    return tuple(text.split(between))


_FIRST: Final = _words(
    "James Mary Robert Patricia John Jennifer Michael Linda David Elizabeth William Barbara Richard Susan Joseph"
    " Jessica Thomas Sarah Charles Karen Daniel Nancy Matthew Lisa Anthony Betty Steven Sandra Andrew Ashley Paul Emily"
    " Joshua Donna Kenneth Michelle Kevin Carol Brian Amanda Jürgen Zoë Łukasz Chloé Søren Inês"
)
_LAST: Final = _words(
    "Smith Johnson Williams Brown Jones Garcia Miller Davis Rodriguez Martinez Hernandez Lopez Gonzalez Wilson Anderson"
    " Thomas Taylor Moore Jackson Martin Lee Perez Thompson White Harris Sanchez Clark Ramirez Lewis Robinson Walker"
    " Young Allen King Wright Scott Torres Nguyen Hill Flores Green Adams Nelson Baker Hall Rivera Campbell Mitchell"
    " Carter Roberts Müller O'Connor McDonald Österberg Dvořák"
)
_STREETS: Final = _words(
    "Oak Maple Cedar Pine Elm Washington Lake Hill Walnut Spring North Ridge Church Willow Mill Sunset Railroad Jackson"
    " Cherry West South Center Highland Johnson Forest Jefferson River Meadow Lincoln Park Franklin Chestnut"
)
_KINDS: Final = ("Street", "Avenue", "Road", "Drive", "Lane", "Boulevard")
_CITIES: Final = _words(
    "Springfield Franklin Clinton Greenville Bristol Fairview Salem Madison Georgetown Arlington Ashland Dover Oxford"
    " Jackson Burlington Manchester Milton Newport Auburn Centerville Dayton Lexington Milford Riverside Cleveland"
)
_STEMS: Final = _words(
    "North Star Blue Summit Pioneer Atlas Delta Harbor Golden Granite Liberty Vertex Cobalt Silver Crescent Evergreen"
    " Falcon Beacon Horizon Keystone Lakeside Meridian Nova Orchard Quantum Redwood Sterling Titan Union Valley"
)
_TRADES: Final = _words(
    "Software Logistics Foods Engineering Insurance Plumbing Bakery Motors Pharmaceuticals Consulting Electric Textiles"
    " Printing Analytics Construction Furniture Shipping Robotics Media Optics"
)
_FORMS: Final = ("Incorporated", "Corporation", "Limited", "Company", "LLC", "GmbH")
_BRANDS: Final = _words("Acme Borealis Corvus Dynamo Elara Fenwick Gusto Helix Ivory Juno Kestrel Lumen Marlow Nimbus")
_GOODS: Final = _words(
    "coffee beans;olive oil;laundry detergent;garden hose;desk lamp;dog food;running shoes;screwdriver set;"
    "water bottle;paint roller;green tea;yoga mat;phone charger;cat litter;rice;sugar;"
    "extension cord;backpack;frying pan;shampoo",
    ";",
)
_TYPES: Final = _words("Classic Premium Organic Ultra Basic Deluxe Compact Family Sport Eco")
_SHORT: Final = {
    "Street": "St.", "Avenue": "Ave", "Road": "Rd.", "Drive": "Dr", "Lane": "Ln.", "Boulevard": "Blvd",
    "Incorporated": "Inc.", "Corporation": "Corp.", "Limited": "Ltd", "Company": "Co.", "North": "N.", "South": "S.",
    "West": "W.", "Engineering": "Eng.", "Pharmaceuticals": "Pharma", "Construction": "Constr.", "Robert": "Bob",
    "William": "Bill", "Elizabeth": "Liz", "Michael": "Mike", "Jennifer": "Jen", "James": "Jim", "Thomas": "Tom",
    "kg": "kilogram", "ml": "milliliters", "cm": "centimetres", "m": "metres", "pieces": "pcs",
}  # fmt: skip
_LARGER: Final = {"g": ("kg", 1000), "ml": ("l", 1000), "cm": ("m", 100)}


@dataclass(frozen=True, slots=True)
class Records:
    """Texts, and the number of the thing that each is about."""

    texts: list[str]
    things: list[int]


def make(rows: int, duplicates: float, seed: int) -> Records:
    """Make records of which the share `duplicates` repeats a thing of another record in another spelling."""
    chance = random.Random(seed)  # noqa: S311 - simulated records, not secrets
    number = rows - round(rows * duplicates)
    known: dict[str, None] = {}
    while len(known) < number:
        kind = chance.choice((_person, _company, _product))
        first = kind(chance)
        for text in (first, _relative(first, chance)) if chance.random() < 0.3 else (first,):
            known.setdefault(text)
    texts = list(known)[:number]
    things = list(range(number))
    used = set(texts)
    while len(texts) < rows:
        thing = chance.randrange(number)
        text = spelled_otherwise(texts[thing], chance)
        if text not in used:
            used.add(text)
            texts.append(text)
            things.append(thing)
    order = list(range(rows))
    chance.shuffle(order)
    return Records([texts[place] for place in order], [things[place] for place in order])


def spelled_otherwise(text: str, chance: random.Random) -> str:
    """Return a text about the same thing with one to three changes."""
    changes: list[Callable[[str, random.Random], str]] = [
        _mistyped, _mistyped, _shortened, _shortened, _swapped, _converted, _recased, _less,
    ]  # fmt: skip
    for change in chance.sample(changes, chance.choice((1, 2, 2, 3))):
        text = change(text, chance)
    return text


def _person(chance: random.Random) -> str:
    name = f"{chance.choice(_FIRST)} {chance.choice('ABCDEFGHJKLMRST')}. {chance.choice(_LAST)}"
    street = f"{chance.randint(1, 999)} {chance.choice(_STREETS)} {chance.choice(_KINDS)}"
    return f"{name}, {street}, {chance.choice(_CITIES)}, {chance.randint(10000, 99999)}"


def _company(chance: random.Random) -> str:
    name = f"{chance.choice(_STEMS)} {chance.choice(_STEMS)} {chance.choice(_TRADES)} {chance.choice(_FORMS)}"
    return f"{name}, {chance.choice(_CITIES)}, phone {chance.randint(200, 999)}-{chance.randint(1000000, 9999999)}"


def _product(chance: random.Random) -> str:
    unit, sizes = chance.choice((("g", (250, 500, 1500, 2500)), ("ml", (330, 750, 2000)), ("cm", (30, 120, 250))))
    what = f"{chance.choice(_BRANDS)} {chance.choice(_TYPES)} {chance.choice(_GOODS)}"
    return (
        f"{what}, {chance.choice(sizes)} {unit}, {chance.choice((1, 6, 12))} pieces, item {chance.randint(1000, 9999)}"
    )


def _relative(text: str, chance: random.Random) -> str:
    """Return a near record about another thing: each number differs, or a person's first name."""
    words = text.split()
    if words[0] in _FIRST and chance.random() < 0.5:
        return " ".join([chance.choice([one for one in _FIRST if one != words[0]]), *words[1:]])
    places = [place for place, word in enumerate(words) if any(letter.isdigit() for letter in word)]
    for place in places:
        words[place] = "".join(
            str((int(c) + 1 + chance.randrange(8)) % 9 + 1) if c.isdigit() else c for c in words[place]
        )
    return " ".join(words)


def _mistyped(text: str, chance: random.Random) -> str:
    """Double, drop, swap or replace a letter; numbers stay, because another number is another thing."""
    places = [place for place in range(1, len(text) - 1) if text[place].isalpha() and text[place + 1].isalpha()]
    at = chance.choice(places)
    return chance.choice(
        (
            text[:at] + text[at + 1 :],
            text[:at] + text[at] + text[at:],
            text[:at] + text[at + 1] + text[at] + text[at + 2 :],
            text[:at] + chance.choice("aeinorst") + text[at + 1 :],
        )
    )


def _shortened(text: str, chance: random.Random) -> str:
    words = [word for word in dict.fromkeys(text.replace(",", " ").split()) if word in _SHORT]
    for word in words if chance.random() < 0.5 else words[:1]:
        text = text.replace(word, _SHORT[word], 1)
    return text


def _swapped(text: str, chance: random.Random) -> str:
    """Put the last name first, or swap two parts between commas."""
    parts = text.split(", ")
    words = parts[0].split()
    if len(parts) < 2 or chance.random() < 0.5:
        parts[0] = f"{words[-1]} {' '.join(words[:-1])}"
    else:
        one, other = chance.sample(range(len(parts)), 2)
        parts[one], parts[other] = parts[other], parts[one]
    return ", ".join(parts)


def _converted(text: str, chance: random.Random) -> str:
    """Write a size in a larger unit, or without a space before the unit."""
    parts = text.split(", ")
    for place, part in enumerate(parts):
        amount, _, unit = part.partition(" ")
        if unit in _LARGER and amount.isdigit():
            larger, factor = _LARGER[unit]
            parts[place] = f"{int(amount) / factor:g} {larger}" if chance.random() < 0.5 else f"{amount}{unit}"
    return ", ".join(parts)


def _recased(text: str, chance: random.Random) -> str:
    return chance.choice((text.upper(), text.lower(), text.replace(", ", " "), text.replace(",", " -")))


def _less(text: str, chance: random.Random) -> str:
    """Leave the last part out, or the initial of a middle name."""
    words = text.split()
    if len(words[1]) == 2 and words[1].endswith(".") and chance.random() < 0.7:
        return " ".join([words[0], *words[2:]])
    return text.rpartition(", ")[0] if text.count(", ") > 2 else text
