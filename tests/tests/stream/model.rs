//! How long tiles take in virtual time, beside what the model M13 says (`warpbell plan tiles`), and what overlaps, by the
//! queues' own trace.

use std::sync::LazyLock;
use std::time::Duration;

use anyhow::bail;
use warpbell::Sharing;
use warpbell_hw::{Device, Lba};
use warpbell_kernels::cpu::{Launch, Module, State};
use warpbell_plan::Settings;
use warpbell_sim::{TestVariant, several::Several};
use warpbell_softctl::{CompletionOrder, Profile, SoftConfig};

use crate::fixture::*;

const TILES: u64 = 12;
/// What the clock goes on by while nothing else happens.
const TICK: Duration = Duration::from_nanos(5);
/// Of loading and computing, in microseconds: one is slower, the other is, both are alike.
const CASES: [(u64, u64); 3] = [(4, 6), (6, 4), (5, 5)];

static TRACED: LazyLock<Module> =
    LazyLock::new(|| source().define("WARPBELL_TRACE=1").loaded().expect("compiles"));

/// An SSD that loads one tile at a time, and each in the same time.
fn one_at_a_time(load_us: u64) -> SoftConfig {
    let always = ["min", "p50", "p90", "p99", "p99_9", "p99_99", "max"]
        .map(|name| format!("{name}='{load_us}us'"))
        .join(", ");
    let text = format!(
        "name = 'one at a time'\n[read]\nlatency = {{ {always} }}\nbandwidth='10GB/s'\nbusy='{load_us}us'\n\
         [write]\nlatency = {{ {always} }}\nbandwidth='10GB/s'\n[flush]\nlatency = {{ {always} }}\n\
         [media]\nunits=1\nstripe='4k'\nprogram='10us'\nprogram_size='4k'\n[buffer]\nbytes='64k'\n"
    );
    let base = Setting::new(Sharing::Shared, 1, tiles(1)).config;
    let profile = Some(Profile::from_toml(&text).expect("a profile"));
    base.profile(profile).order(CompletionOrder::Immediate)
}

/// Tiles of 4 KiB, each once.
fn tiles(slots: u32) -> warpbell::TileSchedule {
    let tile = |number| warpbell::Tile::linear(number, Lba(number * 8), 8);
    schedule(&(0..TILES).map(tile).collect::<Vec<_>>(), slots, slots - 1)
}

/// Nothing that kernels and controller do takes time, but for what the profile and the kernel's clock say.
fn in_time(several: &Several, launch: &Launch) -> anyhow::Result<()> {
    let (soft, mut worker) = (&several.softs[0], launch.worker()?);
    for _ in 0..1_000_000 {
        let idle = match worker.step(256) {
            State::Running => false,
            State::Idle => true,
            State::Done => return Ok(()),
            state => bail!("{state:?}"),
        };
        let acted = (0..1000).take_while(|_| soft.step()).count() > 0;
        if idle && !acted {
            let left = soft.next_event().map(|due| due.saturating_sub(soft.clock().now()));
            soft.advance(left.map_or(TICK, |left| left.clamp(Duration::from_nanos(1), TICK)));
        }
    }
    bail!("not done at {:?}", soft.clock().now())
}

fn run(buffers: u32, load_us: u64, compute_us: u64) -> Ran {
    let setting = Setting::new(Sharing::Shared, buffers, tiles(buffers));
    let compute = Duration::from_micros(compute_us);
    let setting = Setting { compute, traced: true, warps: 1, ..setting };
    let config = one_at_a_time(load_us);
    let ran = setting.run_by(&TRACED, config, |several, launch| in_time(several, &launch)).expect("a run");
    assert_eq!(ran.check(&setting), Ok(()), "{setting:?}");
    ran
}

/// What `warpbell plan tiles` answers.
fn planned(buffers: u32, load_us: u64, compute_us: u64) -> Duration {
    let model = warpbell_plan::find("tiles").expect("the model");
    let mut settings = Settings::default();
    let inputs = [("tiles", TILES), ("load_us", load_us), ("compute_us", compute_us)];
    for (name, value) in inputs.into_iter().chain([("buffers", u64::from(buffers)), ("tile_bytes", 4096)]) {
        settings.given.insert(name.to_owned(), value.into());
    }
    let answer = model.answer(&settings).expect("an answer");
    let us = answer.result("buffered_us").and_then(serde_json::Value::as_f64).expect("a time");
    Duration::from_nanos((us * 1000.0) as u64)
}

#[test]
fn one_two_and_three_buffers_take_the_time_that_the_model_says() {
    for (load_us, compute_us) in CASES {
        for buffers in 1..=3 {
            let ran = run(buffers, load_us, compute_us);
            let (took, planned) = (ran.took, planned(buffers, load_us, compute_us));
            let off = took.as_secs_f64() / planned.as_secs_f64() - 1.0;
            println!(
                "{buffers} buffers, {load_us} us, {compute_us} us: {took:?}, the model says {planned:?}: {:+.2} %",
                off * 100.0
            );
            assert!(
                off.abs() <= 0.1,
                "{buffers} buffers, load {load_us} us, compute {compute_us} us: {took:?}, not {planned:?}"
            );
        }
    }
}

#[test]
fn the_next_tile_is_on_its_way_before_this_one_is_done() {
    for (buffers, overlaps) in [(1, false), (2, true), (3, true)] {
        let ran = run(buffers, 5, 5);
        let mut submitted = ran.submitted.clone();
        submitted.sort_unstable_by_key(|(_, block)| *block);
        assert_eq!(submitted.len() as u64, TILES, "{submitted:?}");
        let records = &ran.records[0];
        for (record, (when, block)) in records.iter().zip(&submitted[1..]) {
            assert_eq!(*block, (record.tile + 1) * 8);
            assert_eq!(
                *when < record.end_ns,
                overlaps,
                "{buffers} buffers, tile {}: {record:?}, {when}",
                record.tile
            );
        }
        // And computing goes on while loads do: with one buffer there is a load between any two.
        let idle = records.windows(2).filter(|pair| pair[1].begin_ns - pair[0].end_ns > 2000).count();
        assert_eq!(idle, if overlaps { 0 } else { records.len() - 1 }, "{records:?}");
    }
}

#[test]
fn a_run_repeats_exactly() {
    let (one, other) = (run(3, 6, 4), run(3, 6, 4));
    assert_eq!((one.took, one.submitted, one.records), (other.took, other.submitted, other.records));
}
