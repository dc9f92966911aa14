//! `report costs`: what each call of the device library costs, from the compiler's output.

use std::path::Path;
use std::process::{Command, Stdio};

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use serde_json::{Map, Value, json};
use warpbell_kernels::costs::{
    ARCHITECTURES, Budgets, CostTable, FIGURES, Figure, Figures, Judged, checked_in, judge, measure,
};
use warpbell_kernels::toolchain;

use crate::args::{CostsReportArgs, Global, Output};
use crate::exit::{Ending, FAILED, MISSING};
use crate::out;

/// Name and version of the document's form.
const SCHEMA: &str = "warpbell.report.costs/1";

/// Runs the command. It fails where a budget is not met.
pub fn run(args: &CostsReportArgs, global: &Global) -> Result<(), Ending> {
    let shown = architectures(args, global)?;
    let table = if args.measure { measured()? } else { checked_in().map_err(Ending::failed)? };
    let budgets = Budgets::checked_in().map_err(Ending::failed)?;
    let judged: Vec<_> =
        judge(&table, &budgets).into_iter().filter(|one| shown.contains(&one.row.arch)).collect();
    let report = Report::new(&table, args.measure, &judged);
    match global.output() {
        Output::Normal => out::text(&text(&report, &judged, &shown))?,
        Output::Json => out::json(&report)?,
    }
    if report.met {
        return Ok(());
    }
    let broken = judged.iter().filter(|one| one.broken().next().is_some()).count();
    Err(Ending::new(FAILED, format!("{broken} of {} figures are over their budgets", judged.len())))
}

fn architectures(args: &CostsReportArgs, global: &Global) -> Result<Vec<u32>, Ending> {
    if let Some(unknown) = args.arch.iter().find(|arch| !ARCHITECTURES.contains(arch)) {
        let known = ARCHITECTURES.map(|arch| arch.to_string()).join(", ");
        return Err(Ending::usage(format!("--arch {unknown}: figures are kept for {known}")));
    }
    Ok(match (args.arch.is_empty(), global.output()) {
        (false, _) => args.arch.clone(),
        (true, Output::Json) => ARCHITECTURES.to_vec(),
        (true, Output::Normal) => vec![90],
    })
}

fn measured() -> Result<CostTable, Ending> {
    let nvcc = toolchain::nvcc().ok_or_else(|| {
        Ending::new(
            MISSING,
            "--measure: no nvcc here: install CUDA 13.0 and name it by WARPBELL_NVCC or CUDA_HOME, \
             or leave --measure out to see the figures that came with the program",
        )
    })?;
    runs(&nvcc)?;
    measure(&nvcc).map_err(Ending::failed)
}

/// A compiler that is named and missing is said before any of its tools is.
fn runs(nvcc: &Path) -> Result<(), Ending> {
    match Command::new(nvcc).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(_) => Ok(()),
        Err(error) => {
            let named = std::env::var_os("WARPBELL_NVCC").is_some_and(|chosen| !chosen.is_empty());
            let from = if named { "WARPBELL_NVCC" } else { "nvcc" };
            let why = format!("--measure: {from}: cannot run '{}': {error}", nvcc.display());
            Err(Ending::new(MISSING, why))
        }
    }
}

/// The document.
#[derive(Debug, Serialize)]
struct Report {
    schema: &'static str,
    warpbell: &'static str,
    /// `measured` now, or `checked-in`.
    origin: &'static str,
    compiler: String,
    source_hash: String,
    /// The figures are of other sources than this program's.
    stale: bool,
    /// Each figure is within its budget.
    met: bool,
    calls: Vec<Call>,
}

/// One call in one mode on one architecture.
#[derive(Debug, Serialize)]
struct Call {
    layer: String,
    call: String,
    mode: String,
    arch: String,
    met: bool,
    figures: Map<String, Value>,
    budgets: Map<String, Value>,
}

impl Report {
    fn new(table: &CostTable, measured: bool, judged: &[Judged]) -> Report {
        Report {
            schema: SCHEMA,
            warpbell: env!("CARGO_PKG_VERSION"),
            origin: if measured { "measured" } else { "checked-in" },
            compiler: table.compiler.clone(),
            source_hash: table.source_hash.clone(),
            stale: table.is_stale(),
            met: judged.iter().all(|one| one.broken().next().is_none()),
            calls: judged.iter().map(Call::new).collect(),
        }
    }
}

impl Call {
    fn new(one: &Judged) -> Call {
        let probe = &one.row.probe;
        let bounded = Figures::bound(&probe.layer).is_some();
        let known = |figure: &Figure| bounded || !is_bounded(*figure);
        let figures =
            FIGURES.into_iter().filter(known).map(|f| (f.name().to_owned(), json!(one.row.whole[f])));
        let budgets = one.limits.iter().map(|limit| {
            let key = if limit.figure.is_exact() { "exactly" } else { "at_most" };
            (limit.figure.name().to_owned(), json!({ key: limit.value }))
        });
        Call {
            layer: probe.layer.clone(),
            call: probe.call.clone(),
            mode: probe.mode.clone(),
            arch: format!("sm_{}", one.row.arch),
            met: one.broken().next().is_none(),
            figures: figures.collect(),
            budgets: budgets.collect(),
        }
    }
}

fn is_bounded(figure: Figure) -> bool {
    matches!(figure, Figure::RegistersBounded | Figure::SpillBoundedBytes | Figure::InlineSpillBoundedSites)
}

fn text(report: &Report, judged: &[Judged], shown: &[u32]) -> String {
    let mut text = format!("device library by {}, {}", report.compiler, origin(report));
    for arch in shown {
        let rows: Vec<_> = judged.iter().filter(|one| one.row.arch == *arch).collect();
        text += &format!("\n\nsm_{arch}\n{}", rendered(&rows));
    }
    text += "\n\nFigures of a whole kernel, which attaches, makes the call once and detaches; `attach` makes no call. A\n\
             figure and its budget: 199/200. Inline: of the kernel's own code, without functions that it calls. Stack:\n\
             bytes of a lane. Bounded: registers to which the kernel was bounded, too; if it then spills, the bytes,\n\
             and by how many instructions more its own code accesses local memory. Atomics, fences, divisions and\n\
             calls are sites in the code, those of attaching and detaching among them (docs/costs.md).\n";
    text
}

fn origin(report: &Report) -> &'static str {
    match (report.origin, report.stale) {
        ("measured", _) => "measured now",
        (_, false) => "as it came with this program",
        (_, true) => "STALE: of other sources than this program's (--measure counts anew)",
    }
}

fn rendered(rows: &[&Judged]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "call",
        "mode",
        "instructions",
        "inline",
        "registers",
        "bounded, spilled, inline",
        "stack",
        "atomics",
        "fences sys",
        "store-load",
        "gpu",
        "divisions",
        "calls",
        "spills",
        "budget",
    ]);
    for one in rows {
        table.add_row(cells(one));
    }
    for column in 2..=13 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

fn cells(one: &Judged) -> [String; 15] {
    let probe = &one.row.probe;
    let of = |figure: Figure| match one.limits.iter().find(|limit| limit.figure == figure) {
        Some(limit) => format!("{}/{}", one.row.whole[figure], limit.value),
        None => one.row.whole[figure].to_string(),
    };
    let whole = &one.row.whole;
    let fits = match (Figures::bound(&probe.layer), whole[Figure::SpillBoundedBytes]) {
        (None, _) => "-".to_owned(),
        (Some(bound), 0) => bound.to_string(),
        (Some(bound), bytes) => format!("{bound}, {bytes} B, {}", whole[Figure::InlineSpillBoundedSites]),
    };
    let broken: Vec<_> = one.broken().map(|limit| limit.figure.name()).collect();
    [
        format!("{}.{}", probe.layer, probe.call),
        probe.mode.clone(),
        of(Figure::Instructions),
        of(Figure::InlineInstructions),
        of(Figure::Registers),
        fits,
        of(Figure::StackBytes),
        of(Figure::RmwSites),
        of(Figure::FenceSysSites),
        of(Figure::FenceScSysSites),
        of(Figure::FenceGpuSites),
        of(Figure::DivisionSites),
        of(Figure::CallSites),
        of(Figure::SpillBytes),
        if broken.is_empty() { "met".to_owned() } else { format!("NOT MET: {}", broken.join(", ")) },
    ]
}
