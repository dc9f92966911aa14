//! Identify structures as lists of named values, in nvme-cli's words and forms.

use serde_json::{Map, Value};

/// One field.
#[derive(Clone, Debug)]
pub struct Field {
    name: &'static str,
    value: Value,
    text: String,
    /// What its bits mean, one line each.
    decoded: Vec<String>,
}

impl Field {
    /// A count.
    pub fn number(name: &'static str, value: impl Into<u128>) -> Field {
        let value = value.into();
        Field { name, value: json_number(value), text: value.to_string(), decoded: Vec::new() }
    }

    /// A mask or an identifier: hexadecimal as text, a number in JSON.
    pub fn hex(name: &'static str, value: impl Into<u128>) -> Field {
        let value = value.into();
        let text = if value == 0 { "0".to_owned() } else { format!("{value:#x}") };
        Field { name, value: json_number(value), text, decoded: Vec::new() }
    }

    /// Bits, with what each means in `meaning`'s `Debug` form.
    pub fn bits(name: &'static str, value: impl Into<u128>, meaning: &impl std::fmt::Debug) -> Field {
        Field { decoded: decode(&format!("{meaning:?}")), ..Field::hex(name, value) }
    }

    /// A text.
    pub fn text(name: &'static str, value: &str) -> Field {
        Field { name, value: value.into(), text: value.to_owned(), decoded: Vec::new() }
    }

    /// Bytes, as hexadecimal digits in their order.
    pub fn digits(name: &'static str, bytes: &[u8]) -> Field {
        Field::text(name, &bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    }

    /// Adds a remark for people who ask for more.
    pub fn meaning(mut self, remark: String) -> Field {
        self.decoded.push(remark);
        self
    }
}

/// JSON numbers hold 64 bits; what is larger becomes a string, as nvme-cli prints it.
fn json_number(value: u128) -> Value {
    u64::try_from(value).map_or_else(|_| Value::from(value.to_string()), Value::from)
}

/// `Oncs { compare: true, copy: false }` as `compare : true`, `copy : false`.
fn decode(debug: &str) -> Vec<String> {
    let fields = debug.split_once('{').map_or("", |(_, rest)| rest).trim_end_matches([' ', '}']);
    fields
        .split(", ")
        .filter_map(|field| field.trim().split_once(": "))
        .map(|(name, value)| format!("{name}: {value}"))
        .collect()
}

/// The fields as nvme-cli prints them: `mnemonic : value`, and with `verbose` what it means.
pub fn text(fields: &[Field], verbose: bool) -> String {
    let mut text = String::new();
    for field in fields {
        text += &format!("{:<9} : {}\n", field.name, field.text);
        for line in field.decoded.iter().filter(|_| verbose) {
            text += &format!("            {line}\n");
        }
    }
    text
}

/// The fields as one JSON object.
pub fn json(fields: &[Field]) -> Value {
    let pairs = fields.iter().map(|field| (field.name.to_owned(), field.value.clone()));
    Value::Object(pairs.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    #[expect(dead_code, reason = "read through Debug")]
    struct Bits {
        compare: bool,
        size: u8,
    }

    #[test]
    fn fields_look_like_those_of_nvme_cli() {
        let fields = [
            Field::hex("vid", 0x1b36u16),
            Field::text("sn", "WB1"),
            Field::number("nn", 4u32).meaning("4 namespaces".to_owned()),
            Field::bits("oncs", 5u16, &Bits { compare: true, size: 2 }),
            Field::digits("eui64", &[0, 0x1f]),
            Field::hex("cmic", 0u8),
            Field::number("tnvmcap", u128::MAX),
        ];
        let plain = text(&fields, false);
        assert!(plain.starts_with("vid       : 0x1b36\nsn        : WB1\nnn        : 4\noncs      : 0x5\n"));
        assert!(plain.contains("eui64     : 001f\ncmic      : 0\n"));
        let verbose = text(&fields, true);
        assert!(verbose.contains("            4 namespaces\n"));
        assert!(verbose.contains("oncs      : 0x5\n            compare: true\n            size: 2\n"));
        let json = json(&fields);
        assert_eq!((json["vid"].as_u64(), json["nn"].as_u64()), (Some(0x1b36), Some(4)));
        assert_eq!(json["tnvmcap"], u128::MAX.to_string());
    }
}
