"""Reports: submit a run, show it, follow it to its end, run a step again.

The commands speak to a running system over its API.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.base import CodecError, Secret, decode, encode, monotonic_s, world
from holdfast.base.formatting import span
from holdfast.catalog import Blame, Failure, Fault
from holdfast.cli.database import AsJson
from holdfast.cli.output import explain, note, refuse, say, say_json
from holdfast.cli.state import DEFAULT_DATA, DataFolder, operators_token
from holdfast.http import ANYWHERE, HttpClient
from holdfast_systems.reports.documents import DOCUMENT_BYTES_MAX
from holdfast_systems.reports.faults import REPORTS
from holdfast_systems.reports.progress import Progress, lines_of

ADDRESS_VARIABLE = "HOLDFAST_REPORTS_ADDRESS"
DEFAULT_ADDRESS = "http://127.0.0.1:8080/reports"
LOOK_S = 0.5
SAMPLE = "sample.json"

EXAMPLES = {
    "submit": (
        ("holdfast reports submit run.json --follow", "submit a run and watch it"),
        ("holdfast reports submit --sample --follow", "the sample run that comes with Holdfast"),
    ),
    "show": (("holdfast reports show run_7", "states, attempts, times and cost of each step"),),
    "tail": (("holdfast reports tail run_7", "follow a run until it has ended"),),
    "rerun": (("holdfast reports rerun run_7 report --follow", "run a step again under a new identity"),),
}

Address = Annotated[str, typer.Option(metavar="URL", envvar=ADDRESS_VARIABLE, help="Where the system is served.")]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The id of the run.")]
Follow = Annotated[bool, typer.Option("--follow", help="Watch the run until it has ended.")]


class Api:
    """The API of a running system, with the operator's token."""

    def __init__(self, address: str, data: Path) -> None:
        self._address = address.rstrip("/")
        self._token: Secret = operators_token(data, os.environ)[0]
        self._client = HttpClient(reach=ANYWHERE).sync

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """What the API answers.

        Raises:
            typer.Exit: it refuses, or does not answer; the reason has been told.
        """
        headers = {"authorization": f"Bearer {self._token.reveal()}", "content-type": "application/json"}
        content = b"" if body is None else encode(body).encode()
        try:
            reply = self._client.send(method, f"{self._address}{path}", body=content, headers=headers)
            answer = reply.json()
        except Failure as failure:
            raise explain(failure) from failure
        if not reply.ok:
            raise explain(_refusal(reply.status, answer))
        return answer


def submit(
    file: Annotated[str | None, typer.Argument(metavar="FILE", help="The run as JSON; - is standard input.")] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Submit the sample run.")] = False,
    follow: Follow = False,
    address: Address = DEFAULT_ADDRESS,
    data: DataFolder = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Submit a run; prints its id."""
    if (file is None) != sample:
        raise refuse("give a file, or --sample")
    api = Api(address, data)
    body = _read(file) if file is not None else _prepared_sample(api)
    run = api.ask("POST", "/v1/flow-runs", body)
    if follow:
        _follow(api, run["runId"], as_json=as_json)
    elif as_json:
        say_json(run)
    else:
        say(run["runId"])


def show(
    run_id: RunId, address: Address = DEFAULT_ADDRESS, data: DataFolder = DEFAULT_DATA, as_json: AsJson = False
) -> None:
    """Show a run with its steps."""
    run = Api(address, data).ask("GET", f"/v1/flow-runs/{_path(run_id)}")
    _say_run(run, as_json=as_json)


def tail(
    run_id: RunId, address: Address = DEFAULT_ADDRESS, data: DataFolder = DEFAULT_DATA, as_json: AsJson = False
) -> None:
    """Follow a run until it has ended; the exit code tells whether it succeeded."""
    _follow(Api(address, data), run_id, as_json=as_json)


def rerun(
    run_id: RunId,
    step_id: Annotated[str, typer.Argument(metavar="STEP", help="The step to run again.")],
    follow: Follow = False,
    address: Address = DEFAULT_ADDRESS,
    data: DataFolder = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Run a step again under a new identity; prints the identity."""
    api = Api(address, data)
    made = api.ask("POST", f"/v1/flow-runs/{_path(run_id)}/steps/{_path(step_id)}/rerun")
    if follow:
        _follow(api, run_id, as_json=as_json)
    elif as_json:
        say_json(made)
    else:
        say(made["stepId"])


COMMANDS = {
    "submit": (submit, EXAMPLES["submit"]),
    "show": (show, EXAMPLES["show"]),
    "tail": (tail, EXAMPLES["tail"]),
    "rerun": (rerun, EXAMPLES["rerun"]),
}


def _follow(api: Api, run_id: str, *, as_json: bool) -> None:
    """Show a run as it goes on.

    Raises:
        typer.Exit: with 1, when the run has failed.
    """
    began_s = monotonic_s()
    with Progress(quiet=as_json) as progress:
        while True:
            run = api.ask("GET", f"/v1/flow-runs/{_path(run_id)}")
            progress.show(run)
            if run["status"] != "RUNNING":
                break
            world().sleep(LOOK_S)
    _say_run(run, as_json=as_json)
    note(f"{run['status'].lower()} after {span(monotonic_s() - began_s)}")
    if run["status"] != "SUCCEEDED":
        raise typer.Exit(1)


def _say_run(run: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        say_json(run)
        return
    for line in lines_of(run):
        say(line)


def _prepared_sample(api: Api) -> Any:
    text = files("holdfast_systems.reports").joinpath("pages", SAMPLE).read_text("utf-8")
    sample: Any = decode(text)
    api.ask("PUT", f"/v1/prompts/{sample['promptId']}", {"template": sample["template"]})
    api.ask("PUT", f"/v1/schemas/{sample['schemaId']}", {"jsonSchema": sample["jsonSchema"]})
    return sample["run"]


def _read(file: str) -> Any:
    try:
        content = sys.stdin.buffer.read(DOCUMENT_BYTES_MAX + 1) if file == "-" else Path(file).read_bytes()
        return decode(content, bytes_max=DOCUMENT_BYTES_MAX)
    except OSError as missing:
        raise refuse(f"{file} cannot be read: {missing.strerror}") from None
    except CodecError as broken:
        raise refuse(f"{file} is not JSON: {broken.explanation}") from None


def _refusal(status: int, answer: Any) -> Failure:
    error = answer.get("error") if isinstance(answer, dict) else None
    code = str(error.get("code")) if isinstance(error, dict) else "INTERNAL_ERROR"
    message = str(error.get("message")) if isinstance(error, dict) else f"The system answered {status}."
    if code in REPORTS:
        return REPORTS[code](message.replace("{", "(").replace("}", ")"))
    return Fault(code="REQUEST_REFUSED", status=status, says=f"{code}: {message}", blame=Blame.SERVER)()


def _path(part: str) -> str:
    from urllib.parse import quote

    return quote(part, safe="")
