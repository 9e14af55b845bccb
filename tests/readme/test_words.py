"""The words of the table in orchestrator/README.md are used on every page as it says, and no others for the same."""

import re

import pytest
from pages import PAGES, Page, page

from trainers.settings import registry

WORDS = re.search(r"^\| word \| means .*?(?=\n\n)", page("orchestrator/README.md").text, re.M | re.S)
assert WORDS
TABLE = WORDS.group()
DEFINED = re.findall(r"^\| ([a-z ]+) \|", TABLE, re.M)[1:]


def test_the_table_has_the_words() -> None:
    assert set(DEFINED) == {
        *("sweep", "configuration", "seed", "member", "pack", "structural key", "evaluation", "curve", "average"),
        *("ledger", "driver", "race"),
    }


@pytest.mark.parametrize("one", PAGES, ids=lambda one: one.name)
def test_words_of_others_are_not_used_for_ours(one: Page) -> None:
    assert not re.findall(r"\btrials?\b", one.text.replace(TABLE, ""), re.I), "a trial is a configuration or a pack"
    assert not re.findall(r"(?<!MLflow )\bexperiments?\b(?! this)", one.prose.replace(TABLE, ""), re.I)


@pytest.mark.parametrize("word", DEFINED)
def test_a_word_that_is_defined_is_used(word: str) -> None:
    rest = " ".join(one.text.replace(TABLE, "") for one in PAGES)
    assert re.search(rf"\b{word}", rest) or word == "structural key", f"{word} is defined and not used"


def test_every_average_is_named() -> None:
    assert all(f"`{name}`" in TABLE for name in registry.names("average"))
