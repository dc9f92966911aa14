//! Arbitrary entries, doorbells and register writes: no panic, an answer to every command, and a controller that a
//! reset brings back.

mod client;

use client::{Client, configuration, memory, wait_csts};
use proptest::prelude::*;
use warpbell_hw::{Device, ResetKind};
use warpbell_nvme::Sqe;
use warpbell_nvme::command::{self, Cdw0};
use warpbell_nvme::register::offset;
use warpbell_softctl::{CompletionOrder, SoftConfig};

/// An entry of which some fields are plausible and the rest is noise.
fn entry() -> impl Strategy<Value = Sqe> {
    let words = prop::array::uniform16(prop_oneof![Just(0u32), 0..16u32, any::<u32>()]);
    (words, 0..0x20u8, 0..3u32, any::<[bool; 4]>()).prop_map(|(words, opcode, nsid, plausible)| {
        let mut sqe: Sqe = zerocopy::transmute!(words);
        if plausible[0] {
            sqe.cdw0 = Cdw0::new().with_opc(opcode);
        }
        if plausible[1] {
            sqe.nsid = nsid;
        }
        if plausible[2] {
            (sqe.cdw2, sqe.cdw3, sqe.mptr, sqe.cdw11) = (0, 0, 0, 0);
        }
        sqe
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_command_is_answered(
        entries in prop::collection::vec((entry(), any::<bool>(), 0..4u8, 0..1u64 << 21), 1..60),
        seed in any::<u64>(),
        shuffled in any::<bool>(),
    ) {
        let order = if shuffled { CompletionOrder::Shuffled { window: 4 } } else { CompletionOrder::Immediate };
        let config = SoftConfig { order, seed, poison_fetched: true, mdts: 0, ..memory(1 << 20, 512) };
        let mut client = Client::stepped(config);
        let mut pair = client.pair(1, 16);
        for (mut sqe, admin, pointer, at) in entries {
            match pointer {
                0 => {}
                1 => sqe.dptr = [client.buffer.iova().0 + at, 0],
                _ => sqe.dptr = [client.buffer.iova().0 + (at & !3), client.buffer.iova().0 + (at >> 12 << 12)],
            }
            let cid = client.cid();
            sqe.cdw0.set_cid(cid);
            // Requests for events are not answered, deleted queues answer nothing.
            if admin && !matches!(sqe.opcode(), 0x00 | 0x04 | 0x0c) {
                prop_assert_eq!(client.admin.run(&client.device, &sqe).cid, cid);
            } else if !admin {
                prop_assert_eq!(pair.run(&client.device, &sqe).cid, cid);
            }
        }
        prop_assert!(client.io(&mut pair, command::flush(1), 0).is_ok());
    }

    #[test]
    fn registers_and_doorbells_survive_noise(
        writes in prop::collection::vec((0..0x80u32, any::<u32>(), any::<bool>(), 0..4u8), 1..80),
        seed in any::<u64>(),
    ) {
        let mut client = Client::stepped(SoftConfig { seed, ..memory(1 << 20, 512) });
        let _pair = client.pair(1, 16);
        let sink = client.device.doorbells().sink().expect("stepped devices have a sink");
        for (at, value, wide, kind) in writes {
            let registers = client.device.registers();
            match kind {
                0 => registers.write32(at & !3, value),
                1 if wide => registers.write64(at & !7, u64::from(value) << 20),
                1 => registers.write32(offset::CC, configuration().into_bits() | value & 0xc001),
                2 => sink.ring(at as usize, value % 20),
                _ => drop((registers.read32(at), registers.read64(at))),
            }
            client.device.step();
        }
        client.device.reset().reset(ResetKind::Function).expect("a function reset");
        client.device.registers().write32(offset::CC, 0);
        wait_csts(&client.device, |csts| !csts.rdy());
        let mut client = Client::start(client.device.clone());
        let mut pair = client.pair(2, 16);
        prop_assert!(client.io(&mut pair, command::read(1, 0, 0), 0).is_ok());
    }
}
