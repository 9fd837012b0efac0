"""The rows of the kernel table, by the kind of op. plan.kernels gathers them.

Bounds of loops are rounded up; they are compared with the loop cap that is probed on the device.
"""

__all__: list[str] = []
