//! What `ptxas -v` says of kernels.

/// Registers and memory of one kernel on one architecture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The architecture, such as 90.
    pub arch: u32,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of stack, with that of the functions it calls.
    pub stack: u32,
    /// Bytes of registers stored to memory, in the kernel and in what it calls.
    pub spill_stores: u32,
    /// Bytes of registers loaded back, there too.
    pub spill_loads: u32,
}

/// The kernels in what it said. Functions that are not inlined are told of behind the kernel that calls them: what they
/// spill is the kernel's.
pub fn usages(said: &str) -> Vec<(String, Usage)> {
    let mut found: Vec<(String, Usage)> = Vec::new();
    for line in said.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let (name, target) = rest.split_once("' for 'sm_").unwrap_or((rest, ""));
            let arch = target.trim_end_matches('\'').parse().unwrap_or_default();
            found.push((name.to_owned(), Usage { arch, ..Usage::default() }));
        }
        let Some((_, usage)) = found.last_mut() else { continue };
        usage.spill_stores += number_before(line, " bytes spill stores").unwrap_or(0);
        usage.spill_loads += number_before(line, " bytes spill loads").unwrap_or(0);
        if let Some(registers) = number_before(line, " registers") {
            usage.registers = registers;
            usage.stack = number_before(line, " bytes cumulative stack size").unwrap_or(0);
        }
    }
    found
}

fn number_before(line: &str, what: &str) -> Option<u32> {
    let before = &line[..line.find(what)?];
    before.split_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ptxas_is_understood() {
        let said = "ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'probe' for 'sm_90'
ptxas info    : Function properties for probe
    48 bytes stack frame, 44 bytes spill stores, 40 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 64 bytes cumulative stack size
ptxas info    : Function properties for _ZN4restEv
    16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Compiling entry function 'probe' for 'sm_120'
ptxas info    : Used 30 registers
";
        let older = Usage { arch: 90, registers: 32, stack: 64, spill_stores: 48, spill_loads: 48 };
        let newer = Usage { arch: 120, registers: 30, ..Usage::default() };
        assert_eq!(usages(said), [older, newer].map(|usage| ("probe".to_owned(), usage)));
    }
}
