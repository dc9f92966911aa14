//! Against soft controllers, with faults.

use super::*;
use crate::{AttachOptions, Attachment, OpenOptions, VolumeLayout, VolumeSpec};

struct Fixture {
    ssds: Vec<Ssd>,
    _plans: tempfile::TempDir,
    volume: Arc<Volume>,
}

impl Fixture {
    /// SSDs with settings, and perhaps a fault behind a `|`.
    fn new(names: &[&str], layout: VolumeLayout, chunk_bytes: u64) -> Fixture {
        let plans = tempfile::tempdir().unwrap();
        let open = |(index, name): (usize, &&str)| {
            let (name, fault) = name.split_once('|').unwrap_or((name, ""));
            let plan = plans.path().join(format!("{index}.toml"));
            std::fs::write(&plan, format!("[[fault]]\n{}\n", fault.replace(';', "\n"))).unwrap();
            let plan = if fault.is_empty() { String::new() } else { format!(",faults={}", plan.display()) };
            Ssd::open(&format!("soft:{name}{plan}").parse().unwrap(), &OpenOptions::default()).unwrap()
        };
        let ssds: Vec<Ssd> = names.iter().enumerate().map(open).collect();
        let queues: Vec<Attachment> =
            ssds.iter().map(|ssd| ssd.attach(&AttachOptions::new()).unwrap()).collect();
        let queues: Vec<&Attachment> = queues.iter().collect();
        let spec = VolumeSpec::new().layout(layout).chunk_bytes(chunk_bytes);
        let volume = Arc::new(Volume::new(&queues, &spec).unwrap());
        Fixture { ssds, _plans: plans, volume }
    }

    fn io(&self) -> VolumeIo {
        let ssds: Vec<&Ssd> = self.ssds.iter().collect();
        let spec = VolumeIoSpec::new().depth(4).timeout(Duration::from_millis(300));
        VolumeIo::new(&self.volume, &spec).unwrap().allow_write(&ssds).unwrap()
    }

    fn buffer(&self, bytes: usize) -> Arc<VolumeBuffer> {
        Arc::new(self.volume.buffer(bytes).unwrap())
    }

    /// A buffer with bytes that tell where they are.
    fn filled(&self, bytes: usize) -> Arc<VolumeBuffer> {
        let buffer = self.buffer(bytes);
        buffer.buffer().write(0, &pattern(bytes)).unwrap();
        buffer
    }
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| ((at * 131) >> 4) as u8).collect()
}

fn bytes_of(buffer: &VolumeBuffer, bytes: usize) -> Vec<u8> {
    let mut found = vec![0; bytes];
    buffer.buffer().read(0, &mut found).unwrap();
    found
}

#[test]
fn all_that_was_written_comes_back_from_any_layout() {
    for layout in [VolumeLayout::Stripe, VolumeLayout::Replicate, VolumeLayout::Concatenate] {
        let fixture = Fixture::new(&["size=256k,block=4096", "size=640k,mdts=1", "size=384k"], layout, 12288);
        let (mut io, blocks) = (fixture.io(), fixture.volume.blocks());
        let bytes = (blocks * u64::from(fixture.volume.block_bytes())) as usize;
        let (from, into) = (fixture.filled(bytes), fixture.buffer(bytes));
        let write = io.write(&from, 0, Lba(0), blocks).unwrap();
        io.wait(write).unwrap();
        let flush = io.flush().unwrap();
        io.wait(flush).unwrap();
        // Block by block, all at once, and each told once.
        let mut reads: Vec<_> =
            (0..blocks).map(|block| io.read(&into, block * 4096, Lba(block), 1).unwrap()).collect();
        assert_eq!(io.outstanding() as u64, blocks);
        let mut told = Vec::new();
        while io.outstanding() > 0 {
            if let Some((request, answer)) = io.poll() {
                answer.unwrap();
                told.push(request);
            }
        }
        told.sort_unstable();
        reads.sort_unstable();
        assert_eq!(told, reads);
        assert!(bytes_of(&into, bytes) == pattern(bytes), "{layout:?}");
        assert!(io.wait(reads[0]).unwrap_err().to_string().contains("told before"));
    }
}

const UNREADABLE: &str =
    "size=64k|kind = \"fail\";status = \"Unrecovered Read Error\";opcode = \"read\";lba = [8, 15]";

#[test]
fn what_one_replica_cannot_read_the_next_does() {
    reads_what_it_wrote(&Fixture::new(&[UNREADABLE, "size=64k", UNREADABLE], VolumeLayout::Replicate, 1024));
}

fn reads_what_it_wrote(fixture: &Fixture) {
    let (mut io, from, into) = (fixture.io(), fixture.filled(32768), fixture.buffer(32768));
    let write = io.write(&from, 0, Lba(0), 64).unwrap();
    io.wait(write).unwrap();
    let read = io.read(&into, 0, Lba(0), 64).unwrap();
    io.wait(read).unwrap();
    assert!(bytes_of(&into, 32768) == pattern(32768));
}

/// Commands of 8 KiB: either SSD fails one of the four of a chunk, and not the same.
#[test]
fn no_more_than_what_failed_is_read_from_the_next_replica() {
    let first = UNREADABLE.replace("64k", "64k,mdts=1");
    let second = first.replace("[8, 15]", "[40, 47]");
    reads_what_it_wrote(&Fixture::new(&[&first, &second], VolumeLayout::Replicate, 32768));
}

#[test]
fn where_no_replica_can_the_first_failure_counts() {
    let second = UNREADABLE.replace("Unrecovered Read Error", "Access Denied");
    let fixture = Fixture::new(&[UNREADABLE, &second], VolumeLayout::Replicate, 1024);
    let (mut io, into) = (fixture.io(), fixture.buffer(4096));
    // Chunk 4 is read from the first SSD first, chunk 5 from the second.
    for (first, said) in [(8, "Unrecovered Read Error"), (10, "Access Denied")] {
        let read = io.read(&into, 0, Lba(first), 2).unwrap();
        let text = io.wait(read).unwrap_err().to_string();
        assert!(text.starts_with("SSD soft:size=64k,faults=") && text.contains(said), "{text}");
        assert!(text.contains(": read of namespace 1, "), "{text}");
    }
}

#[test]
fn an_ssd_that_does_not_answer_is_not_followed_by_a_replica() {
    let silent = "size=64k|kind = \"drop\";opcode = \"read\";lba = 0;count = 1";
    let fixture = Fixture::new(&[silent, "size=64k"], VolumeLayout::Replicate, 1024);
    let (mut io, from, into) = (fixture.io(), fixture.filled(4096), fixture.buffer(4096));
    let write = io.write(&from, 0, Lba(0), 8).unwrap();
    io.wait(write).unwrap();
    let read = io.read(&into, 0, Lba(0), 2).unwrap();
    let text = io.wait(read).unwrap_err().to_string();
    assert!(text.ends_with("no completion within 300ms"), "{text}");
    // Over a new queue.
    let read = io.read(&into, 0, Lba(0), 8).unwrap();
    io.wait(read).unwrap();
    assert!(bytes_of(&into, 4096) == pattern(4096));
}

#[test]
fn a_write_fails_where_one_replica_does() {
    let second = "size=64k|kind = \"fail\";status = \"Write Fault\";opcode = \"write\";lba = 3";
    let fixture = Fixture::new(&["size=64k", second], VolumeLayout::Replicate, 1024);
    let (mut io, from) = (fixture.io(), fixture.filled(4096));
    let (bad, good) = (io.write(&from, 0, Lba(0), 8).unwrap(), io.write(&from, 0, Lba(8), 8).unwrap());
    io.wait(good).unwrap();
    let text = io.wait(bad).unwrap_err().to_string();
    assert!(text.contains("write of namespace 1, ") && text.contains("Write Fault"), "{text}");
}

#[test]
fn a_reset_ends_what_is_in_flight_and_io_goes_on() {
    let fixture = Fixture::new(
        &["size=64k|kind = \"delay\";by = \"200ms\";opcode = \"read\"", "size=64k"],
        VolumeLayout::Stripe,
        1024,
    );
    let (mut io, into) = (fixture.io(), fixture.buffer(4096));
    let read = io.read(&into, 0, Lba(0), 8).unwrap();
    assert!(io.poll().is_none());
    fixture.ssds[0].controller().reset().unwrap();
    let text = io.wait(read).unwrap_err().to_string();
    assert!(text.ends_with("its queue was given up, after a reset or a command without an answer"), "{text}");
    let read = io.read(&into, 0, Lba(0), 8).unwrap();
    io.wait(read).unwrap();
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let fixture = Fixture::new(&["size=64k", "size=64k"], VolumeLayout::Stripe, 1024);
    let other = Fixture::new(&["size=64k", "size=64k"], VolumeLayout::Stripe, 1024);
    let (mut io, buffer, foreign) = (fixture.io(), fixture.buffer(4096), other.buffer(4096));
    let mut said =
        |buffer, at, first, blocks| io.read(buffer, at, Lba(first), blocks).unwrap_err().to_string();
    assert_eq!(said(&buffer, 0, 0, 0), "blocks 0: must be at least 1");
    assert_eq!(
        said(&buffer, 0, 255, 2),
        "first block of a volume 255 and 2 blocks: the volume has 256 blocks"
    );
    let limit = "must be a multiple of 4, and 1024 bytes of the buffer's 4096 must follow";
    assert_eq!(said(&buffer, 2, 0, 2), format!("at 2: {limit}"));
    assert_eq!(said(&buffer, 3584, 0, 2), format!("at 3584: {limit}"));
    assert!(said(&foreign, 0, 0, 2).ends_with("must be one of the volume's (Volume::buffer)"));
    let made = |depth| VolumeIo::new(&fixture.volume, &VolumeIoSpec::new().depth(depth));
    assert_eq!(made(0).unwrap_err().to_string(), "depth 0: must be at least 1");
    assert!(
        made(1 << 20)
            .unwrap_err()
            .to_string()
            .starts_with("depth 1048576: SSD soft:size=64k: must be at most")
    );
    let mut reads = made(1).unwrap();
    assert_eq!(reads.write(&buffer, 0, Lba(0), 1).unwrap_err().exit_code(), 3);
    let text = reads.allow_write(&[&fixture.ssds[0]]).unwrap_err().to_string();
    assert_eq!(text, "SSD of the volume soft:size=64k: must be among those that writes are allowed for");
}
