//! `budgets.toml` against the machine code of the probe kernels.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use warpbell_kernels::toolchain;

use crate::matrix::{Usage, kept, matrix};
use crate::skip::skip_without_nvcc;

const ARCH: u32 = 90;

/// What one probe costs, in sites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    instructions: i64,
    rmw: i64,
    membar_sys: i64,
    membar_gpu: i64,
    /// Instructions that only divisions and calls need.
    forbidden: i64,
}

#[test]
fn the_library_stays_within_its_budgets() {
    let Some(nvcc) = toolchain::nvcc() else { return skip_without_nvcc("instruction budgets") };
    let cuobjdump = nvcc.with_file_name("cuobjdump");
    if !cuobjdump.is_file() {
        return println!("skipped: instruction budgets: no cuobjdump beside {}", nvcc.display());
    }
    let usages = &matrix(&nvcc).usages;
    let costs = disassemble(&cuobjdump, &kept(&nvcc, "probe.cu", ARCH));
    let budgets: toml::Table = include_str!("../../budgets.toml").parse().unwrap();
    let mut over = Vec::new();
    println!("sm_{ARCH}, net of an empty probe:    instructions  rmw  membar_sys  membar_gpu  registers");
    for (probe, budget) in &budgets {
        let mode = probe.split_once('_').unwrap().1;
        let (name, empty) = (format!("probe_{probe}"), format!("probe_empty_{mode}"));
        let usage = |name: &str| usages.get(&(name.to_owned(), ARCH)).copied().unwrap_or_default();
        let (used, idle) = (usage(&name), usage(&empty));
        let (cost, base) = (costs[name.as_str()], costs[empty.as_str()]);
        let figures = figures(&cost, &base, &used, &idle);
        println!(
            "sm_{ARCH} {probe:<28} {:>12} {:>4} {:>11} {:>11} {:>10}",
            figures["instructions"],
            figures["rmw"],
            figures["membar_sys"],
            figures["membar_gpu"],
            used.registers
        );
        for (what, limit) in budget.as_table().unwrap() {
            let (found, limit) = (figures[what.as_str()], limit.as_integer().unwrap());
            // A fence too few, or of too narrow a scope, is a bug that no run on a CPU shows.
            let exact = what.starts_with("membar");
            if found > limit || exact && found != limit {
                over.push(format!("{probe}: {what} {found}, budget {limit}"));
            }
        }
        if cost.forbidden > 0 || used.stack > 0 {
            over.push(format!(
                "{probe}: {} instructions of divisions or calls, stack {}",
                cost.forbidden, used.stack
            ));
        }
    }
    assert!(over.is_empty(), "over budget:\n{}", over.join("\n"));
}

fn figures(cost: &Cost, base: &Cost, used: &Usage, idle: &Usage) -> BTreeMap<&'static str, i64> {
    BTreeMap::from([
        ("instructions", cost.instructions - base.instructions),
        ("rmw", cost.rmw - base.rmw),
        ("membar_sys", cost.membar_sys - base.membar_sys),
        ("membar_gpu", cost.membar_gpu - base.membar_gpu),
        ("registers", i64::from(used.registers)),
        ("registers_net", i64::from(used.registers) - i64::from(idle.registers)),
    ])
}

/// The cost of each function of a fat binary.
fn disassemble(cuobjdump: &Path, binary: &Path) -> BTreeMap<String, Cost> {
    let output = Command::new(cuobjdump).arg("-sass").arg(binary).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    costs(&String::from_utf8_lossy(&output.stdout))
}

fn costs(sass: &str) -> BTreeMap<String, Cost> {
    let mut costs = BTreeMap::new();
    let mut function = String::new();
    for line in sass.lines() {
        if let Some((_, name)) = line.split_once("Function : ") {
            function = name.trim().to_owned();
        } else if let Some(opcode) = opcode(line) {
            count(costs.entry(function.clone()).or_default(), opcode);
        }
    }
    costs
}

/// The opcode of a line `/*0010*/  @P0 ATOMG.E.ADD ...;`.
fn opcode(line: &str) -> Option<&str> {
    let (address, rest) = line.trim().strip_prefix("/*")?.split_once("*/")?;
    let is_address = address.len() <= 8 && address.chars().all(|c| c.is_ascii_hexdigit());
    let mut words = rest.split_whitespace();
    let first = words.next().filter(|_| is_address)?;
    let opcode = if first.starts_with('@') { words.next()? } else { first };
    Some(opcode.trim_end_matches(';'))
}

fn count(cost: &mut Cost, opcode: &str) {
    let stem = opcode.split('.').next().unwrap_or_default();
    cost.instructions += i64::from(stem != "NOP");
    cost.rmw += i64::from(matches!(stem, "ATOM" | "ATOMG" | "RED" | "REDG"));
    cost.membar_sys += i64::from(stem == "MEMBAR" && opcode.ends_with(".SYS"));
    cost.membar_gpu += i64::from(stem == "MEMBAR" && opcode.ends_with(".GPU"));
    cost.forbidden += i64::from(matches!(stem, "MUFU" | "I2F" | "F2I" | "CALL"));
}

#[test]
fn machine_code_is_understood() {
    let sass = "
\t\tFunction : probe_x
\t.headerflags\t@\"EF_CUDA_SM90\"
        /*0000*/                   LDC R1, c[0x0][0x28] ;                  /* 0x00000a00ff017b82 */
                                                                           /* 0x000fe20000000a00 */
        /*0010*/              @!P0 ATOMG.E.CAS.64.STRONG.GPU PT, R2, [R4] ;  /* 0x00000a00ff017b82 */
        /*0020*/                   MEMBAR.ALL.SYS ;                        /* 0x00000a00ff017b82 */
        /*0030*/                   MEMBAR.ALL.GPU ;                        /* 0x00000a00ff017b82 */
        /*0040*/                   MUFU.RCP R1, R2 ;                       /* 0x00000a00ff017b82 */
        /*0050*/                   NOP;                                    /* 0x00000a00ff017b82 */
";
    let expected = Cost { instructions: 5, rmw: 1, membar_sys: 1, membar_gpu: 1, forbidden: 1 };
    assert_eq!(costs(sass), BTreeMap::from([("probe_x".to_owned(), expected)]));
}
