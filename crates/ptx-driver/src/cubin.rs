//! Machine code (cubin), as far as its symbols and notes tell: kernels, parameters, registers.

use std::collections::HashMap;

use object::LittleEndian;
use object::elf::{EM_CUDA, FileHeader64, STT_FUNC};
use object::read::elf::{ElfFile, FileHeader, Sym};
use object::{Object, ObjectSection, ObjectSymbol};

use crate::error::ImageError;
use crate::image::{Entry, Image, Parameter};

/// In `st_other`: a function that can be launched.
const STO_CUDA_ENTRY: u8 = 0x10;

/// What the notes of `.nv.info` sections mean, as nvdisasm names them (EIATTR_...).
const FRAME_SIZE: u8 = 0x11;
const KPARAM_INFO: u8 = 0x17;
const MAX_THREADS: u8 = 0x05;
const REGCOUNT: u8 = 0x2f;
/// A note that says how long it is; others have two bytes.
const SIZED: u8 = 4;

type Elf<'a> = ElfFile<'a, FileHeader64<LittleEndian>>;

pub(crate) fn parse(bytes: &[u8]) -> Result<Image, ImageError> {
    let elf = Elf::parse(bytes).map_err(ImageError::Elf)?;
    let (machine, flags) = (elf.elf_header().e_machine(LittleEndian), elf.elf_header().e_flags(LittleEndian));
    if machine != EM_CUDA {
        return Err(ImageError::NotCuda { machine: machine.0, cuda: EM_CUDA.0 });
    }
    let of_all = notes(&section(&elf, ".nv.info"));
    // Of each function, by the number of its symbol.
    let by_symbol = |kind| -> HashMap<u32, u32> {
        let pairs = of_all.iter().filter(|(of, _)| *of == kind);
        pairs.filter_map(|(_, words)| Some((*words.first()?, *words.get(1)?))).collect()
    };
    let (registers, frames) = (by_symbol(REGCOUNT), by_symbol(FRAME_SIZE));
    let kernels = elf.symbols().filter(|symbol| {
        let raw = symbol.elf_symbol();
        raw.st_type() == STT_FUNC && raw.st_other().0 & STO_CUDA_ENTRY != 0
    });
    let entries = kernels.map(|symbol| {
        let index = symbol.index().0 as u32;
        let name = symbol.name().map_err(ImageError::Symbol)?.to_owned();
        Ok(entry(&elf, name, registers.get(&index).copied(), frames.get(&index).copied()))
    });
    Ok(Image { ptx: None, arch: flags.0 >> 8 & 0xff, entries: entries.collect::<Result<_, ImageError>>()? })
}

fn entry(elf: &Elf<'_>, name: String, registers: Option<u32>, frame: Option<u32>) -> Entry {
    let notes = notes(&section(elf, &format!(".nv.info.{name}")));
    let mut parameters: Vec<Parameter> = notes
        .iter()
        .filter(|(kind, words)| *kind == KPARAM_INFO && words.len() >= 3)
        .map(|(_, words)| Parameter { offset: (words[1] >> 16) as usize, size: (words[2] >> 18) as usize })
        .collect();
    parameters.sort_by_key(|parameter| parameter.offset);
    let most = notes.iter().find(|(kind, _)| *kind == MAX_THREADS).map(|(_, words)| words.iter().product());
    let shared = elf.section_by_name(&format!(".nv.shared.{name}")).map_or(0, |section| section.size());
    Entry {
        parameters,
        most_threads: most.unwrap_or(1024),
        registers,
        local_bytes: frame.unwrap_or(0),
        shared_bytes: shared as u32,
        name,
    }
}

fn section(elf: &Elf<'_>, name: &str) -> Vec<u8> {
    let section = elf.section_by_name(name);
    section.and_then(|section| section.data().ok()).unwrap_or_default().to_vec()
}

/// The notes of a section: kind, and content in words. Those of two bytes say nothing that is used here.
fn notes(mut bytes: &[u8]) -> Vec<(u8, Vec<u32>)> {
    let mut found = Vec::new();
    while let [format, kind, low, high, rest @ ..] = bytes {
        let len = if *format == SIZED { usize::from(u16::from_le_bytes([*low, *high])) } else { 0 };
        let Some((content, rest)) = rest.split_at_checked(len) else { break };
        let words =
            content.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        found.push((*kind, words.collect()));
        bytes = rest;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_by_their_own_lengths() {
        let bytes = [4, 0x2f, 8, 0, 10, 0, 0, 0, 30, 0, 0, 0, 3, 0x19, 0x68, 0, 4, 5, 4, 0, 128, 0, 0, 0];
        let expected = vec![(REGCOUNT, vec![10, 30]), (0x19, vec![]), (MAX_THREADS, vec![128])];
        assert_eq!(notes(&bytes), expected);
        assert_eq!(notes(&[4, 1, 200, 0, 1]), []);
    }

    #[test]
    fn code_for_another_machine_is_refused() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert!(parse(&own).unwrap_err().to_string().contains("machine"));
        assert!(parse(b"\x7fELF").is_err());
    }
}
