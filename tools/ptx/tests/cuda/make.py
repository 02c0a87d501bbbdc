#!/usr/bin/env python3
"""Compiles every .cu beside this file to tests/ptx/NAME.ARCH.ptx: make.py NVRTC_LIBRARY INCLUDE_FOLDER…

The tests read the PTX that is checked in; this is only run when a kernel changes."""
import ctypes
import pathlib
import sys

# A source is compiled for the first architecture that has what it uses, and for the newest.
ARCHITECTURES = {"async_copy": ("sm_80", "sm_90"), "tiled": ("sm_80",), "warp_sums": ("sm_80",), "library_barrier": ("sm_75", "sm_80")}
DEFAULT = ("sm_75", "sm_90")


def compile_ptx(library, source, options):
    program = ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    encoded = [option.encode() for option in options]
    failed = library.nvrtcCompileProgram(program, len(encoded), (ctypes.c_char_p * len(encoded))(*encoded))
    size = ctypes.c_size_t()
    if failed:
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, log)
        sys.exit(log.value.decode())
    library.nvrtcGetPTXSize(program, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(size.value)
    library.nvrtcGetPTX(program, ptx)
    return ptx.value.decode()


def main(nvrtc, *includes):
    library = ctypes.CDLL(nvrtc)
    here = pathlib.Path(__file__).parent
    for path in sorted(here.glob("*.cu")):
        for architecture in ARCHITECTURES.get(path.stem, DEFAULT):
            options = [f"--gpu-architecture={architecture}", *(f"-I{folder}" for folder in includes)]
            ptx = compile_ptx(library, path.read_text(), options)
            (here.parent / "ptx" / f"{path.stem}.{architecture}.ptx").write_text(ptx)


main(*sys.argv[1:])
