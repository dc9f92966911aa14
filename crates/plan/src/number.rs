//! Numbers as people read them.

use serde_json::Value;

/// Whole numbers whole, others with four significant digits.
pub fn shown(number: f64) -> String {
    let size = number.abs();
    if number == number.trunc() && size < 1e15 {
        return format!("{number:.0}");
    }
    if !(1e-4..1e15).contains(&size) {
        return format!("{number:.3e}");
    }
    let digits = (3 - size.log10().floor() as i32).max(0) as usize;
    let text = format!("{number:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A value of a document.
pub fn value(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        Value::Number(number) => number.as_f64().map_or_else(|| number.to_string(), shown),
        Value::String(text) => text.clone(),
        Value::Array(all) if all.is_empty() => "none".to_owned(),
        Value::Array(all) => all.iter().map(self::value).collect::<Vec<_>>().join(","),
        Value::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits_where_there_are_more() {
        for (number, text) in [
            (262_154.0, "262154"),
            (0.231_214, "0.2312"),
            (65.536, "65.54"),
            (15.9, "15.9"),
            (1953.125, "1953"),
            (0.0, "0"),
            (1e-7, "1.000e-7"),
            (100_000.4, "100000"),
        ] {
            assert_eq!(shown(number), text);
        }
        assert_eq!(value(&serde_json::json!([6.3, true, null])), "6.3,yes,none");
    }
}
