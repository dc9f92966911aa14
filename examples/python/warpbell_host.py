"""The host's side: SSD, queues, memory and launches, by libwarpbell's C API (warpbell.h). What kernels are handed lies in
memory of the library's, so that every target reaches it."""

import ctypes

# Of warpbell.h and abi.h, which the structs below follow. A later library takes structs of an earlier API, or refuses them
# with both numbers; kernels and library have the same ABI.
API_VERSION, ABI_VERSION = 6, 4
EXCLUSIVE, SHARED = 0, 1
FOREVER = (1 << 64) - 1
NAMESPACE_REF_BYTES, BUFFER_REF_BYTES = 104, 48


class Fields(ctypes.Structure):
    """A struct that begins with its version and size."""

    VERSION = API_VERSION

    def __init__(self, **fields):
        super().__init__(self.VERSION, ctypes.sizeof(self), **fields)


def _fields(words, numbers):
    longs = [(name, ctypes.c_uint64) for name in words.split()]
    return [("version", ctypes.c_uint32), ("size", ctypes.c_uint32), *longs] + [
        (name, ctypes.c_uint32) for name in numbers.split()
    ]


class AttachOptions(Fields):
    _fields_ = [
        ("api_version", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("target", ctypes.c_char_p),
        ("timeout_ns", ctypes.c_uint64),
        *((name, ctypes.c_uint32) for name in "nsid queues warps iodepth commands_per_lane sharing".split()),
        ("replacement_queues", ctypes.c_uint32),
        ("no_recovery", ctypes.c_uint32),
    ]


class LaunchOptions(Fields):
    _fields_ = _fields("", "grid block shared_bytes cpu_threads cooperative")


class CacheRef(Fields):
    """warpbell_cache_ref of abi_cache.h."""

    VERSION = ABI_VERSION
    _fields_ = _fields(
        "lines buckets report first_block pages timeout_ns kept_first kept_pages",
        "line_count bucket_mask page_shift pad0",
    )


LINE_BYTES, REPORT_BYTES = 32, 256  # of warpbell_cache_line and warpbell_cache_report


def check_versions(path, api, abi):
    """Raises where a library has not what this program needs."""
    if api < API_VERSION or abi != ABI_VERSION:
        raise RuntimeError(
            f"{path}: version {api} of the C API and {abi} of the ABI; this program needs {API_VERSION} or later,"
            f" and {ABI_VERSION}"
        )


class Library:
    def __init__(self, path):
        self.calls = ctypes.CDLL(path)
        self.calls.warpbell_error_message.restype = ctypes.c_char_p
        check_versions(path, self.calls.warpbell_api_version(), self.calls.warpbell_abi_version())

    def call(self, name, *arguments):
        if getattr(self.calls, f"warpbell_{name}")(*arguments) != 0:
            raise RuntimeError(f"warpbell_{name}: {self.calls.warpbell_error_message().decode()}")

    def make(self, name, *arguments):
        """A handle that a call returns."""
        handle = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(handle))
        return handle


class Memory:
    """A buffer that host, kernels and the SSD reach."""

    def __init__(self, queues, size):
        library = queues.library
        self.handle = library.make("buffer_alloc", queues.handle, ctypes.c_size_t(size))
        self.ref = ctypes.create_string_buffer(BUFFER_REF_BYTES)
        library.call("buffer_get_ref", self.handle, self.ref)
        self.address = int.from_bytes(self.ref.raw[8:16], "little")  # `data` of warpbell_buffer_ref
        place, length = ctypes.c_void_p(), ctypes.c_size_t()
        library.call("buffer_get_host", self.handle, ctypes.byref(place), ctypes.byref(length))
        self.bytes = (ctypes.c_char * length.value).from_address(place.value)

    def put(self, at, data):
        """Copies bytes there; where kernels find them."""
        data = bytes(data)
        ctypes.memmove(ctypes.byref(self.bytes, at), data, len(data))
        return self.address + at


class Queues:
    """Queues of an SSD for so many warps, and the launches over them: one that they share, or one for each."""

    def __init__(self, library, device, target, warps, sharing=SHARED):
        self.library, self.memory = library, []
        self.ssd = library.make("ssd_open", device.encode(), None)
        options = AttachOptions(target=target.encode(), warps=warps, iodepth=255, sharing=sharing)
        options.queues = 1 if sharing == SHARED else warps
        options.timeout_ns = 60_000_000_000
        self.target = target.encode()
        self.handle = library.make("queues_attach", self.ssd, ctypes.byref(options))
        self.namespace = ctypes.create_string_buffer(NAMESPACE_REF_BYTES)
        library.call("queues_get_namespace_ref", self.handle, self.namespace)

    def alloc(self, size):
        self.memory.append(Memory(self, size))
        return self.memory[-1]

    def run(self, program, kernel, address, grid):
        """Runs a kernel of blocks of one warp to its end; `address` is its argument."""
        argument, options = ctypes.c_uint64(address), LaunchOptions(grid=grid, block=32)
        run = self.library.make(
            "launch", program, kernel.encode(), self.handle, ctypes.byref(argument), ctypes.c_size_t(8),
            ctypes.byref(options),
        )
        self.library.call("run_wait", run, ctypes.c_uint64(FOREVER))
        self.library.call("run_close", run)

    def load(self, path):
        return self.library.make("program_load", self.target, str(path).encode())

    def close(self):
        for memory in self.memory:
            self.library.call("buffer_close", memory.handle)
        self.library.call("queues_close", self.handle)
        self.library.call("ssd_close", self.ssd)


def page_cache(queues, file_bytes, lines, page_bytes=4096):
    """A cache of the SSD's first pages: its reference, and that of the memory that the pages lie in."""
    buckets = 1 << (lines - 1).bit_length()
    state = queues.alloc(REPORT_BYTES + lines * LINE_BYTES + buckets * 8)
    pages = queues.alloc(lines * page_bytes)
    ref = CacheRef(
        report=state.address,
        lines=state.address + REPORT_BYTES,
        buckets=state.address + REPORT_BYTES + lines * LINE_BYTES,
        pages=-(-file_bytes // page_bytes),
        timeout_ns=60_000_000_000,
        line_count=lines,
        bucket_mask=buckets - 1,
        page_shift=page_bytes.bit_length() - 1,
    )
    return bytes(ref), pages.ref.raw
