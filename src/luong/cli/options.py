"""Options that several verbs take, in the same words."""

from __future__ import annotations

from typing import Annotated

import typer

Models = Annotated[
    list[str],
    typer.Argument(help="The model folder; several are an ensemble.", metavar="MODEL..."),
]
BeamSize = Annotated[int, typer.Option(min=1, help="Hypotheses kept a sentence.")]
BatchSize = Annotated[
    int | None, typer.Option(min=1, help="Most sentences in a batch.", show_default="64")
]
Int8 = Annotated[bool, typer.Option("--int8", help="Put the weights in int8: faster on CPUs.")]
Shortlisted = Annotated[
    bool, typer.Option("--shortlist", help="Keep to likely tokens, see `luong shortlist`.")
]
MinLength = Annotated[int, typer.Option(min=0, help="Fewest tokens of an output.")]
BlockNgrams = Annotated[
    int, typer.Option(min=0, help="No so many tokens in a row come twice.", show_default="off")
]
Workers = Annotated[
    int, typer.Option(min=1, help="Processes that share the threads: for big files.")
]
Device = Annotated[str, typer.Option(help="Where to compute.")]
