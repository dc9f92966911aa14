//! Each public call of the library's headers is made by an example of the page, and stands in one of its tables.

use std::collections::{BTreeSet, HashMap};

use warpbell_kernels::HEADERS;
use warpbell_tests::{PAGE, documented_blocks, frame_of, in_frame};

use crate::example::MAPPINGS;
use crate::scan::{arguments, behind, call, declared, tabled, words};

/// What kernels call, by layers.
const OF_KERNELS: &[&str] = &[
    "io",
    "deallocate",
    "coalesce",
    "outstanding",
    "requests",
    "ordered",
    "batch",
    "agent",
    "volume",
    "retry",
];

/// Public for the layers above and for policies: kernels have another call for the same, or none to make.
const NOT_FOR_KERNELS: &[&str] = &[
    "io_request::begin(group, session)",
    "io_request::advance(group, session)",
    "io_request::is_done()",
    "io_request::is_sent()",
    "io_request::give_up(session)",
    "io_request::finish(group, session)",
    "io_request::is_whole()",
    "io_request::result()",
    "io_order::post(group, session)",
    "io_order::try_take(group, session)",
    "io_order::take(group, session)",
    "mail_client::post(group)",
    "mail_client::try_wait(group, mail_token)",
    "mail_client::wait(group, mail_token)",
    "volume::run(group)",
    "volume::flush(group)",
    "volume::start(group)",
    "volume::start_read(group)",
    "volume::try_finish(group)",
    "volume::finish(group)",
    "volume::may_start()",
    // The library calls them.
    "in_block::fence()",
    "in_device::fence()",
    "round_robin::position()",
    "round_robin::replica()",
    "hashed::position()",
    "hashed::replica()",
    "hashed::mix()",
    "by_cta::position()",
    "by_cta::replica()",
    "nearest::replica()",
];

/// Types that kernels need not name: they come as results, as arguments in braces, or by default.
const UNNAMED: &[&str] = &["agent_share", "batch_answer", "no_retry"];

/// All public calls and types of these headers.
fn public() -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut calls, mut classes) = (BTreeSet::new(), BTreeSet::new());
    for layer in OF_KERNELS {
        let name = format!("warpbell/{layer}.cuh");
        let (_, text) = HEADERS.iter().find(|(header, _)| *header == name).expect("a header");
        let found = declared(text);
        calls.extend(found.0);
        classes.extend(found.1);
    }
    (calls, classes)
}

/// Variables of an example, with their types.
fn variables(words: &[String], classes: &BTreeSet<String>) -> HashMap<String, String> {
    let groups = ["this_thread_t", "this_warp_t", "this_block_t", "lanes"];
    let mut types: HashMap<String, String> =
        classes.iter().map(|name| (name.clone(), name.clone())).collect();
    types.extend(groups.map(|name| (name.to_owned(), "group".to_owned())));
    types.extend(["io_token", "volume_token"].map(|name| (name.to_owned(), name.to_owned())));
    let mut variables = HashMap::new();
    for (at, word) in words.iter().enumerate() {
        if word == "using" && words[at + 2] == "=" {
            let of = types.get(&words[at + 3]).cloned();
            types.extend(of.map(|of| (words[at + 1].clone(), of)));
        }
        let Some(of) = types.get(word) else { continue };
        let mut name = at + 1;
        name = if words.get(name).is_some_and(|word| word == "<") { behind(words, name) } else { name };
        while is_name(words, name) && ["(", ";", ",", "=", "{", "["].contains(&words[name + 1].as_str()) {
            let many = if words[name + 1] == "[" { "s" } else { "" };
            variables.insert(words[name].clone(), format!("{of}{many}"));
            let mut end = name + 1;
            while !matches!(words[end].as_str(), "," | ";" | ")" | "}") {
                end =
                    if matches!(words[end].as_str(), "(" | "[" | "{") { behind(words, end) } else { end + 1 };
            }
            if words[end] != "," {
                break;
            }
            name = end + 1;
        }
    }
    variables
}

fn is_name(words: &[String], at: usize) -> bool {
    let first = words.get(at).and_then(|word| word.chars().next());
    first.is_some_and(|first| first.is_ascii_alphabetic()) && at + 1 < words.len()
}

/// What the first arguments of a call are.
fn kinds(arguments: &[&[String]], variables: &HashMap<String, String>) -> Vec<String> {
    let kind = |argument: &&[String]| {
        let first = argument.first()?.as_str();
        if ["this_warp", "this_block", "this_thread", "lanes", "lanes_where"].contains(&first) {
            return Some("group".to_owned());
        }
        let moved = usize::from(first == "move") * 2;
        let of = variables.get(argument.get(moved)?)?;
        let one = argument.get(moved + 1).is_some_and(|word| word == "[");
        let known = ["group", "session", "volume", "mail_client", "io_request", "io_order"];
        let is_known = known.contains(&of.as_str()) || of.contains("_token");
        is_known.then(|| of.strip_suffix('s').filter(|_| one).unwrap_or(of).to_owned())
    };
    arguments.iter().map_while(kind).collect()
}

/// What an example calls.
fn made(text: &str, classes: &BTreeSet<String>) -> BTreeSet<String> {
    let words = words(text);
    let variables = variables(&words, classes);
    let mut made = BTreeSet::new();
    for at in 1..words.len() {
        let word = words[at].as_str();
        let open = match words.get(at + 1).map(String::as_str) {
            Some("<") => behind(&words, at + 1),
            _ => at + 1,
        };
        let of = variables.get(word).map(String::as_str);
        if of == Some("io_batch") && words.get(at + 1).is_some_and(|next| next == "[") {
            made.insert("io_batch::operator[]()".to_owned());
        }
        if !is_name(&words, at) || of.is_some() || words.get(open).is_none_or(|word| word != "(") {
            continue;
        }
        let class = match words[at - 1].as_str() {
            "." => match variables.get(&words[at - 2]) {
                Some(class) => Some(class.as_str()),
                None => continue,
            },
            ":" if at > 2 && words[at - 2] == ":" => match classes.get(&words[at - 3]) {
                Some(class) => Some(class.as_str()),
                None => continue,
            },
            ":" | ">" if words[at - 2] != "=" => continue,
            _ => None,
        };
        made.insert(call(class, word, &kinds(&arguments(&words, open), &variables)));
    }
    made
}

/// All examples that tests run, each with the frame that it stands in.
fn examples() -> Vec<String> {
    let mut all: Vec<String> = documented_blocks("cuda").map(str::to_owned).collect();
    all.extend(documented_blocks("cuda part").map(str::to_owned));
    for frame in ["", " volume", " agent"] {
        for mark in ["", " retry", " lost", " lease"] {
            let bodies = documented_blocks(&format!("cuda{frame} body{mark}"));
            all.extend(bodies.map(|body| in_frame(frame_of(frame), body)));
        }
    }
    all
}

#[test]
fn each_public_call_stands_in_an_example() {
    let (calls, classes) = public();
    assert!(calls.len() > 80 && classes.len() > 15, "{} calls, {} types", calls.len(), classes.len());
    let examples = examples();
    let made: BTreeSet<String> = examples.iter().flat_map(|text| made(text, &classes)).collect();
    let exempt: BTreeSet<String> = NOT_FOR_KERNELS.iter().map(|call| (*call).to_owned()).collect();
    let missing: Vec<_> = calls.difference(&made).filter(|call| !exempt.contains(*call)).collect();
    assert_eq!(missing, Vec::<&String>::new(), "no page of the device library has an example of these calls");
    let gone: Vec<_> = exempt.difference(&calls).collect();
    assert_eq!(gone, Vec::<&String>::new(), "exempt, and no header has them");
    let mut named: BTreeSet<String> = examples.iter().flat_map(|text| words(text)).collect();
    named.extend(MAPPINGS.map(str::to_owned));
    let unnamed: Vec<_> =
        classes.difference(&named).filter(|name| !UNNAMED.contains(&name.as_str())).collect();
    assert_eq!(unnamed, Vec::<&String>::new(), "no example uses these types");
}

#[test]
fn each_public_call_stands_in_a_table_that_says_who_may_call_it() {
    let tabled = tabled(PAGE);
    let calls = public().0;
    let calls = calls.iter().filter(|call| !NOT_FOR_KERNELS.contains(&call.as_str()));
    let name = |call: &String| call.split('(').next().unwrap_or_default().to_owned();
    // `batch[slot]` is a row of its own.
    let missing: Vec<_> = calls.filter(|call| !tabled.contains(&name(call))).collect();
    let missing: Vec<_> = missing.iter().filter(|call| !call.contains("operator[]")).collect();
    assert!(missing.is_empty(), "no table of the device library's pages has {missing:?}");
}

#[test]
fn a_method_in_a_table_is_that_of_its_class_alone() {
    let page = "| call | what |\n| `early` | |\n\n| call | who calls | errors |\n| --- | --- | --- |\n\
        | `one::both(group)`, `next`; `free` without a class, `two::other` | `one::hidden` | |\n\nand `later`\n";
    let found: Vec<String> = tabled(page).into_iter().collect();
    assert_eq!(found, ["free", "one::both", "one::next", "two::other"]);
}

#[test]
fn a_call_that_is_new_or_has_no_example_is_noticed() {
    let (calls, classes) = declared(
        "namespace warpbell { namespace detail { WARPBELL_D void hidden(); }
         // WARPBELL_D void commented();
         template <u32 N> class io_order { public: WARPBELL_D io_order() {}
             template <class Group> WARPBELL_D status post(const Group& group, session<M, R>& s) { if (N) { } }
           private: WARPBELL_D void own(); u32 x_ = {}; };
         template <class Group> WARPBELL_D status peek(const Group& g, session<M, R>& s, io_token (&t)[C], u64 d = 0);
         WARPBELL_HD constexpr u32 twice(u32 n) { return n * 2u; } }",
    );
    assert_eq!(calls, ["io_order::post(group, session)", "peek(group, session, io_tokens)", "twice()"]);
    assert_eq!(classes, ["io_order"]);
    let classes = ["session", "io_order"].map(str::to_owned).into_iter().collect();
    let text = "const this_warp_t w; session<x> a(w, 0), b; io_order<2> o; io_token t[4], u;
        o.post(w, b); peek(this_warp(), a, t); peek(w, a, t[1]); poke(move(u)); other.peek(w);
        run(w, a, io_order::make(w), port::lane());";
    let expected = [
        "io_order::post(group, session)",
        "peek(group, session, io_tokens)",
        "peek(group, session, io_token)",
        "poke(io_token)",
        "run(group, session)",
        "io_order::make(group)",
    ];
    let found = made(text, &classes);
    assert!(expected.iter().all(|call| found.contains(*call)), "{found:?}");
    assert!(
        !found.iter().any(|call| call == "peek(group)" || call == "lane()" || call.starts_with("a(")),
        "{found:?}"
    );
}

/// A piece of Rust on the page is a piece of the test that runs it.
pub fn expect_rust_of_page(mark: &str, test: &str) {
    let plain = |text: &str| {
        text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
    };
    let block = documented_blocks(mark).next().expect("an example");
    assert!(plain(test).contains(&plain(block)), "no test runs this:\n{block}");
}
