//! PTX text, as far as a driver's front end looks at it: version, target, entries and their parameters.

use crate::image::{Entry, Image, Parameter};

/// Reads a module. What is not PTX is refused with a line for the compiler's log.
pub(crate) fn parse(text: &str) -> Result<Image, String> {
    let text = without_comments(text);
    let version = directive(&text, ".version").ok_or("no .version directive")?;
    let (major, minor) = version.split_once('.').ok_or_else(|| format!(".version {version}"))?;
    let number = |text: &str| text.parse::<u32>().map_err(|_| format!(".version {version}"));
    let version = (number(major)?, number(minor)?);
    let target = directive(&text, ".target").ok_or("no .target directive")?;
    let digits = target.strip_prefix("sm_").map(|rest| rest.trim_end_matches(|c: char| c.is_alphabetic()));
    let arch = digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| format!(".target {target}"))?;
    if directive(&text, ".address_size") != Some("64") {
        return Err("no .address_size 64".to_owned());
    }
    let entries = text.split(".entry").skip(1).map(entry).collect::<Result<Vec<Entry>, String>>()?;
    Ok(Image { ptx: Some(version), arch, entries })
}

/// The CUDA version whose drivers are the first to read a PTX version: 9.0 came with 13.0, 8.0 with 12.0. From 8.6 on,
/// which came with 12.7, numbers are one apart.
pub(crate) fn first_driver((major, minor): (u32, u32)) -> u32 {
    match major {
        8 if minor >= 6 => 12010 + minor * 10,
        8.. => (major + 4) * 1000 + minor * 10,
        _ => 11000 + minor.min(8) * 10,
    }
}

fn without_comments(text: &str) -> String {
    let mut rest = text;
    let mut out = String::with_capacity(text.len());
    while let Some(at) = rest.find("/*") {
        out.push_str(&rest[..at]);
        rest = rest[at..].find("*/").map_or("", |end| &rest[at + end + 2..]);
    }
    out.push_str(rest);
    out.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

/// The word after a directive.
fn directive<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let after = &text[text.find(name)? + name.len()..];
    after.split(|c: char| c.is_whitespace() || c == ',').find(|word| !word.is_empty())
}

/// `text` is what follows `.entry`, up to the next one.
fn entry(text: &str) -> Result<Entry, String> {
    let text = text.trim_start();
    let end = text.find(|c: char| c.is_whitespace() || c == '(' || c == '{').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let open = rest.find('{').ok_or_else(|| format!("entry {name} has no body"))?;
    let (head, body) = rest.split_at(open);
    let parameters = match (head.find('('), head.find(')')) {
        (Some(from), Some(to)) if from < to => parameters(&head[from + 1..to])?,
        _ => Vec::new(),
    };
    let most = directive(head, ".maxntid").and_then(|count| count.parse().ok());
    Ok(Entry {
        name: name.to_owned(),
        parameters,
        most_threads: most.unwrap_or(1024),
        registers: None,
        local_bytes: declared(body, ".local"),
        shared_bytes: declared(body, ".shared"),
    })
}

fn parameters(text: &str) -> Result<Vec<Parameter>, String> {
    let mut offset = 0;
    let declarations = text.split(',').map(str::trim).filter(|text| !text.is_empty());
    declarations
        .map(|text| {
            let (size, align) = size_of(text).ok_or_else(|| format!("parameter: {text}"))?;
            let at = usize::next_multiple_of(offset, align);
            offset = at + size;
            Ok(Parameter { offset: at, size })
        })
        .collect()
}

/// Bytes and alignment of a declaration such as `.param .align 8 .b8 name[224]`.
fn size_of(declaration: &str) -> Option<(usize, usize)> {
    let words: Vec<&str> = declaration.split_whitespace().collect();
    let bytes = words.iter().find_map(|word| bytes_of(word))?;
    let count = match declaration.split_once('[') {
        Some((_, rest)) => rest.split_once(']')?.0.parse().ok()?,
        None => 1,
    };
    let aligned = words.iter().position(|word| *word == ".align");
    let align = aligned.map_or(Some(bytes), |at| words.get(at + 1)?.parse().ok())?;
    Some((bytes * count, align))
}

fn bytes_of(word: &str) -> Option<usize> {
    let bits: usize = word.strip_prefix(['.'])?.strip_prefix(['b', 'u', 's', 'f'])?.parse().ok()?;
    (bits >= 8).then_some(bits / 8)
}

/// Bytes of all arrays of a state space that a body declares.
fn declared(body: &str, space: &str) -> u32 {
    let lines = body.lines().map(str::trim).filter(|line| line.starts_with(space) && line.ends_with("];"));
    lines.filter_map(size_of).map(|(size, _)| size as u32).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "// src-hash 1\n.version 9.0\n.target sm_75\n.address_size 64\n\
        /* .entry not_this(\n */\n.visible .entry one(\n\t.param .align 8 .b8 one_param_0[224]\n)\n\
        .maxntid 256, 1, 1\n{\n\t.local .align 8 .b8 \t__local_depot0[2880];\n\tret;\n}\n\
        .visible .entry two(.param .u8 a, .param .u64 .ptr .global .align 4 b, .param .u32 c) { ret; }\n.entry three() { ret; }";

    #[test]
    fn entries_have_the_parameters_that_the_text_declares() {
        let image = parse(TEXT).unwrap();
        assert_eq!((image.ptx, image.arch), (Some((9, 0)), 75));
        let names: Vec<&str> = image.entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["one", "two", "three"]);
        let one = &image.entries[0];
        assert_eq!((one.most_threads, one.local_bytes, one.shared_bytes), (256, 2880, 0));
        assert_eq!(one.parameters, [Parameter { offset: 0, size: 224 }]);
        assert!(image.entries[2].parameters.is_empty());
    }

    #[test]
    fn what_is_not_ptx_is_refused() {
        for text in
            ["", "__global__ void k() {}", ".version 9.0\n.address_size 64", ".version x\n.target sm_75"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn each_ptx_version_has_its_first_driver() {
        assert_eq!(first_driver((9, 0)), 13000);
        assert_eq!((first_driver((8, 5)), first_driver((8, 7))), (12050, 12080));
        assert_eq!(first_driver((7, 8)), 11080);
    }
}
