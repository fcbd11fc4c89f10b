"""`CONVERTERS`: a module of this folder per source of SFT data, each with a `CONVERTER`; its name is the module's."""

from __future__ import annotations

from records.declarations import declared
from trainer.data.conversations.conversation import Converter

CONVERTERS = {each.name: each for each in declared(__name__, "CONVERTER", Converter)}
