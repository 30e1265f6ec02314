"""Commands and skills as users publish them: their fields and forms, with texts of our own.

(path below `.claude`, the file, what it is read as; `runs`: the command lines in it)
"""

from typing import Any

Sample = tuple[str, str, dict[str, Any]]


def _file(fields: str, body: str) -> str:
    return f"---\n{fields.strip()}\n---\n\n{body.strip()}\n"


COMMANDS: tuple[Sample, ...] = (
    (
        "commands/commit.md",
        _file(
            "allowed-tools: Bash(git add:*), Bash(git status:*), Bash(git commit:*)\n"
            "description: Make one commit",
            "## Context\n\n- Status: !`git status`\n- Diff: !`git diff HEAD`\n\nMake one commit of this.",
        ),
        {
            "allowed_tools": ("Bash(git add:*)", "Bash(git status:*)", "Bash(git commit:*)"),
            "description": "Make one commit",
            "runs": ["git status", "git diff HEAD"],
        },
    ),
    (
        "commands/fix-issue.md",
        _file(
            "description: Fix an issue of the tracker\nargument-hint: [issue-number] [priority]",
            "Fix issue #$1 with priority $2.",
        ),
        {"hint": "[issue-number] [priority]", "runs": []},
    ),
    (
        "commands/review-pr.md",
        _file(
            "argument-hint: <pr-number>\nmodel: claude-opus-4-1-20250805\n"
            "allowed-tools: Bash(gh pr view:*), Read",
            "Title: !`gh pr view $1 --json title`\nReview it.",
        ),
        {
            "hint": "<pr-number>",
            "model": "claude-opus-4-1-20250805",
            "runs": ["gh pr view $1 --json title"],
            "described": False,
        },
    ),
    ("commands/explain.md", "Explain @$ARGUMENTS to somebody new here.\n", {"described": False}),
    ("commands/frontend/component.md", _file("description: Make a component", "Make $ARGUMENTS."), {}),
    (
        "commands/optimize.md",
        _file(
            "name: Optimize Code\ndescription: 'Find what is slow: in time, in space'", "Look at $ARGUMENTS."
        ),
        {"name": "optimize", "description": "Find what is slow: in time, in space"},
    ),
    (
        "commands/deploy.md",
        _file(
            "description: Deploy\ndisable-model-invocation: true\n"
            "allowed-tools:\n  - Bash(npm run deploy:*)\n  - Read",
            "Deploy to $ARGUMENTS.",
        ),
        {"for_model": False, "allowed_tools": ("Bash(npm run deploy:*)", "Read")},
    ),
    (
        "commands/test.md",
        _file("description: Run tests: all, or some\nargument-hint: [path] | all", "Run them: $ARGUMENTS"),
        {"description": "Run tests: all, or some", "hint": "[path] | all"},
    ),
    (
        "commands/todo.md",
        "# What is left\n\nList each TODO with its place.\n",
        {"description": "What is left"},
    ),
    (
        "commands/ask_docs.md",
        _file("description: >-\n  Ask the documents\n  of the project\nallowed-tools: *", "$ARGUMENTS"),
        {"description": "Ask the documents of the project", "allowed_tools": ("*",)},
    ),
    (
        "commands/changelog.md",
        _file(
            "description: Write the changelog\nallowed-tools: Bash(git log:*),Edit",
            "```!\ngit log -5\ngit tag\n```",
        ),
        {"runs": ["git log -5 git tag"], "allowed_tools": ("Bash(git log:*)", "Edit")},
    ),
    (
        "commands/think.md",
        _file("description: Think hard\neffort: max\nmodel: inherit", "Think about $ARGUMENTS."),
        {"effort": "max", "model": ""},
    ),
    (
        "commands/migrate.md",
        _file(
            "description: Move a component\narguments: [component, from, to]\n"
            "argument-hint: component from to",
            "Move $component from $from to $to.",
        ),
        {"arguments": ("component", "from", "to"), "hint": "component from to"},
    ),
    (
        "commands/audit.md",
        _file("description: Audit\ncontext: fork\nagent: Explore", "Audit $0."),
        {"forks": True, "agent": "Explore"},
    ),
    (
        "commands/standup.md",
        _file(
            "description: What was done\nallowed-tools: Bash(git log:*)",
            'Since yesterday: !`git log --since=yesterday --author="$(git config user.name)"`',
        ),
        {"runs": ['git log --since=yesterday --author="$(git config user.name)"']},
    ),
    (
        "commands/release.md",
        _file(
            "description: Release\nallowed-tools: [Bash, Read, Write]\nsource: https://example.com/x",
            "Version $ARGUMENTS; it costs \\$1.",
        ),
        {"allowed_tools": ("Bash", "Read", "Write")},
    ),
    ("commands/empty-fields.md", "---\n---\nDo it.\n", {"description": "Do it."}),
    (
        "commands/i18n.md",
        _file("description: Übersetze alles ✨\nargument-hint: [sprache]", "Übersetze nach $ARGUMENTS."),
        {"description": "Übersetze alles ✨", "hint": "[sprache]"},
    ),
    (
        "commands/pr.md",
        _file("description: Open a pull request\nhooks:\n  PreToolUse:\n    - matcher: Bash", "Open it."),
        {"description": "Open a pull request"},
    ),
    (
        "commands/v1.2-notes.md",
        _file("description: Notes\nuser-invocable: true\nversion: 1.2", "Notes."),
        {"for_user": True},
    ),
)

SKILLS: tuple[Sample, ...] = (
    (
        "skills/pdf/SKILL.md",
        _file(
            "name: pdf\ndescription: Take text and tables out of PDF files, fill in forms. Use it for"
            " any PDF.\nlicense: Proprietary. LICENSE.txt has all of it",
            "Run `python scripts/fill.py`; see [forms.md](forms.md).",
        ),
        {"name": "pdf"},
    ),
    (
        "skills/skill-maker/SKILL.md",
        _file(
            "name: skill-maker\ndescription: Guide for making skills.\n"
            "metadata:\n  version: '1.0'\n  tags:\n    - a",
            "# Making skills\n\nAsk first.",
        ),
        {"name": "skill-maker"},
    ),
    (
        "skills/Web Testing/SKILL.md",
        _file("name: web-testing\ndescription: Test pages in a browser.", "Use it."),
        {"name": "web-testing"},
    ),
    (
        "skills/brand/SKILL.md",
        _file('name: "Brand Guidelines"\ndescription: "Colours, and fonts"', "Blue."),
        {"name": "brand", "description": "Colours, and fonts"},
    ),
    (
        "skills/pr-summary/SKILL.md",
        _file(
            "name: pr-summary\ndescription: Sum up a pull request\ncontext: fork\nagent: Explore\n"
            "allowed-tools: Bash(gh *)",
            "- Diff: !`gh pr diff`\n- Files: !`gh pr diff --name-only`\n\nSum it up.",
        ),
        {
            "forks": True,
            "agent": "Explore",
            "allowed_tools": ("Bash(gh *)",),
            "runs": ["gh pr diff", "gh pr diff --name-only"],
        },
    ),
    (
        "skills/legacy/SKILL.md",
        _file("description: How the old system works\nuser-invocable: false", "It is old."),
        {"for_user": False, "for_model": True},
    ),
    (
        "skills/deploy-prod/SKILL.md",
        _file("name: deploy-prod\ndescription: Deploy\ndisable-model-invocation: true", "1. Test\n2. Push"),
        {"for_model": False},
    ),
    (
        "skills/session-log/SKILL.md",
        _file("description: Log what happens", "Log to logs/${CLAUDE_SESSION_ID}.log: $ARGUMENTS"),
        {"name": "session-log"},
    ),
    (
        "skills/visualize/SKILL.md",
        _file(
            "name: visualize\ndescription: Draw the code\nallowed-tools: Bash(python *)",
            "```bash\npython ${CLAUDE_SKILL_DIR}/scripts/draw.py .\n```",
        ),
        {"allowed_tools": ("Bash(python *)",), "runs": []},
    ),
    (
        "skills/api-style/SKILL.md",
        _file(
            "name: api-style\ndescription: |\n  How we write APIs.\n  Use it for endpoints.", "Plural nouns."
        ),
        {"description": "How we write APIs. Use it for endpoints."},
    ),
    (
        "skills/review/SKILL.md",
        _file("name: review\ndescription: Review\nallowed-tools: Read Grep Glob\neffort: high", "Look."),
        {"allowed_tools": ("Read", "Grep", "Glob"), "effort": "high"},
    ),
    (
        "skills/slides/SKILL.md",
        _file(
            "name: slides\ndescription: Make slides\ncompatibility: needs python-pptx\nmodel: haiku", "Short."
        ),
        {"model": "haiku"},
    ),
    (
        "skills/xlsx/SKILL.md",
        _file("name: xlsx\ndescription: Tables (.xlsx, .csv): read & write", "Formulas, no values."),
        {"description": "Tables (.xlsx, .csv): read & write"},
    ),
    (
        "skills/no-fields/SKILL.md",
        "# Without fields\n\nFollow this.\n",
        {"name": "no-fields", "described": False, "description": "Without fields"},
    ),
    (
        "skills/windows/SKILL.md",
        "\ufeff---\r\nname: windows\r\ndescription: Lines of Windows\r\n---\r\n\r\nDo.\r\n",
        {"description": "Lines of Windows"},
    ),
    (
        "skills/issue/SKILL.md",
        _file("description: Fix one\nargument-hint: '[number]'\narguments: number", "Fix $number."),
        {"hint": "[number]", "arguments": ("number",)},
    ),
    (
        "skills/quoted/SKILL.md",
        _file("name: quoted\ndescription: Says \"hello\" and 'goodbye'", "Say it."),
        {"description": "Says \"hello\" and 'goodbye'"},
    ),
    (
        "skills/mcp-builder/SKILL.md",
        _file(
            "name: mcp-builder\ndescription: Build servers\nallowed-tools: mcp__docs__search, WebFetch",
            "Build.",
        ),
        {"allowed_tools": ("mcp__docs__search", "WebFetch")},
    ),
    (
        "skills/commented/SKILL.md",
        _file("# the name\nname: commented # here\ndescription: With comments\n\n# the end", "Do."),
        {"name": "commented", "description": "With comments"},
    ),
    (
        "skills/long-words/SKILL.md",
        _file(f"name: long-words\ndescription: {'word ' * 300}", "Do."),
        {"name": "long-words"},
    ),
)
