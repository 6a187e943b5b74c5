"""`luong caption`: pictures in, captions out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from luong.cli.options import BeamSize, Device

if TYPE_CHECKING:
    from luong.search import Caption, Captioner

_BREAKS = re.compile(r"[\t\r\n]")
_TOGETHER = 32


def caption(
    model: Annotated[str, typer.Argument(help="The model folder.", metavar="MODEL")],
    pictures: Annotated[
        list[str], typer.Argument(help="PNG, JPEG, WebP, GIF or BMP.", metavar="PICTURE...")
    ],
    beam_size: BeamSize = 5,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print an object a line, with the attention.")
    ] = False,
    picture_attention: Annotated[
        str | None,
        typer.Option(help="Also draw what each word looked at.", metavar="FOLDER"),
    ] = None,
    device: Device = "cpu",
) -> None:
    """Write a caption of each picture: its name, a tab, the caption.

    What cannot be read is named on the standard error, the others are captioned all the same, and
    the exit code is 1.
    """
    from luong.cli.lines import print_line
    from luong.folder import load_caption_folder
    from luong.search import Captioner

    captioner = Captioner(load_caption_folder(model, device))
    folder = None if picture_attention is None else _made(Path(picture_attention))
    bad = 0
    for number, found in enumerate(_captions(captioner, pictures, beam_size), 1):
        if isinstance(found, str):
            bad += 1
            typer.echo(f"luong: {found}", err=True)
            continue
        if as_json:
            print_line(json.dumps(found.as_object(), ensure_ascii=False))
        else:
            print_line(f"{_BREAKS.sub(' ', found.source)}\t{found.text}")
        if folder is not None:
            _draw(found, folder / f"{number:04d}-{Path(found.source).stem}.png")
    if bad:
        raise typer.Exit(1)


def _captions(captioner: Captioner, pictures: list[str], beam_size: int) -> Iterator[Caption | str]:
    """For each picture its caption, or why it has none, in their order."""
    from luong.errors import UserError
    from luong.search.captioner import NamedPicture

    for start in range(0, len(pictures), _TOGETHER):
        read: list[NamedPicture | str] = []
        for name in pictures[start : start + _TOGETHER]:
            try:
                read.append(captioner.read(name))
            except UserError as error:
                read.append(str(error))
        good = (picture for picture in read if not isinstance(picture, str))
        captions = captioner.caption_pictures(good, beam_size=beam_size)
        for picture in read:
            yield picture if isinstance(picture, str) else next(captions)


def _made(folder: Path) -> Path:
    from luong.errors import UserError

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder} cannot be made: {error.strerror}.") from None
    return folder


def _draw(found: Caption, path: Path) -> None:
    from luong.view.attended_picture import attended_picture

    attended_picture(found.picture, found.words, found.attention, title=found.text, path=path)
