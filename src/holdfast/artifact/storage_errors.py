"""How the errors of a disk and of an object store are read as failures of the catalog."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.artifact.faults import (
    ARTIFACT_CONFLICT,
    ARTIFACT_NAME_INVALID,
    ARTIFACT_NOT_FOUND,
    ARTIFACT_TOO_LARGE,
    STORAGE_FULL,
    STORAGE_REFUSED,
    STORAGE_UNAVAILABLE,
)
from holdfast.catalog.failure import Failure
from holdfast.catalog.fault import Fault

_BY_ERRNO = {
    errno.ENOENT: ARTIFACT_NOT_FOUND,
    errno.ENOSPC: STORAGE_FULL,
    errno.EDQUOT: STORAGE_FULL,
    errno.EFBIG: ARTIFACT_TOO_LARGE,
    errno.ENAMETOOLONG: ARTIFACT_NAME_INVALID,
    errno.EILSEQ: ARTIFACT_NAME_INVALID,
    errno.EACCES: STORAGE_REFUSED,
    errno.EPERM: STORAGE_REFUSED,
    errno.EROFS: STORAGE_REFUSED,
    errno.ELOOP: ARTIFACT_NAME_INVALID,
    errno.ENOTDIR: ARTIFACT_CONFLICT,
    errno.EISDIR: ARTIFACT_CONFLICT,
    errno.EEXIST: STORAGE_REFUSED,
    errno.EOPNOTSUPP: STORAGE_REFUSED,
}
"""Everything else (EIO, ESTALE, EMFILE …) may be over in a moment."""
_REASONS = {
    errno.ELOOP: "link",
    errno.ENOTDIR: "a part of the name is an artifact itself",
    errno.EISDIR: "other artifacts stand below this name",
    errno.ENAMETOOLONG: "too_long",
}
_BY_CLASS = {
    "PermissionDeniedError": STORAGE_REFUSED,
    "UnauthenticatedError": STORAGE_REFUSED,
    "NotSupportedError": STORAGE_REFUSED,
    "UnknownConfigurationKeyError": STORAGE_REFUSED,
    "InvalidPathError": ARTIFACT_NAME_INVALID,
}
_BY_STATUS = {
    408: STORAGE_UNAVAILABLE,
    409: STORAGE_UNAVAILABLE,
    429: STORAGE_UNAVAILABLE,
    501: STORAGE_REFUSED,
    507: STORAGE_FULL,
}
_BY_S3_CODE = {
    "NoSuchBucket": STORAGE_REFUSED,
    "EntityTooLarge": ARTIFACT_TOO_LARGE,
    "QuotaExceeded": STORAGE_FULL,
    "XMinioStorageFull": STORAGE_FULL,
    "RequestTimeout": STORAGE_UNAVAILABLE,
}
# The storage answers after what was asked of it, so that the first match is its own and not part of a name.
_STATUS = re.compile(r"non-2xx status code: (\d{3})")
_S3_CODE = re.compile(r"<Code>(\w+)</Code>")
_CERTIFICATE = re.compile(r"invalid peer certificate|InvalidCertificate")


@contextmanager
def storage_errors(name: str) -> Iterator[None]:
    """Errors of the storage inside the block are raised as failures; all others pass.

    Raises:
        Failure: what the storage's error is.
    """
    try:
        yield
    except Exception as error:
        fault = storage_fault(error)
        if fault is None:
            raise
        reason = _REASONS.get(getattr(error, "errno", None) or 0)
        raise Failure(fault, details={"name": name, **({"reason": reason} if reason else {})}) from error


def storage_fault(error: Exception) -> Fault | None:
    """The fault that an error of the storage is; None for what comes from elsewhere."""
    if isinstance(error, Failure):
        return None
    kinds = {kind.__name__ for kind in type(error).__mro__ if kind.__module__.startswith("obstore")}
    if kinds:
        fault = next((_BY_CLASS[kind] for kind in kinds if kind in _BY_CLASS), None)
        return fault or _by_text(str(error))
    if not isinstance(error, OSError):
        return None
    if isinstance(error, FileNotFoundError) and error.errno is None:  # obstore's own, with the answer as its text
        return _by_text(str(error)) if _S3_CODE.search(str(error)) else ARTIFACT_NOT_FOUND
    return _BY_ERRNO.get(error.errno or 0, STORAGE_UNAVAILABLE)


def _by_text(text: str) -> Fault:
    code, status = _S3_CODE.search(text), _STATUS.search(text)
    if code is not None and code[1] in _BY_S3_CODE:
        return _BY_S3_CODE[code[1]]
    if status is None:
        # No answer at all. A certificate that is not trusted now will not be in a moment.
        return STORAGE_REFUSED if _CERTIFICATE.search(text) else STORAGE_UNAVAILABLE
    number = int(status[1])
    if number == 404:
        return ARTIFACT_NOT_FOUND
    return _BY_STATUS.get(number, STORAGE_REFUSED if number < 500 else STORAGE_UNAVAILABLE)
