//! What a module contains.

use std::collections::HashMap;

use warpbell_ptx::{Kernel, Source};

use crate::code::Code;
use crate::cubin;
use crate::error::ImageError;

/// A module, as its image describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    /// The version of PTX; `None` for machine code.
    pub(crate) ptx: Option<(u32, u32)>,
    /// 75, 80, ...
    pub(crate) arch: u32,
    /// Its kernels.
    pub(crate) entries: Vec<Entry>,
}

/// A kernel of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) most_threads: u32,
    /// Known of machine code alone.
    pub(crate) registers: Option<u32>,
    pub(crate) local_bytes: u32,
    pub(crate) shared_bytes: u32,
}

/// Where a parameter lies among the bytes of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) offset: usize,
    pub(crate) size: usize,
}

/// A refusal, with what the compiler's log says.
#[derive(Debug)]
pub(crate) struct Refusal(pub(crate) Code, pub(crate) String);

/// Kernels by name, each with what its image says without them.
pub(crate) type Entries = HashMap<String, (Entry, Image)>;

/// The kernels of machine code, for a device of that architecture under that driver.
pub(crate) fn of_cubin(bytes: &[u8], arch: u32, driver: u32) -> Result<Entries, Refusal> {
    let image = cubin::parse(bytes).map_err(|error| Refusal(Code::INVALID_IMAGE, error.to_string()))?;
    entries(image, arch, driver)
}

/// The kernels of PTX that was read.
pub(crate) fn of_ptx(source: &Source<'_>, arch: u32, driver: u32) -> Result<Entries, Refusal> {
    let image = described(source);
    let image = image.map_err(|error| Refusal(Code::INVALID_PTX, format!("ptxas fatal: {error}")))?;
    entries(image, arch, driver)
}

fn entries(image: Image, arch: u32, driver: u32) -> Result<Entries, Refusal> {
    fits(&image, arch, driver)?;
    let head = Image { entries: Vec::new(), ..image };
    Ok(image.entries.into_iter().map(|entry| (entry.name.clone(), (entry, head.clone()))).collect())
}

/// PTX, as far as a driver's front end looks at it.
fn described(source: &Source<'_>) -> Result<Image, ImageError> {
    let version = source.version().ok_or(ImageError::NoVersion)?;
    if source.arch() == 0 {
        return Err(ImageError::NoTarget);
    }
    if !source.is_64_bit() {
        return Err(ImageError::Not64Bit);
    }
    let entries = source.kernels().map(entry).collect::<Result<Vec<Entry>, ImageError>>()?;
    Ok(Image { ptx: Some(version), arch: source.arch(), entries })
}

fn entry(kernel: Kernel) -> Result<Entry, ImageError> {
    let Kernel { name, entry, has_body, local_bytes, shared_bytes } = kernel;
    if !has_body {
        return Err(ImageError::NoBody { name });
    }
    let parameter =
        |(offset, size): &(u32, u32)| Parameter { offset: *offset as usize, size: *size as usize };
    let parameters = entry.parameters.iter().map(parameter).collect();
    Ok(Entry {
        name,
        parameters,
        most_threads: entry.most_threads,
        registers: None,
        local_bytes,
        shared_bytes,
    })
}

/// The CUDA version whose drivers are the first to read a PTX version: 9.0 came with 13.0, 8.0 with 12.0. From 8.6 on,
/// which came with 12.7, numbers are one apart.
fn first_driver((major, minor): (u32, u32)) -> u32 {
    match major {
        8 if minor >= 6 => 12010 + minor * 10,
        8.. => (major + 4) * 1000 + minor * 10,
        _ => 11000 + minor.min(8) * 10,
    }
}

fn fits(image: &Image, arch: u32, driver: u32) -> Result<(), Refusal> {
    let of = image.arch;
    let Some(version) = image.ptx else {
        // Machine code runs on its own major architecture, from its minor one on.
        let runs = of / 10 == arch / 10 && of <= arch;
        let text = format!("machine code for sm_{of} does not run on sm_{arch}");
        return if runs { Ok(()) } else { Err(Refusal(Code::NO_BINARY_FOR_GPU, text)) };
    };
    if first_driver(version) > driver {
        let text = format!("ptxas fatal: unsupported .version {}.{}", version.0, version.1);
        return Err(Refusal(Code::UNSUPPORTED_PTX_VERSION, text));
    }
    if of > arch {
        let text = format!("ptxas fatal: .target sm_{of} is newer than sm_{arch}");
        return Err(Refusal(Code::INVALID_PTX, text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = ".version 9.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 a) { ret; }";

    fn load(text: &str, arch: u32, driver: u32) -> Result<Entries, Refusal> {
        of_ptx(&Source::read("test.ptx", text).unwrap(), arch, driver)
    }

    #[test]
    fn ptx_runs_on_newer_devices_and_under_drivers_that_know_it() {
        assert!(load(PTX, 120, 13000).unwrap().contains_key("k"));
        assert_eq!(load(PTX, 75, 13000).unwrap_err().0, Code::INVALID_PTX);
        let Refusal(code, log) = load(PTX, 90, 12090).unwrap_err();
        assert_eq!(code, Code::UNSUPPORTED_PTX_VERSION);
        assert!(log.contains("9.0"), "{log}");
        assert_eq!(of_cubin(b"\x7fELF", 90, 13000).unwrap_err().0, Code::INVALID_IMAGE);
    }

    #[test]
    fn ptx_without_what_each_has_is_refused() {
        for (gone, said) in [
            (".version 9.0", "no .version"),
            (".target sm_80", "no .target"),
            (".address_size 64", "no .address_size 64"),
            (" { ret; }", "entry k has no body"),
        ] {
            let text = PTX.replace(gone, if gone.starts_with(' ') { ";" } else { "" });
            let Refusal(code, log) = load(&text, 90, 13000).unwrap_err();
            assert!(code == Code::INVALID_PTX && log.contains(said), "{log}");
        }
    }

    #[test]
    fn entries_have_the_parameters_and_the_memory_that_the_text_declares() {
        let text = "// src-hash 1\n.version 9.0\n.target sm_75\n.address_size 64\n\
            /* .entry not_this(\n */\n.visible .entry one(\n\t.param .align 8 .b8 one_param_0[224]\n)\n\
            .maxntid 256, 1, 1\n{\n\t.local .align 8 .b8 \t__local_depot0[2880];\n\
            .shared .align 4 .b8 tile[128];\n\tret;\n}\n\
            .visible .entry two(.param .u8 a, .param .u64 .ptr .global .align 4 b, .param .u32 c) { ret; }\n\
            .entry three() { ret; }";
        let image = described(&Source::read("test.ptx", text).unwrap()).unwrap();
        assert_eq!((image.ptx, image.arch), (Some((9, 0)), 75));
        let names: Vec<&str> = image.entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["one", "two", "three"]);
        let one = &image.entries[0];
        assert_eq!((one.most_threads, one.local_bytes, one.shared_bytes), (256, 2880, 128));
        assert_eq!(one.parameters, [Parameter { offset: 0, size: 224 }]);
        let two = [(0, 1), (8, 8), (16, 4)].map(|(offset, size)| Parameter { offset, size });
        assert_eq!(image.entries[1].parameters, two);
        assert!(image.entries[2].parameters.is_empty());
    }

    #[test]
    fn each_ptx_version_has_its_first_driver() {
        assert_eq!(first_driver((9, 0)), 13000);
        assert_eq!((first_driver((8, 5)), first_driver((8, 7))), (12050, 12080));
        assert_eq!(first_driver((7, 8)), 11080);
    }

    #[test]
    fn machine_code_runs_on_its_own_kind_of_device() {
        let code = |arch| Image { ptx: None, arch, entries: Vec::new() };
        assert!(fits(&code(80), 86, 13000).is_ok());
        assert!(fits(&code(86), 80, 13000).is_err());
        assert!(fits(&code(80), 90, 13000).is_err());
    }
}
