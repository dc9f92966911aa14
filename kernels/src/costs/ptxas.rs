//! What `ptxas -v` says of kernels.

/// Registers and memory of one kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of stack.
    pub stack: u32,
    /// Bytes of registers stored to memory.
    pub spill_stores: u32,
    /// Bytes of registers loaded back.
    pub spill_loads: u32,
}

/// The kernels in what it said.
pub fn usages(said: &str) -> Vec<(String, Usage)> {
    let mut found: Vec<(String, Usage)> = Vec::new();
    for line in said.lines() {
        if let Some(rest) = line.split_once("Compiling entry function '") {
            let name = rest.1.split('\'').next().unwrap_or_default();
            found.push((name.to_owned(), Usage::default()));
        }
        let Some((_, usage)) = found.last_mut() else { continue };
        if let Some(stack) = number_before(line, " bytes stack frame") {
            usage.stack = stack;
            usage.spill_stores = number_before(line, " bytes spill stores").unwrap_or(0);
            usage.spill_loads = number_before(line, " bytes spill loads").unwrap_or(0);
        }
        if let Some(registers) = number_before(line, " registers") {
            usage.registers = registers;
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
ptxas info    : Used 32 registers, used 0 barriers, 48 bytes cumulative stack size
";
        let usage = Usage { registers: 32, stack: 48, spill_stores: 44, spill_loads: 40 };
        assert_eq!(usages(said), [("probe".to_owned(), usage)]);
    }
}
