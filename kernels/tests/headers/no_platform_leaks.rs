//! Device code reaches the platform, and memory that others see, through `port.cuh` alone.

use warpbell_kernels::{HEADERS, SOURCES};

/// What only the platform's files may say.
const PLATFORM_WORDS: [&str; 24] = [
    "__activemask",
    "asm",
    "volatile",
    "__atomic",
    "__sync_",
    "std::atomic",
    "cuda::",
    "atomicAdd",
    "atomicCAS",
    "atomicExch",
    "atomicOr",
    "__threadfence",
    "__syncwarp",
    "__syncthreads",
    "__shfl",
    "__ballot",
    "__match",
    "__nanosleep",
    "__ldcg",
    "__builtin",
    "threadIdx",
    "blockIdx",
    "clock64",
    "simt::",
];

/// The two halves of the platform.
fn is_platform(name: &str) -> bool {
    matches!(name, "warpbell/impl/port_gpu.cuh" | "warpbell/impl/port_cpu.cuh")
}

/// Device code: the library and our kernels, without the tables for the host.
fn device_files() -> impl Iterator<Item = (&'static str, &'static str)> {
    let files = HEADERS.iter().chain(SOURCES).copied();
    files.filter(|(name, _)| !is_platform(name))
}

/// The text with comments blanked out; lines stay lines.
fn code(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("//").into_iter().chain(rest.find("/*")).min() {
        let (before, comment) = rest.split_at(at);
        out.push_str(before);
        let (end, keep) = if comment.starts_with("//") { ("\n", 0) } else { ("*/", 2) };
        let length = comment[2..].find(end).map_or(comment.len(), |end| end + 2 + keep);
        out.extend(comment[..length].chars().filter(|c| *c == '\n'));
        rest = &comment[length..];
    }
    out + rest
}

/// Lines of `text` on which `found` says something.
fn lines<'a>(name: &str, text: &'a str, found: impl Fn(&'a str) -> bool) -> Vec<String> {
    let hits = text.lines().enumerate().filter(|(_, line)| found(line));
    hits.map(|(index, line)| format!("{name}:{}: {}", index + 1, line.trim())).collect()
}

/// `word` as the start of a word.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let end = line[at + word.len()..].chars().next();
        let ends = word == "asm" && end.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_') && !ends
    })
}

/// A dereference of memory that warps, the host or the controller share: `*pointer`, `state()->field` and
/// `host()->field` that are not addresses for a function of `port`, and an indexed cast.
fn dereferences(line: &str) -> bool {
    let star = line.match_indices('*').any(|(at, _)| {
        let name: String = line[at + 1..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        !name.is_empty() && name != "this"
    });
    let arrow = ["state()->", "host()->"]
        .iter()
        .any(|access| line.match_indices(access).any(|(at, _)| !line[..at].ends_with('&')));
    let cast = line.match_indices("reinterpret_cast<").any(|(at, _)| {
        let end = line[at..].find(')').map_or(line.len(), |end| at + end + 1);
        let arrow = line[end..].starts_with("->") && !line[..at].ends_with('&');
        arrow || line[end..].starts_with('[') || line[..at].ends_with('*')
    });
    star || arrow || cast
}

fn assert_none(what: &str, hits: &[String]) {
    assert!(hits.is_empty(), "{what}:\n{}", hits.join("\n"));
}

#[test]
fn only_the_platform_knows_the_platform() {
    let found = |line: &str| PLATFORM_WORDS.iter().any(|word| has_word(line, word));
    let hits: Vec<_> = device_files().flat_map(|(name, text)| lines(name, &code(text), found)).collect();
    assert_none("outside of port.cuh", &hits);
}

#[test]
fn nobody_asks_for_the_active_mask() {
    let files = HEADERS.iter().chain(SOURCES);
    let hits: Vec<_> =
        files.flat_map(|(name, text)| lines(name, text, |line| line.contains("__activemask"))).collect();
    assert_none("CUDA promises nothing about it", &hits);
}

#[test]
fn the_library_includes_nothing_but_itself() {
    let allowed = |name: &str, line: &str| match name {
        "warpbell/abi.h" => line == "#include <stdint.h>",
        "warpbell/impl/port_cpu.cuh" => line.starts_with("#include <simt/"),
        _ => false,
    };
    let hits = HEADERS.iter().flat_map(|(name, text)| {
        lines(name, text, |line| line.starts_with("#include <") && !allowed(name, line))
    });
    assert_none("no system header on the device", &hits.collect::<Vec<_>>());
    // A check of calls by CUDA's groups.
    let groups =
        |name: &str, line: &str| name == "check/cooperative.cuh" && line == "#include <cooperative_groups.h>";
    let hits = SOURCES.iter().flat_map(|(name, text)| {
        let foreign = |line: &str| line.starts_with("#include <") && !line.starts_with("#include <warpbell/");
        lines(name, text, move |line| foreign(line) && !groups(name, line))
    });
    assert_none("kernels include the library alone", &hits.collect::<Vec<_>>());
}

#[test]
fn the_queue_dereferences_no_shared_memory_by_itself() {
    let is_queue = |name: &str| name == "warpbell/queue.cuh" || name.starts_with("warpbell/impl/queue_");
    let files: Vec<_> = HEADERS.iter().filter(|(name, _)| is_queue(name)).collect();
    assert!(files.len() >= 2);
    // A lane's own patience, handed down by pointer because it may be absent, and the status in its own optional:
    // not shared memory.
    let own = |line: &str| line.replace("*wait_for_room", "wait_for_room").replace("return *done;", "");
    let found = |line: &str| dereferences(&own(line));
    let hits: Vec<_> = files.iter().flat_map(|(name, text)| lines(name, &code(text), found)).collect();
    assert_none("loads and stores go through port", &hits);
}

/// Obligation 3 of the protocol. The CPU target never gives a load an old value, so no run there misses an acquire.
#[test]
fn room_is_read_with_acquire() {
    let (_, text) = HEADERS.iter().find(|(name, _)| name.ends_with("queue_submit.cuh")).unwrap();
    let text = code(text);
    // By statements: one may be of several lines.
    let reads: Vec<_> = text
        .split(';')
        .filter(|statement| statement.contains("at_.limit =") && statement.contains("port::load"))
        .collect();
    assert_eq!(reads.len(), 1, "one place reads how much room there is: {reads:?}");
    assert!(reads[0].contains("port::load_acquire_gpu("), "{reads:?}");
}

#[test]
fn the_checks_see_what_they_look_for() {
    assert!(has_word("  asm(\"trap;\");", "asm") && !has_word("chasm(1)", "asm") && !has_word("asmx", "asm"));
    assert!(has_word("v = __shfl_sync(m, v, 0);", "__shfl"));
    for leak in [
        "u32 tail = *doorbell;",
        "state()->ticket = 1;",
        "u64 t = port::load(&state()->turn) + state()->head;",
        "reinterpret_cast<u32*>(ref_.sq)[3] = 0;",
        "reinterpret_cast<warpbell_queue_host*>(ref_.host)->alarm = 1;",
    ] {
        assert!(dereferences(leak), "{leak}");
    }
    for fine in [
        "u32* doorbell = reinterpret_cast<u32*>(ref_.sq_doorbell);",
        "port::store_release_sys(&reinterpret_cast<warpbell_queue_host*>(ref_.host)->alarm, 1);",
        "u64* ticket = &state()->ticket;",
        "return *this;",
        "index * 16u",
    ] {
        assert!(!dereferences(fine), "{fine}");
    }
    assert_eq!(code("a // b\nc /* d\n */ e"), "a \nc \n e");
}
