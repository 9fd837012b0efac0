"""The text of the demo embedding model: what it learns from, and the questions kept away from it.

Reads the two JSON files only; the model itself is measured elsewhere.
"""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PASSAGES = ROOT / "examples" / "demo_models" / "embedding" / "passages.json"
QUESTIONS = ROOT / "tests" / "data" / "demo_embedding_questions.json"
# Words that carry no subject: two questions may share all of these and still be worded differently.
COMMON = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be by can did do does for from has have how i if in is it its my no not of on one "
        "or should so than that the their them there they to was what when where which who why will with would",
    )
)


def rows(path: Path) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def words(question: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", question.lower())


def telling(question: str) -> set[str]:
    return set(words(question)) - COMMON


def test_there_are_enough_short_passages_over_varied_subjects() -> None:
    passages = rows(PASSAGES)
    assert len(passages) >= 160
    assert len({p["id"] for p in passages}) == len({p["text"] for p in passages}) == len(passages)
    assert len({p["subject"] for p in passages}) >= 12
    for p in passages:
        assert p["title"]
        assert 1 <= len(re.findall(r"[.!?](?: |$)", p["text"])) <= 3, p["id"]


def test_every_passage_has_several_differently_worded_questions() -> None:
    every = [tuple(words(q)) for p in rows(PASSAGES) for q in p["questions"]]
    repeated = [question for question, count in Counter(every).items() if count > 1]
    assert not repeated
    for p in rows(PASSAGES):
        assert len(p["questions"]) >= 5, p["id"]


def test_every_passage_is_asked_for_by_a_held_out_question() -> None:
    held_out = rows(QUESTIONS)
    assert len(held_out) >= 120
    assert {q["passage"] for q in held_out} == {p["id"] for p in rows(PASSAGES)}


def test_no_held_out_question_is_a_training_question_in_other_letters() -> None:
    trained = {tuple(words(q)) for p in rows(PASSAGES) for q in p["questions"]}
    held_out = [tuple(words(q["question"])) for q in rows(QUESTIONS)]
    assert len(set(held_out)) == len(held_out)
    assert not trained.intersection(held_out)


def test_held_out_wording_is_far_from_every_training_question() -> None:
    trained = {q: telling(q) for p in rows(PASSAGES) for q in p["questions"]}
    for q in rows(QUESTIONS):
        asked = telling(q["question"])
        for question, known in trained.items():
            shared = len(asked & known) / len(asked | known)
            # A question about the same subject has to name it; half of the telling words would be a variation.
            assert shared <= 0.5, (q["question"], question)
