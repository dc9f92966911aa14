//! Power cuts: of what was written since the last flush any blocks may be there, and any others not.

use std::collections::BTreeMap;

use proptest::prelude::*;
use warpbell_base::SplitMix64;
use warpbell_files::catalogue::{FormatOptions, Writer};
use warpbell_files::{Catalogue, OpenOptions};

use crate::disk::{BLOCK, Disk, Event};
use crate::writes::contents;

const BYTES: usize = 1_400_000 / 4096 * 4096;

/// The files that a generation has.
type State = BTreeMap<String, Vec<u8>>;

#[derive(Clone, Debug)]
enum Step {
    /// Writes a file, or replaces it.
    Add(u8, usize),
    /// Begins one, and gives up.
    Abandon(u8, usize),
    Remove(u8),
    Commit,
    /// The process ends, and another one goes on.
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..6u8, 0..40_000usize).prop_map(|(name, size)| Step::Add(name, size)),
        1 => (0..6u8, 0..40_000usize).prop_map(|(name, size)| Step::Abandon(name, size)),
        2 => (0..6u8).prop_map(Step::Remove),
        4 => Just(Step::Commit),
        1 => Just(Step::Reopen),
    ]
}

fn name(number: u8) -> String {
    format!("f/{number}")
}

fn data(seed: usize, size: usize) -> Vec<u8> {
    (0..size).map(|at| (seed * 131 + at / 7 + at % 251) as u8).collect()
}

/// Does the steps. Returns the states by generation, and for each when its commit began and when it returned, in events.
fn play(disk: &Disk, steps: &[Step]) -> Vec<(usize, usize, State)> {
    let now = || disk.events.borrow().len();
    let mut writer = Writer::format(disk, &FormatOptions::default()).unwrap();
    let mut states = vec![(0, now(), State::new())];
    let mut state = State::new();
    for (seed, step) in steps.iter().enumerate() {
        match *step {
            Step::Add(number, size) => {
                let Ok(mut file) = writer.start(&name(number), size as u64) else { continue };
                let data = data(seed, size);
                file.write(&data).unwrap();
                file.finish("").unwrap();
                state.insert(name(number), data);
            }
            Step::Abandon(number, size) => {
                let Ok(mut file) = writer.start(&name(number), size as u64) else { continue };
                file.write(&data(seed, size / 2)).unwrap();
            }
            Step::Remove(number) => {
                assert_eq!(writer.remove(&name(number)).is_ok(), state.remove(&name(number)).is_some());
            }
            Step::Commit => {
                let (began, generation) = (now(), writer.catalogue().generation());
                writer.commit().unwrap();
                if writer.catalogue().generation() > generation {
                    states.push((began, now(), state.clone()));
                }
            }
            Step::Reopen => {
                drop(writer);
                writer = Writer::open(disk).unwrap();
                state = states.last().unwrap().2.clone();
            }
        }
    }
    states
}

/// What is on the disk if the power is cut after `cut` events: blocks written since the last flush are kept by chance.
fn torn(events: &[Event], cut: usize, seed: u64) -> Vec<u8> {
    let mut random = SplitMix64::from_state(seed);
    let mut kept = move || random.next_u64() & 1 == 1;
    let events = &events[..cut];
    let durable = events.iter().rposition(|event| matches!(event, Event::Flush)).unwrap_or(0);
    let mut bytes = vec![0; BYTES];
    for (index, event) in events.iter().enumerate() {
        let Event::Write(at, from) = event else { continue };
        for (block, from) in from.chunks(BLOCK).enumerate() {
            if index < durable || kept() {
                let at = *at as usize + block * BLOCK;
                bytes[at..at + BLOCK].copy_from_slice(from);
            }
        }
    }
    bytes
}

fn read_all(disk: &Disk) -> (u64, State) {
    let catalogue = Catalogue::open(disk, &OpenOptions::default()).unwrap();
    let read = |(name, file): (&str, &warpbell_files::catalogue::File)| {
        let bytes = contents(disk, &catalogue, name);
        assert_eq!(crc32c::crc32c(&bytes), file.crc, "{name}");
        (name.to_owned(), bytes)
    };
    (catalogue.generation(), catalogue.files().map(read).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_power_cut_leaves_the_last_generation_or_the_one_that_was_written(
        steps in prop::collection::vec(step(), 1..40),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>()), 12),
    ) {
        let disk = Disk::new(BYTES);
        let states = play(&disk, &steps);
        let events = disk.events.borrow();
        let formatted = states[0].1;
        for (cut, seed) in cuts {
            let cut = formatted + cut.index(events.len() - formatted + 1);
            let (generation, found) = read_all(&Disk::with(torn(&events, cut, seed)));
            let committed = states.iter().rposition(|(_, done, _)| *done <= cut).unwrap();
            let begun = states.iter().rposition(|(began, ..)| *began <= cut).unwrap();
            let index = generation as usize - 1;
            prop_assert!((committed..=begun).contains(&index), "{index}, not {committed} to {begun}");
            prop_assert!(found == states[index].2, "generation {generation} after {cut} events");
        }
    }
}
