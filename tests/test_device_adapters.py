"""Choosing a GPU adapter by what the `device` setting says, and what the probe finds on the software one."""

import pytest
from gpu_ops import SOFTWARE, software_gpu

from doppler_core.device.adapters import GpuAdapter, choose_adapter, list_adapters
from doppler_core.errors import NoAdapterError


def adapter(index: int, name: str, kind: str) -> GpuAdapter:
    return GpuAdapter(index, name, kind, "Vulkan", "1.0", None)


SOFT = adapter(0, "llvmpipe (LLVM 15)", "CPU")
SMALL = adapter(1, "Intel UHD 630", "IntegratedGPU")
LARGE = adapter(2, "NVIDIA RTX 4090", "DiscreteGPU")
OTHER = adapter(3, "NVIDIA RTX 3060", "DiscreteGPU")


@pytest.mark.parametrize(
    ("device", "chosen"),
    [
        ("auto", LARGE),
        ("wgpu", LARGE),
        ("wgpu:0", SOFT),
        ("wgpu:3", OTHER),
        ("wgpu:intel", SMALL),
        ("wgpu:RTX 3060", OTHER),
        ("wgpu:nvidia", LARGE),
    ],
)
def test_hardware_goes_first_and_a_name_or_index_decides(device: str, chosen: GpuAdapter) -> None:
    assert choose_adapter(device, [SOFT, SMALL, LARGE, OTHER]) == chosen


def test_auto_never_takes_a_software_adapter_and_wgpu_does() -> None:
    with pytest.raises(NoAdapterError, match=r"only GPU adapter is software .*llvmpipe.*device='wgpu'"):
        choose_adapter("auto", [SOFT])
    assert choose_adapter("wgpu", [SOFT]) == SOFT


@pytest.mark.parametrize("device", ["wgpu:9", "wgpu:amd"])
def test_what_is_not_there_is_refused_with_what_is(device: str) -> None:
    with pytest.raises(NoAdapterError, match=rf"{device}.*Intel UHD 630.*or 'numpy'"):
        choose_adapter(device, [SMALL])


def test_a_machine_without_any_says_what_to_install() -> None:
    with pytest.raises(NoAdapterError, match=r"no GPU adapter; .*libvulkan1"):
        choose_adapter("auto", [])


def test_adapters_are_listed_without_their_opengl_twins() -> None:
    assert {each.backend for each in list_adapters()} <= {"Vulkan", "Metal", "D3D12"}
    assert choose_adapter(SOFTWARE).type == "CPU"


def test_the_probe_finds_subgroups_and_a_loop_cap_that_the_driver_does_not_state() -> None:
    probe = software_gpu().probe
    assert probe.subgroup_size in (4, 8, 16)
    # Mesa before 24 stops at 65,535 turns, later ones do not.
    assert probe.loop_cap in (None, 65_535)
