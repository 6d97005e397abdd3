"""A key-value cache with room for the whole prompt: filling and trimming copy nothing twice."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer


class SlotLayer(DynamicLayer):  # type: ignore[misc]  # untyped package
    """One layer's slots; ``keys`` and ``values`` are views of those in use."""

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self._capacity = capacity

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Make room, with the shape of the first states [1, H, ·, d]."""
        super().lazy_initialization(key_states, value_states)
        self._keys = self._room(key_states)
        self._values = self._room(value_states)
        self.trim(0)

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Fill the next slots and return everything in use."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start = self.keys.shape[-2]
        stop = start + key_states.shape[-2]
        if stop > self._capacity:  # decoding goes on after the prompt
            self._capacity = max(stop, self._capacity * 2)
            self._keys, self._values = self._grown(self._keys), self._grown(self._values)
        self._keys[..., start:stop, :] = key_states
        self._values[..., start:stop, :] = value_states
        self.trim(stop)
        return self.keys, self.values

    def trim(self, length: int) -> None:
        """Keep the first ``length`` slots."""
        self.keys = self._keys[..., :length, :]
        self.values = self._values[..., :length, :]

    def _room(self, states: Tensor) -> Tensor:
        return states.new_zeros((*states.shape[:-2], self._capacity, states.shape[-1]))

    def _grown(self, slots: Tensor) -> Tensor:
        room = self._room(slots)
        room[..., : slots.shape[-2], :] = slots
        return room


def slot_cache(layers: int, capacity: int) -> Cache:
    """Return an empty cache of ``layers`` layers with room for ``capacity`` tokens."""
    return Cache(layers=[SlotLayer(capacity) for _ in range(layers)])


def trim(cache: Cache, length: int) -> None:
    """Drop every slot from ``length`` on."""
    for layer in cache.layers:
        layer.trim(length)
