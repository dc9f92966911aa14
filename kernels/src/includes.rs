//! Which files a source takes in: what its result depends on. Also part of the build script.

/// The files of `files` that `text` includes, itself or through others; each once, in the order in which they are met.
/// `name` is that of the text, relative to whose folder it includes others; sources of kernels are found below `src` as
/// well. Conditions of the preprocessor do not count.
/// A text that includes by a macro may take in any file.
pub fn closure<'a>(name: &str, text: &str, files: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut found: Vec<(&str, &str)> = Vec::new();
    let mut names: Vec<(String, String)> = included(name, text);
    let mut next = 0;
    while let Some((relative, plain)) = names.get(next).cloned() {
        next += 1;
        if plain.is_empty() {
            return files.to_vec();
        }
        let by = |wanted: &str| files.iter().find(|(name, _)| *name == wanted).copied();
        let of_kernels = || plain.strip_prefix("src/").and_then(by);
        let Some(file) = by(&relative).or_else(|| by(&plain)).or_else(of_kernels) else { continue };
        if !found.contains(&file) {
            found.push(file);
            names.extend(included(file.0, file.1));
        }
    }
    found
}

/// What a text includes: each name as seen from its folder, and as it is written; empty where a macro has it.
fn included(name: &str, text: &str) -> Vec<(String, String)> {
    let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
    let directives = text.lines().filter_map(|line| line.trim_start().strip_prefix('#'));
    let words = directives.filter_map(|line| line.trim_start().strip_prefix("include"));
    words
        .map(|word| {
            written(word.trim()).map_or_else(Default::default, |word| (below(folder, word), word.to_owned()))
        })
        .collect()
}

/// The name between quotes or angle brackets.
fn written(word: &str) -> Option<&str> {
    let end = match word.chars().next()? {
        '"' => '"',
        '<' => '>',
        _ => return None,
    };
    word[1..].split(end).next()
}

/// A relative name as seen from above the folder, without `..`.
fn below(folder: &str, name: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in name.split('/') {
        match part {
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: &[(&str, &str)] = &[
        ("lib/all.cuh", "#pragma once\n#include \"impl/one.cuh\"\n"),
        ("lib/impl/one.cuh", "#include \"../two.cuh\"\n"),
        ("lib/two.cuh", "#include \"all.cuh\"\n"),
        ("other.cuh", "int other;\n"),
    ];

    fn names(text: &str) -> Vec<&'static str> {
        closure("own.cu", text, FILES).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn files_are_found_from_the_folder_of_who_includes_them_and_by_their_names() {
        assert_eq!(names("#include <lib/all.cuh>\n"), ["lib/all.cuh", "lib/impl/one.cuh", "lib/two.cuh"]);
        assert_eq!(names("  # include \"other.cuh\" // why\n#include <stdint.h>\n"), ["other.cuh"]);
        assert_eq!(names("#include \"src/other.cuh\"\n"), ["other.cuh"]);
        assert!(names("int none;\n").is_empty());
    }

    #[test]
    fn an_include_by_a_macro_may_be_any_file() {
        assert_eq!(names("#include WHICH\n").len(), FILES.len());
    }

    #[test]
    fn kernels_from_elsewhere_take_in_what_ours_include() {
        let all: Vec<_> = crate::HEADERS.iter().chain(crate::SOURCES).copied().collect();
        let taken = closure("kernel.cu", "#include \"src/common.cuh\"\n", &all);
        assert!(taken.iter().any(|(name, _)| *name == "warpbell/impl/queue_reap.cuh"), "{taken:?}");
    }

    #[test]
    fn our_kernels_take_in_the_library_but_not_all_of_it() {
        let (name, text) =
            crate::SOURCES.iter().find(|(name, _)| *name == "digest.cu").expect("a kernel file");
        let all: Vec<_> = crate::HEADERS.iter().chain(crate::SOURCES).copied().collect();
        let taken = closure(name, text, &all);
        let has = |wanted: &str| taken.iter().any(|(name, _)| *name == wanted);
        assert!(
            has("common.cuh") && has("warpbell/impl/queue_submit.cuh") && has("warpbell/impl/port_cpu.cuh")
        );
        assert!(!has("warpbell/stream.cuh") && !has("bench.cuh") && !has("lab/turns.cuh"), "{taken:?}");
    }
}
