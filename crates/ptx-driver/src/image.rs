//! What a module contains.

use std::collections::HashMap;

use crate::code::Code;
use crate::{cubin, ptx};

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

/// A module with the kernels that it has, for a device of that architecture under that driver.
pub(crate) fn load(bytes: &[u8], arch: u32, driver: u32) -> Result<HashMap<String, (Entry, Image)>, Refusal> {
    let image = if bytes.starts_with(b"\x7fELF") {
        cubin::parse(bytes).map_err(|error| Refusal(Code::INVALID_IMAGE, error))?
    } else {
        let text =
            std::str::from_utf8(bytes).map_err(|error| Refusal(Code::INVALID_IMAGE, error.to_string()))?;
        ptx::parse(text).map_err(|error| Refusal(Code::INVALID_PTX, format!("ptxas fatal: {error}")))?
    };
    fits(&image, arch, driver)?;
    let head = Image { entries: Vec::new(), ..image };
    Ok(image.entries.into_iter().map(|entry| (entry.name.clone(), (entry, head.clone()))).collect())
}

fn fits(image: &Image, arch: u32, driver: u32) -> Result<(), Refusal> {
    let of = image.arch;
    let Some(version) = image.ptx else {
        // Machine code runs on its own major architecture, from its minor one on.
        let runs = of / 10 == arch / 10 && of <= arch;
        let text = format!("machine code for sm_{of} does not run on sm_{arch}");
        return if runs { Ok(()) } else { Err(Refusal(Code::NO_BINARY_FOR_GPU, text)) };
    };
    if ptx::first_driver(version) > driver {
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

    const PTX: &[u8] = b".version 9.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 a) { ret; }";

    #[test]
    fn ptx_runs_on_newer_devices_and_under_drivers_that_know_it() {
        assert!(load(PTX, 120, 13000).unwrap().contains_key("k"));
        assert_eq!(load(PTX, 75, 13000).unwrap_err().0, Code::INVALID_PTX);
        let Refusal(code, log) = load(PTX, 90, 12090).unwrap_err();
        assert_eq!(code, Code::UNSUPPORTED_PTX_VERSION);
        assert!(log.contains("9.0"), "{log}");
        assert_eq!(load(b"text", 90, 13000).unwrap_err().0, Code::INVALID_PTX);
        assert_eq!(load(b"\x7fELF", 90, 13000).unwrap_err().0, Code::INVALID_IMAGE);
    }

    #[test]
    fn machine_code_runs_on_its_own_kind_of_device() {
        let code = |arch| Image { ptx: None, arch, entries: Vec::new() };
        assert!(fits(&code(80), 86, 13000).is_ok());
        assert!(fits(&code(86), 80, 13000).is_err());
        assert!(fits(&code(80), 90, 13000).is_err());
    }
}
