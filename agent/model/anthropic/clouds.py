"""Claude on Bedrock, Vertex AI or Foundry: the cloud that the environment selects, and its client in the SDK.

Missing configuration is an error before any request, which is never sent to the Anthropic API instead.
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
# Bedrock supports the SDK's API version for models from 4.7 on.
OLD_BEDROCK_VERSION = "bedrock-2023-05-31"
_OLD_BEDROCK_MODEL = lazy_pattern(r"claude-(?:3|[a-z]+-4-[0-6]\b|[a-z]+-4-\d{8})")
# The parts that clouds add to a model's name: region and vendor before it, date and version after it.
_CLOUD_AFFIXES = lazy_pattern(r"^.*?(?=claude-)|(?:[-@]\d{8})?(?:-v\d+(?::\d+)?)?$")


class Cloud(Struct, frozen=True):
    """A cloud and its client.

    client     the name of the SDK's class
    library    the library that this class needs and an extra installs, "" for none
    arguments  of this class
    prefix     of the model ids for aliases
    """

    name: str
    client: str
    library: str = ""
    arguments: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""

    @property
    def place(self) -> str:
        """The destination of requests, for display."""
        return f"{self.name}: {', '.join(self.arguments.values()) or 'from its profile'}"


def cloud_of(environ: Mapping[str, str]) -> Cloud | None:
    """Return the cloud that the variables select, or None. Raises AuthenticationError with the remedy."""
    names = [name.removeprefix(SWITCH) for name in environ if name.startswith(SWITCH)]
    wanted = sorted(name for name in names if _is_on(environ[SWITCH + name]))
    for name in wanted:
        if name in UNSUPPORTED or name not in _CLOUDS:
            known = ", ".join(SWITCH + each for each in _CLOUDS)
            raise AuthenticationError(f"{SWITCH}{name} is not supported: use one of {known}")
    if len(wanted) > 1:
        raise AuthenticationError(f"{' and '.join(SWITCH + name for name in wanted)} are set: set only one")
    return _CLOUDS[wanted[0]](environ) if wanted else None


def _is_on(value: str) -> bool:
    return value.strip().lower() not in OFF_VALUES


def _bedrock(environ: Mapping[str, str]) -> Cloud:
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    profile = environ.get("AWS_PROFILE")
    if not region and not profile:
        raise AuthenticationError("Bedrock needs a region: set AWS_REGION or AWS_PROFILE")
    given = {"aws_region": region, "aws_profile": profile}
    if environ.get("AWS_BEARER_TOKEN_BEDROCK"):
        del given["aws_profile"]  # the SDK takes only one of them
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
        either = "either ANTHROPIC_FOUNDRY_RESOURCE or ANTHROPIC_FOUNDRY_BASE_URL"
        raise AuthenticationError(f"Foundry needs an endpoint: set {either}")
    arguments = {"base_url": url} if url else {"resource": resource or ""}
    return Cloud("foundry", client="AsyncAnthropicFoundry", library="", arguments=arguments)


_CLOUDS = {"BEDROCK": _bedrock, "VERTEX": _vertex, "FOUNDRY": _foundry}


def _installed(cloud: Cloud) -> Cloud:
    try:
        is_there = find_spec(cloud.library) is not None
    except ModuleNotFoundError:  # its parent package is missing
        is_there = False
    if not is_there:
        library = cloud.library.replace(".", "-")
        remedy = f"pip install 'makeroom[{cloud.name}]'"
        raise AuthenticationError(f"{cloud.name.capitalize()} needs {library}: {remedy}")
    return cloud


def listed_name(model: str) -> str:
    """Return a model's name in the catalog for its id on a cloud."""
    return _CLOUD_AFFIXES.sub("", model) if "claude-" in model else model


def cloud_body(cloud: Cloud, body: bytes) -> dict[str, Any]:
    """Return a request in the form for the SDK's clients for clouds, which move some of its fields."""
    made: dict[str, Any] = json.loads(body)
    if cloud.name == "bedrock" and _OLD_BEDROCK_MODEL.search(str(made.get("model"))):
        made["anthropic_version"] = OLD_BEDROCK_VERSION
    return made


async def bedrock_events(pieces: AsyncIterator[bytes]) -> AsyncIterator[tuple[str, str]]:
    """Yield (name, data) of each event in a response of Bedrock, which has its own framing."""
    decoder = import_module("anthropic.lib.bedrock._stream_decoder").AWSEventStreamDecoder()
    async for event in decoder.aiter_bytes(pieces):
        yield event.event or "", event.data
