"""The words that tasks are made of, and a seeded drawer of them.

A drawer of level 0 draws short lists of known words; level 1 draws everything. Knows nothing of tasks or tokens.
"""

import random
from collections.abc import Sequence
from typing import TypeVar


def listed(words: str) -> tuple[str, ...]:
    """Words with spaces between them."""
    return tuple(words.split())


NAMES = listed(
    "Anna Ben Carla David Emma Frank Grace Henry Ida Jack Karl Laura Mary Nina Oscar Paul Rosa Sam Tina Victor Lucy Leo "
    "Max Eva Tom Jane Mia Noah Ruth Clara Hugo Vera"
)
CITIES = listed(
    "Oslo Paris Rome Berlin Madrid Vienna Dublin Lisbon Athens Prague Cairo Tokyo Delhi Lima Boston Denver London Milan "
    "Zurich Geneva Warsaw Naples Seoul Dallas"
)
JOBS = listed("baker doctor teacher nurse farmer singer painter pilot lawyer driver cook writer sailor judge")
COLORS = listed("red green blue yellow black white brown pink grey orange")
ANIMALS = listed("cat dog horse cow goat pig duck fox bear lion tiger rabbit frog owl bird snake")
FOODS = listed(
    "apple pear plum lemon bread butter cheese milk rice soup cake honey egg salt sugar tea coffee carrot onion grape"
)
THINGS = listed(
    "book key lamp chair hat coat shoe ball boat car bike train clock door pen spoon knife ring rope map tent drum"
)
PLACES = listed("box bag cup garden kitchen office school river house forest drawer tower")
OTHERS = listed("tree leaf lake hill moon sun star rain snow wind cloud sea sand fire stone")
NOUNS = (*ANIMALS, *FOODS, *THINGS, *PLACES, *OTHERS)
DAYS = listed("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
MONTHS = listed("January February March April May June July August September October November December")
NUMBERS = listed("one two three four five six seven eight nine ten eleven twelve")
LETTERS = listed("A B C D E F G H I J K L M N O P Q R S T U V W X Y Z")
_ONSETS = listed("b d f g h k l m n p r s t v z br dr gr kl pl st tr")
_VOWELS = listed("a e i o u")
_ENDS = ("", "", "n", "r", "s", "l", "m")
T = TypeVar("T")


class Draw:
    """The same seed draws the same words."""

    def __init__(self, rng: random.Random, level: int = 1) -> None:
        self.rng, self.level = rng, level

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def one(self, choices: Sequence[T]) -> T:
        return self.rng.choice(choices)

    def number(self, least: int, most: int) -> int:
        return self.rng.randint(least, most)

    def count(self, least: int, most: int) -> int:
        """How long something is; shorter at level 0."""
        return self.number(least, most if self.level else (least + most) // 2)

    def words(self, count: int, made_up: float = 0.0) -> list[str]:
        """So many different nouns and colours; each is a made-up word instead with that probability."""
        found: dict[str, None] = {}
        while len(found) < count:
            strange = self.level > 0 and self.chance(made_up)
            found[self.made_up() if strange else self.one(NOUNS + COLORS)] = None
        return list(found)

    def name(self) -> str:
        return self.made_up().capitalize() if self.level > 0 and self.chance(0.1) else self.one(NAMES)

    def made_up(self) -> str:
        """A word of two syllables that hardly any other task has."""
        syllables = (self.one(_ONSETS) + self.one(_VOWELS) for _ in range(2))
        return "".join(syllables) + self.one(_ENDS)
