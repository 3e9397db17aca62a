"""Finds the command ``clscope`` and runs it. Refuses to interpret what it prints."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from typing import List, Sequence, Union

Path = Union[str, "os.PathLike[str]"]


class Error(Exception):
    """The command ``clscope`` failed; the text is what it said."""


class MissingPackage(ImportError):
    """A package is needed that is not installed; the text names it."""


def find() -> str:
    """The path of the command: the one that was installed with this package, else that of ``PATH``.

    Raises `Error` where there is none.
    """
    own = os.path.join(sysconfig.get_path("scripts"), "clscope")
    found = own if os.access(own, os.X_OK) else shutil.which("clscope")
    if found is None:
        raise Error(
            f"cannot find the command clscope: it is neither {own} nor in PATH; "
            "install the package again, or add the folder of the command to PATH"
        )
    return found


def run(arguments: Sequence[str], accepted: Sequence[int] = (0,)) -> str:
    """Runs the command and gives what it printed. Raises `Error` for exit codes that are not accepted."""
    command: List[str] = [find(), *arguments]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except OSError as error:
        raise Error(f"cannot run {command[0]}: {error.strerror}") from error
    if done.returncode not in accepted:
        told = done.stderr.decode(errors="replace").strip()
        raise Error(told or f"clscope {arguments[0]} ended with {done.returncode}")
    return done.stdout.decode()


def options(named: "dict[str, object]") -> List[str]:
    """Options of the command from keywords: ``device_timing="event"`` is ``--device-timing=event``, True is
    an option without a value, None and False leave it out, a list is given as comma-separated."""
    out: List[str] = []
    for name, value in named.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            out.append(option)
        elif isinstance(value, (list, tuple)):
            out.append(f"{option}={','.join(str(part) for part in value)}")
        else:
            out.append(f"{option}={value}")
    return out
