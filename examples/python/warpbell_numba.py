"""The flat layer of Warpbell's device library (warpbell_device.h) for kernels in Python, compiled by Numba.

A kernel takes one argument, the address of a table of 64-bit words, which the host fills. `pointer(x)` makes what the
functions here take: of an address, of a local array, or of a pointer. `link` makes a cubin or PTX of kernel and flat
layer; neither a GPU nor a driver is needed for it.
"""

import pathlib

from cuda.bindings import nvjitlink
from numba import cuda, errors, types
from numba.cuda import cgutils
from numba.cuda.cudadrv import nvvm
from numba.cuda.extending import intrinsic

SESSION_WORDS = ARRAY_WORDS = 64  # WARPBELL_SESSION_BYTES / 8, WARPBELL_ARRAY_BYTES / 8
ALIGNMENT = 16
NO_INDEX = (1 << 64) - 1
PENDING = 0x10000  # of the try_wait calls: nothing has come yet
NO_TOKEN = 0xFFFFFFFF  # of the wait_any calls: none was answered
FLUSH, WRITE, READ, COMPARE, WRITE_ZEROES = 0x00, 0x01, 0x02, 0x05, 0x08  # operations of a command
FUA = 1 << 30  # flag of a command
COMMAND_WORDS = 5  # operation + (flags << 32), block, address of the buffer's reference, offset, blocks
ALL_LANES = 0xFFFFFFFF

_PLACE, _LONG, _INT = types.voidptr, types.uint64, types.uint32
WORDS = types.CPointer(types.uint64)
KERNEL = types.void(types.uint64)  # of each kernel


DECLARED = {}  # arguments of each function below


def _declare(name, *arguments):
    """A function of warpbell_device.h; each returns 32 bits, most of them a status."""
    DECLARED[name] = arguments
    return cuda.declare_device(f"warpbell_{name}", _INT(*arguments), abi="c")


_MOVE = (_PLACE, _LONG, _INT, _PLACE, _LONG, _LONG)  # session, block, blocks, buffer, offset, timeout_ns
_BEGIN = (_PLACE, _PLACE, *_MOVE[1:])  # session, token, ..
_ELEMENT = (_PLACE, _LONG, _PLACE, _LONG)  # array, index, value, timeout_ns
_EXECUTE = (_PLACE, _PLACE, _LONG)  # session, command, timeout_ns
_SUBMIT = (_PLACE, _PLACE, _PLACE, _LONG)  # session, token, command, timeout_ns
_ANY = (_PLACE, _PLACE, _INT, _PLACE, _LONG)  # session, tokens, their number, index, timeout_ns

attach = _declare("attach", _PLACE, _PLACE, _INT)
attach_warp = _declare("attach_warp", _PLACE, _PLACE, _INT)
detach = _declare("detach", _PLACE)
switch_to_successor = _declare("switch_to_successor", _PLACE, _LONG)
read, read_warp, read_each = (_declare(f"read{who}", *_MOVE) for who in ("", "_warp", "_each"))
write, write_warp, write_each = (_declare(f"write{who}", *_MOVE) for who in ("", "_warp", "_each"))
flush, flush_warp = (_declare(f"flush{who}", _PLACE, _LONG) for who in ("", "_warp"))
execute, execute_warp, execute_each = (_declare(f"execute{who}", *_EXECUTE) for who in ("", "_warp", "_each"))
submit, submit_warp, submit_each = (_declare(f"submit{who}", *_SUBMIT) for who in ("", "_warp", "_each"))
read_async, read_async_warp, read_async_each = (_declare(f"read_async{who}", *_BEGIN) for who in ("", "_warp", "_each"))
write_async, write_async_warp, write_async_each = (
    _declare(f"write_async{who}", *_BEGIN) for who in ("", "_warp", "_each")
)
flush_async, flush_async_warp = (_declare(f"flush_async{who}", _PLACE, _PLACE, _LONG) for who in ("", "_warp"))
wait, wait_warp, wait_each = (_declare(f"wait{who}", _PLACE, _PLACE, _LONG) for who in ("", "_warp", "_each"))
try_wait, try_wait_warp, try_wait_each = (_declare(f"try_wait{who}", _PLACE, _PLACE) for who in ("", "_warp", "_each"))
wait_any, wait_any_each = (_declare(f"wait_any{who}", *_ANY) for who in ("", "_each"))
cancel, cancel_warp, cancel_each = (_declare(f"cancel{who}", _PLACE, _PLACE) for who in ("", "_warp", "_each"))
array_open = _declare("array_open", _PLACE, _PLACE, _PLACE, _PLACE, _LONG, _LONG, _INT)
array_get, array_get_each = (_declare(f"array_get{who}", *_ELEMENT) for who in ("", "_each"))
array_put, array_put_each = (_declare(f"array_put{who}", *_ELEMENT) for who in ("", "_each"))
array_atomic_add, array_atomic_add_each = (
    _declare(f"array_atomic_add{who}", _PLACE, _LONG, _LONG, _LONG) for who in ("", "_each")
)
array_flush, array_flush_warp = (_declare(f"array_flush{who}", _PLACE, _LONG) for who in ("", "_warp"))
array_close = _declare("array_close", _PLACE)
status_ok = _declare("status_ok", _INT)
status_differs = _declare("status_differs", _INT)
status_retryable = _declare("status_retryable", _INT)
status_buffer_in_use = _declare("status_buffer_in_use", _INT)


def _address(context, builder, of, value):
    """LLVM code for the address that a Python value stands for."""
    if isinstance(of, types.Array):
        return context.make_array(of)(context, builder, value).data
    if isinstance(of, types.Integer):
        return builder.inttoptr(context.cast(builder, value, of, types.uint64), cgutils.voidptr_t)
    return value


def _pointer_to(result, of):
    """Type and code of an intrinsic that makes a pointer of what has type `of`."""
    if not isinstance(of, (types.Array, types.Integer, types.CPointer, types.RawPointer)):
        raise errors.TypingError(f"expected an address (an integer), a local array or a pointer, not {of}")

    def code(context, builder, signature, arguments):
        address = _address(context, builder, signature.args[0], arguments[0])
        return builder.bitcast(address, context.get_value_type(result))

    return result(of), code


@intrinsic
def pointer(typing_context, of):
    """The address of a local array, or an address as a number, for the functions above."""
    return _pointer_to(types.voidptr, of)


@intrinsic
def words(typing_context, of):
    """The same as 64-bit numbers, with an index."""
    return _pointer_to(WORDS, of)


@intrinsic
def halves(typing_context, of):
    """The same as 32-bit numbers, with an index."""
    return _pointer_to(types.CPointer(types.uint32), of)


# A kernel of one's own name around a function, and the variable beside it by which Warpbell knows its argument
# (docs/kernels.md). Numba's own kernels have names that change with each compilation.
_ENTRY = """
target triple = "nvptx64-nvidia-cuda"
target datalayout = "{layout}"
@warpbell_kernel_{name} = addrspace(1) global [2 x i32] [i32 {abi_version}, i32 8], align 4
@llvm.used = appending global [2 x i8*] [i8* bitcast (void (i64)* @{name} to i8*),
  i8* addrspacecast (i8 addrspace(1)* bitcast ([2 x i32] addrspace(1)* @warpbell_kernel_{name} to i8 addrspace(1)*) to i8*)
], section "llvm.metadata"
declare void @{name}_of_python(i64)
define void @{name}(i64 %table) {{
  call void @{name}_of_python(i64 %table)
  ret void
}}
!nvvm.annotations = !{{!0, !1, !2}}
!0 = !{{void (i64)* @{name}, !"kernel", i32 1}}
!1 = !{{void (i64)* @{name}, !"maxntidx", i32 256}}
!2 = !{{void (i64)* @{name}, !"minctasm", i32 {min_blocks}}}
!nvvmir.version = !{{!3}}
!3 = !{{{version}}}
"""


def compile_kernel(function, capability, abi_version, min_blocks):
    """LTO-IR of a kernel: of the function, and of an entry that has its name."""
    name = function.__name__
    of_python, _ = cuda.compile(
        function, KERNEL, cc=capability, abi="c", abi_info={"abi_name": f"{name}_of_python"}, output="ltoir"
    )
    library = nvvm.NVVM()
    version = ", ".join(f"i32 {part}" for part in library.get_ir_version())
    entry = _ENTRY.format(
        layout=library.data_layout, name=name, abi_version=abi_version, min_blocks=min_blocks, version=version
    )
    arch = f"compute_{capability[0]}{capability[1]}"
    compiled = nvvm.compile_ir(entry, opt=3, arch=arch, **{"gen-lto": None})
    return [(f"{name} of Python", of_python), (name, compiled)]


def link_all(inputs, arch, ptx=False):
    """Pieces of LTO-IR, each with a name for messages, as one cubin, or PTX, for `arch`, such as 90. What is unresolved is
    an error that names it."""
    options = [f"-arch=sm_{arch}", "-lto", "-O3"] + (["-ptx"] if ptx else [])
    handle = nvjitlink.create(len(options), options)
    try:
        for name, code in inputs:
            nvjitlink.add_data(handle, nvjitlink.InputType.LTOIR, code, len(code), name)
        nvjitlink.complete(handle)
        size = (nvjitlink.get_linked_ptx_size if ptx else nvjitlink.get_linked_cubin_size)(handle)
        linked = bytearray(size)
        (nvjitlink.get_linked_ptx if ptx else nvjitlink.get_linked_cubin)(handle, linked)
        return bytes(linked).rstrip(b"\0") if ptx else bytes(linked)
    except nvjitlink.nvJitLinkError as error:
        log = bytearray(nvjitlink.get_error_log_size(handle))
        nvjitlink.get_error_log(handle, log)
        raise RuntimeError(f"nvJitLink: {log.decode(errors='replace').strip()}") from error
    finally:
        nvjitlink.destroy(handle)


def link(function, capability, layer, abi_version, ptx=False, min_blocks=4):
    """Kernel and flat layer as one cubin, or PTX, for a compute capability such as (9, 0).

    `layer`: the flat layer's LTO-IR, lib/device/warpbell_device.ltoir of an installation; None for a kernel that makes no
    call of it. `abi_version`: that of the installation, WARPBELL_ABI_VERSION. `min_blocks`: bounds a thread to
    65,536 / 256 / min_blocks registers, as WARPBELL_MIN_BLOCKS does in C++. With 64 a multiprocessor holds as many warps
    as it holds blocks of one warp, 32.
    """
    inputs = compile_kernel(function, capability, abi_version, min_blocks)
    if layer is not None:
        inputs.append(("warpbell_device", pathlib.Path(layer).read_bytes()))
    return link_all(inputs, capability[0] * 10 + capability[1], ptx)
