"""Error answers of the API: the exception that a rejected request raises, and its JSON body."""

from dataclasses import dataclass
from typing import Any

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""error.type by status (api documentation, "Errors")."""


@dataclass(slots=True)
class ApiError(Exception):
    """The request is answered with `status` and never reaches the responder."""

    status: int
    message: str

    @property
    def kind(self) -> str:
        return TYPES.get(self.status, "api_error")


def error_body(kind: str, message: str, request_id: str | None) -> dict[str, Any]:
    """The body of an error, also used for an `error` event within a stream."""
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id}
