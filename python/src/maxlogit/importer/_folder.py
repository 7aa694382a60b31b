"""New files in a folder, all of them or none. The folder is held open: its path may lead elsewhere meanwhile, if others
may write to a folder above it, so nothing is removed or renamed by that path."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import signal
import stat
from typing import Optional

from maxlogit._library import MaxlogitError, UsageError

_ENTER = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)


def _is_there(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
        return True
    except FileNotFoundError:
        return False


def _owned(file: int, owner: int, group: int) -> bool:
    """Whether the file has this owner or group, or could be given it; -1: as it is."""
    now = os.fstat(file)
    if owner in (-1, now.st_uid) and group in (-1, now.st_gid):
        return True
    try:
        os.fchown(file, owner, group)
        return True
    except OSError:
        return False


def _copy_attributes(name: str, folder: int, expected: os.stat_result, to: int) -> None:
    try:
        old = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return
    try:
        if os.path.samestat(os.fstat(old), expected):
            for attribute in os.listxattr(old):
                with contextlib.suppress(OSError):  # this user or file system may not set it
                    os.setxattr(to, attribute, os.getxattr(old, attribute))
    except OSError:  # a file system without attributes
        pass
    finally:
        os.close(old)


class Folder:
    """Creates the folder if it is missing. Unless `keep` is called, the folder is left as it was: without the new files,
    and without those folders that were made and are empty."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._open = [os.open("/" if path.startswith("/") else ".", _ENTER)]
        self._made: list[tuple[int, str]] = []
        self._beside: Optional[tuple[str, int]] = None
        self._done: list[tuple[str, tuple[int, int], Optional[str]]] = []
        try:
            for part in path.split("/"):
                if part not in ("", "."):
                    self._open.append(self._enter(self._open[-1], part))
        except BaseException:
            self._leave()
            raise

    def _enter(self, at: int, part: str) -> int:
        try:
            return os.open(part, _ENTER, dir_fd=at)
        except FileNotFoundError:
            pass
        try:
            os.mkdir(part, dir_fd=at)
            self._made.append((at, part))
        except FileExistsError:  # another process has made it meanwhile
            pass
        return os.open(part, _ENTER, dir_fd=at)

    def make_beside(self) -> str:
        """The name of a new private folder in this one. It is removed at the end."""
        name = f".import-{secrets.token_hex(8)}"
        os.mkdir(name, 0o700, dir_fd=self._open[-1])
        self._beside = name, os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=self._open[-1])
        return name

    def _keep_attributes(self, name: str, as_name: str) -> None:
        """The new file gets mode, owner and extended attributes of the file that it replaces, as file_write in C does. If
        owner or group cannot be kept, the new file loses their rights."""
        assert self._beside
        old = os.stat(as_name, dir_fd=self._open[-1], follow_symlinks=False)
        if not stat.S_ISREG(old.st_mode):
            return
        new = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._beside[1])
        try:
            mode = stat.S_IMODE(old.st_mode)
            same_group, same_owner = _owned(new, -1, old.st_gid), _owned(new, old.st_uid, -1)
            if not same_group:
                mode &= ~0o2070
            if not same_owner:
                mode &= ~0o4002
            if same_group and same_owner and hasattr(os, "listxattr"):
                _copy_attributes(as_name, self._open[-1], old, new)
            os.fchmod(new, mode)
        finally:
            os.close(new)

    def publish(self, name: str, as_name: str, overwrite: bool) -> None:
        """A file of the private folder takes its place, or that of another file; the caller holds its lock."""
        assert self._beside
        here, beside = self._open[-1], self._beside[1]
        found = os.stat(name, dir_fd=beside, follow_symlinks=False)
        before = f"{name}.before" if overwrite and _is_there(as_name, here) else None
        # noted first: an interrupt may come after any line
        self._done.append((as_name, (found.st_dev, found.st_ino), before))
        if before:
            self._keep_attributes(name, as_name)
            try:
                os.link(as_name, before, src_dir_fd=here, dst_dir_fd=beside, follow_symlinks=False)
            except OSError:  # a file system without links: for a moment there is no file of that name
                os.rename(as_name, before, src_dir_fd=here, dst_dir_fd=beside)
            os.rename(name, as_name, src_dir_fd=beside, dst_dir_fd=here)
            return
        try:
            os.link(name, as_name, src_dir_fd=beside, dst_dir_fd=here, follow_symlinks=False)
            os.unlink(name, dir_fd=beside)
        except OSError as problem:
            if problem.errno == errno.EEXIST or _is_there(as_name, here):
                path = os.path.join(self._path, as_name)
                raise UsageError(f"{path}: another process has written it meanwhile; --overwrite replaces it") from None
            if problem.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):  # a file system without links
                raise
            os.rename(name, as_name, src_dir_fd=beside, dst_dir_fd=here)

    def keep(self) -> None:
        self._done, self._made = [], []  # the files that were replaced are removed with the private folder

    def _undo(self) -> None:
        assert self._beside
        here, beside = self._open[-1], self._beside[1]
        for name, file, before in reversed(self._done):
            try:
                found = os.stat(name, dir_fd=here, follow_symlinks=False)
            except FileNotFoundError:
                found = None
            is_new = found is not None and (found.st_dev, found.st_ino) == file
            if before and _is_there(before, beside) and (is_new or not found):
                os.rename(before, name, src_dir_fd=beside, dst_dir_fd=here)
            elif is_new:
                os.unlink(name, dir_fd=here)
        self._done = []

    def _leave(self) -> None:
        if self._beside:
            name, beside = self._beside
            former = [rest for rest in os.listdir(beside) if self._done and rest.endswith(".before")]
            for rest in os.listdir(beside):
                if rest not in former:
                    os.unlink(rest, dir_fd=beside)
            os.close(beside)
            if former:
                raise MaxlogitError(
                    f"{os.path.join(self._path, name)}: the files that were replaced; they could not be put back"
                )
            os.rmdir(name, dir_fd=self._open[-1])
        try:
            for at, name in reversed(self._made):
                os.rmdir(name, dir_fd=at)
        except OSError:  # others have put something there
            pass
        for at in self._open:
            os.close(at)

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: object) -> None:
        # a second interrupt waits until all is as it was
        stops = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
        try:
            if self._done:
                self._undo()
        finally:
            try:
                self._leave()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, stops)
