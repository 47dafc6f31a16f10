"""GET /openapi.json, made from the types themselves."""

from typing import Any

import msgspec

from ..events.types import RankRequest
from .answers import Answer, Comparison, Receipt, RecommendRequest

_REF = "#/components/schemas/{name}"


def description() -> dict[str, Any]:
    """The OpenAPI 3.1 document."""
    (request, wish, answer, receipt, versus), schemas = msgspec.json.schema_components(
        (RankRequest, RecommendRequest, Answer, Receipt, Comparison), ref_template=_REF
    )
    errors = {
        status: {"description": text, "content": {"application/json": {"schema": _ERROR}}}
        for status, text in (
            ("400", "what is wrong and where"), ("401", "no token, or a wrong one"), ("404", "no such model"),
            ("408", "the body did not arrive in time"), ("413", "too long"), ("429", "too many requests"),
        )
    }  # fmt: skip
    down = {"description": "why not", "content": {"application/json": {"schema": _ERROR}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "streamrank", "version": "1", "description": "Rank, and learn from the clicks."},
        "paths": {
            "/rank/{model}": {"post": {
                "summary": "Order items by what was learnt so far",
                "parameters": [
                    {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}},
                    {"name": "explain", "in": "query", "schema": {"type": "boolean", "default": False}},
                ],
                "requestBody": _body(request),
                "responses": {"200": _answer(answer), **errors},
            }},
            "/recommend/{name}": {"post": {
                "summary": "The best of all items for a user",
                "parameters": [
                    {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}},
                ],
                "requestBody": _body(wish),
                "responses": {"200": _answer(answer), **errors},
            }},
            "/feedback": {"post": {
                "summary": "Events: JSON lines, an array, or one object; accepted means on disk",
                "requestBody": _body({"type": ["object", "array"]}),
                "responses": {"200": _answer(receipt), **errors, "400": _answer(receipt), "503": down},
            }},
            "/flush": {"post": {
                "summary": "Wait until rankings know of all that was sent before",
                "responses": {
                    "200": _answer(receipt), "401": errors["401"], "429": errors["429"], "503": down,
                },
            }},
            "/train/{model}": {"post": {
                "summary": "Reconcile: solve the full batch, report the drift, swap if later data says so",
                "parameters": [
                    {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}},
                ],
                "responses": {
                    "200": _answer({"type": "object"}), "401": errors["401"], "404": errors["404"],
                    "409": {**down, "description": "one is under way, or there is too little to go by"},
                    "429": errors["429"],
                },
            }},
            "/snapshot": {"post": {
                "summary": "The whole state as one safetensors file",
                "responses": {"200": {"description": "the file"}, "401": errors["401"], "503": down},
            }},
            "/live": {"get": {
                "summary": "What the page shows",
                "parameters": [{"name": "since", "in": "query", "schema": {"type": "number"}}],
                "responses": {"200": {"description": "now, and a point a second"}, **errors},
            }},
            "/health": {"get": {"summary": "Is the process alive", "responses": {"200": _answer({})}}},
            "/ready": {"get": {
                "summary": "May traffic come", "responses": {"200": _answer({}), "503": down},
            }},
            "/comparison": {"get": {
                "summary": "How the challenger does against the champion on lists they share",
                "responses": {"200": _answer(versus), **errors},
            }},
            "/metrics": {"get": {"summary": "Prometheus", "responses": {"200": {"description": "text"}}}},
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }  # fmt: skip


_ERROR = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}


def _body(schema: Any) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _answer(schema: Any) -> dict[str, Any]:
    return {"description": "done", "content": {"application/json": {"schema": schema}}}
