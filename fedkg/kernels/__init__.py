"""All compiled code: loops over memory that a CPU runs several times faster than tensor operations.

Every kernel repeats, faster, what a tensor or NumPy implementation outside this package defines;
`compiled_loops.can_compile_loops` says whether the process uses kernels at all. Numba compiles them
on two ways:

- a *loop* (`loop_language`) reads and writes arrays by address; `loop_library.Library` compiles all
  loops that belong together to machine code, which is loaded without Numba afterwards;
- a *kernel* (`kernel_compilation`) is a function of NumPy arrays.

With ``FEDKG_KERNELS=check``, both are compiled with bounds checks: kernels with Numba's own, loops
with those of `address_checks`, from which callers take each address.

Modules are imported where a kernel is first needed, because Numba takes half a second to load.
"""
