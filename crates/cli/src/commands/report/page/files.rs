//! The pictures of a page, each a file of its own.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::Path;

use super::Section;
use crate::exit::Ending;
use crate::out;
use crate::outputs::{self, Outputs};

/// Writes each picture to a file of this folder, and prints the names.
pub fn write(folder: &Path, sections: &[Section], outputs: &mut Outputs) -> Result<(), Ending> {
    const FLAG: &str = "--pictures";
    std::fs::create_dir_all(folder).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Ending::usage(format!("{FLAG} {}: this is no folder", folder.display())),
        _ => outputs::failed(FLAG, folder, &error),
    })?;
    let (mut taken, mut pictures) = (HashSet::new(), Vec::new());
    for section in sections {
        for figure in section.body.pictures() {
            let title = match section.name.is_empty() {
                true => figure.heading.clone(),
                false => format!("{}: {}", section.name, figure.heading),
            };
            let path = folder.join(free(&title, &mut taken));
            outputs.claim(FLAG, &path)?;
            pictures.push((path, figure.file(&title, &section.notes)));
        }
    }
    pictures.iter().try_for_each(|(path, text)| {
        outputs::write(FLAG, path, text)?;
        out::text(&format!("{}\n", path.display()))
    })
}

/// Letters of a name at most: file systems take 255 bytes.
const NAME_MAX: usize = 120;

/// A file name of small letters, digits and hyphens that no other picture has.
fn free(title: &str, taken: &mut HashSet<String>) -> String {
    let small = title.to_lowercase();
    let words = small.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let name: String = words.collect::<Vec<_>>().join("-").chars().take(NAME_MAX).collect();
    let name = if name.is_empty() { "picture" } else { name.trim_end_matches('-') };
    let numbered =
        |count: u32| if count == 1 { format!("{name}.svg") } else { format!("{name}-{count}.svg") };
    let mut count = 1;
    while !taken.insert(numbered(count)) {
        count += 1;
    }
    numbered(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_no_two_are_alike() {
        let mut taken = HashSet::new();
        assert_eq!(free("path latency, us", &mut taken), "path-latency-us.svg");
        assert_eq!(free(" A: IOPS by bs and iodepth", &mut taken), "a-iops-by-bs-and-iodepth.svg");
        assert_eq!(free("a: IOPS/by bs & iodepth", &mut taken), "a-iops-by-bs-iodepth.svg");
        assert_eq!(free("path: latency/us", &mut taken), "path-latency-us-2.svg");
        assert_eq!(free("µ: Ω", &mut taken), "picture.svg");
        assert_eq!(free(&"axis=1 ".repeat(100), &mut taken).len(), 120 + ".svg".len());
    }
}
