//! The table of figures: as text, one probe and architecture a line, checked in as `kernels/costs.txt`.

use std::fmt::Write as _;

use super::figures::{FIGURES, Figure, Figures};
use crate::fnv::Fnv;
use crate::{HEADERS, PROBES, SOURCES};

/// One library call in one sharing mode.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Probe {
    /// `queue` for queue.cuh, `io` for io.cuh, and so on; `mail` for a compute warp's part of agent.cuh.
    pub layer: String,
    /// The call; `attach` does nothing else.
    pub call: String,
    /// `shared` or `exclusive`; for `mail`, which has no queue, `block` or `device`: where its request queue is; for `lab`, whose
    /// queues are shared, the protocol.
    pub mode: String,
}

impl Probe {
    /// The probe of a kernel `probe_<layer>_<call>_<mode>`.
    pub fn of_kernel(name: &str) -> Option<Probe> {
        let (layer, rest) = name.strip_prefix("probe_")?.split_once('_')?;
        let (call, mode) = rest.rsplit_once('_')?;
        Some(Probe { layer: layer.to_owned(), call: call.to_owned(), mode: mode.to_owned() })
    }

    /// In messages and budgets: `queue.try_submit.shared`.
    pub fn name(&self) -> String {
        format!("{}.{}.{}", self.layer, self.call, self.mode)
    }
}

/// Figures of a whole probe on one architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The probe.
    pub probe: Probe,
    /// 90 for sm_90.
    pub arch: u32,
    /// All that it costs, attaching included.
    pub whole: Figures,
}

/// Figures of all probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostTable {
    /// `nvcc 13.0.88`.
    pub compiler: String,
    /// Hash of the sources that were counted.
    pub source_hash: String,
    /// By probe and architecture.
    pub rows: Vec<Row>,
}

/// A table that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("table of costs, line {line}: {wrong}; scripts/regenerate-costs writes it anew")]
pub struct TableError {
    /// From 1.
    pub line: usize,
    /// What is wrong.
    pub wrong: LineError,
}

/// What is wrong with a line of a table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// Other columns than this build's.
    #[error("columns '{found}', expected '{expected}'")]
    Columns {
        /// Those of the table.
        found: String,
        /// Those of this build.
        expected: String,
    },
    /// Too few words.
    #[error("'{line}' is no row")]
    NoRow {
        /// The line.
        line: String,
    },
    /// Too few figures, or too many.
    #[error("{found} figures, expected {expected}")]
    Figures {
        /// Those of the row.
        found: usize,
        /// Those of this build.
        expected: usize,
    },
    /// A figure that is none.
    #[error("'{word}' is no number")]
    Number {
        /// What is in its place.
        word: String,
    },
    /// An architecture that is none.
    #[error("'{word}' is no architecture")]
    Architecture {
        /// What is in its place.
        word: String,
    },
}

impl CostTable {
    /// Whether it was made from other sources than this build's.
    pub fn is_stale(&self) -> bool {
        self.source_hash != source_hash()
    }

    /// The row of a probe.
    pub fn find(&self, probe: &Probe, arch: u32) -> Option<&Row> {
        self.rows.iter().find(|row| row.probe == *probe && row.arch == arch)
    }

    /// As text.
    pub fn to_text(&self) -> String {
        let mut text = "# Made by scripts/regenerate-costs. Figures of whole probes; docs/costs.md tells what they mean.\n"
            .to_owned();
        // A string takes whatever is written to it.
        let _ = writeln!(text, "compiler {}\nsource-hash {}", self.compiler, self.source_hash);
        let _ = writeln!(text, "layer call mode sm {}", columns());
        for Row { probe: Probe { layer, call, mode }, arch, whole } in &self.rows {
            let figures =
                FIGURES.into_iter().map(|figure| whole[figure].to_string()).collect::<Vec<_>>().join(" ");
            let _ = writeln!(text, "{layer} {call} {mode} {arch} {figures}");
        }
        text
    }

    /// From its text.
    pub fn parse(text: &str) -> Result<CostTable, TableError> {
        let mut table = CostTable { compiler: String::new(), source_hash: String::new(), rows: Vec::new() };
        for (index, line) in text.lines().enumerate() {
            let failed = |wrong: LineError| TableError { line: index + 1, wrong };
            match line.split_once(' ') {
                None | Some(("#", _)) => {}
                Some(("compiler", name)) => name.clone_into(&mut table.compiler),
                Some(("source-hash", hash)) => hash.clone_into(&mut table.source_hash),
                Some(("layer", columns)) => check_columns(columns).map_err(failed)?,
                Some(_) => table.rows.push(row(line).map_err(failed)?),
            }
        }
        Ok(table)
    }
}

fn columns() -> String {
    FIGURES.into_iter().map(Figure::name).collect::<Vec<_>>().join(" ")
}

fn check_columns(line: &str) -> Result<(), LineError> {
    let expected = columns();
    let found = line.strip_prefix("call mode sm ").unwrap_or(line).to_owned();
    if found == expected { Ok(()) } else { Err(LineError::Columns { found, expected }) }
}

fn row(line: &str) -> Result<Row, LineError> {
    let words: Vec<&str> = line.split(' ').collect();
    let [layer, call, mode, arch, figures @ ..] = words.as_slice() else {
        return Err(LineError::NoRow { line: line.to_owned() });
    };
    let expected = FIGURES.len();
    if figures.len() != expected {
        return Err(LineError::Figures { found: figures.len(), expected });
    }
    let number = |word: &str| word.parse::<i64>().map_err(|_| LineError::Number { word: word.to_owned() });
    let mut whole = Figures::default();
    for (figure, word) in FIGURES.into_iter().zip(figures) {
        whole[figure] = number(word)?;
    }
    let arch = arch.parse().map_err(|_| LineError::Architecture { word: (*arch).to_owned() })?;
    let probe = Probe { layer: (*layer).to_owned(), call: (*call).to_owned(), mode: (*mode).to_owned() };
    Ok(Row { probe, arch, whole })
}

/// What the probes of the laboratory's protocols include, beside the device library.
pub(super) fn laboratory() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    SOURCES.iter().filter(|(name, _)| {
        ["abi_bench.h", "abi_lab.h", "common.cuh"].contains(name)
            || (name.starts_with("lab/") && *name != "lab/loop.cuh")
    })
}

/// Hash of the code that the figures depend on: the device library, the laboratory's protocols and the probes. Comments and
/// layout are not part of it.
pub fn source_hash() -> String {
    HEADERS
        .iter()
        .chain(laboratory())
        .chain(PROBES)
        .fold(Fnv::new(), |hash, (name, text)| hash.text(name).text(&code_of(text)))
        .hex()
}

/// A source without its comments, and without white space but for one blank between words. Strings stay as they are.
fn code_of(source: &str) -> String {
    let (mut code, mut rest, mut gap) = (String::with_capacity(source.len()), source, false);
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    while let Some(letter) = rest.chars().next() {
        let blank = length_of_blank(rest);
        if blank > 0 {
            (gap, rest) = (true, &rest[blank..]);
            continue;
        }
        if std::mem::take(&mut gap) && is_word(letter) && code.ends_with(is_word) {
            code.push(' ');
        }
        let (token, after) =
            rest.split_at(if letter == '"' { length_of_string(rest) } else { letter.len_utf8() });
        code.push_str(token);
        rest = after;
    }
    code
}

/// Bytes of the comment or the white space that a text begins with.
fn length_of_blank(text: &str) -> usize {
    let up_to = |end: &str| text.find(end).map_or(text.len(), |at| at + end.len());
    match text {
        comment if comment.starts_with("//") => up_to("\n"),
        comment if comment.starts_with("/*") => up_to("*/"),
        other => other.len() - other.trim_start().len(),
    }
}

/// Bytes of the string that a text begins with, quotes among them.
fn length_of_string(text: &str) -> usize {
    let mut escaped = false;
    let is_end = |letter: char| {
        let end = letter == '"' && !escaped;
        escaped = letter == '\\' && !escaped;
        end
    };
    text[1..].find(is_end).map_or(text.len(), |at| at + 2)
}

/// The table that this build carries.
pub fn checked_in() -> Result<CostTable, TableError> {
    CostTable::parse(include_str!("../../costs.txt"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row_of(kernel: &str, instructions: i64) -> Row {
        let mut whole = Figures::default();
        (whole[Figure::Instructions], whole[Figure::Registers]) = (instructions, 20);
        Row { probe: Probe::of_kernel(kernel).unwrap(), arch: 90, whole }
    }

    fn sample() -> CostTable {
        let rows = vec![row_of("probe_queue_attach_shared", 40), row_of("probe_queue_try_wait_shared", 90)];
        CostTable { compiler: "nvcc 13.0.88".to_owned(), source_hash: "0123456789abcdef".to_owned(), rows }
    }

    #[test]
    fn kernels_name_layer_call_and_mode() {
        let probe = Probe::of_kernel("probe_io_submit_each_exclusive").unwrap();
        assert_eq!((probe.layer.as_str(), probe.call.as_str()), ("io", "submit_each"));
        assert_eq!(probe.name(), "io.submit_each.exclusive");
        assert_eq!(Probe::of_kernel("bench"), None);
    }

    #[test]
    fn comments_and_layout_are_no_code() {
        let code = "if (a) { /* why */ return \"a  // \\\" b\"; } // done\nint b;";
        assert_eq!(code_of(code), r#"if(a){return"a  // \" b";}int b;"#);
        let wrapped = "if (a) {\n    // why not,\n    // really\n    return \"a  // \\\" b\";\n}\nint\tb;\n";
        assert_eq!(code_of(wrapped), code_of(code));
        for other in ["int bc;", "int b  ;;", "in tb;", "x(\"a b\");"] {
            assert_ne!(code_of(other), code_of("int b;"), "{other}");
            assert_ne!(code_of(other), code_of("x(\"a  b\");"), "{other}");
        }
    }

    #[test]
    fn a_table_survives_its_text_and_says_whose_it_is() {
        let table = sample();
        assert_eq!(CostTable::parse(&table.to_text()).unwrap(), table);
        assert!(table.is_stale());
        assert!(!CostTable { source_hash: source_hash(), ..table }.is_stale());
    }

    /// What a row of docs/costs.md has to say of a call.
    fn row_of_page(table: &CostTable, name: &str) -> String {
        let (layer, call) = name.split_once('.').unwrap();
        let modes: &[&str] = match layer {
            "mail" => &["block", "device"],
            "cache" => &["readwrite", "readonly"],
            "lines" => &["clock", "fifo", "lru"],
            _ => &["shared", "exclusive"],
        };
        let probe = |mode: &&str| Probe { layer: layer.into(), call: call.into(), mode: (*mode).into() };
        // Not each call exists in each mode.
        let rows: Vec<_> = modes.iter().filter_map(|mode| table.find(&probe(mode), 90)).collect();
        assert!(!rows.is_empty(), "no probe {name}");
        let of = |figure| rows.iter().map(|row| row.whole[figure].to_string()).collect::<Vec<_>>();
        let mut cells = vec![of(Figure::Instructions), of(Figure::Registers)];
        if matches!(layer, "cache" | "lines") {
            cells.push(of(Figure::RmwSites));
        }
        let cells: Vec<_> = cells.iter().map(|cell| cell.join(", ")).collect();
        format!("| {} |", cells.join(" | "))
    }

    #[test]
    fn the_page_says_what_was_counted() {
        let (table, page) = (checked_in().unwrap(), include_str!("../../../docs/costs.md"));
        let (_, layers) = page.split_once("### Layers").unwrap();
        let rows = layers.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` "));
        let rows: Vec<_> = rows.filter(|(name, _)| name.contains('.')).collect();
        assert!(rows.len() >= 36, "{rows:?}");
        for (name, told) in rows {
            let expected = row_of_page(&table, name);
            let same = told.replace(',', "").starts_with(&expected.replace(',', ""));
            assert!(same, "docs/costs.md: {name} {told}, not {expected}");
        }
    }

    #[test]
    fn a_page_guard_spares_its_accesses_all_atomics_and_a_hit_has_two() {
        let table = checked_in().unwrap();
        let rows = |name: &str| {
            let (layer, call) = name.split_once('.').unwrap();
            let of = |row: &&Row| row.probe.layer == layer && row.probe.call == call;
            table.rows.iter().filter(of).collect::<Vec<_>>()
        };
        let (with, without) = (rows("cache.guarded_load"), rows("cache.element_guard"));
        assert_eq!((with.len(), without.len()), (10, 10), "two modes on each architecture");
        let ordering =
            [Figure::RmwSites, Figure::FenceScSysSites, Figure::FenceSysSites, Figure::FenceGpuSites];
        for (with, without) in with.iter().zip(without) {
            let of = |row: &Row| ordering.map(|figure| row.whole[figure]);
            assert_eq!(of(with), of(without), "{} on sm_{}", with.probe.name(), with.arch);
        }
        // One that pins, one that releases, and one behind a branch: of whoever finds another page there. A
        // policy that marks use releases in one of two ways.
        for hit in rows("lines.hit") {
            let sites = if hit.probe.mode == "clock" { 4 } else { 3 };
            assert_eq!(hit.whole[Figure::RmwSites], sites, "{} on sm_{}", hit.probe.name(), hit.arch);
        }
    }

    /// What docs/protocols.md has to say of a protocol's probe.
    fn row_of_protocol(table: &CostTable, call: &str, mode: &str) -> String {
        let probe = Probe { layer: "lab".into(), call: call.into(), mode: mode.into() };
        let row = table.find(&probe, 90).unwrap_or_else(|| panic!("no probe {}", probe.name()));
        let figures = [Figure::Instructions, Figure::Registers, Figure::RmwSites, Figure::FenceSysSites];
        let cells =
            figures.into_iter().chain([Figure::FenceGpuSites]).map(|figure| row.whole[figure].to_string());
        format!(" | {} |", cells.collect::<Vec<_>>().join(" | "))
    }

    #[test]
    fn the_page_of_protocols_says_what_was_counted() {
        let (table, page) = (checked_in().unwrap(), include_str!("../../../docs/protocols.md"));
        let (_, page) = page.split_once("## Static costs").unwrap();
        for (name, call, mode) in [
            ("`turns`", "io", "turns"),
            ("`turns-alone`", "io", "alone"),
            ("`marks`", "io", "marks"),
            ("`marks-own`", "io", "own"),
            ("`lockstep`", "io", "lockstep"),
            ("`service`", "io", "service"),
            ("`service`, the warp that serves", "serve", "server"),
        ] {
            let told = page.lines().find_map(|line| line.strip_prefix("| ")?.strip_prefix(name));
            let expected = row_of_protocol(&table, call, mode);
            assert_eq!(told.map(|told| told.replace(',', "")), Some(expected), "docs/protocols.md: {name}");
        }
    }

    #[test]
    fn what_is_no_table_is_named_by_its_line() {
        for (text, expected) in [
            ("compiler x\nqueue reap shared 90 1 2", "line 2: 2 figures, expected 16"),
            ("layer call mode sm weight", "line 1: columns 'weight'"),
        ] {
            let error = CostTable::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
