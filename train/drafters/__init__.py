"""Table of the trainable kinds of drafters; each has its own file in this folder.

To add a kind, add a file with a subclass of ``Kind`` and an entry in ``KINDS``; other programs need no change.
"""

from __future__ import annotations

from drafters.dflash import DflashKind
from drafters.eagle import EagleKind
from drafters.independent import IndependentKind
from drafters.kind import Kind
from drafters.medusa import MedusaKind
from drafters.moa import MoaKind
from drafters.multistream import MultistreamKind

KINDS = (MoaKind(), EagleKind(), MedusaKind(), MultistreamKind(), DflashKind(), IndependentKind())


def kind_of(name: str) -> Kind:
    """The kind of the drafter with that name, such as "moa-tli1".  ValueError if there is none."""
    for kind in KINDS:
        if kind.matches(name):
            return kind
    known = ", ".join(form for kind in KINDS for form in kind.forms)
    raise ValueError(f"unknown drafter '{name}' (known: {known})")


def described() -> str:
    """Describes the names, one per line."""
    lines = [line for kind in KINDS for line in kind.described]
    return "\n".join(f"    {names:<32} {meaning}" for names, meaning in lines)


DEFAULT_NAMES = [kind.default_name for kind in KINDS]
