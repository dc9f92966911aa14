//! The data of a program, in a file.

use std::fs::File;
use std::io::{BufWriter, Read, Seek};
use std::os::unix::fs::FileExt;

use tempfile::NamedTempFile;
use warpbell_data::{Header, Kind, Section, generate};

use crate::{Failure, Options};

/// What programs read, as it was before it went to the SSD: the host's reference.
pub struct DataFile {
    name: String,
    file: File,
    header: Header,
    _synthetic: Option<NamedTempFile>,
}

impl DataFile {
    /// The file that `--data` names, which must be of the kind of `synthetic`; or that, made now from `--seed`.
    pub fn take(options: &Options, synthetic: Kind) -> Result<DataFile, Failure> {
        match &options.data {
            None => DataFile::make(options.seed, &synthetic),
            Some(path) => {
                let name = path.display().to_string();
                let failed = |source| Failure::File { file: name.clone(), source };
                let mut file = File::open(path).map_err(|error| failed(error.into()))?;
                let header = Header::read(&mut file).map_err(failed)?;
                header.expect_kind(synthetic.plan().name()).map_err(failed)?;
                let bytes = file.metadata().map_err(|error| failed(error.into()))?.len();
                if bytes < header.bytes() {
                    let reason = format!("{bytes} bytes, and the header says {}", header.bytes());
                    return Err(failed(warpbell_data::Error::Header { reason }));
                }
                Ok(DataFile { name, file, header, _synthetic: None })
            }
        }
    }

    fn make(seed: u64, kind: &Kind) -> Result<DataFile, Failure> {
        let synthetic = NamedTempFile::new().map_err(Failure::temporary)?;
        let reopen = || synthetic.reopen().map_err(Failure::temporary);
        let header = generate(kind, seed, &mut BufWriter::new(reopen()?)).map_err(|error| match error {
            warpbell_data::Error::Io(error) => Failure::temporary(error),
            other => other.into(),
        })?;
        let file = reopen()?;
        let name = format!("synthetic {}, seed {seed}", header.kind());
        Ok(DataFile { name, file, header, _synthetic: Some(synthetic) })
    }

    /// The file, or what it was made from.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is in it.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// A size of it.
    pub fn parameter(&self, name: &str) -> Result<u64, Failure> {
        Ok(self.header.parameter(name)?)
    }

    /// A part of it.
    pub fn section(&self, name: &str) -> Result<Section, Failure> {
        Ok(self.header.section(name)?)
    }

    /// The first byte behind the data, a multiple of 4096: where a program may put results on the SSD, in the room that
    /// it asked [`Stage::open`](crate::Stage::open) for.
    pub fn room(&self) -> u64 {
        self.header.bytes().next_multiple_of(warpbell_data::HEADER_BYTES)
    }

    /// The failure of a file that a program cannot take.
    pub fn refused(&self, limit: String) -> Failure {
        Failure::Usage { object: "--data", value: self.name.clone(), limit }
    }

    /// Bytes of it.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Failure> {
        self.file.read_exact_at(into, offset).map_err(|error| self.unreadable(error))
    }

    /// All of a section, as values of `N` bytes: `data.values("x", f32::from_le_bytes)`.
    pub fn values<T, const N: usize>(
        &self,
        section: &str,
        value: impl Fn([u8; N]) -> T,
    ) -> Result<Vec<T>, Failure> {
        let section = self.section(section)?;
        let mut bytes = vec![0; section.bytes as usize];
        self.read(section.offset, &mut bytes)?;
        Ok(values(&bytes, value))
    }

    /// From its first byte on.
    pub(crate) fn stream(&self) -> Result<impl Read + use<>, Failure> {
        let rewound = self.file.try_clone().and_then(|mut file| file.rewind().map(|()| file));
        Ok(rewound.map_err(|error| self.unreadable(error))?.take(self.header.bytes()))
    }

    fn unreadable(&self, error: std::io::Error) -> Failure {
        Failure::File { file: self.name.clone(), source: error.into() }
    }
}

/// Bytes as values of `N` bytes each; a rest is left out.
pub fn values<T, const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> T) -> Vec<T> {
    let (whole, _) = bytes.as_chunks::<N>();
    whole.iter().map(|bytes| value(*bytes)).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::Path;

    use clap::Parser;
    use warpbell_data::{Embeddings, Vectors};

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn options(arguments: &[&str]) -> Options {
        Line::parse_from([&["program"], arguments].concat()).options
    }

    fn refused(path: &Path, kind: Kind) -> String {
        let path = path.display().to_string();
        let failure = DataFile::take(&options(&["--data", &path]), kind).err().unwrap();
        assert_eq!(failure.exit_code(), 2);
        failure.to_string().replace(&path, "FILE")
    }

    #[test]
    fn synthetic_data_is_that_of_the_file() -> Result<(), Failure> {
        let kind = || Kind::from(Vectors { count: 1000 });
        let mut file = NamedTempFile::new()?;
        generate(&kind(), 9, &mut file)?;
        let path = file.path().display().to_string();
        let read = DataFile::take(&options(&["--data", &path]), Vectors { count: 5 }.into())?;
        let made = DataFile::take(&options(&["--seed", "9"]), kind())?;
        assert_eq!(read.parameter("count")?, 1000, "the file's sizes count");
        assert_eq!((read.room(), made.room()), (12_288, 12_288));
        let floats = |data: &DataFile| data.values("y", f32::from_le_bytes);
        assert_eq!(floats(&read)?, floats(&made)?);
        assert_eq!(floats(&made)?.len(), 1000);
        Ok(())
    }

    #[test]
    fn files_of_others_are_refused_by_name() -> Result<(), Failure> {
        let mut file = NamedTempFile::new()?;
        assert_eq!(
            refused(file.path(), Vectors { count: 5 }.into()),
            "FILE: header: the file ends before byte 4096"
        );
        generate(&Vectors { count: 1000 }.into(), 9, &mut file)?;
        let other = Embeddings { rows: 1, dim: 1, lookups: 1 };
        assert_eq!(
            refused(file.path(), other.into()),
            "FILE: header: data of kind vectors, and this takes embeddings"
        );
        file.as_file().set_len(10_000)?;
        file.flush()?;
        let text = refused(file.path(), Vectors { count: 5 }.into());
        assert_eq!(text, "FILE: header: 10000 bytes, and the header says 12192");
        Ok(())
    }

    #[test]
    fn failures_name_their_file_or_folder() -> Result<(), Failure> {
        let data = DataFile::take(&options(&["--seed", "3"]), Vectors { count: 5 }.into())?;
        let failure = data.read(1 << 40, &mut [0; 8]).unwrap_err().to_string();
        assert!(failure.starts_with("synthetic vectors, seed 3: "), "{failure}");
        let failure = Failure::temporary(std::io::ErrorKind::StorageFull.into());
        let folder = std::env::temp_dir().display().to_string();
        assert!(failure.to_string().starts_with(&format!("temporary file in {folder}: ")), "{failure}");
        assert_eq!(failure.exit_code(), 1);
        Ok(())
    }
}
