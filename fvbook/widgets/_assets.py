"""How the files of an explorable become what anywidget takes: one script and one style sheet."""

import re
from pathlib import Path

_HERE = Path(__file__).parent
_IMPORT = re.compile(r'^import \{[^}]*\} from "([^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=function|const|class)", re.MULTILINE)


def script(name: str) -> str:
    """Return ``name.js`` with the modules it imports, and theirs, in front of it: one module without imports.

    A browser gets a widget's script as a text of its own, which can import nothing. The modules share one
    scope, so a name may be defined only once among them.
    """
    main = _HERE / f"{name}.js"
    parts: dict[Path, str] = {}

    def add(path: Path) -> None:
        text = path.read_text(encoding="utf8")
        for imported in _IMPORT.findall(text):
            if (module := (path.parent / imported).resolve()) not in parts:
                add(module)
        text = _IMPORT.sub("", text)
        parts[path] = (text if path == main else _EXPORT.sub("", text)).strip()

    add(main)
    return "\n\n".join(parts.values()) + "\n"


def style(name: str) -> str:
    """Return the style sheet that all explorables share, and after it ``name.css``."""
    return "\n".join((_HERE / f"{part}.css").read_text(encoding="utf8") for part in ("common", name))
