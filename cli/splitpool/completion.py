"""Which words may follow on the command line? A small script per shell, from the parser itself."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from splitpool.output import say

SHELLS = ("bash", "zsh", "fish")
_ROOT = ("--help", "--version")


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Of one command: its options, which words those with a value take, and lone words."""

    options: tuple[str, ...]
    values: Mapping[str, tuple[str, ...]]
    operands: tuple[str, ...]
    # Whether a file may be named alone, and after which options.
    files: bool
    paths: tuple[str, ...]


def run(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Print the script of a shell; the exit status."""
    say(script(options.shell, parser))
    return 0


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The completion script of a shell."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](commands(parser))


def candidates(known: Mapping[str, Words], words: Sequence[str]) -> list[str]:
    """What the last word may become, after the ones before it."""
    *before, current = words
    fitting: Sequence[str] = ()
    if not before:
        fitting = (*known, *_ROOT)
    elif wants_operand(known, words):
        fitting = known[before[0]].operands
    elif before[0] in known and current.startswith("-"):
        fitting = known[before[0]].options
    elif before[0] in known:
        fitting = known[before[0]].values[before[-1]]
    return [word for word in fitting if word.startswith(current)]


def wants_operand(known: Mapping[str, Words], words: Sequence[str]) -> bool:
    """Whether the last word is neither the command, nor an option, nor the value of one."""
    *before, current = words
    if not before or before[0] not in known or current.startswith("-"):
        return False
    return before[-1] not in known[before[0]].values


def commands(parser: argparse.ArgumentParser) -> dict[str, Words]:
    """The words of every command."""
    (action,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    return {name: _words(command._actions) for name, command in action.choices.items()}


def _words(actions: Sequence[argparse.Action]) -> Words:
    operands = [action for action in actions if not action.option_strings]
    return Words(
        options=tuple(sorted(option for action in actions for option in action.option_strings)),
        values={
            option: tuple(action.choices or ())
            for action in actions
            if action.nargs != 0
            for option in action.option_strings
        },
        operands=tuple(word for action in operands for word in action.choices or ()),
        files=any(action.metavar == "FILE" for action in operands),
        paths=tuple(
            option
            for action in actions
            if action.metavar in {"FILE", "DIR"}
            for option in action.option_strings
        ),
    )


def _bash(known: Mapping[str, Words]) -> str:
    cases = "\n".join(
        f'    {name}) words="{" ".join((*each.options, *each.operands))}" files={each.files:d} ;;'
        for name, each in known.items()
    )
    values = "\n".join(_bash_values(known))
    first = " ".join((*known, *_ROOT))
    return f"""\
_splitpool() {{
  local words files=0 current="${{COMP_WORDS[COMP_CWORD]}}"
  case "${{COMP_WORDS[1]}}" in
{cases}
  esac
  case "${{COMP_WORDS[1]}} ${{COMP_WORDS[COMP_CWORD-1]}}" in
{values}
  esac
  [ "$COMP_CWORD" = 1 ] && words="{first}" files=0
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  case "$current" in -*) ;; *)
    [ "$files" = 1 ] && COMPREPLY+=($(compgen -f -- "$current")) ;;
  esac
}}
complete -o filenames -F _splitpool splitpool
"""


def _bash_values(known: Mapping[str, Words]) -> Iterator[str]:
    for name, words in known.items():
        for option, values in words.values.items():
            files = option in words.paths
            yield f'    "{name} {option}") words="{" ".join(values)}" files={files:d} ;;'


def _zsh(known: Mapping[str, Words]) -> str:
    return "autoload -U +X bashcompinit && bashcompinit\n" + _bash(known)


def _fish(known: Mapping[str, Words]) -> str:
    names = " ".join(known)
    lines = [f"complete -c splitpool -n '__fish_use_subcommand' -f -a '{names}'"]
    for name, words in known.items():
        seen = f"complete -c splitpool -n '__fish_seen_subcommand_from {name}'"
        if not words.files:
            lines.append(f"{seen} -f")
        if words.operands:
            lines.append(f"{seen} -a '{' '.join(words.operands)}'")
        lines += [f"{seen} {_fish_option(option, words)}" for option in words.options]
    return "\n".join(lines) + "\n"


def _fish_option(option: str, words: Words) -> str:
    flag = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
    if option in words.paths:
        return f"{flag} -r -F"
    if option in words.values:
        return f"{flag} -x -a '{' '.join(words.values[option])}'"
    return flag
