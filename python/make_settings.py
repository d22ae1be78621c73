"""Writes lib/coscan/settings.py from the engine's table of settings. Run it with the package installed.

    python make_settings.py           # writes the file
    python make_settings.py --check   # fails if it is not in date
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from coscan import _coscan

FILE = Path(__file__).parent / "lib" / "coscan" / "settings.py"

HEAD = '''"""The settings of an engine. make_settings.py writes this file."""

from __future__ import annotations

from typing import TypedDict


class Settings(TypedDict, total=False):
    """The settings that `coscan.connect` takes by name. Bytes may have a unit, as in `"4GB"`."""
'''


def settings_text() -> str:
    """The text of the file."""
    fields = []
    for name, value, summary, default in _coscan.settings():
        kind = {"BOOL": "bool", "N": "int", "BYTES": "int | str"}.get(value, "int | float | str")
        words = f"{summary[0].upper()}{summary[1:]}. Default: {default}."
        doc = textwrap.fill(f'"""{words}"""', 118, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
        fields.append(f"\n    {name}: {kind} | None\n{doc}\n")
    return HEAD + "".join(fields)


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(None if FILE.read_text() == settings_text() else f"{FILE} is not in date: run make_settings.py")
    FILE.write_text(settings_text())
