"""The file descriptors of this process: how many it may open, and how many of them connections may take."""

from __future__ import annotations

RESERVED = 256
"""For the database, files, pipes and outgoing connections."""
WANTED = 65_536


def raise_limit() -> int:
    """Raise the soft limit as far as this process may and needs; the limit in force."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return WANTED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            return soft  # a sandbox may refuse it; then the limit is what it was
        return wanted
    return WANTED if soft == resource.RLIM_INFINITY else soft


def connections_allowed() -> int:
    """Maximum number of connections that leaves enough descriptors for everything else."""
    try:
        import resource
    except ImportError:
        return WANTED
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return WANTED
    return max(1, soft - min(RESERVED, soft // 2))
