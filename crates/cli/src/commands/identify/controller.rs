//! Identify Controller, field by field.

use warpbell_nvme::identify::IdentifyController;

use super::field::Field;

/// The fields in the order of the specification. `max_transfer` is MDTS in bytes.
pub fn fields(id: &IdentifyController, max_transfer: Option<u64>) -> Vec<Field> {
    let mut fields = general(id, max_transfer);
    fields.extend(admin(id));
    fields.extend(management(id));
    fields.extend(nvm(id));
    fields
}

fn general(id: &IdentifyController, max_transfer: Option<u64>) -> Vec<Field> {
    let limit = max_transfer.map_or("no limit".to_owned(), |bytes| format!("{bytes} bytes"));
    let ieee: Vec<u8> = id.ieee.iter().rev().copied().collect();
    vec![
        Field::hex("vid", id.vid),
        Field::hex("ssvid", id.ssvid),
        Field::text("sn", id.serial()),
        Field::text("mn", id.model()),
        Field::text("fr", id.firmware()),
        Field::number("rab", id.rab),
        Field::digits("ieee", &ieee),
        Field::bits("cmic", id.cmic.into_bits(), &id.cmic),
        Field::number("mdts", id.mdts).meaning(limit),
        Field::hex("cntlid", id.cntlid),
        Field::bits("ver", id.ver.into_bits(), &id.ver),
        Field::hex("rtd3r", id.rtd3r),
        Field::hex("rtd3e", id.rtd3e),
        Field::bits("oaes", id.oaes.into_bits(), &id.oaes),
        Field::bits("ctratt", id.ctratt.into_bits(), &id.ctratt),
        Field::hex("rrls", id.rrls),
        Field::number("cntrltype", id.cntrltype.0),
        Field::digits("fguid", &id.fguid),
        Field::number("crdt1", id.crdt1),
        Field::number("crdt2", id.crdt2),
        Field::number("crdt3", id.crdt3),
        Field::number("nvmsr", id.nvmsr),
        Field::number("vwci", id.vwci),
        Field::number("mec", id.mec),
    ]
}

fn admin(id: &IdentifyController) -> Vec<Field> {
    vec![
        Field::bits("oacs", id.oacs.into_bits(), &id.oacs),
        Field::number("acl", id.acl_z),
        Field::number("aerl", id.aerl_z),
        Field::bits("frmw", id.frmw.into_bits(), &id.frmw),
        Field::bits("lpa", id.lpa.into_bits(), &id.lpa),
        Field::number("elpe", id.elpe_z),
        Field::number("npss", id.npss_z),
        Field::hex("avscc", id.avscc),
        Field::hex("apsta", id.apsta),
        Field::number("wctemp", id.wctemp),
        Field::number("cctemp", id.cctemp),
        Field::number("mtfa", id.mtfa),
        Field::number("hmpre", id.hmpre),
        Field::number("hmmin", id.hmmin),
        Field::number("tnvmcap", id.tnvmcap.get()),
        Field::number("unvmcap", id.unvmcap.get()),
        Field::hex("rpmbs", id.rpmbs),
        Field::number("edstt", id.edstt),
        Field::number("dsto", id.dsto),
        Field::number("fwug", id.fwug),
        Field::number("kas", id.kas),
    ]
}

fn management(id: &IdentifyController) -> Vec<Field> {
    vec![
        Field::hex("hctma", id.hctma),
        Field::number("mntmt", id.mntmt),
        Field::number("mxtmt", id.mxtmt),
        Field::bits("sanicap", id.sanicap.into_bits(), &id.sanicap),
        Field::number("hmminds", id.hmminds),
        Field::number("hmmaxd", id.hmmaxd),
        Field::number("nsetidmax", id.nsetidmax),
        Field::number("endgidmax", id.endgidmax),
        Field::number("anatt", id.anatt),
        Field::hex("anacap", id.anacap),
        Field::number("anagrpmax", id.anagrpmax),
        Field::number("nanagrpid", id.nanagrpid),
        Field::number("pels", id.pels),
        Field::number("domainid", id.domainid),
        Field::number("megcap", id.megcap.get()),
    ]
}

fn nvm(id: &IdentifyController) -> Vec<Field> {
    vec![
        Field::bits("sqes", id.sqes.into_bits(), &id.sqes),
        Field::bits("cqes", id.cqes.into_bits(), &id.cqes),
        Field::number("maxcmd", id.maxcmd),
        Field::number("nn", id.nn),
        Field::bits("oncs", id.oncs.into_bits(), &id.oncs),
        Field::hex("fuses", id.fuses),
        Field::bits("fna", id.fna.into_bits(), &id.fna),
        Field::bits("vwc", id.vwc.into_bits(), &id.vwc),
        Field::number("awun", id.awun_z),
        Field::number("awupf", id.awupf_z),
        Field::hex("icsvscc", id.icsvscc),
        Field::hex("nwpc", id.nwpc),
        Field::number("acwu", id.acwu_z),
        Field::hex("ocfs", id.ocfs),
        Field::bits("sgls", id.sgls.into_bits(), &id.sgls),
        Field::number("mnan", id.mnan),
        Field::number("maxdna", id.maxdna.get()),
        Field::number("maxcna", id.maxcna),
        Field::text("subnqn", id.subsystem_nqn()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_nvme_cli() {
        let mut id = IdentifyController::zeroed();
        (id.vid, id.mdts, id.ieee) = (0x1b36, 5, [0x38, 0x25, 0x00]);
        let text = super::super::field::text(&fields(&id, Some(131_072)), true);
        for line in ["vid       : 0x1b36", "ieee      : 002538", "mdts      : 5\n            131072 bytes"] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
