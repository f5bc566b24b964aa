"""Schemas by id, from a registry that speaks Confluent's interface.

An id never changes its meaning. So a schema is asked for once in a process, and kept on disk: while the registry is away,
topics whose schemas were seen before flow on. Only the registry can tell that there is no such schema.
"""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterable
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from stream_assets.errors import AwayError, ServiceError
from stream_assets.services.addresses import RegistryAddress
from stream_assets.sources.framed import Schema

TIMEOUT_S = 5
_NO_SUCH_SCHEMA = 40403
"""How a registry says so. Any other 404 comes from something that is no registry."""


class UnknownSchemaError(ServiceError):
    """The registry answers, and has no schema of that id."""


def find_schemas(address: RegistryAddress, ids: Iterable[int]) -> dict[int, Schema | None]:
    """The schemas of these ids; None for those that the registry does not have."""
    return {id_: find_schema(address, id_) for id_ in sorted(ids)}


def find_schema(address: RegistryAddress, id_: int) -> Schema | None:
    """The schema of an id: from the registry, or as it was kept if the registry is away."""
    try:
        return _fetch(address, id_)
    except UnknownSchemaError:
        return None
    except ServiceError:
        file = _file(address, id_)
        if not file.exists():
            raise
        return Schema.from_json(file.read_text(encoding="utf-8"))


def ask_for_types(address: RegistryAddress) -> list[str]:
    """What kinds of schemas the registry has: a question that any registry answers, and quickly."""
    return _ask(address, "/schemas/types")


@cache
def _fetch(address: RegistryAddress, id_: int) -> Schema:
    answer = _ask(address, f"/schemas/ids/{id_}")
    schema = Schema(answer["schema"], tuple(_referenced(address, answer)), answer.get("schemaType") or "AVRO")
    _keep(_file(address, id_), schema)
    return schema


def _referenced(address: RegistryAddress, answer: dict[str, Any]) -> list[tuple[str, str]]:
    """The schemas whose types a schema uses, those that they use themselves first."""
    found: list[tuple[str, str]] = []
    for one in answer.get("references") or ():
        other = _ask(address, f"/subjects/{quote(one['subject'], safe='')}/versions/{one['version']}")
        theirs = (*_referenced(address, other), (one["name"], other["schema"]))
        found += [reference for reference in theirs if reference not in found]
    return found


def _file(address: RegistryAddress, id_: int) -> Path:
    return address.kept / f"{id_}.schema"


def _keep(file: Path, schema: Schema) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(f".{uuid4().hex}")
    draft.write_text(schema.to_json(), encoding="utf-8")
    draft.replace(file)


def _ask(address: RegistryAddress, path: str) -> Any:
    request = urllib.request.Request(f"{address.url}{path}")  # noqa: S310 settings allow only http and https
    if address.user:
        login = base64.b64encode(f"{address.user}:{address.password or ''}".encode()).decode()
        # Not to be repeated to another server that this one may point to.
        request.add_unredirected_header("Authorization", f"Basic {login}")
    context = _trusted(address) if address.url.startswith("https") else None
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=context) as answer:  # noqa: S310
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise _refusal(address, path, error) from error
    except (OSError, ValueError) as error:
        raise _no_answer(address, error) from error


def _trusted(address: RegistryAddress) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=address.ca_file)
    except OSError as error:
        raise ServiceError(
            f"STREAM_SCHEMA_REGISTRY_CA_FILE: {address.ca_file} cannot be used ({error}). Give a file of certificates (PEM)."
        ) from error


def _no_answer(address: RegistryAddress, error: OSError | ValueError) -> ServiceError:
    reason = getattr(error, "reason", error)
    if isinstance(reason, ssl.SSLCertVerificationError):
        return ServiceError(
            f"The schema registry at {address.url} cannot prove who it is ({reason.verify_message}). Give the certificates that its own is "
            "signed by in STREAM_SCHEMA_REGISTRY_CA_FILE, or correct STREAM_SCHEMA_REGISTRY."
        )
    return AwayError(
        f"The schema registry does not answer at {address.url} ({error}). Start ours with `stream services up registry`, or correct "
        "STREAM_SCHEMA_REGISTRY."
    )


def _refusal(address: RegistryAddress, path: str, error: urllib.error.HTTPError) -> ServiceError:
    try:
        told = json.load(error)
        code, message = told.get("error_code"), str(told.get("message", ""))[:300]
    except (OSError, ValueError, AttributeError):
        code, message = None, error.reason
    if error.code == HTTPStatus.NOT_FOUND and code == _NO_SUCH_SCHEMA:
        return UnknownSchemaError(f"The schema registry at {address.url} does not know {path}.")
    return ServiceError(
        f"The schema registry at {address.url} refused {path} ({error.code}: {message}). Correct STREAM_SCHEMA_REGISTRY, or the user and "
        "password beside it."
    )
