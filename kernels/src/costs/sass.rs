//! Machine code as `cuobjdump -sass` shows it.

use super::count::{Class, Unknown, classify, opcode};
use super::figures::{Figure, Figures};

/// The machine code of one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The kernel.
    pub name: String,
    /// Mnemonics, in the order of the code.
    pub mnemonics: Vec<String>,
    /// How many of them are the kernel's own: those before the first function that is called.
    pub inline: usize,
}

impl Function {
    /// What is counted in it; registers and memory are for ptxas to say.
    pub fn count(&self) -> Result<Figures, Unknown> {
        let mut figures = Figures::default();
        for (place, mnemonic) in self.mnemonics.iter().enumerate() {
            let class = classify(mnemonic)?;
            let counts = i64::from(class != Class::Padding);
            figures[Figure::Instructions] += counts;
            figures[Figure::InlineInstructions] += if place < self.inline { counts } else { 0 };
            if let Some(figure) = counted_as(class) {
                figures[figure] += 1;
            }
        }
        Ok(figures)
    }

    /// Accesses to local memory in the kernel's own code.
    pub fn inline_local_sites(&self) -> i64 {
        let own = self.mnemonics.iter().take(self.inline);
        own.filter(|mnemonic| classify(mnemonic) == Ok(Class::Local)).map(|_| 1).sum()
    }
}

fn counted_as(class: Class) -> Option<Figure> {
    match class {
        Class::Padding | Class::Plain => None,
        Class::Rmw => Some(Figure::RmwSites),
        Class::FenceScSys => Some(Figure::FenceScSysSites),
        Class::FenceSys => Some(Figure::FenceSysSites),
        Class::FenceGpu => Some(Figure::FenceGpuSites),
        Class::FenceOther => Some(Figure::FenceOtherSites),
        Class::Division => Some(Figure::DivisionSites),
        Class::Call => Some(Figure::CallSites),
        Class::Local => Some(Figure::LocalSites),
    }
}

/// The kernels of a disassembly. The compiler puts the functions that a kernel calls behind its own code.
pub fn functions(sass: &str) -> Vec<Function> {
    let pieces = sass.split("Function : ").skip(1);
    pieces.map(|piece| function(piece.lines().next().unwrap_or_default().trim(), piece)).collect()
}

fn function(name: &str, text: &str) -> Function {
    let instructions = || text.lines().filter_map(|line| Some((address(line)?, opcode(line)?, line)));
    let called = instructions().filter(|(_, mnemonic, _)| classify(mnemonic) == Ok(Class::Call));
    let first = called.filter_map(|(.., line)| target(line)).min().unwrap_or(u64::MAX);
    Function {
        name: name.to_owned(),
        mnemonics: instructions().map(|(_, mnemonic, _)| mnemonic.to_owned()).collect(),
        inline: instructions().take_while(|(address, ..)| *address < first).count(),
    }
}

/// Where the instruction of a line lies.
fn address(line: &str) -> Option<u64> {
    u64::from_str_radix(line.trim().strip_prefix("/*")?.split_once("*/")?.0, 16).ok()
}

/// Where a call goes to: the last operand. None of one through a register.
fn target(line: &str) -> Option<u64> {
    let operand = line.split_once(';')?.0.split_whitespace().next_back()?;
    u64::from_str_radix(operand.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SASS: &str = "
\t\tFunction : probe_x
\t.headerflags\t@\"EF_CUDA_SM90\"
        /*0000*/                   LDC R1, c[0x0][0x28] ;                  /* 0x00000a00ff017b82 */
                                                                           /* 0x000fe20000000a00 */
        /*0010*/              @!P0 ATOMG.E.CAS.64.STRONG.GPU PT, R2, [R4] ;  /* 0x00000a00ff017b82 */
        /*0020*/                   MEMBAR.ALL.SYS ;                        /* 0x00000a00ff017b82 */
        /*0030*/                   MEMBAR.ALL.GPU ;                        /* 0x00000a00ff017b82 */
        /*0040*/                   MUFU.RCP R1, R2 ;                       /* 0x00000a00ff017b82 */
        /*0050*/                   STL [R1+0x4], R2 ;                      /* 0x00000a00ff017b82 */
        /*0060*/               @P0 CALL.REL.NOINC 0x80 ;                   /* 0x00000a00ff017b82 */
        /*0070*/                   NOP;                                    /* 0x00000a00ff017b82 */
        /*0080*/                   LDL R2, [R1+0x4] ;                      /* 0x00000a00ff017b82 */
        /*0090*/                   CALL.ABS.NOINC R4 ;                     /* 0x00000a00ff017b82 */
        /*00a0*/                   CALL.REL.NOINC 0x90 ;                   /* 0x00000a00ff017b82 */
\t\tFunction : probe_y
        /*0000*/                   EXIT ;                                  /* 0x00000a00ff017b82 */
";

    #[test]
    fn machine_code_is_counted_by_kernel() {
        let functions = functions(SASS);
        assert_eq!(functions.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["probe_x", "probe_y"]);
        let figures = functions[0].count().unwrap();
        let counted = |figure| figures[figure];
        assert_eq!([Figure::Instructions, Figure::InlineInstructions].map(counted), [10, 7]);
        assert_eq!((counted(Figure::LocalSites), functions[0].inline_local_sites()), (2, 1));
        assert_eq!([Figure::RmwSites, Figure::FenceSysSites, Figure::FenceGpuSites].map(counted), [1, 1, 1]);
        assert_eq!(
            [Figure::FenceScSysSites, Figure::DivisionSites, Figure::CallSites].map(counted),
            [0, 1, 3]
        );
        let alone = functions[1].count().unwrap();
        assert_eq!([Figure::Instructions, Figure::InlineInstructions].map(|figure| alone[figure]), [1, 1]);
    }

    #[test]
    fn an_unknown_atomic_is_an_error() {
        let function = Function { name: "k".to_owned(), mnemonics: vec!["UATOMG.E".to_owned()], inline: 1 };
        assert_eq!(function.count(), Err(Unknown("UATOMG.E".to_owned())));
    }
}
