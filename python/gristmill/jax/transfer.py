"""Batches on their way to the device while the step before runs."""

# Grain and JAX leave types open; the functions here close them.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any, cast

import grain
import jax
import numpy as np

from gristmill import checks


def to_device(
    dataset: grain.IterDataset[Any],
    sharding: Any = None,
    *,
    cpu_buffer_size: int = 4,
    device_buffer_size: int = 2,
) -> grain.IterDataset[Any]:
    """Delivers the batches of a data set on the device, ahead of the step.

    It is `grain.experimental.device_put` with three differences: with a sharding over several
    processes, the rows of each become its part of a global batch; columns that no device can store
    stay on the host; and a batch that cannot be divided is one sentence.

    States, `close`, `gm.stats` and `gm.verdict` work as with the data set alone. A state is that of
    the next batch to be delivered, whatever is on its way, so a checkpoint loses and repeats none.

    Example:
        >>> mesh = jax.make_mesh((jax.device_count(),), ("data",))  # doctest: +SKIP
        >>> over_devices = jax.NamedSharding(mesh, jax.P("data"))  # doctest: +SKIP
        >>> batches = iter(gm.jax.to_device(dataset, over_devices))  # doctest: +SKIP

    Args:
        dataset: An `ArrowIterDataset` or a `Mixture` with a `batch_size`, or what Grain makes of
            one, such as `dataset.map(function)`.
        sharding: A `jax.sharding.Sharding` or a device; `None` is JAX's default device. The first
            axis of each array is that of the rows. Over several processes, all must deliver equally
            many batches of equally many rows, as they do with `shard_options=`.
        cpu_buffer_size: Batches that wait on the host, at least 1.
        device_buffer_size: Batches that wait on the device, at least 1.

    Returns:
        A data set of the same batches. Columns of numbers are `jax.Array`s; strings, ragged lists
        and others of dtype object, and times, are NumPy's, as they were. As in all of JAX, 64-bit
        columns become 32-bit ones unless `jax_enable_x64` is set.

    Raises:
        ValueError: An option is out of range. By `next`: a batch cannot be divided as the sharding
            asks for, or the data set delivers single rows.
    """
    write = "gm.jax.to_device(dataset, sharding)"
    checks.instance("dataset", dataset, grain.IterDataset, write=write)
    kinds = (jax.sharding.Sharding, jax.Device)
    if sharding is not None and not isinstance(sharding, kinds):
        raise checks.wrong("sharding", "a Sharding or a Device", sharding, write, none=True)
    on_host = checks.integer(
        "cpu_buffer_size", cpu_buffer_size, 1, 1_024, write="cpu_buffer_size=4"
    )
    on_device = checks.integer(
        "device_buffer_size", device_buffer_size, 1, 1_024, write="device_buffer_size=2"
    )
    prefetch = grain.experimental.ThreadPrefetchIterDataset
    put = prefetch(dataset, prefetch_buffer_size=on_host).map(_Put(sharding))
    return prefetch(put, prefetch_buffer_size=on_device)


class _Put(grain.transforms.Map):
    """Puts a batch on the device."""

    def __init__(self, sharding: Any) -> None:
        self._sharding = sharding

    def map(self, element: Any) -> Any:
        """The batch, its columns of numbers being JAX's."""
        leaves, structure = jax.tree.flatten(element)
        # One call for all of them: JAX starts their transfers together.
        places = [k for k, leaf in enumerate(leaves) if _is_for_devices(leaf)]
        for place, array in zip(places, self._put([leaves[k] for k in places]), strict=True):
            leaves[place] = array
        return jax.tree.unflatten(structure, leaves)

    def _put(self, arrays: list[Any]) -> list[Any]:
        sharding = self._sharding
        if not isinstance(sharding, jax.sharding.Sharding):
            return jax.device_put(arrays, sharding)
        is_global = not sharding.is_fully_addressable
        for array in arrays:
            _check(array.shape, sharding, jax.process_count() if is_global else 1)
        if is_global:
            return [jax.make_array_from_process_local_data(sharding, array) for array in arrays]
        return jax.device_put(arrays, sharding)


def _is_for_devices(leaf: Any) -> bool:
    """Whether it is an array of numbers."""
    if not isinstance(leaf, (np.ndarray, np.generic, jax.Array)):
        return False
    dtype: Any = cast("Any", leaf).dtype
    # Extension types such as bfloat16 are of kind "V".
    return dtype.kind in "biufc" or bool(jax.numpy.issubdtype(dtype, jax.numpy.floating))


def _check(shape: tuple[int, ...], sharding: jax.sharding.Sharding, n_processes: int) -> None:
    """Says what to write where the rows cannot be divided."""
    if not shape:
        raise ValueError(
            "a single row has no axis to divide over devices: write batch_size= in the data set"
        )
    try:
        sharding.shard_shape((n_processes * shape[0], *shape[1:]))
    except ValueError as error:
        n_devices = len(sharding.device_set)
        raise ValueError(
            f"a batch of {shape[0]} rows cannot be divided over {n_devices} devices as the "
            f"sharding asks for: write a batch_size= that can be, and remainder="
            f'"pad" or "drop" where the last batch is a short one ({error})'
        ) from error
