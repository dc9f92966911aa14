//! Numbers as people read them: both unit systems, and a unit in every figure.

/// `5808MiB/s (6090MB/s)`.
pub fn bandwidth(bytes_per_s: f64) -> String {
    let binary = scaled(bytes_per_s, 1024.0, ["B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s"]);
    let decimal = scaled(bytes_per_s, 1000.0, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"]);
    format!("{binary} ({decimal})")
}

/// `1487k`.
pub fn iops(iops: f64) -> String {
    scaled(iops, 1000.0, ["", "k", "M", "G", "T"])
}

/// A size in units of 1024, such as `1.0GiB`.
pub fn bytes(bytes: u64) -> String {
    scaled(bytes as f64, 1024.0, ["B", "KiB", "MiB", "GiB", "TiB"])
}

/// Three or four digits of `value` and the largest unit that leaves a digit before the point.
/// Values stay in a unit up to 9999, so that they keep digits.
fn scaled(value: f64, base: f64, units: [&str; 5]) -> String {
    let (mut value, mut unit) = (value, 0);
    while value >= 9999.5 && unit < units.len() - 1 {
        value /= base;
        unit += 1;
    }
    format!("{}{}", digits(value), units[unit])
}

/// Three or four significant digits.
fn digits(value: f64) -> String {
    match value {
        value if value >= 99.95 || value == value.trunc() => format!("{value:.0}"),
        value if value >= 9.995 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// Seconds with two decimals; milliseconds below 0.1 s, and microseconds below 0.1 ms.
pub fn seconds(nanoseconds: u64) -> String {
    match nanoseconds {
        0..100_000 => format!("{}us", digits(nanoseconds as f64 / 1e3)),
        100_000..100_000_000 => format!("{}ms", digits(nanoseconds as f64 / 1e6)),
        _ => format!("{:.2}s", nanoseconds as f64 / 1e9),
    }
}

/// Bandwidth in units of 1024 * 1024 bytes a second, without the unit: `5809`, `3.91`.
pub fn mib_per_s(bytes_per_s: f64) -> String {
    digits(bytes_per_s / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_times_have_their_digits() {
        let shown = [0, 2_061_000, 99_940_000, 100_000_000, 3_004_000_000].map(seconds);
        assert_eq!(shown, ["0us", "2.06ms", "99.9ms", "0.10s", "3.00s"]);
        assert_eq!([4096.0 * 1000.0, 6_090_752_000.0].map(mib_per_s), ["3.91", "5809"]);
    }

    #[test]
    fn both_unit_systems() {
        assert_eq!(bandwidth(6_090_752_000.0), "5809MiB/s (6091MB/s)");
        assert_eq!(bandwidth(0.0), "0B/s (0B/s)");
        assert_eq!(bandwidth(20e9), "18.6GiB/s (20.0GB/s)".replace("20.0", "20"));
    }

    #[test]
    fn counts() {
        for (value, text) in
            [(12.0, "12"), (0.5, "0.50"), (9999.0, "9999"), (1_487_000.0, "1487k"), (12_345_678.0, "12.3M")]
        {
            assert_eq!(iops(value), text);
        }
        assert_eq!(bytes(1 << 30), "1024MiB");
        assert_eq!(bytes(1 << 40), "1024GiB");
        assert_eq!(bytes(512), "512B");
    }

    #[test]
    fn times() {
        assert_eq!(seconds(3_004_000_000), "3.00s");
    }
}
