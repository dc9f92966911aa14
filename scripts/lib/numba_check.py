"""What scripts/lib/check-numba looks at; prints a line for each check, then `N passed, N failed`."""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import flat_figures
import flat_header

ARCHITECTURES = ((8, 0), (9, 0), (12, 0))
# Of the kernel with all that it calls, of whose 2048 bytes of stack 1536 are its session and arrays. 64 registers: the 32
# blocks of one warp that a multiprocessor holds.
REGISTERS, STACK = 64, 2048
# Of examples/c/flat_kernel.cu, for each of these.
KERNEL_ARCHITECTURES, KERNEL_REGISTERS = (75, 80, 90, 120), 56
# Its pages do not fit in the lines of its cache.
GRAPH = ("--nodes", "600", "--degree", "12", "--lines", "6")
# Functions of the flat layer that the kernel calls, so often in its text.
CALLS = {"attach_warp": 1, "detach": 1, "array_open": 2, "array_get_each": 3, "array_close": 2}


def linked(capability, layer, ptx):
    import bfs
    import warpbell_host
    import warpbell_numba

    return warpbell_numba.link(bfs.bfs, capability, layer, warpbell_host.ABI_VERSION, ptx)


def dumped(option, file):
    command = [os.environ["CUOBJDUMP"], option, str(file)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def unresolved(elf):
    """Symbols of the flat layer in a cubin's table that no section defines."""
    table = elf.split(".section .symtab", 1)[1].split("\n\n", 1)[0]
    rows = [line.split() for line in table.splitlines()]
    return [row[-1] for row in rows if len(row) == 7 and row[5] == "0" and row[-1].startswith("warpbell_")]


def check_unresolved():
    """A kernel that was compiled and not linked has what the check of cubins looks for."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "kernel.cubin")
        command = [os.environ["NVCC"], "-std=c++20", "-rdc=true", "-cubin", "-arch=sm_90", "-I", "kernels/include"]
        subprocess.run([*command, "examples/c/flat_kernel.cu", "-o", str(file)], check=True)
        found = sorted(set(unresolved(dumped("-elf", file))))
    expected = ["warpbell_attach_warp", "warpbell_detach", "warpbell_read_each", "warpbell_status_ok"]
    return ", ".join(found), [] if found == expected else [f"expected {expected}"]


def check_declarations():
    """Python's declarations are the header's: names, arguments and their widths."""
    import warpbell_numba as wb
    from numba import types as of_numba

    kinds = {of_numba.voidptr: "pointer", of_numba.uint64: 64, of_numba.uint32: 32}
    ours = {name: tuple(kinds[argument] for argument in given) for name, given in wb.DECLARED.items()}
    wrong = differences(flat_header.functions(), ours)
    numbers = {
        "SESSION_BYTES": wb.SESSION_WORDS * 8, "ARRAY_BYTES": wb.ARRAY_WORDS * 8, "PENDING": wb.PENDING,
        "NO_TOKEN": wb.NO_TOKEN, "FUA": wb.FUA, "OPCODE_FLUSH": wb.FLUSH, "OPCODE_WRITE": wb.WRITE,
        "OPCODE_READ": wb.READ, "OPCODE_COMPARE": wb.COMPARE, "OPCODE_WRITE_ZEROES": wb.WRITE_ZEROES,
    }
    wrong += [f"WARPBELL_{name} is {flat_header.number(name)} in the header, {number} in Python"
              for name, number in numbers.items() if flat_header.number(name) != number]
    # One that is wrong in each way must be seen.
    planted = dict(ours, read=ours["read"][:-1], wait=("pointer", "pointer", 32), more=())
    del planted["flush"]
    seen = differences(flat_header.functions(), planted)
    wrong += [] if len(seen) == len(differences(flat_header.functions(), ours)) + 4 else [f"of four planted: {seen}"]
    return f"{len(ours)} functions", wrong


def differences(header, python):
    """Lines about functions that the one has otherwise than the other."""
    return [f"{name}: {header.get(name)} in the header, {python.get(name)} in Python"
            for name in sorted({*header, *python}) if header.get(name) != python.get(name)]


def check_versions():
    """A later C API is taken, an earlier one and another ABI are refused, with the numbers."""
    import warpbell_host as host

    wrong = []
    for api, abi in ((host.API_VERSION - 1, host.ABI_VERSION), (host.API_VERSION, host.ABI_VERSION + 1)):
        try:
            host.check_versions("libwarpbell.so", api, abi)
            wrong.append(f"API {api} with ABI {abi} was taken")
        except RuntimeError as error:
            wrong += [] if f"version {api} of the C API and {abi} of the ABI" in str(error) else [str(error)]
    host.check_versions("libwarpbell.so", host.API_VERSION + 1, host.ABI_VERSION)
    return "refused where they must be", wrong


def check_pointer():
    """What is no address is refused in words."""
    import warpbell_numba as wb
    from numba import cuda, errors

    def kernel(address):
        wb.words(wb.pointer(1.5))[0] = address

    try:
        cuda.compile(kernel, wb.KERNEL, cc=(9, 0), abi="c", output="ltoir")
        return "compiled", ["an address of 1.5 was compiled"]
    except errors.TypingError as error:
        said = "expected an address (an integer), a local array or a pointer, not float64"
        return said, [] if said in str(error) else [str(error)]


def check_all_calls(layer, library):
    """Every function of the flat layer, as LTO-IR of it runs."""
    import numba_calls

    ptx, wrong = numba_calls.check(layer, library)
    functions = set(flat_header.functions())
    made = {name for name, _, _ in numba_calls.CALLS}
    wrong += [f"the kernel does not call: {name}" for name in sorted(functions - made)]
    # Those of statuses are inlined.
    linked = set(calls_in(ptx))
    wrong += [f"not in the linked PTX: {name}" for name in sorted(functions - linked) if not name.startswith("status_")]
    return f"{len(made)} functions in {len(numba_calls.CALLS)} calls, on shared and on exclusive queues", wrong


def check_refusal():
    """Without the flat layer the linker refuses the kernel, and names what it misses."""
    import bfs
    import warpbell_host
    import warpbell_numba

    try:
        warpbell_numba.link(bfs.bfs, (9, 0), None, warpbell_host.ABI_VERSION)
    except RuntimeError as error:
        said = str(error).splitlines()[0]
        return said, [] if "Unresolved extern function 'warpbell_" in said else ["expected a name"]
    return "linked", ["something unresolved was linked"]


def judge(cubin, name, source, architecture, most_registers):
    """What is said of a cubin of a file of sources, and what is wrong with it."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "kernel.cubin")
        file.write_bytes(cubin)
        elf, used = dumped("-elf", file), dumped("-res-usage", file)
    registers, stack = flat_figures.used(used)
    wrong = [f"unresolved: {symbol}" for symbol in unresolved(elf)]
    wrong += flat_figures.wrong_kernel(source, "LTO-IR", architecture, registers, stack)
    if registers > most_registers or stack > STACK:
        wrong.append(f"the budget is {most_registers} registers and {STACK} bytes of stack")
    if f"warpbell_kernel_{name}" not in elf:
        wrong.append("no variable that names the kernel's arguments")
    return f"{len(cubin)} bytes, {registers} registers, {stack} bytes of stack", wrong


def check_cubin(capability, layer):
    """Of the kernel in Python."""
    cubin = linked(capability, layer, ptx=False)
    return judge(cubin, "bfs", "bfs.py", capability[0] * 10 + capability[1], REGISTERS)


def check_kernel(layer):
    """A kernel of nvcc's, as LTO-IR for the oldest architecture, linked for each."""
    import warpbell_numba

    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "kernel.ltoir")
        command = [os.environ["NVCC"], "-std=c++20", "-ltoir", "-dc", "-gencode", "arch=compute_75,code=lto_75"]
        subprocess.run(
            [*command, "-I", "kernels/include", "examples/c/flat_kernel.cu", "-o", str(file)], check=True
        )
        inputs = [("flat_kernel", file.read_bytes()), ("warpbell_device", pathlib.Path(layer).read_bytes())]
    said, wrong = [], []
    for arch in KERNEL_ARCHITECTURES:
        cubin = warpbell_numba.link_all(inputs, arch)
        told, faults = judge(cubin, "flat_kernel", "flat_kernel.cu", arch, KERNEL_REGISTERS)
        said.append(f"sm_{arch}: {told}")
        wrong += faults
    return "; ".join(said), wrong


def calls_in(ptx):
    """Names of the flat layer's functions, once for each call of them."""
    return re.findall(r"\bcall(?:\.uni)?\s*(?:\([^)]*\),)?\s*warpbell_(\w+)", ptx)


def check_page(layer):
    """The kernel that docs/flat-layer.md shows is one, with nothing unresolved."""
    import warpbell_host
    import warpbell_numba as wb
    from numba import cuda, types

    (text,) = re.findall(r"^```python\n(def .*?)^```$", flat_figures.PAGE.read_text(), re.MULTILINE | re.DOTALL)
    names = {"wb": wb, "cuda": cuda, "types": types, "SESSION_WORDS": wb.SESSION_WORDS, "ALIGNMENT": wb.ALIGNMENT}
    exec(text, names)
    ptx = wb.link(names["check"], (9, 0), layer, warpbell_host.ABI_VERSION, ptx=True).decode()
    made = sorted(set(calls_in(ptx)))
    return f"calls {made}", [] if made == ["attach_warp", "detach", "read_each"] else ["expected three"]


def check_size(layer):
    """Of the LTO-IR, as the page has it."""
    return f"{pathlib.Path(layer).stat().st_size} bytes", flat_figures.wrong_size(pathlib.Path(layer))


def check_calls(ptx):
    """The flat layer's functions are called, each as often as the kernel's text has it: none was inlined."""
    calls = calls_in(ptx)
    found = {name: calls.count(name) for name in sorted(set(calls))}
    return f"calls: {found}", [] if found == CALLS else [f"expected {CALLS}"]


def run_bfs(layer, library):
    """The example itself, on a graph of its own, in several levels, with fewer lines than pages."""
    command = [sys.executable, "examples/python/bfs.py", "--layer", layer, "--library", library]
    ran = subprocess.run([*command, *GRAPH], capture_output=True, text=True)
    said = (ran.stdout + ran.stderr).strip()
    if ran.returncode != 0:
        return said.splitlines()[-1] if said else "", [said]
    levels, pages, lines = (int(n) for n in re.search(r"(\d+) levels, by (\d+) pages in (\d+) lines", said).groups())
    return said, [] if levels >= 3 and pages > lines else ["expected 3 levels or more, and more pages than lines"]


def main():
    layer, library = sys.argv[1:]
    failed = 0
    with concurrent.futures.ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        checks = {f"a cubin for sm_{major}{minor}": pool.submit(check_cubin, (major, minor), layer)
                  for major, minor in ARCHITECTURES}
        checks["on the PTX machine"] = pool.submit(run_bfs, layer, library)
        checks["every call, on the PTX machine"] = pool.submit(check_all_calls, layer, library)
        checks["a kernel of nvcc"] = pool.submit(check_kernel, layer)
        checks["without the flat layer"] = pool.submit(check_refusal)
        checks["a kernel that was not linked"] = pool.submit(check_unresolved)
        checks["declarations in Python"] = pool.submit(check_declarations)
        checks["versions of the library"] = pool.submit(check_versions)
        checks["what is no address"] = pool.submit(check_pointer)
        checks["the kernel of the page"] = pool.submit(check_page, layer)
        checks["the LTO-IR"] = pool.submit(check_size, layer)
        ptx = pool.submit(linked, (9, 0), layer, True)
        checks["calls, in PTX"] = pool.submit(check_calls, ptx.result().decode())
        for name, check in checks.items():
            said, wrong = check.result()
            failed += bool(wrong)
            print(f"{'FAILED ' if wrong else 'ok     '} {name}: {said}", *wrong, sep="\n    ")
    print(f"{len(checks) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
