"""Claude by way of a cloud: which one the environment asks for, what it needs, and the SDK's client for it.

A cloud that lacks something is refused before any request, with what it lacks: nothing ever goes to the
service itself instead.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from msgspec import Struct, field

from agent.errors import AuthenticationError
from transcripts.patterns import lazy_pattern

SWITCH = "CLAUDE_CODE_USE_"
OFF_VALUES = ("", "0", "false", "no", "off")
UNSUPPORTED = ("MANTLE", "ANTHROPIC_AWS", "ANTHROPIC_GOOGLE_CLOUD", "GATEWAY")
# Bedrock knows the API version of the SDK for models from 4.7 on.
OLD_BEDROCK_VERSION = "bedrock-2023-05-31"
_OLD_BEDROCK_MODEL = lazy_pattern(r"claude-(?:3|[a-z]+-4-[0-6]\b|[a-z]+-4-\d{8})")
# How clouds write a model: regions and the vendor before its name, a date and a version behind it.
_CLOUD_AFFIXES = lazy_pattern(r"^.*?(?=claude-)|(?:[-@]\d{8})?(?:-v\d+(?::\d+)?)?$")


class Cloud(Struct, frozen=True):
    """A cloud and how to reach it.

    client     the name of the SDK's class
    library    what that class needs and an extra installs, "" for nothing
    arguments  of that class
    prefix     of the ids of models that aliases stand for
    """

    name: str
    client: str
    library: str = ""
    arguments: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""

    @property
    def place(self) -> str:
        """The place that requests go to, for display."""
        return f"{self.name}: {', '.join(self.arguments.values()) or 'as its profile says'}"


def cloud_of(environ: Mapping[str, str]) -> Cloud | None:
    """The cloud that the variables ask for. Raises AuthenticationError, naming what is missing."""
    names = [name.removeprefix(SWITCH) for name in environ if name.startswith(SWITCH)]
    wanted = sorted(name for name in names if _is_on(environ[SWITCH + name]))
    for name in wanted:
        if name in UNSUPPORTED or name not in _CLOUDS:
            raise AuthenticationError(f"{SWITCH}{name} is not supported; there are {', '.join(_CLOUDS)}")
    if len(wanted) > 1:
        raise AuthenticationError(f"{' and '.join(SWITCH + name for name in wanted)} are set: choose one")
    return _CLOUDS[wanted[0]](environ) if wanted else None


def _is_on(value: str) -> bool:
    return value.strip().lower() not in OFF_VALUES


def _bedrock(environ: Mapping[str, str]) -> Cloud:
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    profile = environ.get("AWS_PROFILE")
    if not region and not profile:
        raise AuthenticationError("Bedrock needs a region: set AWS_REGION, or AWS_PROFILE")
    given = {"aws_region": region, "aws_profile": profile}
    if environ.get("AWS_BEARER_TOKEN_BEDROCK"):
        del given["aws_profile"]  # the SDK takes the one or the other
    arguments = {name: value for name, value in given.items() if value}
    return _installed(
        Cloud(
            "bedrock",
            client="AsyncAnthropicBedrock",
            library="boto3",
            arguments=arguments,
            prefix="us.anthropic.",
        )
    )


def _vertex(environ: Mapping[str, str]) -> Cloud:
    needed = {"region": "CLOUD_ML_REGION", "project_id": "ANTHROPIC_VERTEX_PROJECT_ID"}
    for what, variable in needed.items():
        if not environ.get(variable):
            raise AuthenticationError(f"Vertex needs a {what.removesuffix('_id')}: set {variable}")
    arguments = {name: environ[variable] for name, variable in needed.items()}
    return _installed(
        Cloud("vertex", client="AsyncAnthropicVertex", library="google.auth", arguments=arguments)
    )


def _foundry(environ: Mapping[str, str]) -> Cloud:
    names = ("API_KEY", "RESOURCE", "BASE_URL")
    key, resource, url = (environ.get(f"ANTHROPIC_FOUNDRY_{name}") for name in names)
    if not key:
        raise AuthenticationError("Foundry needs a key: set ANTHROPIC_FOUNDRY_API_KEY")
    if bool(resource) == bool(url):
        both = "ANTHROPIC_FOUNDRY_RESOURCE and ANTHROPIC_FOUNDRY_BASE_URL"
        raise AuthenticationError(f"Foundry needs one of {both}, and not both")
    arguments = {"base_url": url} if url else {"resource": resource or ""}
    return Cloud("foundry", client="AsyncAnthropicFoundry", library="", arguments=arguments)


_CLOUDS = {"BEDROCK": _bedrock, "VERTEX": _vertex, "FOUNDRY": _foundry}


def _installed(cloud: Cloud) -> Cloud:
    try:
        is_there = find_spec(cloud.library) is not None
    except ModuleNotFoundError:  # of the package that it lies in
        is_there = False
    if not is_there:
        raise AuthenticationError(
            f"{cloud.name} needs {cloud.library.replace('.', '-')}: pip install 'makeroom[{cloud.name}]'"
        )
    return cloud


def listed_name(model: str) -> str:
    """The name that a table lists of a model as a cloud writes it."""
    return _CLOUD_AFFIXES.sub("", model) if "claude-" in model else model


def cloud_body(cloud: Cloud, body: bytes) -> dict[str, Any]:
    """A request as the SDK's clients for clouds take it: they move some of its fields."""
    made: dict[str, Any] = json.loads(body)
    if cloud.name == "bedrock" and _OLD_BEDROCK_MODEL.search(str(made.get("model"))):
        made["anthropic_version"] = OLD_BEDROCK_VERSION
    return made


async def bedrock_events(pieces: AsyncIterator[bytes]) -> AsyncIterator[tuple[str, str]]:
    """(name, data) of each event in an answer of Bedrock, which frames them in its own way."""
    decoder = import_module("anthropic.lib.bedrock._stream_decoder").AWSEventStreamDecoder()
    async for event in decoder.aiter_bytes(pieces):
        yield event.event or "", event.data
