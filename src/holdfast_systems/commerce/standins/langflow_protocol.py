"""What Langflow answers, in the shapes of its API: a whole reply, and the events of a stream. Pure."""

from __future__ import annotations

from typing import Any

COMPONENT = "ChatOutput-standin"


def completed(said: str, text: str, session_id: str) -> dict[str, Any]:
    """The reply of a run that is not streamed; the text is at `outputs[0].outputs[0].results.message.text`."""
    message = {
        "text_key": "text",
        "data": _message(text, session_id),
        "text": text,
        "sender": "Machine",
        "sender_name": "AI",
        "session_id": session_id,
        "error": False,
    }
    output = {
        "results": {"message": message},
        "artifacts": {"message": text, "sender": "Machine", "sender_name": "AI", "type": "object"},
        "outputs": {"message": {"message": text, "type": "text"}},
        "logs": {"message": []},
        "messages": [
            {
                "message": text,
                "sender": "Machine",
                "sender_name": "AI",
                "session_id": session_id,
                "component_id": COMPONENT,
                "type": "message",
            }
        ],
        "component_display_name": "Chat Output",
        "component_id": COMPONENT,
        "used_frozen_result": False,
    }
    return {"session_id": session_id, "outputs": [{"inputs": {"input_value": said}, "outputs": [output]}]}


def opened(said: str, session_id: str, message_id: str) -> dict[str, Any]:
    """The event that begins a stream: the person's message."""
    data = {**_message(said, session_id), "sender": "User", "sender_name": "User", "id": message_id}
    return {"event": "add_message", "data": data}


def token_event(chunk: str, message_id: str, moment: str) -> dict[str, Any]:
    """A piece of the answer."""
    return {"event": "token", "data": {"chunk": chunk, "id": message_id, "timestamp": moment}}


def ended(said: str, text: str, session_id: str) -> dict[str, Any]:
    """The event that ends a stream, with the whole result."""
    return {"event": "end", "data": {"result": completed(said, text, session_id)}}


def flow_error(message: str) -> dict[str, Any]:
    """A flow that failed while it ran."""
    return {"detail": message}


def _message(text: str, session_id: str) -> dict[str, Any]:
    return {
        "text": text,
        "sender": "Machine",
        "sender_name": "AI",
        "session_id": session_id,
        "files": [],
        "error": False,
        "edit": False,
        "category": "message",
    }
