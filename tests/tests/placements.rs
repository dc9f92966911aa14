//! Tier S: rings and data in every place, with a window of host memory, accessed by words, in the role of a BAR of
//! another function.

use std::sync::Arc;

use warpbell::test_hooks::TestSsd;
use warpbell::{
    AttachOptions, DataPlacement, DeviceName, Domains, ForeignMemory, OpenOptions, OrderPolicy,
    RingPlacement, Ssd,
};
use warpbell_driver::IoQueueOptions;
use warpbell_hw::{Window, WordMemory};
use warpbell_nvme::command;
use warpbell_tests::suite;

/// Memory in the role of a BAR.
fn fake_memory(bytes: usize) -> Arc<ForeignMemory> {
    let memory = Window::host(bytes).expect("memory").memory().clone();
    ForeignMemory::new("bar:fake", Window::whole(WordMemory::new(memory)))
}

fn open(config: &str, rings: RingPlacement, data: DataPlacement) -> Arc<Ssd> {
    let name: DeviceName = format!("soft:{config}").parse().expect("a name");
    Arc::new(Ssd::open(&name, &OpenOptions::new().rings(rings).data(data)).expect("opens"))
}

fn inside(memory: &ForeignMemory, window: &Window) -> bool {
    (window.as_ptr() as usize).wrapping_sub(memory.window().as_ptr() as usize) < memory.window().len()
}

#[test]
fn everything_holds_with_rings_and_data_in_every_place() {
    for sgl in ["on", "off"] {
        for at in 0..6 {
            let memory = fake_memory(64 << 20);
            let rings = match at % 3 {
                0 => RingPlacement::Host,
                1 => RingPlacement::Cmb,
                _ => RingPlacement::Foreign(memory.clone()),
            };
            let foreign = at / 3 == 1;
            let data = if foreign { DataPlacement::Foreign(memory.clone()) } else { DataPlacement::Host };
            let ssd = open(&format!("size=16m,cmb=1m,sgl={sgl}"), rings, data);
            let path = ssd.data_path();
            assert_eq!(path.data, if foreign { "bar:fake" } else { "host" });
            assert_eq!(path.rings, ["host", "cmb (SQ), host (CQ)", "bar:fake"][at % 3]);
            assert_eq!(path.domains == Domains::One, foreign == (at % 3 == 2), "{path}");

            let attachment = ssd.attach(&AttachOptions::default()).expect("attaches");
            let order = match (path.domains, foreign) {
                (Domains::One, _) => OrderPolicy::OneMemory,
                (_, data) => OrderPolicy::Flush { data },
            };
            assert_eq!(attachment.order(), order, "{path}");
            let pair = &attachment.pairs()[0];
            assert_eq!(inside(&memory, pair.sq().unwrap().window()), at % 3 == 2);
            assert_eq!(inside(&memory, pair.cq().unwrap().window()), at % 3 == 2);
            assert_eq!(
                inside(&memory, attachment.buffer(4096).expect("a buffer").window().expect("not a GPU's")),
                foreign
            );
            drop(attachment);

            suite::kernels(&ssd, 1);
            suite::both_apis(&ssd, 1);
            assert_eq!(ssd.violations(), []);
        }
    }
}

#[test]
fn host_queues_flush_behind_a_completion_only_where_data_lies_in_other_memory() {
    let memory = fake_memory(1 << 20);
    let (rings, data) = (RingPlacement::Foreign(memory.clone()), DataPlacement::Foreign(memory));
    // Data in host memory is pushed there by a register's answer; data elsewhere is read, too.
    for (rings, data, flushes, reads) in [
        (RingPlacement::Host, DataPlacement::Host, 0, 0),
        (rings.clone(), data.clone(), 0, 0),
        (rings, DataPlacement::Host, 10, 10),
        (RingPlacement::Host, data, 10, 20),
    ] {
        let ssd = open("size=1m", rings, data);
        let buffer = ssd.buffer(4096).expect("a buffer");
        let mut queue = ssd.host_queue(16, IoQueueOptions::default(), buffer).expect("a queue");
        (0..10).for_each(|_| assert!(queue.execute(&command::flush(1)).expect("completes").is_ok()));
        let counters = queue.counters();
        assert_eq!((counters.flushes, counters.register_reads), (flushes, reads), "{}", ssd.data_path());
        queue.delete().expect("deleted");
    }
}

#[test]
fn data_in_a_bar_is_read_behind_each_completion_in_host_memory() {
    let ssd = open("size=1m", RingPlacement::Host, DataPlacement::Foreign(fake_memory(1 << 20)));
    let buffer = ssd.buffer(4096).expect("a buffer");
    let mut queue = ssd.host_queue(16, IoQueueOptions::default(), buffer).expect("a queue");
    (0..10).for_each(|_| assert!(queue.execute(&command::flush(1)).expect("completes").is_ok()));
    let counters = queue.counters();
    assert_eq!(
        (counters.flushes, counters.register_reads),
        (10, 20),
        "a register of the SSD, and a word of the data"
    );
    queue.delete().expect("deleted");
}

#[test]
fn foreign_memory_is_shared_by_ssds_mapped_once_by_each_and_refused_when_full() {
    let memory = fake_memory(8 << 12);
    let placed = || {
        let (rings, data) = (RingPlacement::Foreign(memory.clone()), DataPlacement::Foreign(memory.clone()));
        open("size=1m", rings, data)
    };
    let ssds = [placed(), placed()];
    // Rings of 64 entries take a page each, and none is to spare.
    let options = AttachOptions::new().iodepth(63).replacement_queues(0);
    let attachments = ssds.each_ref().map(|ssd| ssd.attach(&options).expect("fits"));
    let buffers = ssds.each_ref().map(|ssd| ssd.buffer(2 << 12).expect("fits"));
    let offset = |window: &Window| window.as_ptr() as u64 - memory.window().as_ptr() as u64;
    for (attachment, buffer) in attachments.iter().zip(&buffers) {
        assert!(inside(&memory, buffer.window().expect("not a GPU's")));
        // One mapping of all of the memory: ring and buffer lie as far apart for the controller as they do here.
        let pair = &attachment.pairs()[0];
        let (ring, data) = (
            pair.sq_iova().0 - offset(pair.sq().unwrap().window()),
            buffer.iova().0 - offset(buffer.window().expect("not a GPU's")),
        );
        assert_eq!(ring, data);
        assert!(
            buffer
                .window()
                .expect("not a GPU's")
                .to_vec(0, buffer.len())
                .expect("readable")
                .iter()
                .all(|byte| *byte == 0)
        );
    }
    let text = ssds[0].attach(&options).err().expect("full").to_string();
    assert_eq!(text, "memory bar:fake: 4096 bytes do not fit: 32768 of 32768 bytes are in use");
    drop((attachments, buffers));
    let _again = ssds[0].buffer(8 << 12).expect("all of it is free again");
    assert!(ssds.iter().all(|ssd| ssd.violations().is_empty()));
}

#[test]
fn memory_of_the_callers_is_mapped_once_and_takes_data() {
    for sgl in ["on", "off"] {
        let ssd = open(&format!("size=1m,sgl={sgl}"), RingPlacement::Host, DataPlacement::Host);
        let own = Window::host(16 << 12).expect("memory");
        own.fill(0, own.len(), 0xab).expect("fills");
        let whole = ssd.register(own.clone()).expect("registered");
        let part = ssd.register(own.slice(3 << 12, 8 << 12).expect("a part")).expect("registered");
        assert_eq!(part.iova().get(), whole.iova().get() + (3 << 12), "by the mapping that there is");
        assert_eq!(ssd.register(own.clone()).expect("registered").iova(), whole.iova());
        drop(whole);

        let attachment = ssd.attach(&AttachOptions::default()).expect("attaches");
        let kept = attachment.register(own.clone()).expect("registered");
        assert_eq!(kept.iova().get() + (3 << 12), part.iova().get(), "the part keeps the mapping");
        drop((attachment, kept));

        let mut queue = ssd.host_queue(16, IoQueueOptions::default(), part.clone()).expect("a queue");
        // Eight blocks of zeros into the third page of the part.
        let read = command::read(1, 0, 7).with_prp(part.iova().get() + (2 << 12), 0);
        assert!(queue.execute(&read).expect("completes").is_ok());
        queue.delete().expect("deleted");
        let page = |at: usize| own.to_vec(at << 12, 1 << 12).expect("readable");
        assert!(page(5).iter().all(|byte| *byte == 0), "read");
        assert!([4, 6].iter().all(|at| page(*at).iter().all(|byte| *byte == 0xab)), "untouched");
        assert_eq!(ssd.violations(), []);
    }
}

#[test]
fn only_whole_pages_of_host_memory_are_registered() {
    let ssd = open("size=1m", RingPlacement::Host, DataPlacement::Host);
    let own = Window::host(4 << 12).expect("memory");
    let text = |window: Window| ssd.register(window).expect_err("refused").to_string();
    assert!(text(own.slice(512, 4096).expect("a part")).contains("multiples of 4096"));
    assert!(text(own.slice(0, 100).expect("a part")).contains("multiples of 4096"));
    assert!(text(fake_memory(4096).window().clone()).contains("only host memory is registered"));
    let memory = fake_memory(1 << 20);
    let foreign = open("size=1m", RingPlacement::Host, DataPlacement::Foreign(memory));
    let refused = foreign.register(own).expect_err("refused").to_string();
    assert!(refused.contains("bar:fake"), "{refused}");
}
