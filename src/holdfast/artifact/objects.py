"""Artifacts in an object store, by `obstore`: S3 and what speaks like it, GCS, and the memory of this process.

Small content is one conditional put. Larger content is uploaded in parts to a staging name, then copied to its own,
inside the store and on the condition that nothing is there. Nothing is ever visible in part.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from holdfast.artifact.content import PIECE_BYTES
from holdfast.artifact.entries import Entry
from holdfast.artifact.location import Commit, Location, Scheme
from holdfast.artifact.naming import STAGING
from holdfast.artifact.presign import Credentials, Signer
from holdfast.artifact.storage_errors import storage_errors
from holdfast.base import new_id
from holdfast.catalog.failure import Failure

UPLOAD_BYTES = 5 * 1_048_576
"""Up to here one put; from here on parts of this size, the smallest that S3 takes."""
UPLOADS_AT_ONCE = 2
CONNECT_S = 5
REQUEST_S_MAX = 3_600
"""A request that goes on for longer is cut, also one that keeps moving."""
RETRIES = 2
"""Of one request, inside; the retries of the whole put are its caller's."""
LISTED_AT_ONCE = 1_000
_COPY_MODES = {Commit.COPY: "header: If-None-Match: *", Commit.MULTIPART: "multipart"}


class ObstoreMissing(ImportError):
    """The package for object stores is not installed."""

    def __str__(self) -> str:
        return 'object stores need the package obstore: pip install "holdfast[artifacts]"'


@dataclass(frozen=True, slots=True)
class _StagedBytes:
    store: Any
    content: bytes

    def commit(self, name: str) -> bool:
        return _unless_exists(name, lambda obstore: obstore.put(self.store, name, self.content, mode="create"))


@dataclass(frozen=True, slots=True)
class _StagedObject:
    store: Any
    place: str

    def commit(self, name: str) -> bool:
        if self._is_taken(name):
            return False
        return _unless_exists(name, lambda obstore: obstore.copy(self.store, self.place, name, overwrite=False))

    def _is_taken(self, name: str) -> bool:
        """Looks first, because not every server that speaks S3 obeys a condition on a copy."""
        with storage_errors(name):
            try:
                _obstore().head(self.store, name)
            except FileNotFoundError:
                return False
        return True


class ObjectBackend:
    """One bucket, or a prefix in it."""

    def __init__(self, store: Any, *, signer: Signer | None = None, prefix: str = "") -> None:
        self._store = store
        self.signer = signer
        self.prefix = prefix

    @classmethod
    def at(cls, location: Location) -> ObjectBackend:
        """The backend that the location names.

        Raises:
            ObstoreMissing: the package is not installed.
        """
        return cls(_opened(location), signer=location.signer(), prefix=location.prefix)

    @contextmanager
    def staged(self, name: str, pieces: Iterable[bytes | memoryview]) -> Iterator[_StagedBytes | _StagedObject]:
        coming = iter(pieces)
        first = bytearray()
        for piece in coming:
            first += piece
            if len(first) > UPLOAD_BYTES:
                break
        else:
            yield _StagedBytes(self._store, bytes(first))
            return
        place = f"{STAGING}/{new_id()}"
        try:
            self._upload(name, place, chain((first,), coming))
            yield _StagedObject(self._store, place)
        finally:
            # Not the reason to fail: what stays behind is swept later.
            with suppress(Failure):
                self.delete(place)

    def _upload(self, name: str, place: str, pieces: Iterable[bytes | bytearray | memoryview]) -> None:
        obstore = _obstore()
        writer = obstore.open_writer(self._store, place, buffer_size=UPLOAD_BYTES, max_concurrency=UPLOADS_AT_ONCE)
        try:
            for piece in pieces:
                # A copy: the writer holds on to what it gets, and the caller may use its buffer again.
                own = bytes(piece)
                with storage_errors(name):
                    writer.write(own)
        except BaseException as raised:
            with suppress(Exception):  # told that something was raised, the writer gives its parts up
                writer.__exit__(type(raised), raised, None)
            raise
        with storage_errors(name):
            writer.close()

    def head(self, name: str) -> Entry:
        with storage_errors(name):
            return _entry(_obstore().head(self._store, name))

    def read(self, name: str) -> tuple[Entry, Generator[bytes, None, None]]:
        with storage_errors(name):
            result = _obstore().get(self._store, name)
            return _entry(result.meta), _pieces(name, result)

    def delete(self, name: str) -> None:
        with storage_errors(name), suppress(FileNotFoundError):
            _obstore().delete(self._store, name)

    def entries(self, prefix: str, after: str | None) -> Iterator[Entry]:
        hidden = f"{STAGING}/"
        return (entry for entry in self._listed(prefix, after) if not entry.name.startswith(hidden))

    def sweep(self, before_us: int) -> int:
        old = [entry.name for entry in self._listed(STAGING, None) if entry.modified_us < before_us]
        for name in old:
            self.delete(name)
        return len(old)

    def _listed(self, prefix: str, after: str | None) -> Iterator[Entry]:
        with storage_errors(prefix):
            chunks = _obstore().list(self._store, prefix or None, offset=after, chunk_size=LISTED_AT_ONCE)
            for chunk in chunks:
                yield from map(_entry, chunk)


def _obstore() -> Any:
    try:
        import obstore
    except ImportError:
        raise ObstoreMissing from None
    return obstore


def _opened(location: Location) -> Any:
    from datetime import timedelta

    _obstore()
    from obstore import store as stores

    if location.scheme is Scheme.MEMORY:
        return stores.MemoryStore()
    common: dict[str, Any] = {
        "prefix": location.prefix or None,
        "client_options": {
            "connect_timeout": timedelta(seconds=CONNECT_S),
            "read_timeout": timedelta(seconds=location.timeout_s),
            "timeout": timedelta(seconds=REQUEST_S_MAX),
            "allow_http": location.endpoint.startswith("http://"),
        },
        "retry_config": {"max_retries": RETRIES, "retry_timeout": timedelta(seconds=location.timeout_s)},
    }
    if location.scheme is Scheme.GCS:
        return stores.GCSStore(location.bucket, **common, **_given(_gcs_settings(location)))
    return stores.S3Store(location.bucket, **common, **_given(_s3_settings(location)))


def _s3_settings(location: Location) -> dict[str, Any]:
    # A provider, not three settings: the package would fill in a token that only the environment has, and a key that
    # is sent with somebody else's token is refused.
    keys = location.credentials
    return {
        "region": location.region,
        "endpoint": location.endpoint,
        "credential_provider": None if keys is None else partial(_keys, keys),
        "virtual_hosted_style_request": not location.endpoint,
        "copy_if_not_exists": _COPY_MODES[location.commit],
    }


def _keys(keys: Credentials) -> dict[str, Any]:
    token = keys.session_token
    return {
        "access_key_id": keys.access_key_id,
        "secret_access_key": keys.secret_access_key.reveal(),
        "token": None if token is None else token.reveal(),
        "expires_at": None,
    }


def _gcs_settings(location: Location) -> dict[str, Any]:
    # Leaving the signature out does not keep it from asking the machine for a token before a write; a provider does.
    provider = _no_token if location.anonymous else None
    return {
        "base_url": location.endpoint,
        "skip_signature": location.anonymous,
        "credential_provider": provider,
    }


def _no_token() -> dict[str, Any]:
    return {"token": "anonymous", "expires_at": None}


def _given(settings: dict[str, Any]) -> dict[str, Any]:
    """Without what is empty, which would hide what the package finds in the environment by itself."""
    return {name: value for name, value in settings.items() if value}


def _unless_exists(name: str, create: Any) -> bool:
    obstore = _obstore()
    from obstore.exceptions import AlreadyExistsError, PreconditionError

    with storage_errors(name):
        try:
            create(obstore)
        except (AlreadyExistsError, PreconditionError):
            return False
    return True


def _pieces(name: str, result: Any) -> Generator[bytes, None, None]:
    with storage_errors(name):
        for received in result.stream(min_chunk_size=PIECE_BYTES):
            whole = memoryview(received)
            for begin in range(0, len(whole), PIECE_BYTES):
                yield bytes(whole[begin : begin + PIECE_BYTES])


def _entry(meta: Any) -> Entry:
    return Entry(meta["path"], meta["size"], round(meta["last_modified"].timestamp() * 1_000_000))
