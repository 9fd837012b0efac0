"""What a causal plan keeps on the device from step to step: keys and values of each layer that owns some."""

from doppler_core.manifest.model import Manifest
from doppler_core.plan.layers import layers
from doppler_core.plan.op import State
from doppler_core.plan.room import Room
from doppler_core.plan.sizes import given


def kv_states(manifest: Manifest, room: Room) -> dict[int, State]:
    """`layers.N.kv` by layer, [places * capacity, 2 * kv_heads * head_dim], a row holding a key and its value.

    A full layer keeps the whole context, and has a place for each slot. A sliding layer keeps a ring of its window and
    one step's rows: a step writes all its rows before its first query looks back, and must leave what that query
    still sees. Behind the slots' places it has those of the snapshots, unless it is as long as the context and never
    turns.
    """
    found = {}
    for layer in layers(manifest):
        if not layer.owns:
            continue
        places, capacity = room.slots, room.context_length
        if layer.sliding:
            window = int(given(manifest.inference.attention.sliding_window, "attention.slidingWindow"))
            capacity = min(capacity, window + room.chunk)
            places += room.snapshots if capacity < room.context_length else 0
        found[layer.number] = State(
            f"layers.{layer.number}.kv",
            (places * capacity, 2 * layer.kv_heads * layer.head_dim),
            manifest.session.kvcache.kv_dtype,
            capacity=capacity,
        )
    return found
