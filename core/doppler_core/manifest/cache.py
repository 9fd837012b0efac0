"""`session.kvcache`: where keys and values of earlier tokens are kept."""

from typing import Literal

from doppler_core.manifest.base import Dtype, Positive, Real, Section


class Compression(Section):
    """How cold pages are packed."""

    mode: Literal["none", "turboquant", "turboquant_prod"]
    block_size: Positive
    bit_width: Positive
    prod_mode: bool


class Gating(Section):
    """When tiering is on: always, never, or by the device's ratio of arithmetic to bandwidth."""

    mode: Literal["auto", "force_on", "force_off"]
    min_alu_bw_ratio: Real


class Tiering(Section):
    """A hot ring of hotWindow tokens, and cold pages of coldPageSize tokens."""

    mode: Literal["off", "fp16", "int8", "int4", "turboquant", "turboquant_prod"]
    hot_window: Positive
    cold_page_size: Positive
    cold_dtype: Dtype
    compression: Compression
    gating: Gating


class CacheQuantization(Section):
    """How the cache itself is packed."""

    mode: Literal["none", "turboquant", "turboquant_prod"]
    bit_width: Positive
    prod_mode: bool


class KvCache(Section):
    """`session.kvcache`; page_size in tokens, for the paged layouts only."""

    kv_dtype: Dtype
    layout: Literal["contiguous", "paged", "tiered", "contiguous_quantized", "bdpa", "bdpa_paged"]
    page_size: Positive
    tiering: Tiering
    quantization: CacheQuantization
