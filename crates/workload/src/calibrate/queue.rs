//! What the host's part of a command costs: writing its entry, ringing the doorbell, looking for its completion.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use warpbell::{DataPointers, HostQueue, describe_status};
use warpbell_driver::{IoQueueOptions, Outcome};
use warpbell_nvme::{Sqe, command};

use super::fit::Rounds;
use super::{Calibrator, Measurement, Quantity, Samples, Unmeasured};
use crate::error::RunError;

/// Commands that one pass submits: fewer than the ring takes, so that none waits for room.
const COMMANDS: u32 = 64;
const ENTRIES: u32 = 128;
/// Commands under one doorbell.
const BATCHES: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Passes of one point, of which the middle one counts: a thread that loses its processor in one does no harm.
const PASSES: u32 = 51;
/// Looks of one sample.
const POLLS: u32 = 200_000;
const SUBMIT: &str = "64 reads of one block on a host queue, 1 to 32 under a doorbell; each sample is a line of least \
                      relative squares through the time of a command over doorbells a command";
const POLL: &str = "polls of an idle host queue, whose completion ring is in the processor's cache";

impl Calibrator<'_> {
    pub(super) fn queue(&self) -> Result<Vec<Measurement>, RunError> {
        if !self.on_cpu() {
            let of = |quantity, how| Measurement::of_gpu(quantity, how);
            return Ok(vec![
                of(Quantity::Entry, SUBMIT),
                of(Quantity::Doorbell, SUBMIT),
                of(Quantity::Poll, POLL),
            ]);
        }
        let mut queue = match self.host_queue() {
            Ok(queue) => queue,
            Err(error) => return Ok(refused(error)),
        };
        let polls = self.samples(Quantity::Poll, || Ok(poll_ns(&mut queue)))?;
        let mut measured = self.submissions(&mut queue)?;
        measured.push(Measurement::new(Quantity::Poll, POLL, polls));
        queue.delete()?;
        Ok(measured)
    }

    fn host_queue(&self) -> Result<HostQueue, RunError> {
        // Doorbells are rung by hand.
        let options = IoQueueOptions::new().sq_batch(COMMANDS);
        let namespace = self.ssd.namespace(None)?;
        let buffer = self.ssd.buffer(namespace.block_size as usize)?;
        let entries = ENTRIES.min(self.ssd.controller().max_entries());
        if entries <= COMMANDS {
            let reason = format!("queues of {entries} entries: {COMMANDS} commands do not fit");
            return Err(RunError::Unmeasurable(reason));
        }
        Ok(self.ssd.host_queue(entries, options, buffer)?)
    }

    fn submissions(&self, queue: &mut HostQueue) -> Result<Vec<Measurement>, RunError> {
        (self.announce)(Quantity::Doorbell);
        let sqe = self.read_of_one_block(queue)?;
        let mut rounds = Vec::new();
        for _ in 0..self.rounds {
            self.go_on()?;
            let at = |batch: u32| Ok((1.0 / f64::from(batch), command_ns(queue, &sqe, batch)?));
            match BATCHES.into_iter().map(at).collect::<Result<Vec<_>, RunError>>() {
                Ok(round) => rounds.push(round),
                Err(error) => return Ok(refused(error)),
            }
        }
        let rounds = Rounds::of(rounds);
        let of = |quantity, samples| Measurement::fitted(quantity, SUBMIT, samples, &rounds);
        Ok(vec![of(Quantity::Entry, rounds.at_zero()), of(Quantity::Doorbell, rounds.slope())])
    }

    fn read_of_one_block(&self, queue: &HostQueue) -> Result<Sqe, RunError> {
        let namespace = self.ssd.namespace(None)?;
        let data = DataPointers::new(queue.buffer().as_ref(), self.ssd.data_path().data_pointer);
        Ok(data.attach(command::read(namespace.nsid.get(), 0, 0), 0, namespace.block_size))
    }
}

fn poll_ns(queue: &mut HostQueue) -> f64 {
    let begin = Instant::now();
    for _ in 0..POLLS {
        black_box(queue.pop());
    }
    begin.elapsed().as_nanos() as f64 / f64::from(POLLS)
}

/// The time of submitting a command, in batches of `batch`.
fn command_ns(queue: &mut HostQueue, sqe: &Sqe, batch: u32) -> Result<f64, RunError> {
    let mut passes = Vec::new();
    for _ in 0..PASSES {
        let begin = Instant::now();
        for count in 1..=COMMANDS {
            queue.push(sqe);
            if count % batch == 0 {
                queue.ring();
            }
        }
        passes.push(begin.elapsed().as_nanos().max(1) as f64 / f64::from(COMMANDS));
        collect(queue)?;
    }
    Ok(Samples::new(passes).median())
}

/// Waits until all commands have been answered.
fn collect(queue: &mut HostQueue) -> Result<(), RunError> {
    while queue.outstanding() > 0 {
        match queue.pop() {
            Some(done) if done.is_ok() => {}
            Some(done) => {
                let ended = match done.outcome {
                    Outcome::Completed(status) => describe_status(u32::from(status.into_bits())),
                    Outcome::TimedOut => "timed out".to_owned(),
                };
                return Err(RunError::Unmeasurable(format!("a read of LBA 0: {ended}")));
            }
            None => std::thread::yield_now(),
        }
    }
    Ok(())
}

fn refused(error: RunError) -> Vec<Measurement> {
    let reason = Unmeasured::Failed(Arc::new(error));
    [(Quantity::Entry, SUBMIT), (Quantity::Doorbell, SUBMIT), (Quantity::Poll, POLL)]
        .map(|(quantity, how)| Measurement::new(quantity, how, Err(reason.clone())))
        .to_vec()
}
