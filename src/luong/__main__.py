"""`python -m luong` is `luong`."""

from luong.cli import main

main()
