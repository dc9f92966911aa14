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
}

impl Function {
    /// What is counted in it; registers and memory are for ptxas to say.
    pub fn count(&self) -> Result<Figures, Unknown> {
        let mut figures = Figures::default();
        for mnemonic in &self.mnemonics {
            let class = classify(mnemonic)?;
            figures[Figure::Instructions] += i64::from(class != Class::Padding);
            if let Some(figure) = counted_as(class) {
                figures[figure] += 1;
            }
        }
        Ok(figures)
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

/// The kernels of a disassembly.
pub fn functions(sass: &str) -> Vec<Function> {
    let mut functions: Vec<Function> = Vec::new();
    for line in sass.lines() {
        if let Some((_, name)) = line.split_once("Function : ") {
            functions.push(Function { name: name.trim().to_owned(), mnemonics: Vec::new() });
        } else if let (Some(mnemonic), Some(function)) = (opcode(line), functions.last_mut()) {
            function.mnemonics.push(mnemonic.to_owned());
        }
    }
    functions
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
        /*0050*/                   NOP;                                    /* 0x00000a00ff017b82 */
\t\tFunction : probe_y
        /*0000*/                   EXIT ;                                  /* 0x00000a00ff017b82 */
";

    #[test]
    fn machine_code_is_counted_by_kernel() {
        let functions = functions(SASS);
        assert_eq!(functions.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["probe_x", "probe_y"]);
        let figures = functions[0].count().unwrap();
        let counted = |figure| figures[figure];
        assert_eq!(counted(Figure::Instructions), 5);
        assert_eq!([Figure::RmwSites, Figure::FenceSysSites, Figure::FenceGpuSites].map(counted), [1, 1, 1]);
        assert_eq!(
            [Figure::FenceScSysSites, Figure::DivisionSites, Figure::CallSites].map(counted),
            [0, 1, 0]
        );
        assert_eq!(functions[1].count().unwrap()[Figure::Instructions], 1);
    }

    #[test]
    fn an_unknown_atomic_is_an_error() {
        let function = Function { name: "k".to_owned(), mnemonics: vec!["UATOMG.E".to_owned()] };
        assert_eq!(function.count(), Err(Unknown("UATOMG.E".to_owned())));
    }
}
