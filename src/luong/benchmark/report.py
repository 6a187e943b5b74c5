"""The page of a benchmark: docs/benchmarks.md."""

from __future__ import annotations

from luong.benchmark.suite import Suite


def markdown(suite: Suite) -> str:
    """All tables of a suite that has run, with the machine.

    Args:
        suite: After `run`.
    """
    machine = "".join(f"- {name}: {text}\n" for name, text in suite.machine.items())
    tables = "\n".join(table.text() for table in suite.tables())
    return (
        "# Benchmarks\n\n"
        "Written by `luong bench`. Every result was compared with float64 in the same run; calls\n"
        "that are compared were timed in turn.\n\n"
        f"{machine}\n{tables}"
    )
