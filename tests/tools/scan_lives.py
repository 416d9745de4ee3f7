"""Runs `gristmill` in forked children, one a line of arguments; "wait" tells how it ended.

A process that imports everything each time takes a second before it can be killed at all.
"""

import json
import os
import sys

from gristmill.cli import main
from gristmill.tools.scan import run

# So that lives of a tenth of a second go on in the middle, and not only from the start.
run._SAVE_SECONDS = 0.02
pid = 0
for line in sys.stdin:
    arguments = json.loads(line)
    if arguments == "wait":
        answer = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    else:
        pid = answer = os.fork()
        if pid == 0:
            # The results of the child belong to nobody.
            nothing = os.open(os.devnull, os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(nothing, fd)
            main(arguments)
    sys.stdout.write(f"{json.dumps(answer)}\n")
    sys.stdout.flush()
