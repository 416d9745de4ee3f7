"""Measuring a machine and its storage before training: `gristmill doctor`.

`loops` are the loops that are timed, `lab` runs them in threads and in processes, `machine` is what
the machine allows, `measured` holds the figures, `conclude` says what follows, `report` prints it,
and `run` puts it together. Of shards behind URLs `store` measures the requests, and
`conclude_store` says what follows.
"""
