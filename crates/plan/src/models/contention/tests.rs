use super::fluid::max_min;
use super::*;

/// Inputs of many shapes, all with enough in flight for the fluid limit to hold.
fn shapes() -> Vec<Input> {
    let mut all = Vec::new();
    for streams in [1, 2, 3, 4, 7, 8, 13] {
        for (switches, upstream_gb_per_s) in [(1, 16.0), (2, 25.2), (4, 63.0)] {
            for (quantum_bytes, switch_ns) in [(4096, 0.0), (131_072, 100.0), (512, 50.0)] {
                for arbiter in ["rr", "wfq"] {
                    let weights = (1..=streams).map(|weight| weight as f64).collect();
                    let arbiter = arbiter.to_owned();
                    let (efficiency, depth) = (1.0, 8);
                    let shape = Input {
                        streams,
                        switches,
                        upstream_gb_per_s,
                        quantum_bytes,
                        switch_ns,
                        ..Input::default()
                    };
                    all.push(Input { arbiter, weights, efficiency, depth, ..shape });
                }
            }
        }
    }
    all
}

#[test]
fn discrete_events_agree_with_the_fluid_limit() {
    for input in shapes() {
        let fluid = input.fluid();
        let simulated = input.simulated(&fluid);
        let off = deviation(&fluid, &simulated);
        assert!(off <= 0.02, "{off}: {input:?}\n{fluid:?}\n{simulated:?}");
    }
}

#[test]
fn shares_keep_within_switches_and_caps() {
    for input in shapes() {
        let fluid = input.fluid();
        let (utilisation, _) = input.utilisation(&fluid);
        assert!(utilisation.iter().all(|share| *share <= 1.0 + 1e-9), "{input:?}");
        assert!(fluid.iter().all(|speed| *speed <= input.alone() + 1e-9), "{input:?}");
    }
}

#[test]
fn another_stream_never_helps_one_that_is_there() {
    for input in shapes().into_iter().filter(|input| input.arbiter == "rr" && input.streams < 13) {
        let more = Input { streams: input.streams + 1, ..input.clone() };
        for (now, then) in input.fluid().iter().zip(more.fluid()) {
            assert!(then <= now + 1e-9, "{input:?}");
        }
    }
}

#[test]
fn without_switch_cost_a_port_is_used_whole() {
    let shares = max_min(25.2, 14.2, &[1.0, 2.0, 3.0, 4.0]);
    assert!((shares.iter().sum::<f64>() - 25.2).abs() < 1e-9);
    assert_eq!(max_min(100.0, 14.2, &[1.0, 9.0]), [14.2, 14.2]);
    // The heavy stream is at its cap; the others share the rest by weight.
    let capped = max_min(20.0, 9.0, &[1.0, 1.0, 8.0]);
    assert_eq!(capped, [5.5, 5.5, 9.0]);
}

#[test]
fn arbiters_differ_where_weights_do() {
    let base = Input {
        streams: 4,
        switches: 1,
        upstream_gb_per_s: 25.2,
        efficiency: 1.0,
        weights: vec![1.0, 2.0, 3.0, 4.0],
        ..Input::default()
    };
    let with = |arbiter: &str| {
        let input = Input { arbiter: arbiter.into(), ..base.clone() };
        input.simulated(&input.fluid())
    };
    let (rr, wrr, wfq) = (with("rr"), with("wrr"), with("wfq"));
    assert!(deviation(&[6.3; 4], &rr) < 0.02, "{rr:?}");
    assert!(deviation(&wrr, &wfq) < 0.02, "{wrr:?} {wfq:?}");
    assert!(deviation(&[2.52, 5.04, 7.56, 10.08], &wfq) < 0.02, "{wfq:?}");
}

#[test]
fn weights_are_one_for_each_stream() {
    let error = answer(&Input { weights: vec![1.0], ..Input::default() }).unwrap_err();
    assert_eq!(error.to_string(), "weights: 1 for 8 streams; give one each");
}

#[test]
fn a_block_of_streams_shares_a_switch() {
    let block = Input { placement: "block".into(), ..Input::default() };
    assert_eq!(block.places(), [0, 0, 0, 0, 1, 1, 1, 1]);
    assert_eq!(Input::default().places(), [0, 1, 0, 1, 0, 1, 0, 1]);
}
