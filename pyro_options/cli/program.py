"""The program: parses the command line, runs a command, and turns errors into messages and exit codes."""

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

from pyro_options.errors import Interrupted, NumericalError, PyroOptionsError, require

#: exit codes: done; data, settings or files that cannot be used; a wrong command line; training that failed; a bug;
#: Ctrl-C
DONE, REFUSED, USAGE, FAILED, BUG, STOPPED = 0, 1, 2, 3, 4, 130

DESCRIPTION = """Discover reusable skills in demonstrations without being told how many there are.

Start with: pyro-options discover demonstrations.csv --out results

Exit codes: 0 done, 1 data or settings cannot be used, 2 wrong command line, 3 training failed, 4 a bug, 130 Ctrl-C."""


def _commands() -> dict[str, Any]:
    from .collect import Collect
    from .convert import Convert
    from .discover import Discover
    from .doctor import Doctor
    from .play import Play
    from .report import Describe, Report
    from .segment import Segment

    commands = (Discover, Segment, Report, Describe, Play, Collect, Convert, Doctor)
    return {command.__name__.lower(): command for command in commands}


def _warn(message, category, filename, lineno, file=None, line=None) -> None:
    print(f"warning: {message}", file=sys.stderr)


def _exit_code(error: BaseException) -> int:
    if isinstance(error, KeyboardInterrupt):
        return STOPPED
    if isinstance(error, NumericalError):
        return FAILED
    known = isinstance(error, PyroOptionsError | ImportError | OSError)
    return REFUSED if known or type(error).__module__.startswith("gymnasium.") else BUG


def _message(error: BaseException, debug: bool) -> str:
    """What went wrong, in a line."""
    if isinstance(error, KeyboardInterrupt):
        return str(error) if isinstance(error, Interrupted) else "stopped"
    text = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    if _exit_code(error) == BUG:
        text = f"{type(error).__name__}: {text}\nThis should not happen: please report it with the output of --debug."
    return text if debug else f"{text}\n(--debug shows where)" if _exit_code(error) == BUG else text


def _parsed(tyro: Any, arguments: list[str]) -> Any:
    """The command, or the exit code if the command line is wrong or asks for help."""
    commands, conf = _commands(), tyro.conf
    settings = conf.FlagCreatePairsOff, conf.OmitArgPrefixes, conf.DisallowNone
    program = {"prog": "pyro-options", "description": DESCRIPTION, "args": arguments, "config": settings}
    try:
        return tyro.extras.subcommand_cli_from_dict(commands, **program)
    except SystemExit as stopped:
        code = stopped.code if isinstance(stopped.code, int) else USAGE
        if code == DONE and arguments[0] in commands:
            print("\n".join(["examples:", *(f"  {one}" for one in commands[arguments[0]].EXAMPLES)]))
        return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command ``pyro-options``; returns its exit code.

    :param arguments: those of the command line by default
    """
    try:
        tyro = require("tyro", "cli")
    except ImportError as error:
        print(f"error: {error}", file=sys.stderr)
        return REFUSED
    command = _parsed(tyro, sys.argv[1:] if arguments is None else list(arguments))
    if isinstance(command, int):
        return command
    with warnings.catch_warnings():
        warnings.showwarning = _warn
        try:
            result = command.run()
            command.show(result)
            sys.stdout.flush()
            return DONE if result.get("ok", True) else REFUSED
        except BrokenPipeError:  # whoever read our output has enough of it, such as head
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return DONE
        except (Exception, KeyboardInterrupt) as error:
            if command.debug:
                traceback.print_exc()
            print(f"error: {_message(error, command.debug)}", file=sys.stderr)
            return _exit_code(error)
