"""The permission modes by name, apart from the rules so that judging argv imports nothing heavy."""

MODES = ("manual", "acceptEdits", "dontAsk", "bypassPermissions")
