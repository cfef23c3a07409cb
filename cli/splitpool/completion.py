"""Which words may follow on the command line? A small script per shell, from the parser itself."""

import argparse

SHELLS = ("bash", "zsh", "fish")


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The completion script of a shell."""
    commands = _commands(parser)
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](commands)


def _commands(parser: argparse.ArgumentParser) -> dict[str, list[str]]:
    """Options of every command."""
    return {
        name: sorted(option for action in command._actions for option in action.option_strings)
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for name, command in action.choices.items()
    }


def _bash(commands: dict[str, list[str]]) -> str:
    cases = "\n".join(
        f'    {name}) words="{" ".join(options)}" ;;' for name, options in commands.items()
    )
    return f"""\
_splitpool() {{
  local words current="${{COMP_WORDS[COMP_CWORD]}}"
  case "${{COMP_WORDS[1]}}" in
{cases}
    *) words="{" ".join(commands)} --help --version" ;;
  esac
  [ "$COMP_CWORD" = 1 ] && words="{" ".join(commands)} --help --version"
  [ "${{COMP_WORDS[1]}}" = completion ] && words="$words {" ".join(SHELLS)}"
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  case "$current" in -*) ;; *)
    [ "$COMP_CWORD" -gt 1 ] && COMPREPLY+=($(compgen -f -- "$current")) ;;
  esac
}}
complete -o filenames -F _splitpool splitpool
"""


def _zsh(commands: dict[str, list[str]]) -> str:
    return "autoload -U +X bashcompinit && bashcompinit\n" + _bash(commands)


def _fish(commands: dict[str, list[str]]) -> str:
    names = " ".join(commands)
    lines = [
        f"complete -c splitpool -n '__fish_use_subcommand' -f -a '{names}'",
        "complete -c splitpool -n '__fish_seen_subcommand_from completion' -f "
        f"-a '{' '.join(SHELLS)}'",
    ]
    for name, options in commands.items():
        seen = f"complete -c splitpool -n '__fish_seen_subcommand_from {name}'"
        lines += [
            f"{seen} -l {option.removeprefix('--')}"
            if option.startswith("--")
            else f"{seen} -s {option.removeprefix('-')}"
            for option in options
        ]
    return "\n".join(lines) + "\n"
