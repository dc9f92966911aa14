//! What a machine instruction counts as.

/// What an instruction counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Fills the code up: not counted.
    Padding,
    /// An instruction like any other.
    Plain,
    /// An atomic read-modify-write of memory.
    Rmw,
    /// `MEMBAR.SC.SYS`.
    FenceScSys,
    /// `MEMBAR.ALL.SYS`.
    FenceSys,
    /// `MEMBAR.ALL.GPU`.
    FenceGpu,
    /// Another fence.
    FenceOther,
    /// A reciprocal, of which each integer division has one.
    Division,
    /// A call.
    Call,
    /// An access to local memory: a spilled register, or an array that found no registers.
    Local,
}

/// An instruction that looks as if it counted, and that the table does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "instruction {0}: it looks like an atomic, a fence, a division, a call or local memory; add it to the table of kernels/src/costs/count.rs"
)]
pub struct Unknown(pub String);

/// First word of the mnemonic, and what it counts as. First match decides.
const STEMS: &[(&str, Class)] = &[
    ("NOP", Class::Padding),
    ("ATOM", Class::Rmw),
    ("ATOMG", Class::Rmw),
    ("ATOMS", Class::Rmw),
    ("RED", Class::Rmw),
    ("REDG", Class::Rmw),
    ("SUATOM", Class::Rmw),
    ("SURED", Class::Rmw),
    // Reductions over the registers of a warp.
    ("REDUX", Class::Plain),
    ("CREDUX", Class::Plain),
    ("CALL", Class::Call),
    ("LDL", Class::Local),
    ("STL", Class::Local),
    // Report errors of memory, after a fence; order nothing.
    ("ERRBAR", Class::Plain),
    ("CGAERRBAR", Class::Plain),
];

/// Whole mnemonics, by how they begin.
const MNEMONICS: &[(&str, Class)] = &[
    ("MEMBAR.SC.SYS", Class::FenceScSys),
    ("MEMBAR.ALL.SYS", Class::FenceSys),
    ("MEMBAR.ALL.GPU", Class::FenceGpu),
    ("MEMBAR.", Class::FenceOther),
    ("FENCE.VIEW", Class::FenceOther),
    ("MUFU.RCP", Class::Division),
    // Other functions of that unit: square roots, logarithms.
    ("MUFU.", Class::Plain),
];

/// What looks as if it counted.
const SUSPECTS: &[&str] =
    &["ATOM", "RED", "CAS", "MEMBAR", "FENCE", "MUFU", "DIV", "RCP", "CALL", "LDL", "STL", "LOCAL"];

/// What an instruction counts as.
pub fn classify(mnemonic: &str) -> Result<Class, Unknown> {
    let stem = mnemonic.split('.').next().unwrap_or_default();
    let by_stem = STEMS.iter().find(|(known, _)| *known == stem);
    let known = by_stem.or_else(|| MNEMONICS.iter().find(|(start, _)| mnemonic.starts_with(start)));
    if let Some((_, class)) = known {
        return Ok(*class);
    }
    // Only the stem: modifiers such as BRA.DIV and WARPSYNC.COLLECTIVE say where, not what.
    if SUSPECTS.iter().any(|suspect| stem.contains(suspect)) {
        return Err(Unknown(mnemonic.to_owned()));
    }
    Ok(Class::Plain)
}

/// The mnemonic in a line of a disassembly, such as `/*0010*/  @!P0 ATOMG.E.ADD PT, R2, [R4] ;`.
pub fn opcode(line: &str) -> Option<&str> {
    let (address, rest) = line.trim().strip_prefix("/*")?.split_once("*/")?;
    let is_address =
        (4..=8).contains(&address.len()) && address.chars().all(|digit| digit.is_ascii_hexdigit());
    let mut words = rest.split_whitespace().filter(|_| is_address);
    let first = words.next().filter(|first| !first.starts_with("/*"))?;
    let mnemonic = if first.starts_with('@') { words.next()? } else { first };
    Some(mnemonic.trim_end_matches(';'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_knows_what_counts() {
        for (mnemonic, class) in [
            ("NOP", Class::Padding),
            ("IMAD.MOV.U32", Class::Plain),
            ("ATOMG.E.CAS.64.STRONG.GPU", Class::Rmw),
            ("ATOM.E.ADD.STRONG.GPU", Class::Rmw),
            ("ATOMS.CAS.64", Class::Rmw),
            ("RED.E.OR.64.STRONG.GPU", Class::Rmw),
            ("REDG.E.ADD.STRONG.GPU", Class::Rmw),
            ("REDUX.SUM", Class::Plain),
            ("MEMBAR.SC.SYS", Class::FenceScSys),
            ("MEMBAR.ALL.SYS", Class::FenceSys),
            ("MEMBAR.ALL.GPU", Class::FenceGpu),
            ("MEMBAR.SC.GPU", Class::FenceOther),
            ("MEMBAR.ALL.CTA", Class::FenceOther),
            ("FENCE.VIEW.ASYNC.S", Class::FenceOther),
            ("MUFU.RCP", Class::Division),
            ("MUFU.RCP64H", Class::Division),
            ("MUFU.SQRT", Class::Plain),
            ("CALL.REL.NOINC", Class::Call),
            ("BRA.DIV", Class::Plain),
            ("LDL.64", Class::Local),
            ("STL", Class::Local),
            ("LDG.E.STRONG.SYS", Class::Plain),
        ] {
            assert_eq!(classify(mnemonic), Ok(class), "{mnemonic}");
        }
    }

    #[test]
    fn what_looks_as_if_it_counted_is_not_guessed() {
        for mnemonic in ["UATOMG.E.ADD", "FENCEX.SYS", "UMEMBAR.ALL", "IDIV.U32", "UCALL", "MUFUX"] {
            assert_eq!(classify(mnemonic), Err(Unknown(mnemonic.to_owned())));
        }
        let text = classify("UATOMG.E.ADD").unwrap_err().to_string();
        assert!(text.starts_with("instruction UATOMG.E.ADD: ") && text.contains("count.rs"), "{text}");
    }

    #[test]
    fn mnemonics_are_found_in_their_lines() {
        for (line, found) in [
            (
                "        /*0010*/              @!P0 ATOMG.E.CAS PT, R2, [R4] ;  /* 0x0a00ff */",
                Some("ATOMG.E.CAS"),
            ),
            ("        /*10ab0*/                  ERRBAR;", Some("ERRBAR")),
            ("                                                  /* 0x000fe20000000a00 */", None),
            ("\t.headerflags\t@\"EF_CUDA_SM90\"", None),
            ("        /*0020*/   /* 0x0a00ff */", None),
        ] {
            assert_eq!(opcode(line), found, "{line}");
        }
    }
}
