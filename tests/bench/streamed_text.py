"""A model for the strict server that streams markdown: `stream N` in a prompt asks for N characters."""

from __future__ import annotations

import re
from typing import Any

from tests.strict_api.reply import Reply, says

SECTION = """## Part {at}

The parser reads `config.toml` once and keeps what it found; *later* changes are told by a watcher that runs
beside it. That is **enough** for most projects, but a network drive wants polling, {at} times a minute.

- one: the loader, which is small
- two: the cache, with `maxsize={at}` and a lock
- three: what is left of the old registry

Two callers still pass a folder instead of a file, which the loader takes for a file without an extension; the
second of them only does so in its tests, so nothing is lost when that goes.

```python
def load(path: Path, retries: int = {at}) -> Config:
    # what is missing has its default
    for attempt in range(retries):
        if text := read_text(path):
            return parse(text, name="config", strict=True)
    return Config()
```

| name | tokens | share |
|------|-------:|------:|
| system | 3,0{at} | 12% |
| tools | 5,2{at} | 21% |

"""


def markdown_of(size: int) -> str:
    """Prose, lists, code and tables of so many characters."""
    text = "".join(SECTION.format(at=at) for at in range(10, 11 + size // 700))
    return text[:size]


def brain(body: dict[str, Any]) -> Reply:
    """Streams what the newest prompt asks for, and an ending that a test can wait for."""
    content = body["messages"][-1]["content"]
    words = content if isinstance(content, str) else " ".join(block.get("text", "") for block in content)
    wanted = re.search(r"stream (\d+)", words)
    return Reply(
        [says(f"{markdown_of(int(wanted[1]))}\n\nAll streamed." if wanted else "Nothing to stream.")]
    )
