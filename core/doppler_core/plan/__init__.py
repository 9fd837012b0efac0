"""Plans: ordered ops as pure data, their meaning in NumPy, the kernels that may run them, their cost."""
