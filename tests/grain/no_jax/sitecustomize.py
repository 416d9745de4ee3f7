"""On the path of processes that have no use for JAX and Orbax.

Grain imports both where they are installed, which takes each process two seconds.
"""

import sys

sys.modules.update(dict.fromkeys(("jax", "orbax")))
