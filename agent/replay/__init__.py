"""`makeroom replay`: compare compaction policies on recorded sessions, without a model."""
