//! Words of C++ text, and the public calls that a header declares. What it understands is how this library is written.

use std::collections::BTreeSet;

/// What an argument is, as far as it tells calls of one name apart.
const KINDS: &[&str] =
    &["session", "volume", "mail_client", "io_request", "io_order", "io_token", "mail_token", "volume_token"];

/// Identifiers, numbers and single characters, without comments and preprocessor lines.
pub fn words(text: &str) -> Vec<String> {
    let code = text.lines().filter(|line| !line.starts_with('#'));
    let code: Vec<_> = code.map(|line| line.split("//").next().unwrap_or_default()).collect();
    let mut words: Vec<String> = Vec::new();
    let mut grows = false;
    for c in code.join("\n").chars() {
        let is_word = c.is_ascii_alphanumeric() || c == '_';
        match words.last_mut() {
            Some(word) if is_word && grows => word.push(c),
            _ if !c.is_whitespace() => words.push(c.to_string()),
            _ => {}
        }
        grows = is_word;
    }
    words
}

/// The place behind the bracket that closes the one at `open`. `>` closes no `(`, so `->` is left alone.
pub fn behind(words: &[String], open: usize) -> usize {
    let (opens, closes) = match words[open].as_str() {
        "(" => ("(", ")"),
        "[" => ("[", "]"),
        "<" => ("<", ">"),
        _ => ("{", "}"),
    };
    let mut depth = 0;
    for (at, word) in words.iter().enumerate().skip(open) {
        depth += i32::from(word == opens) - i32::from(word == closes);
        if depth == 0 {
            return at + 1;
        }
    }
    words.len()
}

/// The arguments between two brackets.
pub fn arguments(words: &[String], open: usize) -> Vec<&[String]> {
    let (mut found, mut begin, mut at) = (Vec::new(), open + 1, open + 1);
    let end = behind(words, open) - 1;
    while at < end {
        match words[at].as_str() {
            "(" | "[" | "{" => at = behind(words, at),
            // Of a template, which has no more than a few words.
            "<" if behind(words, at) <= end.min(at + 12) => at = behind(words, at),
            "," => {
                found.push(&words[begin..at]);
                begin = at + 1;
                at += 1;
            }
            _ => at += 1,
        }
    }
    if begin < end {
        found.push(&words[begin..end]);
    }
    found
}

/// A declared call, such as `submit(group, session, io_request)` or `io_batch::wait(group)`.
pub fn call(class: Option<&str>, name: &str, kinds: &[String]) -> String {
    let of = class.map(|class| format!("{class}::")).unwrap_or_default();
    format!("{of}{name}({})", kinds.join(", "))
}

/// Kinds of the first parameters, up to one that has none.
fn kinds_of(parameters: &[&[String]]) -> Vec<String> {
    let kind = |words: &&[String]| {
        let has = |name: &str| words.iter().any(|word| word == name);
        if has("Group") {
            return Some("group".to_owned());
        }
        let kind = KINDS.iter().find(|kind| has(kind))?;
        Some(if has("[") { format!("{kind}s") } else { (*kind).to_owned() })
    };
    parameters.iter().map_while(kind).collect()
}

/// Where we are in a header.
struct Scope {
    class: Option<String>,
    public: bool,
    /// Nothing in it is public, whatever it says.
    hidden: bool,
}

/// Name and first bracket of the class that is defined at this word, if one is.
fn class_at(words: &[String], at: usize) -> Option<(String, usize)> {
    let (mut name, mut next) = (None, at + 1);
    loop {
        match words[next].as_str() {
            "{" => return Some((name?, next)),
            ";" | "," | ">" | "=" | ")" => return None,
            "(" | "[" => next = behind(words, next),
            // Its base.
            ":" => return Some((name?, next + words[next..].iter().position(|word| word == "{")?)),
            "alignas" => next += 1,
            word => {
                name = Some(word.to_owned());
                next += 1;
            }
        }
    }
}

/// The public calls and classes of a header. What stands in `detail` is not public.
pub fn declared(text: &str) -> (Vec<String>, Vec<String>) {
    let words = words(text);
    let (mut calls, mut classes) = (Vec::new(), Vec::new());
    let mut scopes = vec![Scope { class: None, public: true, hidden: false }];
    let mut at = 0;
    while at < words.len() {
        let before = at.checked_sub(1).map_or("", |before| words[before].as_str());
        let scope = scopes.last_mut().expect("a scope");
        match words[at].as_str() {
            word @ ("class" | "struct") if !matches!(before, "enum" | "friend") => {
                if let Some((name, body)) = class_at(&words, at) {
                    // A template behind the name that kernels use.
                    let name = name.strip_prefix("basic_").unwrap_or(&name).to_owned();
                    classes.extend(scope.public.then(|| name.clone()));
                    let hidden = !scope.public;
                    scopes.push(Scope { class: Some(name), public: !hidden && word == "struct", hidden });
                    at = body;
                }
            }
            "namespace" => {
                let hidden = scope.hidden || words[at + 1] == "detail";
                scopes.push(Scope { class: None, public: !hidden, hidden });
                at += 2;
            }
            word @ ("public" | "private") if words[at + 1] == ":" => {
                scope.public = word == "public" && !scope.hidden;
            }
            "WARPBELL_D" | "WARPBELL_HD" => {
                let found = function_at(&words, at);
                let is_constructor = scope.class.as_ref() == Some(&found.0);
                if scope.public && !is_constructor && found.0 != "=" {
                    calls.push(call(scope.class.as_deref(), &found.0, &found.1));
                }
                at = found.2;
            }
            "{" => at = behind(&words, at) - 1,
            "}" => drop(scopes.pop()),
            _ => {}
        }
        at += 1;
    }
    (calls, classes)
}

/// Name, kinds of parameters, and last word of the function that is declared or defined at this word.
fn function_at(words: &[String], at: usize) -> (String, Vec<String>, usize) {
    let open = at + words[at..].iter().position(|word| word == "(").expect("parameters");
    let name = if words[open - 1] == "]" { "operator[]" } else { &words[open - 1] };
    let kinds = kinds_of(&arguments(words, open));
    let after = behind(words, open);
    let end = after + words[after..].iter().position(|word| word == ";" || word == "{").expect("an end");
    let last = if words[end] == "{" { behind(words, end) - 1 } else { end };
    (name.to_owned(), kinds, last)
}

/// The calls in the first cells of a page's tables of who may call them: `class::call`, or the call alone. A class goes
/// for the names behind it too, up to a semicolon.
pub fn tabled(page: &str) -> BTreeSet<String> {
    let mut calls = BTreeSet::new();
    let mut is_call = false;
    for line in page.lines() {
        is_call = line.starts_with("| call | who calls |") || (is_call && line.starts_with("| "));
        let cell = line.split(" | ").next().filter(|_| is_call).unwrap_or_default();
        for part in cell.split(';') {
            let mut class = String::new();
            for name in part.split('`').skip(1).step_by(2) {
                let name = name.split(['(', '[']).next().unwrap_or_default();
                let (of, name) = name.rsplit_once("::").map_or((None, name), |(of, name)| (Some(of), name));
                class = of.map_or(class, |of| format!("{of}::"));
                calls.insert(format!("{class}{name}"));
            }
        }
    }
    calls
}
