//! Files that people write as TOML: how one is read, and what is said of one that is none.

use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

use serde::de::DeserializeOwned;

/// Bytes of such a file at most: what is larger was not written by hand.
const MAX_BYTES: u64 = 1 << 20;
/// Characters at most of what the parser says: it repeats strings of the file.
const MAX_CHARS: usize = 200;

/// The file's text.
pub fn read(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Error::new(ErrorKind::FileTooLarge, format!("larger than {MAX_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::InvalidData, "no text: it is not UTF-8"))
}

/// What the text says; or where it is wrong, and how, on one line.
pub fn parse<T: DeserializeOwned>(text: &str) -> std::result::Result<T, String> {
    toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let words = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
        let words = match words.char_indices().nth(MAX_CHARS) {
            Some((end, _)) => format!("{}…", &words[..end]),
            None => words,
        };
        format!("line {line}, column {column}: {words}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct Seed {
        #[serde(rename = "seed")]
        _seed: u64,
    }

    #[test]
    fn what_is_wrong_is_said_shortly() {
        let wrong = |text: &str| parse::<Seed>(text).unwrap_err();
        assert_eq!(
            wrong("\n  seed = true\n"),
            "line 2, column 10: invalid type: boolean `true`, expected u64"
        );
        let long = wrong(&format!("# ü\nseed = \"{}\"", "ä".repeat(9999)));
        assert!(
            long.starts_with("line 2, column 8: invalid type: string \"ää") && long.ends_with('…'),
            "{long}"
        );
        assert!(long.chars().count() < 250, "{long}");
        let binary = wrong(&"\u{1}\u{fffd}".repeat(9999));
        assert!(binary.starts_with("line 1, column ") && binary.chars().count() < 250, "{binary}");
    }

    #[test]
    fn a_large_file_is_not_read_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large.toml");
        std::fs::write(&path, "#".repeat(1 << 20)).unwrap();
        assert_eq!(read(&path).unwrap().len(), 1 << 20);
        // The limit lies within a letter.
        std::fs::write(&path, "#".to_owned() + &"ü".repeat(1 << 19)).unwrap();
        assert_eq!(read(&path).unwrap_err().to_string(), "larger than 1048576 bytes");
        // More than memory has: it is not read.
        std::fs::File::create(&path).unwrap().set_len(1 << 42).unwrap();
        assert_eq!(read(&path).unwrap_err().to_string(), "larger than 1048576 bytes");
    }
}
