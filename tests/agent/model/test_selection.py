"""The choice of a model: what the disk, the server and the catalog know of it, and what is said in doubt."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent.errors import ModelError, ModelNotFound, UnknownModel
from agent.model.selection import ModelFactsCache, ModelSelection
from agent.model_port import ModelCatalog, ModelFacts
from tests.tables import each_row

REMOTE, LOCAL = "https://me:secret@api.test/v1", "http://localhost:8000"
CATALOG = ModelCatalog("painter-1", {"paint": "painter-1"}, (ModelFacts("painter-1"), ModelFacts("drawer-1")))
DAY_S = 86_400.0


class Service:
    """A service with a catalog, whose server answers as it is told, or not at all."""

    def __init__(self, server: str = REMOTE, catalog: ModelCatalog = CATALOG) -> None:
        self.server = server
        self.catalog = catalog
        self.answer: ModelFacts | ModelError | None = None
        self.listed: Sequence[str] | ModelError = ()
        self.asked: list[str] = []

    def known_facts(self, model: str) -> ModelFacts:
        found = next((facts for facts in self.catalog.models if facts.id == model), None)
        return found or ModelFacts(model, known=False)

    async def describe(self, model: str) -> ModelFacts:
        self.asked.append(model)
        if isinstance(self.answer, ModelFacts):
            return self.answer
        raise self.answer or ModelError("no answer")

    async def list_models(self) -> Sequence[str]:
        if isinstance(self.listed, ModelError):
            raise self.listed
        return self.listed


def selection(service: Any, name: str = "", cache: ModelFactsCache | None = None) -> ModelSelection:
    return ModelSelection(service, name, lambda: 100_000.0, cache)


def test_facts_that_a_server_told_are_used_for_a_day(tmp_path: Path) -> None:
    cache = ModelFactsCache(tmp_path / "new" / "models.json")
    facts = ModelFacts("painter-1", window=5_000, thinking=True)
    cache.put(REMOTE, facts, 100_000.0)
    cache.put(REMOTE, replace(facts, id="other"), 100_000.0)
    for now, found in (
        (99_999.0, None),
        (100_000.0, facts),
        (100_000.0 + DAY_S - 1, facts),
        (100_000.0 + DAY_S, None),
    ):
        assert cache.get(REMOTE, "painter-1", now) == found
    assert cache.get(LOCAL, "painter-1", 100_000.0) is None
    assert "secret" not in cache.path.read_text()
    service = Service()
    chosen = selection(service, cache=cache)
    asyncio.run(chosen.choose("paint"))
    assert (chosen.facts, chosen.checked, service.asked) == (facts, True, [])
    assert chosen.knows("other") and chosen.knows("drawer-1") and not chosen.knows("none")
    assert not selection(service).knows("other")


@each_row("text", ["", "[]", '{"k": 1}', '{"k": {"at": 0}}', '{"k": {"at": 0, "facts": {"thinking": 1}}}'])
def test_a_cache_that_makes_no_sense_is_empty(text: str, tmp_path: Path) -> None:
    cache = ModelFactsCache(tmp_path / "models.json")
    cache.path.write_text(text.replace('"k"', json.dumps(f"{LOCAL} m")))
    assert cache.get(LOCAL, "m", 1.0) is None
    cache.path.write_text(json.dumps({f"{LOCAL} m": {"at": 0, "facts": {"id": "m", "thinking": "yes"}}}))
    assert cache.get(LOCAL, "m", 1.0) is None
    cache.put(LOCAL, ModelFacts("m"), 1.0)
    assert cache.get(LOCAL, "m", 1.0) == ModelFacts("m")
    ModelFactsCache(tmp_path / "models.json" / "below").put(LOCAL, ModelFacts("m"), 1.0)


def test_a_server_on_this_machine_is_asked_again_and_its_learned_window_stays(tmp_path: Path) -> None:
    cache = ModelFactsCache(tmp_path / "models.json")
    service = Service(LOCAL)
    chosen = selection(service, "paint", cache)
    chosen.learn_window(4_000)
    assert chosen.learned == {"painter-1": 4_000} and chosen.facts.window == 4_000
    service.answer = ModelFacts("painter-1", window=9_000, thinking=True)
    again = selection(service, "paint", cache)
    asyncio.run(again.choose("paint"))
    assert service.asked == ["painter-1"] and again.checked and again.facts.thinking
    assert (again.facts.window, again.facts.window_source) == (4_000, "an error message of the server")
    service.answer = replace(service.answer, window_source="the server")
    asyncio.run(again.choose("paint"))
    assert (again.facts.window, cache.get(LOCAL, "painter-1", 100_000.0)) == (9_000, service.answer)
    service.answer = None
    asyncio.run(again.choose("paint"))
    assert again.facts.window == 9_000 and again.checked
    other = again.for_model("drawer-1")
    assert other.learned is again.learned and other.facts == ModelFacts("drawer-1") and not other.checked


def test_without_an_answer_the_catalog_counts() -> None:
    chosen = selection(Service(), "painter-1")
    asyncio.run(chosen.choose("drawer-1"))
    assert chosen.facts == ModelFacts("drawer-1") and not chosen.checked and chosen.doubt() == ""
    asyncio.run(chosen.choose("mystery"))
    assert chosen.facts == ModelFacts("mystery", known=False)


@each_row(
    "name, catalog, answers, doubt",
    [
        ("drawer-1", CATALOG, False, ""),
        ("drawer-2", CATALOG, False, "cannot ask {} whether it has this model; did you mean drawer-1?"),
        ("drawer-2", CATALOG, True, "{} does not list this model; did you mean drawer-1?"),
        ("xyz", CATALOG, False, "cannot ask {} whether it has this model; known models are paint"),
        ("xyz", CATALOG, True, "{} does not list this model"),
        (
            "xyz",
            replace(CATALOG, aliases={}),
            False,
            "cannot ask {} whether it has this model; known models are drawer-1, painter-1",
        ),
        ("xyz", ModelCatalog("m"), False, "cannot ask {} whether it has this model"),
    ],
)
def test_a_model_that_nobody_knows_is_doubted(
    name: str, catalog: ModelCatalog, answers: bool, doubt: str
) -> None:
    service = Service(catalog=catalog)
    service.answer = ModelFacts(name, known=False) if answers else None
    chosen = selection(service, name)
    asyncio.run(chosen.choose(name))
    said = chosen.doubt()
    assert "secret" not in said and said == doubt.format("https://[password masked]@api.test/v1")


@each_row(
    "name, listed, aliases, error",
    [
        ("paintre-1", (), True, "unknown model 'paintre-1'; did you mean painter-1?"),
        ("xyz", (), True, "unknown model 'xyz'; use a full id, or one of paint"),
        ("xyz", (), False, "not found"),
        ("xyz", ("a", "b"), True, "not found"),
        ("aaab", ("aaaa", "b"), True, "unknown model 'aaab'; did you mean aaaa? The server has aaaa, b"),
    ],
)
def test_a_model_that_the_server_does_not_have_is_an_error_with_a_remedy(
    name: str, listed: tuple[str, ...], aliases: bool, error: str
) -> None:
    service = Service(catalog=CATALOG if aliases else replace(CATALOG, aliases={}))
    service.answer = ModelNotFound("not found", listed)
    with pytest.raises(UnknownModel) as raised:
        asyncio.run(selection(service).choose(name))
    assert str(raised.value) == error and raised.value.listed == listed


def test_the_models_of_a_server_that_does_not_answer_are_none() -> None:
    service = Service()
    service.listed = ["b", "a"]
    assert asyncio.run(selection(service).available()) == ("b", "a")
    service.listed = ModelError("no answer")
    assert asyncio.run(selection(service).available()) == ()
