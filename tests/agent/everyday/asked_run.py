"""Run makeroom headless with a user who approves every question, and write the questions down.

`python asked_run.py FILE ARGUMENT...` runs `makeroom -p ARGUMENT...`. Each question is a JSON line in FILE,
as the screen shows it: its head, the blocked access, the reason and the answers.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from agent.__main__ import main
from agent.ports import Allow, PermissionQuestion
from agent.ui import approval_choices, headless
from agent.ui.approval import question_head


class ApproveAll:
    """A ports.Approver that gives the first answer that the screen offers, or the one for the project."""

    def __init__(self) -> None:
        self.file = Path(sys.argv[1])

    async def ask(self, question: PermissionQuestion) -> Allow:
        choices = approval_choices(question)
        asked = {
            "call": question.call,
            "head": question_head(question),
            "refused": question.refused,
            "why": question.why,
            "choices": [choice.text for choice in choices],
        }
        with self.file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(asked) + "\n")
        answers = [choice.answer for choice in choices if isinstance(choice.answer, Allow)]
        wanted = ("through", "always", "session") if "EVERYDAY_PROJECT" in os.environ else ()
        found = (answer for scope in wanted for answer in answers if answer.scope == scope)
        return next(found, answers[0])


if __name__ == "__main__":
    headless.DenyAll = ApproveAll  # type: ignore[assignment,misc]
    sys.exit(main(["-p", *sys.argv[2:]]))
