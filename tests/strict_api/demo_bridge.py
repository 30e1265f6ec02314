"""Answer the strict server's requests with the rules of the demo, so that its whole sessions are judged."""

from agent.demo.dialogue import answer
from transcripts.messages import TextBlock, block_from_json
from transcripts.view import Message, Part, PartKind

from .prefix import blocks_of
from .reply import Body, Reply, calls, says, thinks

SUMMARY_WORDS = ("End your answer with <summary>", "<analysis>")  # of requests for a summary


def demo_reply(body: Body) -> Reply:
    """The demo's reply to a request; stateless, may be called from several threads."""
    messages = read_messages(body)
    instruction = _split_instruction(messages)
    found = answer(messages, instruction, {tool["name"] for tool in body.get("tools") or []})
    thought = [] if instruction else [thinks("I follow my rules.")]
    return Reply([*thought, says(found.text), *(calls(call.name, **call.input) for call in found.calls)])


def read_messages(body: Body) -> list[Message]:
    """The messages of a request as the view holds them; sizes and places in a record are not known."""
    found = []
    for number, raw in enumerate(body["messages"]):
        kind = PartKind.USER if raw["role"] == "user" else PartKind.ASSISTANT
        blocks = map(block_from_json, blocks_of(raw["content"]))
        parts = tuple(Part(block, number, index, kind, 0) for index, block in enumerate(blocks))
        found.append(Message(raw["role"], parts, number, number))
    return found


def _split_instruction(messages: list[Message]) -> str:
    """Take the request for a summary off the end of the messages; "" where there is none."""
    last = messages[-1]
    block = last.parts[-1].block if last.parts else None
    if not isinstance(block, TextBlock) or not any(words in block.text for words in SUMMARY_WORDS):
        return ""
    messages[-1:] = [Message(last.role, last.parts[:-1], last.first, last.last)] if last.parts[1:] else []
    return block.text
