"""The embedded offline model: a rule-based brain behind a strict loopback Messages API."""
