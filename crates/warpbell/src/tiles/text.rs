//! Schedules as text: the same schedule is the same text, byte for byte.

use std::fmt::Write;
use std::str::FromStr;

use warpbell_kernels::abi::{TILE_RESIDENT, TileStep};

use super::{Tile, TileSchedule, TileSpec, check_spec, check_tile};
use crate::Error;

const FIRST: &str = "warpbell tiles 1";
const COLUMNS: &str = "# step tile first_block blocks rows row_stride slot after how";

pub(super) fn write(schedule: &TileSchedule) -> String {
    let TileSpec { block_bytes, slots, ahead } = schedule.spec;
    let mut text = format!("{FIRST}\nblock_bytes {block_bytes}\nslots {slots}\nahead {ahead}\n{COLUMNS}\n");
    for (at, step) in schedule.steps.iter().enumerate() {
        let TileStep { tile, first_block, blocks, rows, row_stride, slot, after, .. } = *step;
        let how = if step.flags & TILE_RESIDENT == 0 { "load" } else { "resident" };
        let _ = writeln!(text, "{at} {tile} {first_block} {blocks} {rows} {row_stride} {slot} {after} {how}");
    }
    text
}

/// Lines with their numbers.
struct Lines<'a>(std::iter::Enumerate<std::str::Lines<'a>>);

impl<'a> Lines<'a> {
    fn expect(&mut self, first: &str) -> Result<&'a str, Error> {
        let (at, line) = self.0.next().unwrap_or((0, ""));
        line.strip_prefix(first).ok_or_else(|| wrong(at, format!("should begin with '{first}'")))
    }

    fn number(&mut self, name: &str) -> Result<u32, Error> {
        let value = self.expect(name)?;
        value.trim().parse().map_err(|_| wrong(0, format!("{name}: '{value}' is no number")))
    }
}

fn wrong(line: usize, why: impl Into<String>) -> Error {
    Error::Argument { object: "tile schedule", value: format!("line {}", line + 1), limit: why.into() }
}

pub(super) fn read(text: &str) -> Result<TileSchedule, Error> {
    let mut lines = Lines(text.lines().enumerate());
    lines.expect(FIRST)?;
    let block_bytes = lines.number("block_bytes ")?;
    let (slots, ahead) = (lines.number("slots ")?, lines.number("ahead ")?);
    let spec = TileSpec { block_bytes, slots, ahead };
    check_spec(&spec)?;
    lines.expect(COLUMNS)?;
    let mut replay = Replay { slots: vec![None; slots as usize] };
    let mut steps = Vec::new();
    for (line, text) in lines.0 {
        let step = step(line, text, steps.len())?;
        check_tile(&tile_of(&step), &spec)?;
        replay.take(&step, steps.len()).map_err(|why| wrong(line, why))?;
        steps.push(step);
    }
    Ok(TileSchedule { spec, steps })
}

fn step(line: usize, text: &str, at: usize) -> Result<TileStep, Error> {
    let words: Vec<&str> = text.split(' ').collect();
    let [number, tile, first_block, blocks, rows, row_stride, slot, after, how] = words[..] else {
        return Err(wrong(line, "should have nine columns"));
    };
    fn value<T: FromStr>(line: usize, word: &str) -> Result<T, Error> {
        word.parse().map_err(|_| wrong(line, format!("'{word}' is no number that fits")))
    }
    if value::<usize>(line, number)? != at {
        return Err(wrong(line, format!("should be step {at}")));
    }
    let flags = match how {
        "load" => 0,
        "resident" => TILE_RESIDENT,
        _ => return Err(wrong(line, format!("'{how}' is neither load nor resident"))),
    };
    Ok(TileStep {
        tile: value(line, tile)?,
        first_block: value(line, first_block)?,
        row_stride: value(line, row_stride)?,
        blocks: value(line, blocks)?,
        rows: value(line, rows)?,
        slot: value(line, slot)?,
        after: value(line, after)?,
        flags,
        pad0: 0,
    })
}

fn tile_of(step: &TileStep) -> Tile {
    let TileStep { tile: number, first_block, blocks, rows, row_stride, .. } = *step;
    Tile { number, first_block, blocks, rows, row_stride }
}

/// The ring as the steps leave it: each slot's load, and the latest step that used it.
struct Replay {
    slots: Vec<Option<(TileStep, usize)>>,
}

impl Replay {
    /// Whether the step can be done where it says.
    fn take(&mut self, step: &TileStep, at: usize) -> Result<(), String> {
        let count = self.slots.len();
        let slot = self.slots.get_mut(step.slot as usize).ok_or(format!("there are {count} slots"))?;
        let load = match slot {
            Some((load, _)) if step.flags & TILE_RESIDENT != 0 && tile_of(load) == tile_of(step) => *load,
            _ if step.flags & TILE_RESIDENT != 0 => {
                return Err(format!("tile {} is not in slot {}", step.tile, step.slot));
            }
            Some((_, last)) if (step.after as usize) <= *last => {
                return Err(format!(
                    "step {last} may still use slot {}: after must be {}",
                    step.slot,
                    *last + 1
                ));
            }
            _ => *step,
        };
        if step.after as usize > at {
            return Err(format!("would wait for step {}, which comes later", step.after - 1));
        }
        *slot = Some((load, at));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule() -> TileSchedule {
        let tile = |number: u64| Tile { number, first_block: number * 9, blocks: 2, rows: 3, row_stride: 40 };
        let order: Vec<Tile> = (0..40).map(|at| tile(at * at % 7)).collect();
        TileSchedule::new(&order, TileSpec { block_bytes: 512, slots: 3, ahead: 1 }).expect("a schedule")
    }

    #[test]
    fn written_twice_it_is_the_same_and_read_it_is_the_same_schedule() {
        let (one, other) = (schedule().to_text(), schedule().to_text());
        assert_eq!(one, other);
        let read = TileSchedule::from_text(&one).expect("a schedule");
        assert_eq!(read, schedule());
        assert_eq!(read.to_text(), one);
        assert!(
            one.contains(" resident\n") && one.starts_with("warpbell tiles 1\nblock_bytes 512\n"),
            "{one}"
        );
    }

    #[test]
    fn a_file_is_the_text() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tiles.txt");
        schedule().save(&path).expect("saved");
        assert_eq!(TileSchedule::load(&path).expect("loaded"), schedule());
        let missing = TileSchedule::load(&folder.path().join("none")).expect_err("no file").to_string();
        assert!(missing.contains("none"), "{missing}");
    }

    #[test]
    fn what_cannot_be_replayed_is_refused_with_its_line() {
        let head = "warpbell tiles 1\nblock_bytes 512\nslots 2\nahead 1\n".to_owned() + COLUMNS + "\n";
        let refused =
            |lines: &str| TileSchedule::from_text(&(head.clone() + lines)).expect_err("refused").to_string();
        for (lines, why) in [
            ("0 7 0 8 1 0 0 0 resident\n", "tile 7 is not in slot 0"),
            ("0 7 0 8 1 0 0 0 load\n1 8 8 8 1 0 0 0 load\n", "step 0 may still use slot 0"),
            ("0 7 0 8 1 0 0 1 load\n", "would wait for step 0"),
            ("0 7 0 8 1 0 2 0 load\n", "there are 2 slots"),
            ("1 7 0 8 1 0 0 0 load\n", "should be step 0"),
            ("0 7 0 8 1 0 0 load\n", "nine columns"),
            ("0 7 0 x 1 0 0 0 load\n", "'x' is no number"),
            ("0 7 0 8 1 0 0 0 kept\n", "neither load nor resident"),
            ("0 7 0 8 99 0 0 0 load\n", "1 to 32 rows"),
        ] {
            let said = refused(lines);
            assert!(said.contains(why), "{lines}: {said}");
        }
        assert!(TileSchedule::from_text("warpbell tiles 2\n").is_err());
    }
}
