"""Judge tool calls: `judge_call` returns a verdict, based on the mode and the rules.

Judging is pure. `PermissionStore` keeps the mode, the rules and what the user granted.
"""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .allow_rules import *
    from .claude_rules import *
    from .explanation import *
    from .modes import *
    from .permission_store import *
    from .rule_syntax import *
    from .rules import *
    from .sandbox_settings import *
    from .withheld import *

__getattr__ = lazy_door(
    __name__,
    {
        "allow_rules": "opening_rule",
        "withheld": "BarredPaths barred_paths barring_globs barring_rule reachable_hosts",
        "claude_rules": "UnreadableRule translate_rule with_our_path",
        "explanation": "explain_line",
        "modes": "MODES Mode client_mode mode_named",
        "permission_store": "PermissionStore SESSION_ORIGIN stored_openings stored_places stored_rules",
        "rule_syntax": (
            "EDITING FOREIGN_PREFIX OPENING REACHING Rule UnknownTool UnusableRule WEB_TOOLS known_rules"
            " parse_rules"
        ),
        "rules": "PermissionRules Verdict judge_call outside_warning",
        "sandbox_settings": "SANDBOX_MODES SandboxSettings sandbox_entries",
    },
)
