//! Inputs that are the same in every run, for tests whose verdict may not depend on luck: those that were kept, and so
//! many new ones, made from them by a seed. What a run reaches has no say in them: coverage differs from run to run, by
//! the order of hash tables alone.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::path::{Path, PathBuf};
use std::process::exit;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The longest input.
const LONGEST: usize = 2048;

/// The longest that one input may take: a busy machine can stand still for a minute.
const HANG: Duration = Duration::from_secs(300);

/// A thread panicked, whichever it was.
static PANICKED: AtomicBool = AtomicBool::new(false);
/// Inputs that were begun.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// Where `FUZZ_REPEAT` is set, runs the inputs in that folder and `FUZZ_RUNS` new ones of seed `FUZZ_SEED`, and ends the
/// process: with 1 if one of them is a finding, which then lies in the folder `FUZZ_FINDINGS`. Else it returns. The file
/// `FUZZ_CURRENT` has the input that runs, for whoever finds the process ended by a signal.
pub fn if_asked(name: &str, target: fn(&[u8])) {
    let Ok(folder) = std::env::var("FUZZ_REPEAT") else { return };
    let number = |key: &str| std::env::var(key).ok().and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
    let kept = kept(Path::new(&folder));
    let mut random = Xoshiro256PlusPlus::seed_from_u64(number("FUZZ_SEED"));
    let fresh = (0..number("FUZZ_RUNS")).map(|_| mutant(&kept, &mut random));
    // libFuzzer's own ends the process before anybody can say which input it was.
    drop(take_hook());
    let usual = take_hook();
    set_hook(Box::new(move |what| {
        usual(what);
        PANICKED.store(true, SeqCst);
    }));
    let current = std::env::var("FUZZ_CURRENT").expect("the file FUZZ_CURRENT");
    let file = File::create(&current).expect("the file FUZZ_CURRENT");
    watch(name.to_owned(), PathBuf::from(current));
    let mut runs = 0;
    for input in kept.iter().cloned().chain(fresh) {
        runs += 1;
        file.set_len(input.len() as u64).and_then(|()| file.write_all_at(&input, 0)).expect("written");
        BEGUN.store(runs, SeqCst);
        let panicked = catch_unwind(AssertUnwindSafe(|| target(&input))).is_err();
        if panicked || PANICKED.load(SeqCst) {
            found(name, &input, runs);
            exit(1);
        }
    }
    eprintln!("stat::number_of_executed_units: {runs}");
    exit(0);
}

/// Ends the process where one input takes too long.
fn watch(name: String, current: PathBuf) {
    thread::spawn(move || {
        let mut before = 0;
        loop {
            thread::sleep(HANG);
            let run = BEGUN.load(SeqCst);
            if run == before {
                eprintln!("run {run} has no end after {} s", HANG.as_secs());
                found(&name, &std::fs::read(&current).unwrap_or_default(), run);
                exit(1);
            }
            before = run;
        }
    });
}

/// The inputs of a folder, by their names and not as the file system has them.
fn kept(folder: &Path) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(folder).expect("the folder FUZZ_REPEAT");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry of it").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("an input")).collect()
}

fn found(name: &str, input: &[u8], run: u64) {
    let folder = std::env::var("FUZZ_FINDINGS").unwrap_or_else(|_| ".".to_owned());
    let path = Path::new(&folder).join(format!("{name}-run-{run}"));
    eprintln!("run {run} is a finding, of {} bytes: {input:02x?}", input.len());
    match std::fs::write(&path, input) {
        Ok(()) => eprintln!("it lies in {}", path.display()),
        Err(error) => eprintln!("{}: {error}", path.display()),
    }
}

/// One of the inputs, changed in a few places.
fn mutant(kept: &[Vec<u8>], random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let mut input = any(kept, random).to_vec();
    for _ in 0..random.random_range(1..6) {
        let at = random.random_range(0..=input.len());
        match random.random_range(0..7) {
            0 if at < input.len() => input[at] ^= 1 << random.random_range(0..8),
            1 if at < input.len() => input[at] = random.random(),
            2 => input.insert(at, random.random()),
            3 => {
                let value = [0u64, u64::MAX, 1, 1 << 63, 0xffff, 1 << 32, random.next_u64()]
                    [random.random_range(0..7)];
                let count = [1, 2, 4, 8][random.random_range(0..4)].min(input.len() - at);
                input[at..at + count].copy_from_slice(&value.to_le_bytes()[..count]);
            }
            4 => {
                let end = (at + random.random_range(1..16)).min(input.len());
                input.drain(at..end);
            }
            5 => input.truncate(at),
            _ => {
                let other = any(kept, random);
                let from = random.random_range(0..=other.len());
                let to = (from + random.random_range(1..64)).min(other.len());
                input.splice(at..at, other[from..to].iter().copied());
            }
        }
    }
    input.truncate(LONGEST);
    input
}

fn any<'a>(kept: &'a [Vec<u8>], random: &mut Xoshiro256PlusPlus) -> &'a [u8] {
    if kept.is_empty() { &[] } else { &kept[random.random_range(0..kept.len())] }
}
