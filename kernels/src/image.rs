//! What is in an image for a GPU: the kernels that `WARPBELL_KERNEL` defined, read from the PTX or cubin itself,
//! with no driver at hand.

use object::read::elf::FileHeader as _;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

use crate::Error;
use crate::abi::ABI_VERSION;

/// Begins the name of the variable that lies beside each kernel (`impl/port_gpu.cuh`).
const PREFIX: &str = "warpbell_kernel_";
/// Begins a fat binary.
const FAT: &[u8] = &0xBA55_ED50_u32.to_le_bytes();
const IS_FAT: &str = "it is a fat binary, whose parts are not looked at: give a cubin (`nvcc -cubin`), or PTX (`nvcc -ptx`), \
                      which the target ptx takes, too";

/// What an image contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text for the driver's compiler.
    Ptx,
    /// Machine code of one architecture.
    Cubin,
}

/// One kernel of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageKernel {
    /// Its name, as in `WARPBELL_KERNEL`.
    pub name: String,
    /// Bytes of its argument struct.
    pub args_size: u32,
    /// Version of `abi.h` that it was compiled with.
    pub abi_version: u32,
}

/// PTX or cubin, by what it begins with; `None` for neither.
pub fn format_of(image: &[u8]) -> Option<Format> {
    if image.starts_with(b"\x7fELF") {
        return Some(Format::Cubin);
    }
    std::str::from_utf8(image).is_ok_and(|text| text.contains(".version ")).then_some(Format::Ptx)
}

/// What an image was compiled for: 90 for `sm_90` and `compute_90`; `None` where it does not tell in a way that is known.
pub fn architecture_of(image: &[u8]) -> Option<u32> {
    match format_of(image)? {
        Format::Ptx => {
            let text = std::str::from_utf8(image).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix(".target sm_"))?;
            let digits: String = line.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        }
        Format::Cubin => {
            // CUDA 13's version of the format has the number in the second byte of the flags.
            const VERSION: u8 = 8;
            let header = object::elf::FileHeader64::<object::Endianness>::parse(image).ok()?;
            let flags = header.e_flags.get(header.endian().ok()?).0;
            (header.e_ident.abi_version == VERSION).then_some(flags >> 8 & 0xff)
        }
    }
}

/// The kernels of an image, by name. `what` names the image in errors. An image without any, of another version of
/// `abi.h` than this program's, or of neither format is refused.
pub fn kernels(what: &str, image: &[u8]) -> Result<Vec<ImageKernel>, Error> {
    let wrong = |reason: String| Error::Image { image: what.to_owned(), reason };
    let mut kernels = match format_of(image) {
        Some(Format::Ptx) => in_ptx(&String::from_utf8_lossy(image)),
        Some(Format::Cubin) => in_cubin(image).map_err(|error| wrong(error.to_string()))?,
        None if image.starts_with(FAT) => return Err(wrong(IS_FAT.to_owned())),
        None => return Err(wrong("it is neither PTX nor a cubin".to_owned())),
    };
    if kernels.is_empty() {
        return Err(Error::without_kernels(what));
    }
    kernels.sort_by(|a, b| a.name.cmp(&b.name));
    match kernels.iter().find(|kernel| kernel.abi_version != ABI_VERSION) {
        Some(other) => {
            let (kernel, module) = (other.name.clone(), what.to_owned());
            Err(Error::KernelVersion { kernel, module, found: other.abi_version })
        }
        None => Ok(kernels),
    }
}

/// Lines such as `.visible .global .align 4 .u32 warpbell_kernel_x[2] = {2, 64};`, in bytes or in words.
fn in_ptx(text: &str) -> Vec<ImageKernel> {
    let variables = text.lines().filter(|line| line.contains(".global ")).filter_map(|line| {
        let (before, after) = line.split_once(PREFIX)?;
        let (name, rest) = after.split_once('[')?;
        let (_, values) = rest.split_once('{')?;
        let values = values.split('}').next()?.split(',').map(|value| value.trim().parse::<u32>());
        let values = values.collect::<Result<Vec<_>, _>>().ok()?;
        let bytes: Vec<u8> = match before.split_whitespace().next_back()? {
            ".b8" | ".u8" => values.into_iter().map(|value| value as u8).collect(),
            ".b32" | ".u32" => values.into_iter().flat_map(u32::to_le_bytes).collect(),
            _ => return None,
        };
        Some(described(name, &bytes))
    });
    variables.collect()
}

fn in_cubin(image: &[u8]) -> object::Result<Vec<ImageKernel>> {
    let file = object::read::elf::ElfFile64::<object::Endianness>::parse(image)?;
    let mut kernels = Vec::new();
    for symbol in file.symbols() {
        let (Some(name), Some(index)) = (symbol.name()?.strip_prefix(PREFIX), symbol.section_index()) else {
            continue;
        };
        let section = file.section_by_index(index)?;
        let data = section.data_range(section.address() + symbol.address(), 8)?;
        kernels.push(described(name, data.unwrap_or_default()));
    }
    Ok(kernels)
}

/// From two words, of which zeros at the end may be absent.
fn described(name: &str, bytes: &[u8]) -> ImageKernel {
    let word = |at: usize| {
        let byte = |i: usize| bytes.get(at + i).copied().unwrap_or(0);
        u32::from_le_bytes([byte(0), byte(1), byte(2), byte(3)])
    };
    ImageKernel { name: name.to_owned(), abi_version: word(0), args_size: word(4) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(name: &str, args_size: u32) -> ImageKernel {
        ImageKernel { name: name.to_owned(), args_size, abi_version: ABI_VERSION }
    }

    #[test]
    fn kernels_are_found_in_ptx_by_bytes_and_by_words() {
        let text = format!(
            ".version 9.0\n.visible .global .align 4 .u32 warpbell_kernel_two[2] = {{{ABI_VERSION}, 300}};\n\
             .global .align 4 .b8 warpbell_kernel_one[8] = {{{ABI_VERSION}, 0, 0, 0, 64}};\n\
             .global .align 4 .u32 other[2] = {{9, 9}};\n"
        );
        assert_eq!(kernels("x.ptx", text.as_bytes()).unwrap(), [kernel("one", 64), kernel("two", 300)]);
    }

    #[test]
    fn an_image_of_another_version_is_refused_with_both_numbers() {
        let text = ".version 9.0\n.global .align 4 .u32 warpbell_kernel_old[2] = {77, 64};\n";
        let said = kernels("old.ptx", text.as_bytes()).unwrap_err().to_string();
        assert!(
            said.starts_with("kernel 'old' of module old.ptx: compiled with interface version 77"),
            "{said}"
        );
        assert!(said.contains(&format!("this program has version {ABI_VERSION}")), "{said}");
    }

    #[test]
    fn what_is_no_image_or_has_no_kernel_is_refused() {
        for (bytes, expected) in [
            (&b"text"[..], "x: it is neither PTX nor a cubin"),
            (b"\x50\xed\x55\xba\x01", "x: it is a fat binary"),
            (b".version 9.0\n", "x: it has no kernel that WARPBELL_KERNEL(name, args) defined"),
            (b"\x7fELF\0\0", "x: "),
        ] {
            let said = kernels("x", bytes).unwrap_err().to_string();
            assert!(said.starts_with(expected), "{said}");
        }
    }
}
