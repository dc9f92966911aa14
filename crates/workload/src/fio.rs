//! Results as fio writes them, `json+`, for the programs that read fio's.

use serde_json::{Map, Value, json};

use crate::latency::LatencyHistogram;
use crate::result::{BenchReport, Run, Traffic};

/// Bits of a latency that fio's bins keep below the first: 64 bins for each power of two.
const BITS: u32 = 6;
/// Groups of 64 bins; what is above them all falls into the last bin.
const GROUPS: u32 = 29;
/// The percentiles that fio lists unless told.
const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

/// The value by which fio names the bin that `ns` falls into: itself below 128, and above the middle of the bin.
pub fn bin(ns: u64) -> u64 {
    let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(BITS + 1);
    if shift == 0 {
        return ns;
    }
    if shift > GROUPS - 2 {
        return (((2 << BITS) - 1) << (GROUPS - 2)) + (1 << (GROUPS - 3));
    }
    ((ns >> shift) << shift) + (1 << (shift - 1))
}

/// A document of `fio --output-format=json+`: a job for each run, in its order, and how many runs are left out because
/// they were interrupted: the form has no word for these. Sizes and depths stand in `job options` under fio's names; what
/// fio has and we do not measure is left out, or null or 0 where its readers want it.
pub fn document(reports: &[BenchReport], unix_ms: u64) -> (Value, usize) {
    let runs = reports.iter().flat_map(|report| report.runs.iter().map(move |run| (report, run)));
    let (partial, whole): (Vec<_>, Vec<_>) = runs.partition(|(_, run)| run.partial);
    let jobs: Vec<Value> = whole.into_iter().map(|(report, run)| job(report, run)).collect();
    let version = reports.first().map_or("", |report| report.warpbell.as_str());
    let document = json!({
        "fio version": format!("warpbell-{version}"),
        "timestamp": unix_ms / 1000,
        "timestamp_ms": unix_ms,
        "time": reports.first().and_then(|report| report.origin.as_ref()).map(|origin| &origin.began),
        "global options": {"ioengine": "warpbell", "direct": "1"},
        "jobs": jobs,
    });
    (document, partial.len())
}

fn job(report: &BenchReport, run: &Run) -> Value {
    let (job, ms) = (&run.job, run.runtime_ns / 1_000_000);
    let name = if run.point.is_empty() { job.rw.to_string() } else { run.point.clone() };
    let name = run.repeat.map_or(name.clone(), |repeat| format!("{name} repeat={repeat}"));
    // Of clients alone, and not told apart by where it went; kernels on a GPU take none of a CPU. Readers of this form
    // calculate with both: 0 where nobody knows.
    let cpu = run.client_cpu_time_ns.map_or(0.0, |ns| ns as f64 * 100.0 / run.runtime_ns.max(1) as f64);
    let [ns, us, ms_shares] = shares(run);
    json!({
        "jobname": name,
        "groupid": 0,
        "error": i32::from(run.errors > 0) * 5,
        "eta": 0,
        "elapsed": ms.div_ceil(1000),
        "job options": {
            "name": name,
            "filename": report.device.name,
            "rw": job.rw.to_string(),
            "rwmixread": job.rwmixread.to_string(),
            "random_distribution": job.random_distribution.to_string(),
            "bs": job.bs_bytes.to_string(),
            "iodepth": job.iodepth.to_string(),
            "numjobs": job.queues.to_string(),
            "size": job.size_bytes.to_string(),
            "runtime": ms.div_ceil(1000).to_string(),
        },
        "read": direction(&run.read, run.read_histogram.as_deref(), run),
        "write": direction(&run.write, run.write_histogram.as_deref(), run),
        "trim": direction(&Traffic::default(), None, run),
        "sync": {"total_ios": 0, "lat_ns": latencies(&LatencyHistogram::new(), false)},
        "job_runtime": ms,
        "usr_cpu": cpu,
        "sys_cpu": 0.0,
        "ctx": 0, "majf": 0, "minf": 0,
        "latency_ns": ns, "latency_us": us, "latency_ms": ms_shares,
        "latency_depth": job.iodepth,
        "latency_target": 0, "latency_percentile": 100.0, "latency_window": 0,
    })
}

/// The coarse bins in which fio sums up latencies, below a thousand of a unit: their ends.
const COARSE: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];

/// Percent of all I/Os in the coarse bins of nanoseconds, microseconds and milliseconds.
fn shares(run: &Run) -> [Value; 3] {
    let all = run.latencies();
    let mut counts = [[0u64; COARSE.len() + 2]; 3];
    for (ns, count) in all.recorded() {
        let (unit, value) = match ns {
            0..1_000 => (0, ns),
            1_000..1_000_000 => (1, ns / 1_000),
            _ => (2, ns / 1_000_000),
        };
        let place = COARSE.iter().position(|end| value < *end);
        counts[unit][place.unwrap_or(if value < 2000 { COARSE.len() } else { COARSE.len() + 1 })] += count;
    }
    let total = all.count().max(1) as f64;
    let named = |unit: usize| {
        let names = COARSE.iter().map(u64::to_string).chain(["2000".to_owned(), ">=2000".to_owned()]);
        // Only milliseconds go above a thousand.
        let known = if unit == 2 { COARSE.len() + 2 } else { COARSE.len() };
        let each = names.zip(counts[unit]).take(known);
        Value::Object(each.map(|(name, count)| (name, (count as f64 * 100.0 / total).into())).collect())
    };
    [named(0), named(1), named(2)]
}

/// A histogram of ours; empty where there is none.
fn decoded(text: Option<&str>) -> LatencyHistogram {
    text.and_then(|text| LatencyHistogram::decoded(text).ok()).unwrap_or_default()
}

/// One direction. Submission takes no time of its own here: what fio calls clat is the whole latency.
fn direction(traffic: &Traffic, histogram: Option<&str>, run: &Run) -> Value {
    let histogram = decoded(histogram);
    let rates = Rates::of(traffic, run);
    json!({
        "io_bytes": traffic.bytes,
        "io_kbytes": traffic.bytes / 1024,
        "bw_bytes": traffic.bytes_per_s as u64,
        "bw": (traffic.bytes_per_s / 1024.0) as u64,
        "iops": traffic.iops,
        "runtime": run.runtime_ns / 1_000_000,
        "total_ios": traffic.ios,
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": latencies(&LatencyHistogram::new(), false),
        "clat_ns": latencies(&histogram, true),
        "lat_ns": latencies(&histogram, false),
        "bw_min": (rates.low * rates.kib) as u64,
        "bw_max": (rates.high * rates.kib) as u64,
        "bw_agg": if traffic.ios > 0 { 100.0 } else { 0.0 },
        "bw_mean": rates.mean * rates.kib,
        "bw_dev": rates.deviation * rates.kib,
        "bw_samples": rates.samples,
        "iops_min": rates.low as u64,
        "iops_max": rates.high as u64,
        "iops_mean": rates.mean,
        "iops_stddev": rates.deviation,
        "iops_samples": rates.samples,
    })
}

/// I/Os per second over the intervals of a run. Intervals count both directions together: a direction has its share.
#[derive(Default)]
struct Rates {
    low: f64,
    high: f64,
    mean: f64,
    deviation: f64,
    samples: usize,
    /// KiB of an I/O.
    kib: f64,
}

impl Rates {
    fn of(traffic: &Traffic, run: &Run) -> Rates {
        let whole = run.series.as_ref().filter(|series| traffic.ios > 0 && !series.end_ns.is_empty());
        let Some(series) = whole else { return Rates::default() };
        let share = traffic.ios as f64 / run.total.ios.max(1) as f64;
        let rates: Vec<f64> = series.iops().map(|(_, rate)| rate * share).collect();
        let samples = rates.len();
        let mean = rates.iter().sum::<f64>() / samples.max(1) as f64;
        let square = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>();
        Rates {
            low: rates.iter().copied().fold(f64::INFINITY, f64::min),
            high: rates.iter().copied().fold(0.0, f64::max),
            mean,
            deviation: (square / samples.saturating_sub(1).max(1) as f64).sqrt(),
            samples,
            kib: traffic.bytes as f64 / traffic.ios as f64 / 1024.0,
        }
    }
}

fn latencies(histogram: &LatencyHistogram, whole: bool) -> Value {
    let summary = histogram.summary();
    let mut value = json!({
        "min": summary.map_or(0, |latency| latency.min),
        "max": summary.map_or(0, |latency| latency.max),
        "mean": summary.map_or(0.0, |latency| latency.mean),
        "stddev": histogram.deviation(),
        "N": histogram.count(),
    });
    if whole && histogram.count() > 0 {
        value["percentile"] = percentiles(histogram);
        value["bins"] = bins(histogram);
    }
    value
}

fn percentiles(histogram: &LatencyHistogram) -> Value {
    let each =
        PERCENTILES.map(|percent| (format!("{percent:.6}"), bin(histogram.at(percent / 100.0)).into()));
    Value::Object(each.into_iter().collect())
}

fn bins(histogram: &LatencyHistogram) -> Value {
    let mut bins: Vec<(u64, u64)> = Vec::new();
    for (ns, count) in histogram.recorded() {
        match bins.last_mut() {
            Some((last, sum)) if *last == bin(ns) => *sum += count,
            _ => bins.push((bin(ns), count)),
        }
    }
    let named = bins.into_iter().map(|(ns, count)| (ns.to_string(), count.into()));
    Value::Object(named.collect::<Map<String, Value>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::{report, run};

    /// fio's stat.c, `plat_val_to_idx` and `plat_idx_to_val`, step by step.
    fn of_fio(value: u64) -> u64 {
        let msb = if value == 0 { 0 } else { value.ilog2() };
        if msb <= BITS {
            return value;
        }
        let error_bits = msb - BITS;
        let base = u64::from(error_bits + 1) << BITS;
        let offset = ((1 << BITS) - 1) & (value >> error_bits);
        let index = (base + offset).min(u64::from(GROUPS << BITS) - 1);
        let error_bits = (index >> BITS) - 1;
        let base = 1 << (error_bits + u64::from(BITS));
        let k = index % (1 << BITS);
        base + ((k as f64 + 0.5) * (1u64 << error_bits) as f64) as u64
    }

    #[test]
    fn a_run_without_an_interval_has_no_rates() {
        let run = Run { series: Some(crate::Series::default()), client_cpu_time_ns: None, ..run(1, 0) };
        let read = direction(&run.read, None, &run);
        assert_eq!(
            (&read["iops_min"], &read["bw_min"], &read["iops_samples"]),
            (&0.into(), &0.into(), &0.into())
        );
        let value = job(&report(vec![run.clone()]), &run);
        assert_eq!((&value["usr_cpu"], &value["sys_cpu"]), (&0.0.into(), &0.0.into()), "nobody knows");
        let partial = Run { partial: true, ..run.clone() };
        let (document, left_out) = document(&[report(vec![partial, run])], 1);
        assert_eq!((document["jobs"].as_array().unwrap().len(), left_out), (1, 1));
    }

    #[test]
    fn bins_are_those_of_fio() {
        let far = (0..63).flat_map(|bits| [1u64 << bits, (1 << bits) + (1 << bits) / 3, (2 << bits) - 1]);
        for value in (0..5000).chain(far) {
            assert_eq!(bin(value), of_fio(value), "{value}");
        }
        // As fio 3.33 printed them.
        for seen in [75264, 173056, 2_932_736, 7_503_872] {
            assert_eq!(bin(seen), seen);
        }
        assert_eq!(bin(7_534_664), 7_503_872);
    }
}
