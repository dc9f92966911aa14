//! Identify Namespace, field by field.

use warpbell_nvme::identify::IdentifyNamespace;

use super::field::Field;

/// The fields in the order of the specification.
pub fn fields(id: &IdentifyNamespace) -> Vec<Field> {
    let mut fields = vec![
        Field::hex("nsze", id.nsze),
        Field::hex("ncap", id.ncap),
        Field::hex("nuse", id.nuse),
        Field::bits("nsfeat", id.nsfeat.into_bits(), &id.nsfeat),
        Field::number("nlbaf", id.nlbaf_z),
        Field::bits("flbas", id.flbas.into_bits(), &id.flbas),
        Field::hex("mc", id.mc),
        Field::hex("dpc", id.dpc),
        Field::hex("dps", id.dps),
        Field::hex("nmic", id.nmic),
        Field::hex("rescap", id.rescap),
        Field::hex("fpi", id.fpi),
        Field::number("dlfeat", id.dlfeat),
    ];
    fields.extend(sizes(id));
    fields.extend(identity(id));
    fields
}

fn sizes(id: &IdentifyNamespace) -> Vec<Field> {
    vec![
        Field::number("nawun", id.nawun_z),
        Field::number("nawupf", id.nawupf_z),
        Field::number("nacwu", id.nacwu_z),
        Field::number("nabsn", id.nabsn_z),
        Field::number("nabo", id.nabo),
        Field::number("nabspf", id.nabspf_z),
        Field::number("noiob", id.noiob),
        Field::number("nvmcap", id.nvmcap.get()),
        Field::number("npwg", id.npwg_z),
        Field::number("npwa", id.npwa_z),
        Field::number("npdg", id.npdg_z),
        Field::number("npda", id.npda_z),
        Field::number("nows", id.nows_z),
        Field::number("mssrl", id.mssrl),
        Field::number("mcl", id.mcl),
        Field::number("msrc", id.msrc_z),
    ]
}

fn identity(id: &IdentifyNamespace) -> Vec<Field> {
    vec![
        Field::number("anagrpid", id.anagrpid),
        Field::hex("nsattr", id.nsattr),
        Field::number("nvmsetid", id.nvmsetid),
        Field::number("endgid", id.endgid),
        Field::digits("nguid", &id.nguid),
        Field::digits("eui64", &id.eui64),
    ]
}

/// One line for each LBA format, as nvme-cli prints them.
pub fn formats(id: &IdentifyNamespace) -> String {
    let current = id.flbas.index(id.lba_formats());
    let lines = id.lbaf.iter().take(id.lba_formats() as usize).zip(0u8..).map(|(format, index)| {
        let mark = if index == current { " (in use)" } else { "" };
        let (ms, lbads, rp) = (format.ms(), format.lbads(), format.rp());
        format!("lbaf {index:>2} : ms:{ms:<3} lbads:{lbads:<2} rp:{rp:#x}{mark}\n")
    });
    lines.collect()
}

/// The LBA formats as JSON.
pub fn formats_json(id: &IdentifyNamespace) -> serde_json::Value {
    let formats = id.lbaf.iter().take(id.lba_formats() as usize);
    formats
        .map(|format| serde_json::json!({"ms": format.ms(), "ds": format.lbads(), "rp": format.rp()}))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_show_which_is_in_use() {
        let mut id = IdentifyNamespace::zeroed();
        id.nlbaf_z = 1;
        id.lbaf[0].set_lbads(9);
        id.lbaf[1].set_lbads(12);
        id.flbas.set_index_lower(1);
        let expected = "lbaf  0 : ms:0   lbads:9  rp:0\nlbaf  1 : ms:0   lbads:12 rp:0 (in use)\n";
        assert_eq!(formats(&id).replace("0x0", "0"), expected);
        assert_eq!(formats_json(&id)[1]["ds"], 12);
    }
}
