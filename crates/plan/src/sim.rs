//! Discrete events of a switch: flows send quanta towards one port, an arbiter says whose turn it is.
//!
//! Each flow is a closed loop with a number of I/Os in flight. An I/O is issued when a place is free, its quanta reach
//! the switch at the rate of the source, and its place is free again when its last quantum has left, but not before the
//! latency of an unloaded I/O has passed. The clock counts nanoseconds; a GB/s is a byte in a nanosecond.

use std::collections::VecDeque;

use crate::random::Random;

/// A switch and the flows through it.
#[derive(Clone, Debug)]
pub(crate) struct Switch {
    /// Speed of each flow up to the switch.
    pub(crate) sources: Vec<f64>,
    /// What each flow weighs.
    pub(crate) weights: Vec<f64>,
    /// Speed of the port that they share.
    pub(crate) port: f64,
    /// Bytes of a turn.
    pub(crate) quantum: f64,
    /// What a turn costs where there is more than one flow.
    pub(crate) switch_ns: f64,
    /// Bytes of an I/O.
    pub(crate) io: f64,
    /// I/Os in flight of each flow.
    pub(crate) depth: u64,
    /// The shortest that an I/O takes.
    pub(crate) latency_ns: f64,
    /// Whose turn it is.
    pub(crate) arbiter: Arbiter,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arbiter {
    /// In rounds; in each, a flow has as many turns as it weighs.
    Rounds,
    /// The flow that has had least for its weight, as bytes start to be served.
    Fair,
}

/// Turns that one simulation takes at most.
const MOST_TURNS: u64 = 2_000_000;
/// I/Os of each flow that are worth waiting for.
const ENOUGH_IOS: f64 = 300.0;

struct Flow {
    /// When each place in flight becomes free, in order.
    places: VecDeque<f64>,
    /// When the I/O whose quanta are being sent was issued.
    issued: f64,
    /// Bytes of it that have not left.
    left: f64,
    /// When its next quantum is at the switch.
    ready: f64,
    /// Turns left in this round.
    credit: f64,
    /// Virtual time at which its bytes so far are served.
    finish: f64,
    served: f64,
}

impl Switch {
    /// The speed of each flow. `expected` are about what they may be: they say how long is long enough.
    pub(crate) fn run(&self, expected: &[f64]) -> Vec<f64> {
        let slowest = expected.iter().copied().filter(|speed| *speed > 0.0).fold(f64::INFINITY, f64::min);
        let wanted = ENOUGH_IOS * self.io / slowest;
        let affordable = MOST_TURNS as f64 * self.quantum.min(self.io) / expected.iter().sum::<f64>();
        let end = wanted.min(affordable);
        let mut state = State::new(self);
        state.until(end / 5.0);
        for flow in &mut state.flows {
            flow.served = 0.0;
        }
        let start = state.now;
        state.until(end);
        state.flows.iter().map(|flow| flow.served / (state.now - start)).collect()
    }

    fn turn_cost(&self) -> f64 {
        if self.sources.len() > 1 { self.switch_ns } else { 0.0 }
    }
}

struct State<'a> {
    switch: &'a Switch,
    flows: Vec<Flow>,
    now: f64,
    /// The flow whose turn it is, in rounds.
    turn: usize,
    /// Virtual time, of fair service.
    virtual_time: f64,
    lightest: f64,
}

impl<'a> State<'a> {
    fn new(switch: &'a Switch) -> State<'a> {
        // Flows that start at the same instant would stay in step.
        let mut random = Random::new(1);
        let one_io = switch.io / switch.port;
        let flows = switch.sources.iter().map(|_| Flow {
            places: (0..switch.depth).map(|_| random.share() * one_io).collect::<Vec<_>>().into(),
            issued: 0.0,
            left: 0.0,
            ready: 0.0,
            credit: 0.0,
            finish: 0.0,
            served: 0.0,
        });
        let mut flows: Vec<Flow> = flows.collect();
        for (flow, source) in flows.iter_mut().zip(&switch.sources) {
            flow.places.make_contiguous().sort_by(f64::total_cmp);
            flow.next_io(switch, *source);
        }
        let lightest = switch.weights.iter().copied().fold(f64::INFINITY, f64::min);
        State { switch, flows, now: 0.0, turn: 0, virtual_time: 0.0, lightest }
    }

    fn until(&mut self, end: f64) {
        while self.now < end {
            let first = self.flows.iter().map(|flow| flow.ready).fold(f64::INFINITY, f64::min);
            self.now = self.now.max(first);
            let chosen = match self.switch.arbiter {
                Arbiter::Rounds => self.next_in_round(),
                Arbiter::Fair => self.least_served(),
            };
            self.serve(chosen);
        }
    }

    fn is_ready(&self, flow: usize) -> bool {
        self.flows[flow].ready <= self.now
    }

    /// One flow at least is ready.
    fn next_in_round(&mut self) -> usize {
        loop {
            let turn = self.turn;
            if self.is_ready(turn) && self.flows[turn].credit >= 1.0 {
                self.flows[turn].credit -= 1.0;
                return turn;
            }
            if !self.is_ready(turn) {
                self.flows[turn].credit = 0.0;
            }
            self.turn = (turn + 1) % self.flows.len();
            self.flows[self.turn].credit += self.switch.weights[self.turn] / self.lightest;
        }
    }

    /// One flow at least is ready.
    fn least_served(&mut self) -> usize {
        let start = |flow: &Flow| flow.finish.max(self.virtual_time);
        let ready = (0..self.flows.len()).filter(|flow| self.is_ready(*flow));
        let chosen =
            ready.min_by(|a, b| start(&self.flows[*a]).total_cmp(&start(&self.flows[*b]))).unwrap_or(0);
        let at = start(&self.flows[chosen]);
        self.virtual_time = at;
        self.flows[chosen].finish = at + self.switch.quantum / self.switch.weights[chosen];
        chosen
    }

    fn serve(&mut self, chosen: usize) {
        let switch = self.switch;
        let (flow, source) = (&mut self.flows[chosen], switch.sources[chosen]);
        let bytes = flow.left.min(switch.quantum);
        self.now += bytes / switch.port + switch.turn_cost();
        flow.served += bytes;
        flow.left -= bytes;
        if flow.left > 0.0 {
            flow.ready += flow.left.min(switch.quantum) / source;
            return;
        }
        flow.places.push_back(self.now.max(flow.issued + switch.latency_ns));
        flow.next_io(switch, source);
    }
}

impl Flow {
    /// Issues the next I/O as soon as a place is free; the source sends it after what it sent before.
    fn next_io(&mut self, switch: &Switch, source: f64) {
        self.issued = self.places.pop_front().unwrap_or(self.issued);
        self.left = switch.io;
        self.ready = self.ready.max(self.issued) + switch.io.min(switch.quantum) / source;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(arbiter: Arbiter, weights: &[f64]) -> Switch {
        Switch {
            sources: vec![14.0; weights.len()],
            weights: weights.to_vec(),
            port: 16.0,
            quantum: 4096.0,
            switch_ns: 0.0,
            io: 65536.0,
            depth: 8,
            latency_ns: 1000.0,
            arbiter,
        }
    }

    #[test]
    fn a_port_is_never_idle_while_somebody_waits() {
        for arbiter in [Arbiter::Rounds, Arbiter::Fair] {
            let speeds = switch(arbiter, &[1.0, 1.0, 1.0]).run(&[5.0; 3]);
            let sum: f64 = speeds.iter().sum();
            assert!((sum - 16.0).abs() < 0.05, "{arbiter:?}: {speeds:?}");
        }
    }

    #[test]
    fn weights_divide_the_port_and_one_flow_alone_has_its_source() {
        for arbiter in [Arbiter::Rounds, Arbiter::Fair] {
            let speeds = switch(arbiter, &[1.0, 3.0]).run(&[4.0, 12.0]);
            assert!(
                (speeds[0] - 4.0).abs() < 0.1 && (speeds[1] - 12.0).abs() < 0.1,
                "{arbiter:?}: {speeds:?}"
            );
            let alone = switch(arbiter, &[1.0]).run(&[14.0]);
            assert!((alone[0] - 14.0).abs() < 0.1, "{arbiter:?}: {alone:?}");
        }
    }

    #[test]
    fn a_window_bounds_a_flow() {
        let narrow = Switch { depth: 1, latency_ns: 65536.0, ..switch(Arbiter::Rounds, &[1.0, 1.0]) };
        let speeds = narrow.run(&[1.0, 1.0]);
        assert!(speeds.iter().all(|speed| (speed - 1.0).abs() < 0.02), "{speeds:?}");
    }
}
