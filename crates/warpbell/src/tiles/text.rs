//! Schedules as text: the same schedule is the same text, byte for byte.

use std::collections::HashMap;
use std::fmt::Write;
use std::str::FromStr;

use warpbell_hw::Lba;
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

/// Lines with their numbers, from 0 on.
struct Lines<'a> {
    rest: std::str::Lines<'a>,
    next: usize,
}

impl<'a> Lines<'a> {
    fn take(&mut self) -> Option<&'a str> {
        self.next += 1;
        self.rest.next()
    }

    fn expect(&mut self, whole: &str) -> Result<(), Error> {
        match self.take() {
            Some(line) if line == whole => Ok(()),
            found => Err(self.wrong(format!("'{}' should be '{whole}'", found.unwrap_or_default()))),
        }
    }

    fn number(&mut self, name: &str) -> Result<u32, Error> {
        let line = self.take().unwrap_or_default();
        let value = line.strip_prefix(name).and_then(|rest| rest.strip_prefix(' '));
        let number = value.and_then(|value| value.parse().ok());
        number.ok_or_else(|| self.wrong(format!("'{line}' should be '{name}' and a number")))
    }

    /// Of the line that was taken last.
    fn wrong(&self, why: impl Into<String>) -> Error {
        let value = format!("line {}", self.next);
        Error::Argument { object: "tile schedule", value, limit: why.into() }
    }

    /// The same, of something else that is wrong with it.
    fn caused(&self, error: &Error) -> Error {
        self.wrong(error.to_string())
    }
}

pub(super) fn read(text: &str) -> Result<TileSchedule, Error> {
    let mut lines = Lines { rest: text.lines(), next: 0 };
    lines.expect(FIRST)?;
    let block_bytes = lines.number("block_bytes")?;
    let (slots, ahead) = (lines.number("slots")?, lines.number("ahead")?);
    let spec = TileSpec { block_bytes, slots, ahead };
    check_spec(&spec)?;
    lines.expect(COLUMNS)?;
    let mut replay = Replay { slots: vec![None; slots as usize], tiles: HashMap::new() };
    let mut steps = Vec::new();
    while let Some(text) = lines.take() {
        let step = step(text, steps.len()).map_err(|error| lines.wrong(error.to_string()))?;
        check_tile(&tile_of(&step), &spec).map_err(|error| lines.caused(&error))?;
        replay.take(&step, steps.len()).map_err(|error| lines.wrong(error.to_string()))?;
        steps.push(step);
    }
    Ok(TileSchedule { spec, steps })
}

/// What is wrong with a step.
#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error("should have nine columns")]
    Columns,
    #[error("'{value}' is no number that fits")]
    Number { value: String },
    #[error("should be step {at}")]
    Order { at: usize },
    #[error("'{value}' is neither load nor resident")]
    How { value: String },
    #[error("tile {tile} was elsewhere before")]
    Moved { tile: u64 },
    #[error("there are {count} slots")]
    Slot { count: usize },
    #[error("tile {tile} is not in slot {slot}")]
    Absent { tile: u64, slot: u32 },
    #[error("step {last} may still use slot {slot}: after must be {}", last + 1)]
    InUse { last: usize, slot: u32 },
    #[error("would wait for step {step}, which comes later")]
    Later { step: u32 },
}

fn step(text: &str, at: usize) -> Result<TileStep, StepError> {
    let words: Vec<&str> = text.split(' ').collect();
    let [number, tile, first_block, blocks, rows, row_stride, slot, after, how] = words[..] else {
        return Err(StepError::Columns);
    };
    fn value<T: FromStr>(word: &str) -> Result<T, StepError> {
        word.parse().map_err(|_| StepError::Number { value: word.to_owned() })
    }
    if value::<usize>(number)? != at {
        return Err(StepError::Order { at });
    }
    let flags = match how {
        "load" => 0,
        "resident" => TILE_RESIDENT,
        _ => return Err(StepError::How { value: how.to_owned() }),
    };
    Ok(TileStep {
        tile: value(tile)?,
        first_block: value(first_block)?,
        row_stride: value(row_stride)?,
        blocks: value(blocks)?,
        rows: value(rows)?,
        slot: value(slot)?,
        after: value(after)?,
        flags,
        pad0: 0,
    })
}

fn tile_of(step: &TileStep) -> Tile {
    let TileStep { tile: number, first_block, blocks, rows, row_stride, .. } = *step;
    Tile { number, first_block: Lba(first_block), blocks, rows, row_stride }
}

/// The ring as the steps leave it: each slot's load, and the latest step that used it. And where each tile is.
struct Replay {
    slots: Vec<Option<(TileStep, usize)>>,
    tiles: HashMap<u64, Tile>,
}

impl Replay {
    /// Whether the step can be done where it says.
    fn take(&mut self, step: &TileStep, at: usize) -> Result<(), StepError> {
        let tile = tile_of(step);
        if *self.tiles.entry(tile.number).or_insert(tile) != tile {
            return Err(StepError::Moved { tile: tile.number });
        }
        let count = self.slots.len();
        let slot = self.slots.get_mut(step.slot as usize).ok_or(StepError::Slot { count })?;
        let load = match slot {
            Some((load, _)) if step.flags & TILE_RESIDENT != 0 && tile_of(load) == tile => *load,
            _ if step.flags & TILE_RESIDENT != 0 => {
                return Err(StepError::Absent { tile: step.tile, slot: step.slot });
            }
            Some((_, last)) if (step.after as usize) <= *last => {
                return Err(StepError::InUse { last: *last, slot: step.slot });
            }
            _ => *step,
        };
        if step.after as usize > at {
            return Err(StepError::Later { step: step.after - 1 });
        }
        *slot = Some((load, at));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule() -> TileSchedule {
        let tile =
            |number: u64| Tile { number, first_block: Lba(number * 9), blocks: 2, rows: 3, row_stride: 40 };
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
        for (lines, line, why) in [
            ("0 7 0 8 1 0 0 0 resident\n", 6, "tile 7 is not in slot 0"),
            ("0 7 0 8 1 0 0 0 load\n1 8 8 8 1 0 0 0 load\n", 7, "step 0 may still use slot 0"),
            ("0 7 0 8 1 0 0 0 load\n1 7 9 8 1 0 1 0 load\n", 7, "tile 7 was elsewhere before"),
            ("0 7 0 8 1 0 0 1 load\n", 6, "would wait for step 0"),
            ("0 7 0 8 1 0 2 0 load\n", 6, "there are 2 slots"),
            ("1 7 0 8 1 0 0 0 load\n", 6, "should be step 0"),
            ("0 7 0 8 1 0 0 load\n", 6, "nine columns"),
            ("0 7 0 x 1 0 0 0 load\n", 6, "'x' is no number"),
            ("0 7 0 8 1 0 0 0 kept\n", 6, "neither load nor resident"),
            ("0 7 0 8 99 0 0 0 load\n", 6, "1 to 32 rows"),
            ("0 7 0 4294967295 32 0 0 0 load\n", 6, "1 MiB"),
        ] {
            let said = refused(lines);
            assert!(said.contains(why) && said.contains(&format!("line {line}:")), "{lines}: {said}");
        }
    }

    #[test]
    fn a_head_that_is_not_ours_is_refused_with_its_line() {
        let good = schedule().to_text();
        for (line, with, why) in [
            (1, "warpbell tiles 12", "should be 'warpbell tiles 1'"),
            (2, "block_bytes", "'block_bytes' and a number"),
            (3, "slots three", "'slots' and a number"),
            (4, "aheads 1", "'ahead' and a number"),
            (5, "# step tile", "should be '# step tile first_block"),
        ] {
            let mut lines: Vec<&str> = good.lines().collect();
            lines[line - 1] = with;
            let said = TileSchedule::from_text(&lines.join("\n")).expect_err("refused").to_string();
            assert!(said.contains(why) && said.contains(&format!("line {line}:")), "{with}: {said}");
        }
        // A product of these would not fit 64 bits.
        let large = good.replace("block_bytes 512", "block_bytes 2147483648");
        assert!(TileSchedule::from_text(&large).expect_err("refused").to_string().contains("1 MiB"));
    }
}
