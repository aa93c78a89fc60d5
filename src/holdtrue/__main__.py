"""``python -m holdtrue``: the command ``holdtrue``, where its folder is not on the path."""

from holdtrue.command import main

main()
