//! Includes for a compiler without files: it finds a header only by the very name that it was given.

/// The text of a header in which each `#include "PATH"`, which counts from the header's own folder, names what it
/// means as the list does. Lines stay lines.
pub(super) fn resolved(header: &str, text: &str, known: &[(&str, &str)]) -> String {
    let line = |line: &str| match quoted(line).and_then(|path| absolute(header, path)) {
        Some(name) if known.iter().any(|(other, _)| *other == name) => format!("#include <{name}>\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// The path in `#include "PATH"`.
fn quoted(line: &str) -> Option<&str> {
    let directive = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?;
    directive.trim_start().strip_prefix('"')?.split('"').next()
}

/// A path as seen from the folder of `header`, without `..`.
fn absolute(header: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = header.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_includes_become_the_names_of_the_list() {
        let known = [("a/abi.h", ""), ("a/impl/io.cuh", ""), ("top.cuh", "")];
        let text = "#pragma once\n#include \"../abi.h\"\n  # include \"./io.cuh\" // why\n#include \"none.h\"\nint x;";
        assert_eq!(
            resolved("a/impl/queue.cuh", text, &known),
            "#pragma once\n#include <a/abi.h>\n#include <a/impl/io.cuh>\n#include \"none.h\"\nint x;\n"
        );
        assert_eq!(resolved("a/x.cuh", "#include \"../top.cuh\"", &known), "#include <top.cuh>\n");
        assert_eq!(resolved("x.cuh", "#include \"../top.cuh\"", &known), "#include \"../top.cuh\"\n");
        assert_eq!(resolved("a/x.cuh", "#include <abi.h>", &known), "#include <abi.h>\n");
    }
}
