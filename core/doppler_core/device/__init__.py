"""Executors: the wgpu device, the NumPy device, and what a GPU adapter can do."""
