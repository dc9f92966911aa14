//! The ledger as a page.

use std::fmt::Write;

use super::{Claim, Recomputed, all};
use crate::answer::Verdict;
use crate::error::Error;
use crate::number::value;

const HEAD: &str = "\
# Claims ledger

<!-- Made by scripts/regenerate-claims from crates/plan/claims.toml; change it there. -->

Each figure of the documents that this project started from, recomputed by the models of [plan](plan.md), with a verdict. The documents are named by their short names: \
S0 is an essay on memory inside accelerators, S1 a card about GPU-Direct Storage, S2 a \"Solutions Architecture\" for NVMe from GPUs, S3 an article on zero-copy \
networking, S4 one on the peer-to-peer data path; L is the line. Rows such as S4-19 and E-05 are those of the project's inventory and of its list of errors.

Verdicts: *reproduced*: it follows. *Reproduced with an assumption*: it follows where something holds that the source does not say. *Contradicted*: it does not follow, or a specification \
or manual says something else. *Cannot be verified*: nothing that it could be held against was found; never quote it as measured.

A test recomputes every value and checks that every verdict follows (`cargo test -p warpbell-plan`). `warpbell plan claims -o json` has the same with the command that shows each value.
";

/// The page.
pub fn page() -> Result<String, Error> {
    let claims = all()?;
    let mut page = HEAD.to_owned();
    page += "\n| verdict | claims |\n| --- | --- |\n";
    for verdict in VERDICTS {
        let count = claims.iter().filter(|claim| claim.verdict == verdict).count();
        let _ = writeln!(page, "| {} | {count} |", verdict.words());
    }
    let documents = [
        ("S0", "Inside accelerators"),
        ("S1", "GPU-Direct Storage"),
        ("S2", "Solutions Architecture"),
        ("S3", "Zero-copy networking"),
        ("S4", "The peer-to-peer data path"),
    ];
    for (short, title) in documents {
        let own: Vec<&Claim> = claims.iter().filter(|claim| claim.source.starts_with(short)).collect();
        let _ = writeln!(page, "\n## {short}: {title}\n");
        page +=
            "| claim | source | says | recomputed | verdict | why |\n| --- | --- | --- | --- | --- | --- |\n";
        own.iter().for_each(|claim| page += &row(claim));
    }
    Ok(page)
}

const VERDICTS: [Verdict; 4] = [
    Verdict::Reproduced,
    Verdict::ReproducedWithAssumption,
    Verdict::Contradicted,
    Verdict::CannotBeVerified,
];

fn row(claim: &Claim) -> String {
    let recomputed: Vec<String> = claim.recomputed.iter().map(figure).collect();
    let recomputed = if recomputed.is_empty() { "no figure".to_owned() } else { recomputed.join("; ") };
    let verdict = match &claim.assumption {
        Some(assumption) => format!("**{}**: {assumption}", claim.verdict.words()),
        None => format!("**{}**", claim.verdict.words()),
    };
    let why = match &claim.basis {
        Some(basis) => format!("{} ({basis})", claim.why),
        None => claim.why.clone(),
    };
    let rows = if claim.rows.is_empty() { String::new() } else { format!(" ({})", claim.rows.join(", ")) };
    let cells =
        [format!("`{}`{rows}", claim.id), claim.source.clone(), claim.says.clone(), recomputed, verdict, why];
    format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))
}

fn figure(one: &Recomputed) -> String {
    let model = one.command.split_whitespace().nth(2).unwrap_or_default();
    let found = format!("{} {}", value(&one.found), one.unit);
    let claimed = match &one.claimed {
        Some(range) if range.is_array() => format!(", claimed {}", value(range).replacen(',', " to ", 1)),
        Some(claimed) => format!(", claimed {}", value(claimed)),
        None => String::new(),
    };
    format!("`{model}` {} = {}{claimed}", one.result, found.trim_end())
}
