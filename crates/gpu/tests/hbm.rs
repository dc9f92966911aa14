//! The soft controller's data in GPU memory: commands whose data its threads copy, on whatever driver there is. Where
//! there is none, the test says that it was skipped.

#[path = "../../softctl/tests/client/mod.rs"]
mod client;

use std::sync::Arc;

use client::{Client, memory};
use warpbell_gpu::Gpu;
use warpbell_hw::{Device, DmaAccess, RemoteBuffer};
use warpbell_nvme::command;
use warpbell_nvme::data::SglDescriptor;

const BLOCK: usize = 512;
/// Bytes of one command, and commands that are out at the same time.
const COMMAND: usize = 16 << 10;
const COMMANDS: usize = 32;

/// Bytes that tell blocks and places apart.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 7 + at / BLOCK * 31) as u8).collect()
}

#[test]
fn data_of_commands_goes_into_gpu_memory_and_out_of_it() {
    let gpu = match Gpu::open(0) {
        Ok(gpu) => gpu,
        Err(error) => {
            println!("skipped: data_of_commands_goes_into_gpu_memory_and_out_of_it: {error}");
            assert!(error.is_missing_requirement(), "{error}");
            return;
        }
    };
    for mut client in Client::both(&memory(1 << 20, BLOCK as u32)) {
        let (half, data) = (COMMAND * COMMANDS, pattern(COMMAND * COMMANDS));
        let hbm = gpu.allocate(2 * half).unwrap();
        let mut pair = client.pair(1, 64);
        let mapped =
            RemoteBuffer::map(client.device.dma(), Arc::new(hbm.clone()), DmaAccess::READ_WRITE).unwrap();
        hbm.write(0, &data).unwrap();
        let blocks = (COMMAND / BLOCK) as u64;
        // Out of the first half, and back into the second.
        for (base, make) in [(0, command::write as fn(u32, u64, u16) -> _), (half, command::read as _)] {
            for at in 0..COMMANDS {
                let iova = mapped.iova().0 + (base + at * COMMAND) as u64;
                let sqe: command::Sqe = make(1, at as u64 * blocks, blocks as u16 - 1);
                let sqe = sqe.with_sgl(SglDescriptor::data_block(iova, COMMAND as u32));
                pair.push(&sqe.with_cid(at as u16));
            }
            pair.ring();
            for _ in 0..COMMANDS {
                let status = pair.wait(&client.device).status();
                assert!(status.is_ok(), "{status}");
            }
        }
        let mut back = vec![0; half];
        hbm.read(half, &mut back).unwrap();
        assert!(back == data, "data is there when its command has completed");
        let statistics = client.device.statistics();
        assert_eq!(statistics.remote_bytes, 2 * half as u64);
        assert_eq!(statistics.staged_bytes, 0, "the store is pinned");
        client.assert_clean();
    }
}
