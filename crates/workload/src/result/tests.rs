use super::*;
use crate::job::Limits;
use crate::options::BenchOptions;

pub(crate) fn run(ios: u64, errors: u64) -> Run {
    let limits = Limits { queues: 1, ..Limits::of_blocks(2048) };
    let counters = Costs { sq_doorbells: ios / 32, cq_doorbells: ios / 16, ..Default::default() };
    let total = Traffic::new(ios, ios * 4096, 2_000_000_000);
    Run {
        point: String::new(),
        repeat: None,
        order: None,
        job: Job::resolve(&BenchOptions::default(), &limits).unwrap(),
        data_path: None,
        clock: ClockKind::Monotonic,
        partial: false,
        runtime_ns: 2_000_000_000,
        errors,
        recovery: RecoveryReport::default(),
        total,
        read: total,
        write: Traffic::default(),
        lat_ns: None,
        read_lat_ns: None,
        write_lat_ns: None,
        read_histogram: None,
        write_histogram: None,
        series: None,
        series_missing: None,
        per_io: CostsPerIo::of(Some(&counters), ios),
        counters: Some(counters),
        counters_missing: None,
        client_cpu_time_ns: Some(1),
        controller_cpu_time_ns: Some(2),
        cpu_time_ns: 3,
        violations: 0,
        violation_examples: Vec::new(),
        failures: Vec::new(),
        agents: None,
        events: Vec::new(),
        verify: None,
        resident: None,
        flushes: None,
        trims: None,
        blocks_trimmed: None,
        queues: Vec::new(),
        ssds: Vec::new(),
        array: None,
        trace: None,
        traced: None,
    }
}

pub(crate) fn report(runs: Vec<Run>) -> BenchReport {
    let device = DeviceReport {
        kind: "software".into(),
        name: "soft:size=1m".into(),
        model: "m".into(),
        serial: "s".into(),
        nsid: 1,
        block_size_bytes: 512,
        blocks: 2048,
    };
    BenchReport::new("cpu".into(), device, PathReport::default(), runs)
}

fn keys(value: &serde_json::Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn keys_of_the_document() {
    let document = serde_json::to_value(report(vec![run(64, 0)])).unwrap();
    let expected = "bytes bytes_per_s cpu_time_ns cq_doorbells_per_io data_path device errors fences_per_io iops ios \
                    mismatches partial polls_per_io recovery register_reads_per_io rmw_per_io runs runtime_ns schema shadow_stores_per_io sq_doorbells_per_io target \
                    violations warpbell";
    assert_eq!(keys(&document).join(" "), expected);
    assert_eq!(document["schema"], "warpbell.bench/1");
    let expected = "bytes bytes_per_s client_cpu_time_ns clock controller_cpu_time_ns counters cpu_time_ns \
                    cq_doorbells_per_io errors events failures fences_per_io iops ios job lat_ns partial polls_per_io queues read read_lat_ns \
                    recovery register_reads_per_io rmw_per_io runtime_ns shadow_stores_per_io sq_doorbells_per_io ssds verify violation_examples violations write write_lat_ns";
    assert_eq!(keys(&document["runs"][0]).join(" "), expected);
    let expected = "api block_size_bytes bs_bytes commands_per_io completion io_limit_bytes iodepth nsid offset_bytes queues \
                    ramp_ns random_distribution recover retries runtime_limit_ns rw rwmixread seed sharing size_bytes threads timeout_ns tokens_per_lane verify warps";
    assert_eq!(keys(&document["runs"][0]["job"]).join(" "), expected);
}

#[test]
fn keys_of_latency_carry_their_unit_outside() {
    let mut histogram = crate::LatencyHistogram::new();
    histogram.record(5, 1);
    let value = serde_json::to_value(histogram.summary()).unwrap();
    assert_eq!(keys(&value).join(" "), "max mean min p50 p90 p99 p99_9 p99_99");
}

#[test]
fn totals_are_sums_and_averages() {
    let all = report(vec![run(64, 0), run(192, 64)]);
    assert_eq!((all.total.ios, all.errors, all.runtime_ns), (256, 64, 4_000_000_000));
    assert_eq!(all.total.iops, 64.0);
    assert_eq!(all.per_io.sq_doorbells_per_io, Some(8.0 / 320.0));
    assert!(!all.clean());
    assert!(report(vec![run(1, 0)]).clean());
    assert_eq!(report(Vec::new()).total.iops, 0.0);
}

#[test]
fn several_ssds_are_summed_up_point_by_point() {
    let second = Run { point: "iodepth=2".to_owned(), ..run(8, 1) };
    let group = crate::GroupReport::new(vec![report(vec![run(64, 0), second]), report(vec![run(192, 2)])]);
    assert_eq!(group.runs.len(), 1, "points that all of them ran");
    let one = report(vec![run(64, 0)]).runs[0].total.iops;
    assert_eq!((group.runs[0].total.ios, group.runs[0].errors), (256, 2));
    assert_eq!(group.runs[0].total.iops, 4.0 * one, "they ran at the same time: rates add up");
    let document = serde_json::to_value(&group).unwrap();
    assert_eq!(keys(&document).join(" "), "devices mismatches partial runs schema violations warpbell");
    assert_eq!(
        keys(&document["runs"][0]).join(" "),
        "bytes bytes_per_s errors iops ios read recovery ssds write"
    );
    assert_eq!(document["devices"][1]["schema"], "warpbell.bench/1");
}

#[test]
fn the_data_pointer_of_older_results_is_read_by_its_name_of_then() {
    let path = PathReport { data_pointer: "prp".to_owned(), ..PathReport::default() };
    let now = serde_json::to_string(&path).unwrap();
    let then = now.replace("\"data_pointer\"", "\"descriptors\"");
    assert_ne!(now, then);
    assert_eq!(serde_json::from_str::<PathReport>(&then).unwrap(), path);
}
