//! Defects that are put into a module's PTX, to see that the PTX machine finds them: `mutate=NAME`.

use crate::error::MutationError;

/// What a defect does to each line of the text.
enum Change {
    /// One text in the place of another.
    Put(&'static str, &'static str),
    /// The same on lines that have a third.
    Within(&'static str, &'static str, &'static str),
    /// Lines with this text are gone.
    Drop(&'static str),
    /// Lines with this text stand twice.
    Twice(&'static str),
    /// `st.mmio` of a doorbell in two halves of 16 bits.
    Halves,
    /// One text in the place of another behind a store to the system of the number 1, which hazard slots get.
    BehindOne(&'static str, &'static str),
}
use Change::{BehindOne, Drop, Halves, Put, Twice, Within};

const MUTATIONS: &[(&str, Change)] = &[
    ("fence-sc-sys-gone", Drop("fence.sc.sys;")),
    ("fence-sc-sys-gpu", Put("fence.sc.sys", "fence.sc.gpu")),
    ("hazard-fence-gone", BehindOne("fence.sc.sys;", "")),
    ("hazard-fence-gpu", BehindOne("fence.sc.sys", "fence.sc.gpu")),
    ("fence-acq-rel-sys-gone", Drop("fence.acq_rel.sys;")),
    ("fence-acq-rel-sys-gpu", Put("fence.acq_rel.sys", "fence.acq_rel.gpu")),
    ("fence-acq-rel-gpu-gone", Drop("fence.acq_rel.gpu;")),
    ("fence-acq-rel-gpu-cta", Put("fence.acq_rel.gpu", "fence.acq_rel.cta")),
    ("release-gpu-relaxed", Put("st.release.gpu", "st.relaxed.gpu")),
    ("release-gpu-cta", Put("st.release.gpu", "st.release.cta")),
    ("release-gpu-weak", Put("st.release.gpu.global", "st.global")),
    ("release-sys-relaxed", Put("st.release.sys", "st.relaxed.sys")),
    ("release-sys-gpu", Put("st.release.sys", "st.release.gpu")),
    ("acquire-sys-relaxed", Put("ld.acquire.sys", "ld.relaxed.sys")),
    ("acquire-sys-gpu", Put("ld.acquire.sys", "ld.acquire.gpu")),
    ("acquire-sys-weak", Put("ld.acquire.sys.global", "ld.global")),
    ("acquire-gpu-relaxed", Put("ld.acquire.gpu", "ld.relaxed.gpu")),
    ("acquire-gpu-cta", Put("ld.acquire.gpu", "ld.acquire.cta")),
    ("relaxed-sys-load-weak", Put("ld.relaxed.sys.global", "ld.global")),
    ("relaxed-sys-load-gpu", Put("ld.relaxed.sys", "ld.relaxed.gpu")),
    ("relaxed-gpu-load-cta", Put("ld.relaxed.gpu", "ld.relaxed.cta")),
    ("relaxed-gpu-load-weak", Put("ld.relaxed.gpu.global", "ld.global")),
    ("mmio-relaxed", Put("st.mmio.relaxed.sys", "st.relaxed.sys")),
    ("mmio-weak", Put("st.mmio.relaxed.sys.global", "st.global")),
    ("mmio-twice", Twice("st.mmio.relaxed.sys")),
    ("mmio-halves", Halves),
    ("mmio-gone", Drop("st.mmio.relaxed.sys")),
    ("atom-acquire-relaxed", Put("atom.acquire.gpu", "atom.relaxed.gpu")),
    ("reduction-release-relaxed", Put("red.release.gpu", "red.relaxed.gpu")),
    ("or-not-atomic", Put("red.relaxed.gpu.global.or.b64", "st.relaxed.gpu.global.u64")),
    ("add-not-atomic", Put("red.relaxed.gpu.global.add.u32", "st.relaxed.gpu.global.u32")),
    ("warp-barrier-gone", Drop("bar.warp.sync")),
    ("block-barrier-gone", Drop("bar.sync")),
    ("mask-without-a-lane", Put("bar.warp.sync \t-1", "bar.warp.sync \t2147483647")),
    ("ballot-of-the-opposite", Within("vote.sync.ballot", ", %p", ", !%p")),
    ("shuffle-from-another", Put(", 0, 31, -1;", ", 1, 31, -1;")),
    ("proxy-fence-gone", Drop("fence.proxy.async;")),
    ("phase-ignored", Put(", 1, 0, p;", ", 1, 1, p;")),
    ("highest-for-lowest", Put("brev.b32", "mov.b32")),
];

/// The text with a defect, which is the text as it was where it has nothing of the kind; or why not.
pub(crate) fn mutated<'a>(text: &'a str, name: &str) -> Result<String, MutationError> {
    let found = MUTATIONS.iter().find(|(known, _)| *known == name);
    let Some((_, change)) = found else {
        let known: Vec<&str> = MUTATIONS.iter().map(|(known, _)| *known).collect();
        return Err(MutationError::Unknown { name: name.to_owned(), known: known.join(", ") });
    };
    let mut ones = Ones::default();
    let line = |line: &'a str| match change {
        BehindOne(from, to) if ones.behind(line) => line.replace(from, to),
        Put(from, to) => line.replace(from, to),
        Within(of, from, to) if line.contains(of) => line.replace(from, to),
        Drop(part) if line.contains(part) => String::new(),
        Twice(part) if line.contains(part) => format!("{line} {line}"),
        Halves if line.contains("st.mmio.relaxed.sys.global.u32") => halves(line),
        _ => line.to_owned(),
    };
    Ok(text.lines().map(line).collect::<Vec<String>>().join("\n"))
}

/// Follows the number 1 through a function.
#[derive(Default)]
struct Ones<'a> {
    /// The register that has it.
    register: Option<&'a str>,
    /// The last store to the system was one of it.
    stored: bool,
}

impl<'a> Ones<'a> {
    /// Whether this line is behind a store of it.
    fn behind(&mut self, line: &'a str) -> bool {
        let line = line.trim();
        if line == "{" {
            *self = Ones::default();
        } else if line.starts_with("mov.") && line.ends_with(", 1;") {
            self.register = line.split_whitespace().nth(1).map(|to| to.trim_end_matches(','));
        } else if line.starts_with("st.relaxed.sys") {
            self.stored = self.register.is_some() && between(line, "], ", ";") == self.register;
        }
        self.stored
    }
}

/// `st.mmio.relaxed.sys.global.u32 [%rd1], %r2;` as two stores.
fn halves(line: &str) -> String {
    let (Some(at), Some(value)) = (between(line, "[", "]"), between(line, "], ", ";")) else {
        return line.to_owned();
    };
    let store = "st.mmio.relaxed.sys.global.u16";
    format!(
        "{{ .reg .b16 low, high; mov.b32 {{low, high}}, {value}; {store} [{at}], low; {store} [{at}+2], high; }}"
    )
}

fn between<'a>(line: &'a str, from: &str, to: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(from)?;
    Some(rest.split_once(to)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_defect_changes_the_lines_that_it_names() {
        let text = "ld.acquire.sys.global.u32 %r1, [%rd1];\nst.mmio.relaxed.sys.global.u32 [%rd2], %r1;\nbar.sync 0;";
        assert!(mutated(text, "acquire-sys-gpu").unwrap().starts_with("ld.acquire.gpu.global.u32 %r1"));
        assert!(mutated(text, "block-barrier-gone").unwrap().ends_with("%r1;\n"));
        let ballot = mutated(
            "vote.sync.ballot.b32 \t%r1, %p2, %r3;\nselp.b32 %r1, 1, 0, %p2;",
            "ballot-of-the-opposite",
        );
        assert_eq!(ballot.unwrap(), "vote.sync.ballot.b32 \t%r1, !%p2, %r3;\nselp.b32 %r1, 1, 0, %p2;");
        assert_eq!(mutated(text, "mmio-twice").unwrap().matches("st.mmio").count(), 2);
        let halves = mutated(text, "mmio-halves").unwrap();
        assert!(halves.contains("{low, high}, %r1; st.mmio.relaxed.sys.global.u16 [%rd2], low;"), "{halves}");
        let store = |value: &str| {
            format!("st.relaxed.sys.global.u32 [%rd1], {value};\n// end inline asm\nfence.sc.sys;")
        };
        let fences =
            format!("{{\nmov.b32 \t%r4, 1;\n{}\n{}\n}}\n{{\n{}", store("%r4"), store("%r5"), store("%r4"));
        assert_eq!(mutated(&fences, "hazard-fence-gone").unwrap(), fences.replacen("fence.sc.sys;", "", 1));
        assert_eq!(mutated(&fences, "fence-sc-sys-gone").unwrap().matches("fence.sc").count(), 0);
        assert!(mutated(text, "nonsense").unwrap_err().to_string().contains("mmio-halves"));
    }
}
