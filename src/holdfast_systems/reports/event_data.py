"""The protobuf message of Firestore's events; only the parts that are read. No package publishes it for Python."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.protobuf.message import Message

PACKAGE = "holdfast.reports.events"
MESSAGES = {
    "Document": (("name", 1, ""),),
    "DocumentEventData": (("value", 1, "Document"), ("old_value", 2, "Document")),
}
"""The numbers are those of `google.events.cloud.firestore.v1`; fields that are not named here are skipped."""


@cache
def document_event_data() -> type[Message]:
    """The class of `DocumentEventData`."""
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    file = FileDescriptorProto(name="holdfast/reports/events.proto", package=PACKAGE, syntax="proto3")
    for name, parts in MESSAGES.items():
        message = file.message_type.add(name=name)
        for part, number, kind in parts:
            message.field.add(
                name=part,
                number=number,
                label=FieldDescriptorProto.LABEL_OPTIONAL,
                type=FieldDescriptorProto.TYPE_MESSAGE if kind else FieldDescriptorProto.TYPE_STRING,
                type_name=f".{PACKAGE}.{kind}" if kind else None,
            )
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.DocumentEventData"))  # type: ignore[no-any-return]
