//! What each call of the library costs, against `budgets/` and the checked-in table.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::env;
use std::path::Path;

use warpbell_kernels::costs::{Budgets, CostTable, Figure, Judged, checked_in, judge, measure, source_hash};
use warpbell_kernels::toolchain;

use crate::kept::{kept, key};
use crate::skip::skip_without_nvcc;

#[test]
fn the_library_stays_within_its_budgets() {
    let Some(nvcc) = toolchain::nvcc() else { return skip_without_nvcc("budgets of the device library") };
    let table = measured(&nvcc);
    let budgets = Budgets::checked_in().unwrap();
    let judged = judge(&table, &budgets);
    print(&judged);
    let over: Vec<_> = judged.iter().flat_map(broken).collect();
    assert!(over.is_empty(), "over budget (warpbell report costs --measure shows all):\n{}", over.join("\n"));
    let measured: BTreeSet<_> = table.rows.iter().map(|row| row.probe.name()).collect();
    let limited: BTreeSet<_> = budgets.probes().map(str::to_owned).collect();
    assert_eq!(measured, limited, "each probe has a budget, and each budget a probe");
    says_if_stale(&table);
}

fn broken(judged: &Judged) -> Vec<String> {
    let name = format!("{} on sm_{}", judged.row.probe.name(), judged.row.arch);
    let line = |limit: &warpbell_kernels::costs::Limit| {
        let must = if limit.figure.is_exact() { "must be" } else { "at most" };
        format!("{name}: {} {}, {must} {}", limit.figure.name(), judged.row.whole[limit.figure], limit.value)
    };
    judged.broken().map(line).collect()
}

/// What people without nvcc are shown must be what the compiler says. Stale is an error with `WARPBELL_STALE_COSTS=error`.
fn says_if_stale(table: &CostTable) {
    let shown = checked_in().unwrap();
    if shown == *table || shown.compiler != table.compiler {
        return;
    }
    let stale = shown.is_stale();
    let text = format!(
        "kernels/costs.txt (stale: {stale}) is not what the compiler says: run scripts/regenerate-costs"
    );
    assert!(stale && env::var_os("WARPBELL_STALE_COSTS").is_none_or(|value| value != "error"), "{text}");
    println!("warning: {text}");
}

/// The code that measures: other code may find other figures.
const MEASURING: [&str; 8] = [
    include_str!("../../src/costs/count.rs"),
    include_str!("../../src/costs/family.rs"),
    include_str!("../../src/costs/figures.rs"),
    include_str!("../../src/costs/measure.rs"),
    include_str!("../../src/costs/ptxas.rs"),
    include_str!("../../src/costs/sass.rs"),
    include_str!("../../src/costs/table.rs"),
    include_str!("../../src/includes.rs"),
];

/// The figures of these sources by this compiler: they are kept, so that only a change is compiled again.
fn measured(nvcc: &Path) -> CostTable {
    let hash = key(nvcc, &MEASURING, ("costs", &source_hash()), &[]);
    let text = kept(hash, || measure(nvcc).map(|table| table.to_text().into_bytes())).unwrap();
    CostTable::parse(&String::from_utf8(text).unwrap()).unwrap()
}

fn print(judged: &[Judged]) {
    println!(
        "sm_90, whole kernels: instructions, registers, bytes of stack, atomics, fences of system scope"
    );
    for one in judged.iter().filter(|one| one.row.arch == 90) {
        let of = |figure| one.row.whole[figure];
        println!(
            "sm_90 {:<32} {:>5} {:>3} {:>4} {:>3} {:>3}",
            one.row.probe.name(),
            of(Figure::Instructions),
            of(Figure::Registers),
            of(Figure::StackBytes),
            of(Figure::RmwSites),
            of(Figure::FenceSysSites),
        );
    }
}
