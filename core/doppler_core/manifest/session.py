"""`session`: dtypes of a pass, the decode loop, per-layer inputs, and permissions to choose faster kernels."""

from typing import Literal

from pydantic import Field

from doppler_core.manifest.base import Dtype, Positive, Section
from doppler_core.manifest.cache import KvCache


class ComputeDefaults(Section):
    """The dtype of the residual stream, of arithmetic, of sums, and of what is read back."""

    activation_dtype: Dtype
    math_dtype: Dtype
    accum_dtype: Dtype
    output_dtype: Dtype


class Compute(Section):
    """`session.compute`."""

    defaults: ComputeDefaults


class DecodeLoop(Section):
    """`session.decodeLoop`: tokens per submit, submits per readback, and the buffers that overlap them."""

    batch_size: Positive
    stop_check_mode: Literal["batch", "per-token"]
    readback_interval: Positive
    readback_mode: Literal["sequential", "overlapped", "auto"]
    ring_tokens: Positive
    ring_stop: Positive
    ring_staging: Positive
    disable_command_batching: bool


class RowCache(Section):
    """Decoded rows of the per-layer table kept in memory."""

    mode: Literal["off", "lru"]
    max_rows: Positive
    max_bytes: Positive
    decoded_dtype: Dtype


class Prefetch(Section):
    """Rows read ahead of the token that will need them."""

    mode: Literal["off", "next_token"]
    rows_ahead: Positive


class GpuUpload(Section):
    """How rows reach the GPU."""

    mode: Literal["per_step_slices", "per_batch_slices"]
    staging_rows: Positive


class HotCache(Section):
    """Finished per-layer inputs kept by token."""

    mode: Literal["off", "prepared_tokens", "tokenizer_scores"]
    max_tokens: Positive
    max_bytes: Positive
    output_dtype: Dtype


class PerLayerInputs(Section):
    """`session.perLayerInputs`: where the table of per-layer embeddings lives, and how its rows are read."""

    materialization: Literal["auto", "range_backed", "cpu_resident", "gpu_resident", "gpu_split_tables"]
    row_cache: RowCache
    prefetch: Prefetch
    gpu_upload: GpuUpload
    hot_cache: HotCache


class Session(Section):
    """`session`. The three `use` and `retain` flags permit, they force nothing."""

    compute: Compute
    kvcache: KvCache
    decode_loop: DecodeLoop
    per_layer_inputs: PerLayerInputs
    prefill_chunk_submit_mode: Literal["sync", "async"]
    use_flash_prefill_attention: bool
    # Q4K keeps its capitals here: the seeds' spelling does not follow from the attribute's.
    use_wide_tile_q4k_prefill: bool = Field(alias="useWideTileQ4KPrefill")
    retain_q4k_materialization: bool = Field(alias="retainQ4KMaterialization")
