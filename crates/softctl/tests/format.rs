//! Format NVM.

mod client;

use client::namespaces::{attach, attachment, create, created, list, wish};
use client::{Client, expect, memory, parsed};
use warpbell_hw::{Lba, Nsid};
use warpbell_nvme::command::{self, FormatNvmCdw10, NSID_ALL, NsAttachmentSelect, SecureErase};
use warpbell_nvme::identify::{Cns, IdentifyController, IdentifyNamespace};
use warpbell_nvme::log::{ChangedNamespaceList, CommandsSupportedAndEffects, LogPageId};
use warpbell_nvme::{AdminOpcode, Sqe, Status};
use warpbell_softctl::{NamespaceConfig, SoftConfig, SoftDevice, Subsystem};

fn format(nsid: u32, lba_format: u8, erase: SecureErase) -> Sqe {
    command::format_nvm(nsid, FormatNvmCdw10::new().with_lba_format(lba_format).with_ses(erase))
}

fn identified(client: &mut Client, nsid: u32) -> IdentifyNamespace {
    parsed(&client.admin_data(command::identify(Cns::NAMESPACE, nsid)))
}

#[test]
fn a_format_changes_the_block_size_and_erases() {
    for mut client in Client::both(&memory(1 << 20, 512)) {
        let mut pair = client.pair(1, 8);
        let controller: IdentifyController =
            parsed(&client.admin_data(command::identify(Cns::CONTROLLER, 0)));
        assert!(controller.oacs.format_nvm() && controller.fna.crypto_erase());
        assert!(
            !controller.fna.format_all() && !controller.fna.erase_all() && !controller.fna.no_broadcast()
        );
        for (erase, lba_format, blocks) in [
            (SecureErase::NONE, 1, 256),
            (SecureErase::USER_DATA, 1, 256),
            (SecureErase::CRYPTOGRAPHIC, 0, 2048),
            (SecureErase::USER_DATA, 1, 256),
            (SecureErase::NONE, 0, 2048),
        ] {
            client.fill(0, &[5; 4096]);
            let filled = identified(&mut client, 1);
            client.fill(0, &[5; 4096]);
            assert!(client.io(&mut pair, command::write(1, filled.nsze - 1, 0), 0).is_ok());
            client.admin_ok(format(1, lba_format, erase));
            let data = identified(&mut client, 1);
            assert_eq!((data.nsze, data.flbas.index(data.lba_formats())), (blocks, lba_format));
            let block = data.block_bytes().unwrap() as usize;
            assert_eq!((blocks as usize * block, data.nvmcap.get()), (1 << 20, 1 << 20));
            client.fill(0, &[9; 4096]);
            assert!(client.io(&mut pair, command::read(1, blocks - 1, 0), 0).is_ok());
            assert_eq!(client.bytes(0, block), vec![0; block], "erased");
            assert!(client.bytes(block, 4096 - block).iter().all(|byte| *byte == 9), "one block, no more");
            let beyond = client.io(&mut pair, command::read(1, blocks, 0), 0);
            assert!(beyond.same_code(Status::LBA_OUT_OF_RANGE), "{beyond}");
        }
        client.assert_clean();
    }
}

#[test]
fn a_format_has_every_error_of_the_specification() {
    let mut client = Client::stepped(memory(1 << 20, 512).max_namespaces(Some(3)));
    let plain = FormatNvmCdw10::new();
    for (nsid, cdw10, status) in [
        (1, plain.with_lba_format(2), Status::INVALID_FORMAT),
        (1, plain.with_lba_format(63), Status::INVALID_FORMAT),
        (1, plain.with_pi(1), Status::INVALID_FORMAT),
        (1, plain.with_ses(SecureErase(3)), Status::INVALID_FIELD),
        (0, plain, Status::INVALID_NAMESPACE_OR_FORMAT),
        (4, plain, Status::INVALID_NAMESPACE_OR_FORMAT),
        (2, plain, Status::INVALID_FIELD),
    ] {
        expect(&mut client, command::format_nvm(nsid, cdw10), status);
    }
    client.assert_clean();
}

#[test]
fn all_attached_namespaces_are_formatted_at_once_and_no_other() {
    let config = memory(1 << 20, 512).capacity(1 << 20);
    let mut client = Client::stepped(config);
    for nsid in [2, 3] {
        assert_eq!(created(&mut client, 8, 0), nsid);
    }
    attach(&mut client, 2);
    client.device.poke(Nsid(3), Lba(0), &[7; 512]).unwrap();
    client.admin_ok(format(NSID_ALL, 1, SecureErase::NONE));
    assert_eq!([1, 2].map(|nsid| identified(&mut client, nsid).nsze), [256, 1]);
    attach(&mut client, 3);
    assert_eq!(identified(&mut client, 3).nsze, 8);
    let mut block = [0; 512];
    client.device.peek(Nsid(3), Lba(0), &mut block).unwrap();
    assert_eq!(block, [7; 512]);
    // Allocated is enough to be formatted by name.
    let detach = attachment(&client, 3, NsAttachmentSelect::DETACH, &[1]);
    client.admin_ok(detach);
    client.admin_ok(format(3, 0, SecureErase::NONE));
    client.device.peek(Nsid(3), Lba(0), &mut block).unwrap();
    assert_eq!(block, [0; 512]);
    client.assert_clean();
}

#[test]
fn files_are_formatted_if_they_may_be_written() {
    let [read_only, writable] = [false, true].map(|_| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [3; 10_000]).unwrap();
        file
    });
    let namespaces = vec![
        NamespaceConfig::file(read_only.path(), 512, false),
        NamespaceConfig::file(writable.path(), 512, true),
        NamespaceConfig::memory(1 << 20, 512),
    ];
    let mut client = Client::stepped(SoftConfig::new().namespaces(namespaces));
    client.device.poke(Nsid(3), Lba(0), &[1; 512]).unwrap();
    expect(&mut client, format(1, 0, SecureErase::USER_DATA), Status::NAMESPACE_WRITE_PROTECTED);
    expect(&mut client, format(NSID_ALL, 1, SecureErase::USER_DATA), Status::NAMESPACE_WRITE_PROTECTED);
    assert_eq!([2, 3].map(|nsid| identified(&mut client, nsid).nsze), [20, 2048], "all or nothing");
    client.admin_ok(format(2, 1, SecureErase::USER_DATA));
    assert_eq!(identified(&mut client, 2).nsze, 3);
    assert_eq!(std::fs::read(writable.path()).unwrap(), [0; 10_000], "cleared, and as long as before");
    assert_eq!(std::fs::read(read_only.path()).unwrap(), [3; 10_000]);
    client.assert_clean();
}

#[test]
fn other_controllers_hear_of_a_new_block_size() {
    let config = memory(1 << 20, 512).capacity(1 << 20);
    let subsystem = Subsystem::new(&config).unwrap();
    let [mut one, mut two] =
        [1, 2].map(|_| Client::start(SoftDevice::stepped_on(&subsystem, config.clone()).unwrap()));
    let sqe = create(&one, &wish(8, 0));
    one.admin_ok(sqe);
    assert_eq!(list(&mut two, Cns::ACTIVE_NAMESPACES, 0), [1]);
    let changed = |client: &mut Client| {
        let log = command::get_log_page(LogPageId::CHANGED_NAMESPACE_LIST, 0, 1023, 0, false);
        let list: ChangedNamespaceList = parsed(&client.admin_data(log));
        list.iter().collect::<Vec<_>>()
    };
    one.admin_ok(format(1, 0, SecureErase::USER_DATA));
    assert_eq!(changed(&mut two), [0u32; 0], "nothing that Identify Namespace tells has changed");
    one.admin_ok(format(1, 1, SecureErase::USER_DATA));
    assert_eq!(changed(&mut two), [1]);
    assert_eq!(identified(&mut two, 1).nsze, 256);
}

#[test]
fn the_effects_log_says_that_contents_and_capabilities_change() {
    let mut client = Client::stepped(SoftConfig::default());
    let log = command::get_log_page(LogPageId::COMMAND_EFFECTS, 0, 1023, 0, true);
    let effects: CommandsSupportedAndEffects = parsed(&client.admin_data(log));
    let format = effects.acs[usize::from(AdminOpcode::FORMAT_NVM.0)];
    assert!(format.csupp() && format.lbcc() && format.ncc() && format.cse() == 1);
    let sanitize = effects.acs[usize::from(AdminOpcode::SANITIZE.0)];
    assert!(sanitize.csupp() && sanitize.lbcc() && sanitize.cse() == 2);
    assert!(!effects.acs[usize::from(AdminOpcode::IDENTIFY.0)].lbcc());
}
