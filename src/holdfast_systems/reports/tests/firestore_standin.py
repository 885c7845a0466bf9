"""A strict stand-in of Firestore's gRPC service: preconditions are enforced, and failures can be switched.

It has what this system uses: BatchGetDocuments, Commit, RunQuery. What it does not know it refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

import grpc
from google.cloud.firestore_v1.field_path import FieldPath
from google.cloud.firestore_v1.types import Document
from google.cloud.firestore_v1.types import firestore as messages
from google.protobuf.timestamp_pb2 import Timestamp

from holdfast.base import REAL

SERVICE = "google.firestore.v1.Firestore"
DOCUMENT_BYTES_MAX = 1_048_576
CONTENTION = "Too much contention on these documents. Please try again."


@dataclass
class Kept:
    """A document as it is stored."""

    fields: Any
    create_us: int
    update_us: int


@dataclass
class FirestoreStandIn:
    """The documents of one database, and what goes wrong next."""

    port: int = 0
    documents: dict[str, Kept] = field(default_factory=dict)
    aborted: int = 0
    """So many commits end with ABORTED and change nothing."""
    unavailable: int = 0
    """So many calls of any kind end with UNAVAILABLE and change nothing."""
    lost: int = 0
    """So many commits are carried out, and their answer is UNAVAILABLE."""
    commits: int = 0
    _us: int = 0
    _lock: RLock = field(default_factory=RLock)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    # -- the service -----------------------------------------------------------------------------------------------

    def batch_get(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        self._may_fail(context)
        with self._lock:
            now_us = self._now()
            for name in request.documents:
                kept = self.documents.get(name)
                answer = messages.BatchGetDocumentsResponse.pb()()
                _stamp(answer.read_time, now_us)
                if kept is None:
                    answer.missing = name
                else:
                    _fill(answer.found, name, kept)
                yield answer

    def commit(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._may_fail(context)
        with self._lock:
            self.commits += 1
            if self.aborted:
                self.aborted -= 1
                context.abort(grpc.StatusCode.ABORTED, CONTENTION)
            if request.transaction:
                context.abort(grpc.StatusCode.UNIMPLEMENTED, "no transactions here")
            for write in request.writes:
                self._check(write, context)
            now_us = self._now()
            answer = messages.CommitResponse.pb()()
            for write in request.writes:
                self._apply(write, now_us)
                _stamp(answer.write_results.add().update_time, now_us)
            _stamp(answer.commit_time, now_us)
            if self.lost:
                self.lost -= 1
                context.abort(grpc.StatusCode.UNAVAILABLE, "the connection was lost")
            return answer

    def run_query(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        self._may_fail(context)
        query = request.structured_query
        collection = f"{request.parent}/{query.from_[0].collection_id}/"
        with self._lock:
            now_us = self._now()
            found = [
                (name, kept)
                for name, kept in self.documents.items()
                if name.startswith(collection)
                and "/" not in name.removeprefix(collection)
                and _meets(query.where, kept)
            ]
            for order in reversed(query.order_by):
                path = order.field.field_path
                found = [one for one in found if path in one[1].fields or path == "__name__"]
                found.sort(key=lambda one: _value(one, path), reverse=order.direction == 2)
            if query.HasField("start_at"):
                found = [one for one in found if _is_after(one, query)]
            limit = query.limit.value if query.HasField("limit") else len(found)
            for name, kept in found[:limit]:
                answer = messages.RunQueryResponse.pb()()
                _stamp(answer.read_time, now_us)
                _fill(answer.document, name, kept)
                yield answer
            last = messages.RunQueryResponse.pb()()
            _stamp(last.read_time, now_us)
            yield last

    # -- inside ----------------------------------------------------------------------------------------------------

    def _now(self) -> int:
        self._us = max(REAL.wall_us(), self._us + 1)
        return self._us

    def _may_fail(self, context: grpc.ServicerContext) -> None:
        with self._lock:
            fails = self.unavailable > 0
            self.unavailable -= int(fails)
        if fails:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the service is currently unavailable")

    def _check(self, write: Any, context: grpc.ServicerContext) -> None:
        if write.WhichOneof("operation") != "update" or write.update_transforms:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "only updates are known here")
        name, kept = write.update.name, self.documents.get(write.update.name)
        condition = write.current_document.WhichOneof("condition_type")
        if condition == "exists" and write.current_document.exists != (kept is not None):
            code = grpc.StatusCode.NOT_FOUND if kept is None else grpc.StatusCode.ALREADY_EXISTS
            context.abort(code, f"document: {name}")
        if condition == "update_time":
            if kept is None:
                context.abort(grpc.StatusCode.NOT_FOUND, f"no document to update: {name}")
            elif write.current_document.update_time.ToMicroseconds() != kept.update_us:
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the stored version does not match the base version")
        if any(_has_nested_array(value, inside=False) for value in write.update.fields.values()):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "Cannot convert an array value in an array value.")
        if write.update.ByteSize() > DOCUMENT_BYTES_MAX:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the document is larger than 1,048,576 bytes")

    def _apply(self, write: Any, now_us: int) -> None:
        name = write.update.name
        before = self.documents.get(name)
        document = Document.pb()()
        if before is not None and write.HasField("update_mask"):
            for key, value in before.fields.items():
                document.fields[key].CopyFrom(value)
            for path in write.update_mask.field_paths:
                _move(FieldPath.from_api_repr(path).parts, write.update.fields, document.fields)
        else:
            document.CopyFrom(write.update)
        self.documents[name] = Kept(document.fields, before.create_us if before else now_us, now_us)


def _move(parts: tuple[str, ...], source: Any, target: Any) -> None:
    """Set one field to what the write holds there, or remove it."""
    for part in parts[:-1]:
        source = source[part].map_value.fields if source is not None and part in source else None
        if part not in target or target[part].WhichOneof("value_type") != "map_value":
            target[part].map_value.SetInParent()
        target = target[part].map_value.fields
    if source is not None and parts[-1] in source:
        target[parts[-1]].CopyFrom(source[parts[-1]])
    elif parts[-1] in target:
        del target[parts[-1]]


def _meets(where: Any, kept: Kept) -> bool:
    kind = where.WhichOneof("filter_type")
    if kind is None:
        return True
    if kind == "composite_filter":
        return all(_meets(one, kept) for one in where.composite_filter.filters)
    asked = where.field_filter
    assert asked.op == 5, "only equality is known here"
    path = asked.field.field_path
    return path in kept.fields and kept.fields[path] == asked.value


def _value(one: tuple[str, Kept], path: str) -> Any:
    return one[0] if path == "__name__" else one[1].fields[path].string_value


def _is_after(one: tuple[str, Kept], query: Any) -> bool:
    for order, cursor in zip(query.order_by, query.start_at.values, strict=False):
        mine, theirs = _value(one, order.field.field_path), cursor.string_value
        if mine != theirs:
            return bool(mine < theirs if order.direction == 2 else mine > theirs)
    return bool(query.start_at.before)


def _has_nested_array(value: Any, *, inside: bool) -> bool:
    kind = value.WhichOneof("value_type")
    if kind == "array_value":
        return inside or any(_has_nested_array(one, inside=True) for one in value.array_value.values)
    if kind == "map_value":
        return any(_has_nested_array(one, inside=False) for one in value.map_value.fields.values())
    return False


def _fill(document: Any, name: str, kept: Kept) -> None:
    document.name = name
    for key, value in kept.fields.items():
        document.fields[key].CopyFrom(value)
    _stamp(document.create_time, kept.create_us)
    _stamp(document.update_time, kept.update_us)


def _stamp(target: Timestamp, moment_us: int) -> None:
    target.FromMicroseconds(moment_us)


@contextmanager
def firestore_standin() -> Iterator[FirestoreStandIn]:
    """A stand-in that listens while the block lasts."""
    standin = FirestoreStandIn()
    server = grpc.server(futures.ThreadPoolExecutor(32))

    def method(work: Callable[..., Any], request: Any, response: Any, *, streams: bool) -> grpc.RpcMethodHandler:
        make = grpc.unary_stream_rpc_method_handler if streams else grpc.unary_unary_rpc_method_handler
        return make(
            work,
            request_deserializer=request.pb().FromString,
            response_serializer=lambda answer: answer.SerializeToString(),
        )

    handlers = {
        "BatchGetDocuments": method(
            standin.batch_get, messages.BatchGetDocumentsRequest, messages.BatchGetDocumentsResponse, streams=True
        ),
        "Commit": method(standin.commit, messages.CommitRequest, messages.CommitResponse, streams=False),
        "RunQuery": method(standin.run_query, messages.RunQueryRequest, messages.RunQueryResponse, streams=True),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    standin.port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield standin
    finally:
        server.stop(grace=0).wait()
