"""Settings to start from: one TOML file for each preset."""

from __future__ import annotations

from importlib import resources

from luong.errors import UserError, nearest


def preset_names() -> list[str]:
    """The presets there are, in alphabetical order."""
    names = [file.name for file in resources.files("luong.presets").iterdir()]
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def preset_text(name: str) -> str:
    """The TOML text of a preset.

    Raises:
        UserError: There is no such preset; the message names the nearest.

    Example:
        >>> print(preset_text("translate").splitlines()[0])
        # Translation with subwords: a good start for 10,000 to a million pairs.
    """
    known = preset_names()
    if name not in known:
        raise UserError(
            f"There is no preset '{name}'.{nearest(name, known)} Known: {', '.join(known)}."
        )
    return resources.files("luong.presets").joinpath(f"{name}.toml").read_text(encoding="utf-8")
