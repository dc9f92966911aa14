//! The check of the mirror against what a compiler made of `abi.h`.

use super::{Layout, STRUCTS};

/// One row of a compiled module's table: a field, or with an empty field name the struct itself, with its
/// alignment as the offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The struct's C name.
    pub structure: String,
    /// The field's name.
    pub field: String,
    /// Bytes from the start of the struct.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
}

/// The first difference between a module's table and this program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// Same name, other place or size.
    #[error(
        "abi: {name}: offset {module_offset}, size {module_size} in the kernels, \
         but offset {offset}, size {size} in this program"
    )]
    Differs {
        /// The struct, or struct and field.
        name: String,
        /// Offset (of a struct: alignment) in the kernels.
        module_offset: u32,
        /// Size in the kernels.
        module_size: u32,
        /// Offset here.
        offset: usize,
        /// Size here.
        size: usize,
    },
    /// The kernels lack it.
    #[error("abi: {0} is in this program, but not in the kernels")]
    NotInModule(String),
    /// This program lacks it.
    #[error("abi: {0} is in the kernels, but not in this program")]
    NotHere(String),
}

/// Compares a compiled module's table with this crate's mirror, both ways.
pub fn check(table: &[Row]) -> Result<(), Mismatch> {
    let here = rows();
    for (structure, field, offset, size) in &here {
        let name = || qualified(structure, field);
        let row = table.iter().find(|row| row.structure == *structure && row.field == *field);
        let row = row.ok_or_else(|| Mismatch::NotInModule(name()))?;
        let (offset, size) = (*offset, *size);
        if (row.offset as usize, row.size as usize) != (offset, size) {
            let (module_offset, module_size) = (row.offset, row.size);
            return Err(Mismatch::Differs { name: name(), module_offset, module_size, offset, size });
        }
    }
    match table.iter().find(|row| !here.iter().any(|(s, f, ..)| row.structure == *s && row.field == *f)) {
        Some(row) => Err(Mismatch::NotHere(qualified(&row.structure, &row.field))),
        None => Ok(()),
    }
}

fn rows() -> Vec<(&'static str, &'static str, usize, usize)> {
    let of = |layout: &Layout| {
        let fields = layout.fields.iter().map(|field| (field.name, field.offset, field.size));
        let (name, own) = (layout.name, ("", layout.align, layout.size));
        std::iter::once(own).chain(fields).map(move |(field, offset, size)| (name, field, offset, size))
    };
    STRUCTS.iter().flat_map(of).collect()
}

fn qualified(structure: &str, field: &str) -> String {
    if field.is_empty() { format!("struct {structure}") } else { format!("field {structure}.{field}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Vec<Row> {
        let row = |&(structure, field, offset, size): &(&str, &str, usize, usize)| Row {
            structure: structure.to_owned(),
            field: field.to_owned(),
            offset: offset as u32,
            size: size as u32,
        };
        rows().iter().map(row).collect()
    }

    #[test]
    fn the_mirror_agrees_with_itself() {
        assert_eq!(check(&table()), Ok(()));
    }

    #[test]
    fn a_moved_field_is_named_with_both_numbers() {
        let mut table = table();
        let row =
            table.iter_mut().find(|row| row.structure == "warpbell_queue_ref" && row.field == "qid").unwrap();
        row.offset += 4;
        let text = check(&table).unwrap_err().to_string();
        assert_eq!(
            text,
            "abi: field warpbell_queue_ref.qid: offset 112, size 4 in the kernels, \
             but offset 108, size 4 in this program"
        );
    }

    #[test]
    fn a_field_missing_on_either_side_is_named() {
        let mut fewer = table();
        let last = fewer.pop().unwrap();
        let text = check(&fewer).unwrap_err().to_string();
        let Row { structure, field, .. } = &last;
        assert_eq!(
            text,
            format!("abi: field {structure}.{field} is in this program, but not in the kernels")
        );
        let extra = format!("abi: field {structure}.extra is in the kernels, but not in this program");
        let mut more = table();
        more.push(Row { field: "extra".to_owned(), ..last });
        let text = check(&more).unwrap_err().to_string();
        assert_eq!(text, extra);
    }
}
