//! Tier S: kernels with leases and arguments of every kind. What a lease does not allow is refused before submission: the
//! controller sees no command of it.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use warpbell::{
    AttachOptions, Attachment, Buffer, DataPlacement, ForeignMemory, Lease, LeaseSpec, Module, OpenOptions,
    RingPlacement, Ssd,
};
use warpbell_hw::{Lba, Window};
use warpbell_kernels::abi::{self, BufferRef, NamespaceRef};
use warpbell_kernels::cpu;
use warpbell_kernels::toolchain::Variant;
use warpbell_sim::{TestLaunch, load_module};
use warpbell_softctl::SoftDevice;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const LANES: usize = 32;
const BLOCK: u64 = 512;
const BLOCKS: u64 = 2048;
/// What the lease allows.
const LEASED: Range<u64> = 64..128;

#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Attempt {
    lba: u64,
    offset: u64,
    bytes: u64,
    blocks: u32,
    status: u32,
}

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct LeaseArgs {
    ns: NamespaceRef,
    buffer: BufferRef,
    attempts: u64,
    rounds: u32,
    call: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    ReadEach,
    WriteEach,
    Read,
    Write,
    ReadAsync,
    WriteAsync,
}

use Call::{Read, ReadAsync, ReadEach, Write, WriteAsync, WriteEach};
const CALLS: [Call; 6] = [ReadEach, WriteEach, Read, Write, ReadAsync, WriteAsync];

impl Call {
    fn writes(self) -> bool {
        matches!(self, WriteEach | Write | WriteAsync)
    }

    /// Lanes that have arguments of their own.
    fn lanes(self) -> usize {
        if matches!(self, ReadEach | WriteEach) { LANES } else { 1 }
    }
}

static MODULE: LazyLock<cpu::Module> = LazyLock::new(|| {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/leases.cu");
    let path = Variant::file(&source).and_then(|variant| variant.quick().build()).expect("compiles");
    load_module(&path).expect("loads")
});

/// A namespace of 2048 blocks with a queue for one warp, and two buffers of 64 KiB.
struct Fixture {
    soft: Arc<SoftDevice>,
    attachment: Attachment,
    buffers: [Buffer; 2],
}

impl Fixture {
    fn new(device: &str) -> Fixture {
        let ssd = Ssd::open(&device.parse().expect("a name"), &OpenOptions::default()).expect("opens");
        let attachment = ssd.attach(&AttachOptions::default()).expect("attaches");
        let buffers = [(); 2].map(|()| attachment.buffer(64 << 10).expect("a buffer"));
        Fixture { soft: ssd.soft().expect("soft").clone(), attachment, buffers }
    }

    /// A lease of [`LEASED`] with data in the first buffer.
    fn lease(&self, read_only: bool) -> Lease {
        let buffer = Some(&self.buffers[0]);
        let spec = LeaseSpec::new()
            .lbas(Some(Lba(LEASED.start)..Lba(LEASED.end)))
            .read_only(read_only)
            .buffer(buffer);
        self.attachment.lease(&spec).expect("a lease")
    }

    /// I/O commands that the controller completed.
    fn commands(&self) -> u64 {
        self.soft.statistics().total_commands()
    }

    /// Makes the attempts by that call with data in one of the buffers: the statuses.
    fn attempt(&self, lease: &Lease, call: Call, buffer: usize, attempts: &[Attempt]) -> Vec<u32> {
        let rounds = attempts.len().div_ceil(call.lanes());
        let mut rows = vec![Attempt::default(); rounds * LANES];
        for (at, attempt) in attempts.iter().enumerate() {
            rows[at / call.lanes() * LANES + at % call.lanes()] = *attempt;
        }
        let memory = self.attachment.target().memory(size_of_val(&rows[..])).expect("memory");
        memory.write(0, rows.as_bytes()).expect("fits");
        let args = LeaseArgs {
            ns: lease.namespace(),
            buffer: self.buffers[buffer].as_ref(),
            attempts: memory.address(),
            rounds: rounds as u32,
            call: CALLS.iter().position(|each| *each == call).expect("a call") as u32,
        };
        let launch = lease.launch_bytes(&Module::from(MODULE.clone()), "try_lease", args.as_bytes());
        launch.expect("a launch").keep(memory.clone()).start().expect("starts").join().expect("ends");
        memory.read(0, rows.as_mut_bytes()).expect("fits");
        (0..attempts.len()).map(|at| rows[at / call.lanes() * LANES + at % call.lanes()].status).collect()
    }
}

/// One block of data at the start of the buffer.
fn one(lba: u64) -> Attempt {
    Attempt { lba, offset: 0, bytes: BLOCK, blocks: 1, status: u32::MAX }
}

fn refused(code: u32) -> u32 {
    abi::STATUS_LIBRARY | code
}

#[test]
fn what_a_lease_does_not_allow_is_refused_and_no_command_of_it_is_submitted() {
    for device in ["soft:size=1m", "soft:size=1m,sgl=off"] {
        let fixture = Fixture::new(device);
        let outside = [0, LEASED.start - 1, LEASED.end, LEASED.end + 1, BLOCKS - 1].map(one);
        let across = [
            Attempt { blocks: 2, bytes: 2 * BLOCK, ..one(LEASED.start - 1) },
            Attempt { blocks: 2, bytes: 2 * BLOCK, ..one(LEASED.end - 1) },
            Attempt { blocks: 128, bytes: 128 * BLOCK, ..one(0) },
        ];
        let attempts: Vec<Attempt> = outside.into_iter().chain(across).collect();
        for call in CALLS {
            let lease = fixture.lease(false);
            let answers = fixture.attempt(&lease, call, 0, &attempts);
            assert_eq!(answers, vec![refused(abi::STATUS_OUT_OF_LEASE); attempts.len()], "{call:?} {device}");
            // Good blocks, but the other buffer.
            let inside = [one(LEASED.start), one(LEASED.end - 1)];
            let answers = fixture.attempt(&lease, call, 1, &inside);
            assert_eq!(answers, [refused(abi::STATUS_OUT_OF_LEASE); 2], "{call:?} {device}");
            if call.writes() {
                let answers = fixture.attempt(&fixture.lease(true), call, 0, &inside);
                assert_eq!(answers, [refused(abi::STATUS_READ_ONLY); 2], "{call:?} {device}");
            }
        }
        assert_eq!(fixture.commands(), 0, "{device}");
        // The same calls with what is allowed.
        for call in CALLS {
            let lease = fixture.lease(!call.writes());
            assert_eq!(fixture.attempt(&lease, call, 0, &[one(LEASED.start), one(LEASED.end - 1)]), [0, 0]);
        }
        assert_eq!(fixture.commands(), 2 * CALLS.len() as u64, "{device}");
        assert_eq!(fixture.soft.violations(), []);
    }
}

/// Numbers at and around every limit, and any others.
fn numbers() -> impl Strategy<Value = u64> {
    let around = |limit: u64| (0..3u64).prop_map(move |step| limit.wrapping_add(step).wrapping_sub(1));
    let limits = [0, LEASED.start, LEASED.end, BLOCKS, 64 << 10, 1 << 32, 1 << 55, 1 << 63, u64::MAX];
    prop_oneof![
        proptest::sample::select(limits.to_vec()).prop_flat_map(around),
        LEASED.prop_map(|lba| lba),
        any::<u64>()
    ]
}

prop_compose! {
    fn attempts()(lba in numbers(), offset in numbers(), bytes in numbers(), blocks in numbers(), fits: bool) -> Attempt {
        let blocks = blocks as u32;
        // Half of them ask for as much as they have room for.
        let bytes = if fits { u64::from(blocks) * BLOCK } else { bytes };
        Attempt { lba, offset: if fits { offset % (64 << 10) } else { offset }, bytes, blocks, status: u32::MAX }
    }
}

/// Whether all of it lies in the lease and in the buffer, and can be addressed.
fn allowed(attempt: &Attempt, call: Call, read_only: bool) -> bool {
    let Attempt { lba, offset, bytes, blocks, .. } = *attempt;
    let needed = u64::from(blocks) * BLOCK;
    let inside = lba >= LEASED.start && lba.checked_add(blocks.into()).is_some_and(|end| end <= LEASED.end);
    let room = bytes >= needed && offset.checked_add(bytes).is_some_and(|end| end <= 64 << 10);
    blocks > 0 && inside && room && offset.is_multiple_of(4) && !(read_only && call.writes())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn whatever_a_kernel_asks_for_only_what_is_allowed_is_submitted(
        attempts in proptest::collection::vec(attempts(), 32),
        call in proptest::sample::select(CALLS.to_vec()),
        read_only: bool,
        sgl: bool,
    ) {
        let fixture = Fixture::new(if sgl { "soft:size=1m" } else { "soft:size=1m,sgl=off" });
        let answers = fixture.attempt(&fixture.lease(read_only), call, 0, &attempts);
        let mut commands = 0;
        for (attempt, answer) in attempts.iter().zip(answers) {
            let fine = allowed(attempt, call, read_only);
            prop_assert_eq!(answer == 0, fine, "{:?} {:?}: {:#x}", call, attempt, answer);
            prop_assert!(fine || answer & abi::STATUS_LIBRARY != 0, "{:?}: {:#x}", attempt, answer);
            commands += u64::from(fine);
        }
        prop_assert_eq!(fixture.commands(), commands);
        prop_assert_eq!(fixture.soft.violations(), []);
    }
}

/// Rings and data in every place: the first owner leaves a secret in all of its memory.
#[test]
fn memory_holds_nothing_of_its_last_owners() {
    for place in 0..3 {
        let memory = ForeignMemory::new("bar:fake", Window::host(4 << 20).expect("memory"));
        let rings = match place {
            0 => RingPlacement::Host,
            1 => RingPlacement::Cmb,
            _ => RingPlacement::Foreign(memory.clone()),
        };
        let data = if place == 2 { DataPlacement::Foreign(memory) } else { DataPlacement::Host };
        let name = "soft:size=1m,cmb=64k".parse().expect("a name");
        let ssd = Ssd::open(&name, &OpenOptions::new().rings(rings).data(data)).expect("opens");
        for owner in 0..3 {
            let attachment = ssd.attach(&AttachOptions::default()).expect("attaches");
            // Other lengths, so that parts of a pool are put together differently.
            let buffers = [owner, owner + 1].map(|pages| attachment.buffer((pages + 1) << 12).expect("fits"));
            let own = ssd.buffer(3 << 12).expect("fits");
            let pair = &attachment.pairs()[0];
            let data = buffers.iter().chain([&own]).map(|buffer| buffer.window().expect("the host's"));
            for window in data.chain([pair.sq().unwrap().window(), pair.cq().unwrap().window()]) {
                let bytes = window.to_vec(0, window.len()).expect("readable");
                assert!(bytes.iter().all(|byte| *byte == 0), "place {place}, owner {owner}");
                window.fill(0, window.len(), 0xa5).expect("writable");
            }
        }
    }
}
