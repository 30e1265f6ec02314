"""`makeroom replay`: compaction policies judged on recorded sessions, without a model."""
