// UNSAFETY: launches kernels of its own.
//! Sharded checkpoints: ranks save their shards, a record commits them, other ranks restore them.
#![expect(unsafe_code, reason = "kernels are native code over the addresses that they are given")]

#[cfg(test)]
#[path = "../patched.rs"]
mod patched;

use std::process::ExitCode;

use clap::Parser;
use warpbell::KernelMemory;
use warpbell_data::Shards;
use warpbell_examples::{Check, Code, DataFile, Failure, Options, Outcome, Pass, Stage, StageRef, ending};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

/// Saves the state of a model to an SSD by several ranks at once, twice, and restores it: first after a save that ended
/// before it was committed, then by fewer ranks than saved it. Each restored byte is compared.
#[derive(Parser)]
#[command(version)]
struct Checkpoint {
    #[command(flatten)]
    sizes: Shards,
    #[command(flatten)]
    options: Options,
}

const SHARDS_MAX: usize = 8;
const RECORD_BYTES: u64 = 4096;
const MAGIC: u64 = 0x6b63_6568_6362_7277;

/// What a kernel does, as in checkpoint.cu.
#[derive(Clone, Copy)]
#[repr(u32)]
enum Does {
    Restores,
    Saves,
    /// As if the power failed then.
    SavesAllButTheRecord,
}

/// As in checkpoint.cu.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Shard {
    offset: u64,
    bytes: u64,
    sum: u64,
}

/// As in checkpoint.cu.
#[derive(Clone, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct CommitRecord {
    magic: u64,
    epoch: u64,
    count: u64,
    shards: [Shard; SHARDS_MAX],
    check: u64,
    unused: [u64; 484],
}

/// As in checkpoint.cu.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct CheckpointArgs {
    stage: StageRef,
    room: u64,
    state: u64,
    state_bytes: u64,
    record: u64,
    found: u64,
    done: u64,
    chunk_bytes: u32,
    warps: u32,
    does: u32,
    pad: u32,
}

fn main() -> ExitCode {
    ending(run(&Checkpoint::parse()))
}

fn run(Checkpoint { sizes, options }: &Checkpoint) -> Result<(), Failure> {
    let data = DataFile::take(options, sizes.clone().into())?;
    let model = Model::of(&data)?;
    let plan = Plan::of(options, &model, data.room())?;
    let code = Code { name: "checkpoint.cu", source: include_str!("checkpoint.cu") };
    let stage = Stage::open(options, &data, code, plan.room_bytes())?;
    // A byte in the middle of the checkpoint that was saved last.
    let damage = || stage.corrupt(plan.place(2) + model.shards[0].bytes / 2);
    let (check, cached) = stage.cached(|pass| Ranks::new(pass, &plan, &model)?.save_and_restore(damage))?;
    stage.clear(plan.room, plan.room_bytes())?;
    let (again, loaded) =
        stage.loaded(|pass| Ranks::new(pass, &plan, &model)?.save_and_restore(|| Ok(())))?;
    let check = check.and(again);
    // Three saves and two restores.
    let bytes = 5 * model.shards.iter().map(|shard| shard.bytes).sum::<u64>();
    let (program, element, elements) = ("checkpoint", "word", bytes / 8);
    stage.report(Outcome { program, element, elements, bytes, check, cached, loaded })
}

/// The state of a model: shards, each from a multiple of 4096 bytes on.
struct Model {
    shards: Vec<Shard>,
    words: Vec<u64>,
}

impl Model {
    fn of(data: &DataFile) -> Result<Model, Failure> {
        let (mut shards, mut bytes) = (Vec::new(), Vec::new());
        for (name, section) in data.header().sections() {
            if section.bytes == 0 || !section.bytes.is_multiple_of(8) {
                let bytes = section.bytes;
                let limit =
                    format!("section '{name}' has {bytes} bytes: it must be words of 8, and one at least");
                return Err(data.refused(limit));
            }
            let offset = bytes.len();
            bytes.resize(offset + section.bytes as usize, 0);
            data.read(section.offset, &mut bytes[offset..])?;
            shards.push(Shard { offset: offset as u64, bytes: section.bytes, sum: 0 });
            bytes.resize(bytes.len().next_multiple_of(RECORD_BYTES as usize), 0);
        }
        if shards.is_empty() {
            return Err(data.refused("it has no shards".to_owned()));
        }
        let words = warpbell_examples::values(&bytes, u64::from_le_bytes);
        Ok(Model { shards, words })
    }

    fn bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    /// What training has made of it by then: each word another one in each epoch.
    fn after(&self, epoch: u64) -> Vec<u64> {
        let mut words = vec![0; self.words.len()];
        for shard in &self.shards {
            let range = (shard.offset / 8) as usize..((shard.offset + shard.bytes) / 8) as usize;
            for (to, from) in words[range.clone()].iter_mut().zip(&self.words[range]) {
                *to = from.wrapping_add(epoch);
            }
        }
        words
    }
}

/// Where checkpoints go, and who writes them.
struct Plan {
    room: u64,
    state_bytes: u64,
    chunk_bytes: u64,
    ranks: u32,
    warps_of_rank: u32,
}

impl Plan {
    fn of(options: &Options, model: &Model, room: u64) -> Result<Plan, Failure> {
        let (warps, ranks) = (options.warps, model.shards.len() as u32);
        let refused =
            |object, value: u64, limit| Err(Failure::Usage { object, value: value.to_string(), limit });
        if warps < ranks {
            return refused(
                "--warps",
                warps.into(),
                format!("{ranks} shards need {ranks} warps: one for each rank"),
            );
        }
        let chunk_bytes =
            (options.cache_bytes() / u64::from(warps) / RECORD_BYTES * RECORD_BYTES).min(1 << 20);
        if chunk_bytes < 2 * RECORD_BYTES {
            let least = 2 * RECORD_BYTES * u64::from(warps);
            let cache = options.cache.0;
            return refused("--cache", cache, format!("{warps} warps need {least} bytes to write from"));
        }
        Ok(Plan { room, state_bytes: model.bytes(), chunk_bytes, ranks, warps_of_rank: warps / ranks })
    }

    /// Of two records and two checkpoints.
    fn room_bytes(&self) -> u64 {
        2 * (RECORD_BYTES + self.state_bytes)
    }

    /// The first byte of the checkpoint of that epoch.
    fn place(&self, epoch: u64) -> u64 {
        self.room + 2 * RECORD_BYTES + epoch % 2 * self.state_bytes
    }
}

/// Kernels that save and restore, and their memory.
struct Ranks<'a, 'b> {
    pass: &'a mut Pass<'b>,
    plan: &'a Plan,
    model: &'a Model,
    state: KernelMemory,
    record: KernelMemory,
    found: KernelMemory,
    done: KernelMemory,
}

impl<'a, 'b> Ranks<'a, 'b> {
    fn new(pass: &'a mut Pass<'b>, plan: &'a Plan, model: &'a Model) -> Result<Ranks<'a, 'b>, Failure> {
        let warps = u64::from(plan.ranks * plan.warps_of_rank);
        let (state, record) = (pass.memory(plan.state_bytes)?, pass.memory(RECORD_BYTES)?);
        let (found, done) = (pass.memory(2 * RECORD_BYTES * warps)?, pass.memory(8)?);
        Ok(Ranks { pass, plan, model, state, record, found, done })
    }

    /// The whole story. `damage`: what happens to the SSD between the last save and the last restore.
    fn save_and_restore(mut self, damage: impl FnOnce() -> Result<(), Failure>) -> Result<Check, Failure> {
        self.save(1, Does::Saves)?;
        self.save(2, Does::SavesAllButTheRecord)?;
        let check = self.restored("word after a save that was not committed", 1, self.plan.ranks)?;
        self.save(2, Does::Saves)?;
        damage()?;
        let fewer = (self.plan.ranks - 1).max(1);
        Ok(check.and(self.restored("word restored by fewer ranks", 2, fewer)?))
    }

    fn save(&mut self, epoch: u64, does: Does) -> Result<(), Failure> {
        self.state.write(0, self.model.after(epoch).as_bytes())?;
        self.launch(epoch, does, self.plan.ranks)?;
        self.pass.store(self.plan.place(epoch), self.plan.state_bytes)?;
        self.pass.store(self.plan.room + epoch % 2 * RECORD_BYTES, RECORD_BYTES)
    }

    /// Restores what there is, which should be that of `epoch`.
    fn restored(&mut self, name: &str, epoch: u64, ranks: u32) -> Result<Check, Failure> {
        self.state.fill(0, self.state.len(), 0)?;
        self.launch(0, Does::Restores, ranks)?;
        let mut record = CommitRecord::new_zeroed();
        self.record.read(0, record.as_mut_bytes())?;
        let mut words = vec![0u64; self.model.words.len()];
        self.state.read(0, words.as_mut_bytes())?;
        let restored = self.pass.result("epoch that was restored");
        let check = Check::of(&restored, [epoch], [record.epoch]);
        Ok(check.and(Check::of(&self.pass.result(name), self.model.after(epoch), words)))
    }

    fn launch(&mut self, epoch: u64, does: Does, ranks: u32) -> Result<(), Failure> {
        let mut record = CommitRecord {
            magic: MAGIC,
            epoch,
            count: self.model.shards.len() as u64,
            ..CommitRecord::new_zeroed()
        };
        record.shards[..self.model.shards.len()].copy_from_slice(&self.model.shards);
        self.record.write(0, record.as_bytes())?;
        self.done.fill(0, self.done.len(), 0)?;
        let args = CheckpointArgs {
            stage: self.pass.stage(),
            room: self.plan.room,
            state: self.state.address(),
            state_bytes: self.plan.state_bytes,
            record: self.record.address(),
            found: self.found.address(),
            done: self.done.address(),
            chunk_bytes: self.plan.chunk_bytes as u32,
            warps: ranks * self.plan.warps_of_rank,
            does: does as u32,
            pad: 0,
        };
        let chunks = self.model.shards.iter().map(|shard| shard.bytes.div_ceil(self.plan.chunk_bytes));
        // SAFETY: the kernel touches what its arguments name: memory of this pass.
        unsafe { self.pass.launch("checkpoint", &args, chunks.sum()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn plan(line: &str, model: &Model) -> Result<Plan, Failure> {
        let words = std::iter::once("checkpoint").chain(line.split_whitespace());
        Plan::of(&Line::parse_from(words).options, model, 8192)
    }

    fn model() -> Model {
        let shard = |offset, bytes| Shard { offset, bytes, sum: 0 };
        Model { shards: vec![shard(0, 8), shard(4096, 4096), shard(8192, 16)], words: (0..1536).collect() }
    }

    #[test]
    fn training_changes_each_word_of_a_shard_and_none_between() {
        let (model, words) = (model(), model().after(2));
        assert_eq!((words[0], words[1], words[511]), (2, 0, 0));
        assert_eq!((words[512], words[1023]), (514, 1025));
        assert_eq!((words[1024], words[1025], words[1026]), (1026, 1027, 0));
        assert_eq!((words.len(), model.bytes()), (1536, 12_288));
    }

    #[test]
    fn files_without_whole_shards_are_refused() -> Result<(), Failure> {
        let refusal = |at: usize, word: u64| -> Result<String, Failure> {
            let file = patched::file(&Shards { ranks: 2, shard: 4096 }.into(), at, word)?;
            let path = file.path().display().to_string();
            let failure =
                run(&Checkpoint::parse_from(["checkpoint", "--quiet", "--data", &path])).unwrap_err();
            assert_eq!(failure.exit_code(), 2);
            Ok(failure.to_string().replace(&path, "FILE"))
        };
        // Version 1, one parameter, no sections.
        assert_eq!(refusal(8, 1 << 32 | 1)?, "--data FILE: it has no shards");
        for bytes in [0, 12] {
            let expected = format!(
                "--data FILE: section 'shard1' has {bytes} bytes: it must be words of 8, and one at least"
            );
            assert_eq!(refusal(patched::bytes_of_section(1), bytes)?, expected);
        }
        Ok(())
    }

    #[test]
    fn checkpoints_have_places_of_their_own() {
        let plan = plan("--warps 7 --cache 1m", &model()).unwrap();
        assert_eq!((plan.ranks, plan.warps_of_rank), (3, 2));
        assert_eq!((plan.place(2), plan.place(1)), (8192 + 8192, 8192 + 8192 + 12_288));
        assert_eq!(8192 + plan.room_bytes(), plan.place(1) + plan.state_bytes);
        // A seventh of the cache, in whole blocks.
        assert_eq!(plan.chunk_bytes, 147_456);
    }

    #[test]
    fn too_few_warps_and_too_little_memory_are_refused() {
        let refusal =
            |line| plan(line, &model()).err().map(|failure| failure.to_string()).unwrap_or_default();
        assert_eq!(refusal("--warps 2"), "--warps 2: 3 shards need 3 warps: one for each rank");
        assert_eq!(refusal("--warps 4 --cache 31k"), "--cache 31744: 4 warps need 32768 bytes to write from");
        assert_eq!(refusal("--warps 4 --cache 32k"), "");
    }
}
