"""How is an object written as YAML that every reader understands alike?"""

import io
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.representer import SafeRepresenter

# YAML 1.1, which kubectl reads, takes these bare words for booleans; `mode: "Off"` is a string.
_BARE_BOOLEANS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false"})


def dump(*documents: Any) -> str:
    """The text of one or several documents."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Representer = _Representer
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 100
    text = io.StringIO()
    yaml.dump_all(documents, text)
    return text.getvalue()


class _Representer(SafeRepresenter):
    """No anchors, no bare Off."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_str(self, data: str) -> Any:
        style = '"' if data.lower() in _BARE_BOOLEANS else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Representer.add_representer(str, _Representer.represent_str)
