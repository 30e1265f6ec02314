"""The version, a literal so that `--version` reads no package metadata."""

__version__ = "0.2.0"
