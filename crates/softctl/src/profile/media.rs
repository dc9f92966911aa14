//! The model at work: what each command waits for.
//!
//! A read takes a place in the units of its stripes, then its latency, then the way to the client, one read at a
//! time. A write comes over its own way, waits for room in the buffer, then takes its latency. What the buffer
//! holds is programmed a piece at a time by one unit after the other; that, and erasures, are what a read may meet.

use std::collections::VecDeque;
use std::time::Duration;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use warpbell_nvme::NvmOpcode;

use super::latency::Sampler;
use super::{MediaProfile, Profile};

/// What a command does to the media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Brings bytes to the client.
    Read,
    /// Reads blocks, and brings nothing to the client.
    Verify,
    Write,
    /// Everything else.
    Other,
}

impl Operation {
    pub(crate) fn of(opcode: u8) -> Operation {
        match NvmOpcode(opcode) {
            NvmOpcode::READ => Operation::Read,
            NvmOpcode::COMPARE | NvmOpcode::VERIFY => Operation::Verify,
            NvmOpcode::WRITE => Operation::Write,
            _ => Operation::Other,
        }
    }
}

/// A unit programs or erases.
#[derive(Clone, Copy, Debug)]
struct Task {
    start: Duration,
    end: Duration,
    /// Bytes that leave the buffer when it ends.
    bytes: u64,
}

#[derive(Debug, Default)]
struct Unit {
    /// When its last read leaves it.
    read_end: Duration,
    /// Not yet ended, in order.
    tasks: VecDeque<Task>,
    /// Bytes programmed since its last erasure.
    programmed: u64,
}

impl Unit {
    /// When a read that comes at `now` begins. It goes before tasks that have not begun, and interrupts one that has
    /// after `suspend`; they go on behind it.
    fn read(&mut self, now: Duration, busy: Duration, suspend: Option<Duration>) -> Duration {
        let mut start = now.max(self.read_end);
        if let Some(task) = self.tasks.iter().find(|task| task.start <= start && start < task.end) {
            let rest = task.end - start;
            start += suspend.map_or(rest, |limit| limit.min(rest));
        }
        self.read_end = start + busy;
        let mut free = self.read_end;
        for task in self.tasks.iter_mut().filter(|task| task.end > start) {
            if task.start < start {
                task.end += busy;
            } else {
                let length = task.end - task.start;
                task.start = task.start.max(free);
                task.end = task.start + length;
            }
            free = task.end;
        }
        start
    }

    fn free(&self) -> Duration {
        self.tasks.back().map_or(self.read_end, |task| task.end.max(self.read_end))
    }

    fn program(&mut self, now: Duration, bytes: u64, media: &MediaProfile) {
        let mut start = now.max(self.free());
        if let Some((erase, every)) = media.erase
            && self.programmed >= every
        {
            self.programmed = 0;
            self.tasks.push_back(Task { start, end: start + erase, bytes: 0 });
            start += erase;
        }
        self.programmed += bytes;
        self.tasks.push_back(Task { start, end: start + media.program, bytes });
    }
}

/// The write buffer.
#[derive(Debug, Default)]
struct Buffer {
    /// Bytes of it that writes have taken, also those that still wait for their room.
    used: u64,
    /// Of these, not yet given to a unit.
    loose: u64,
    /// When the last write got its room.
    admitted: Duration,
    /// The unit that programs next.
    next: usize,
}

/// One controller's media.
#[derive(Debug)]
pub(crate) struct Media {
    profile: Profile,
    read: Sampler,
    write: Sampler,
    flush: Sampler,
    units: Vec<Unit>,
    /// When the ways to and from the client are free.
    to_client: Duration,
    from_client: Duration,
    buffer: Buffer,
    random: Xoshiro256PlusPlus,
}

fn transfer(bytes: u64, bandwidth: u64) -> Duration {
    Duration::from_nanos((u128::from(bytes) * 1_000_000_000 / u128::from(bandwidth)) as u64)
}

impl Media {
    pub(crate) fn new(profile: &Profile, seed: u64) -> Media {
        Media {
            read: Sampler::new(profile.read.latency),
            write: Sampler::new(profile.write.latency),
            flush: Sampler::new(profile.flush),
            units: (0..profile.media.units).map(|_| Unit::default()).collect(),
            to_client: Duration::ZERO,
            from_client: Duration::ZERO,
            buffer: Buffer::default(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed.rotate_left(7)),
            profile: profile.clone(),
        }
    }

    /// When the media are done with a command that begins at `now`; a read then still has to be sent
    /// ([`Media::send`]).
    pub(crate) fn begin(&mut self, operation: Operation, offset: u64, bytes: u64, now: Duration) -> Duration {
        match operation {
            Operation::Read => {
                let sent = self.first(bytes, self.profile.read.bandwidth);
                self.start_read(offset, bytes, now).saturating_sub(sent)
            }
            Operation::Verify => self.start_read(offset, bytes, now),
            Operation::Write => self.start_write(bytes, now),
            Operation::Other => now + self.flush.draw(&mut self.random),
        }
    }

    /// When the client has got the `bytes` of a read that is ready to be sent at `now`.
    pub(crate) fn send(&mut self, bytes: u64, now: Duration) -> Duration {
        self.to_client = now.max(self.to_client) + transfer(bytes, self.profile.read.bandwidth);
        self.to_client
    }

    /// The part of a command's transfer that its latency includes.
    fn first(&self, bytes: u64, bandwidth: u64) -> Duration {
        transfer(bytes.min(self.profile.media.stripe), bandwidth)
    }

    fn start_read(&mut self, offset: u64, bytes: u64, now: Duration) -> Duration {
        self.retire(now);
        let MediaProfile { stripe, suspend, .. } = self.profile.media;
        let (first, last) = (offset / stripe, offset.saturating_add(bytes.saturating_sub(1)) / stripe);
        let (busy, count) = (self.profile.read.busy, self.units.len() as u64);
        let mut start = now;
        for index in first..=last {
            start = start.max(self.units[(index % count) as usize].read(now, busy, suspend));
        }
        start + self.read.draw(&mut self.random)
    }

    fn start_write(&mut self, bytes: u64, now: Duration) -> Duration {
        let bandwidth = self.profile.write.bandwidth;
        self.from_client = now.max(self.from_client) + transfer(bytes, bandwidth);
        let arrived = self.from_client;
        let admitted = self.admit(bytes, arrived);
        self.program(bytes, admitted);
        (admitted + self.write.draw(&mut self.random)).saturating_sub(self.first(bytes, bandwidth))
    }

    /// When the buffer has room for a write that arrives at `now`. Writes get room in the order in which they come.
    fn admit(&mut self, bytes: u64, now: Duration) -> Duration {
        let mut admitted = now.max(self.buffer.admitted);
        self.retire(now);
        let wanted = (self.buffer.used + bytes).saturating_sub(self.profile.buffer_bytes);
        if wanted > 0 {
            if self.buffer.used - self.buffer.loose < wanted {
                self.program_loose(admitted);
            }
            admitted = admitted.max(self.freed(wanted));
        }
        self.buffer.used += bytes;
        self.buffer.admitted = admitted;
        admitted
    }

    /// When the units' tasks will have freed so many bytes, or all that there are.
    fn freed(&self, wanted: u64) -> Duration {
        let tasks = self.units.iter().flat_map(|unit| &unit.tasks);
        let mut ends: Vec<_> = tasks.map(|task| (task.end, task.bytes)).collect();
        ends.sort_unstable();
        let mut freed = 0;
        let enough = ends.iter().find(|(_, bytes)| {
            freed += bytes;
            freed >= wanted
        });
        enough.or(ends.last()).map_or(Duration::ZERO, |(end, _)| *end)
    }

    /// Gives whole pieces of what the buffer holds to the units.
    fn program(&mut self, bytes: u64, now: Duration) {
        self.buffer.loose += bytes;
        while self.buffer.loose >= self.profile.media.program_size {
            self.program_piece(self.profile.media.program_size, now);
        }
    }

    /// Gives the rest to a unit too, because somebody waits for room.
    fn program_loose(&mut self, now: Duration) {
        if self.buffer.loose > 0 {
            self.program_piece(self.buffer.loose, now);
        }
    }

    fn program_piece(&mut self, bytes: u64, now: Duration) {
        self.buffer.loose -= bytes;
        let unit = self.buffer.next;
        self.buffer.next = (unit + 1) % self.units.len();
        self.units[unit].program(now, bytes, &self.profile.media);
    }

    /// Forgets tasks that have ended.
    fn retire(&mut self, now: Duration) {
        for unit in &mut self.units {
            while let Some(task) = unit.tasks.pop_front_if(|task| task.end <= now) {
                self.buffer.used = self.buffer.used.saturating_sub(task.bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    fn profile(media: &str) -> Profile {
        let table = |us: u32| {
            format!(
                "latency = {{ min='{us}us', p50='{us}us', p90='{us}us', p99='{us}us', p99_9='{us}us', p99_99='{us}us', max='{us}us' }}"
            )
        };
        let (read, write) = (table(100), table(10));
        Profile::from_toml(&format!(
            "name = 'test'\n[read]\n{read}\nbandwidth='1GB/s'\nbusy='50us'\n[write]\n{write}\nbandwidth='1GB/s'\n\
             [flush]\n{write}\n[media]\nstripe='4k'\nprogram_size='16k'\n{media}\n[buffer]\nbytes='64k'\n"
        ))
        .unwrap()
    }

    fn read(media: &mut Media, offset: u64, bytes: u64, now: Duration) -> Duration {
        let ready = media.begin(Operation::Read, offset, bytes, now);
        media.send(bytes, ready)
    }

    #[test]
    fn an_idle_device_takes_its_latency() {
        let mut media = Media::new(&profile("units=4\nprogram='1ms'"), 1);
        assert_eq!(read(&mut media, 0, 4096, SECOND), SECOND + us(100));
        assert_eq!(read(&mut media, 0, 512, SECOND * 2), SECOND * 2 + us(100));
        assert_eq!(media.begin(Operation::Write, 0, 4096, SECOND), SECOND + us(10));
        assert_eq!(media.begin(Operation::Other, 0, 0, SECOND), SECOND + us(10));
        // Two stripes: the second is one transfer more.
        let two = read(&mut media, 0, 8192, SECOND * 3) - SECOND * 3;
        assert_eq!(two, us(100) + transfer(8192, 1_000_000_000) - transfer(4096, 1_000_000_000));
    }

    #[test]
    fn reads_of_one_unit_queue_and_of_others_do_not() {
        let mut media = Media::new(&profile("units=4\nprogram='1ms'"), 1);
        let ready: Vec<_> =
            [0, 4, 8, 1].map(|stripe| media.begin(Operation::Verify, stripe * 4096, 4096, SECOND)).into();
        assert_eq!(ready, [100, 150, 200, 100].map(|t| SECOND + us(t)));
    }

    #[test]
    fn the_way_to_the_client_takes_one_at_a_time() {
        let mut media = Media::new(&profile("units=4\nprogram='1ms'"), 1);
        let first = media.send(1_000_000, SECOND);
        assert_eq!((first, media.send(1_000_000, SECOND)), (SECOND + us(1000), SECOND + us(2000)));
    }

    #[test]
    fn a_full_buffer_drains_at_the_speed_of_the_units() {
        let mut media = Media::new(&profile("units=2\nprogram='1ms'"), 1);
        let ends: Vec<_> = (0..400).map(|_| media.begin(Operation::Write, 0, 4096, SECOND)).collect();
        assert!(ends[15] < SECOND + us(100), "the buffer takes 64 KiB: {:?}", ends[15]);
        // Two units program 16 KiB a millisecond each: eight writes.
        let rate = 300.0 / (ends[399] - ends[99]).as_secs_f64();
        assert!((rate / 8000.0 - 1.0).abs() < 0.02, "{rate} writes a second");
    }

    #[test]
    fn a_read_waits_for_a_program_as_long_as_it_must() {
        for (suspend, waits) in [("", 900), ("suspend='200us'", 200)] {
            let mut media = Media::new(&profile(&format!("units=1\nprogram='1ms'\n{suspend}")), 1);
            media.program(16384, SECOND);
            let ready = media.begin(Operation::Verify, 0, 4096, SECOND + us(100));
            assert_eq!(ready, SECOND + us(100 + waits + 100), "{suspend}");
        }
    }

    #[test]
    fn a_suspended_program_goes_on_behind_the_read() {
        let mut media = Media::new(&profile("units=1\nprogram='1ms'\nsuspend='200us'"), 1);
        media.program(32768, SECOND);
        media.begin(Operation::Verify, 0, 4096, SECOND + us(100));
        let ends: Vec<_> = media.units[0].tasks.iter().map(|task| task.end - SECOND).collect();
        assert_eq!(ends, [us(1050), us(2050)]);
    }

    #[test]
    fn erasures_come_after_so_many_bytes() {
        let mut media = Media::new(&profile("units=1\nprogram='1ms'\nerase='5ms'\nerase_every='32k'"), 1);
        media.program(16384 * 5, SECOND);
        let lengths: Vec<_> =
            media.units[0].tasks.iter().map(|task| (task.end - task.start).as_millis()).collect();
        assert_eq!(lengths, [1, 1, 5, 1, 1, 5, 1]);
    }
}
