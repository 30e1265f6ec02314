"""Certificates are read only where a connection needs them."""

from __future__ import annotations

import ssl

import httpx2
import pytest

from agent.model import AnthropicModel, ChatCompletionsModel, ResponsesModel
from agent.model.tls import tls_context


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each time that certificates are read; no proxy is set."""
    found: list[str] = []
    usual = httpx2.create_ssl_context

    def create() -> ssl.SSLContext:
        found.append("read")
        return usual()

    monkeypatch.setattr(httpx2, "create_ssl_context", create)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    tls_context.cache_clear()
    return found


def test_a_server_without_tls_needs_no_certificates(reads: list[str]) -> None:
    for made in (AnthropicModel, ChatCompletionsModel, ResponsesModel):
        made(base_url="http://127.0.0.1:9", key="k").connect()
    assert reads == []
    assert tls_context("http://127.0.0.1:9").verify_mode == ssl.CERT_REQUIRED


def test_the_clients_of_a_server_read_certificates_once(reads: list[str]) -> None:
    for _ in range(2):
        for made in (ChatCompletionsModel, ResponsesModel):
            made(base_url="https://models.example", key="k").connect()
    assert reads == ["read"]


def test_a_proxy_with_tls_needs_certificates(reads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "https://proxy.example:8443")
    ChatCompletionsModel(base_url="http://models.example", key="k").connect()
    assert reads != []
