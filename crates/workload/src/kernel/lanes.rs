//! Reads of one warp, lane by lane: which data each lane has at the end.

use super::{KernelRunner, Work};
use crate::control::Control;
use crate::error::RunError;
use crate::outcome::Outcome;
use crate::size::checked_len;

impl KernelRunner<'_> {
    /// Runs the job, random reads of one warp. How many reads each lane has done is beside what they were like: what it read
    /// last is the last that it drew.
    pub(crate) fn measure_lanes(&self, control: &Control) -> Result<(Outcome, Vec<u64>), RunError> {
        self.attachment.target().prepare("bench")?;
        let (outcome, memory) = self.launched("bench", &Work::of(self.job), None, control)?;
        Ok((outcome, memory.reads_of_lanes()?))
    }

    /// What lies in the warp's place for one I/O in flight. Lane *l* has those with the numbers *l*, *l* + 32 and so on.
    pub(crate) fn slot(&self, number: u32) -> Result<Vec<u8>, RunError> {
        let mut data = vec![0; checked_len(self.job.bs_bytes)?];
        self.buffer.read(number as usize * data.len(), &mut data)?;
        Ok(data)
    }
}
