//! The limits: `kernels/budgets/`, a file for each layer.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::ARCHITECTURES;
use super::figures::Figure;
use super::table::Probe;
use crate::BUDGETS;

/// What one figure may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The figure that is limited.
    pub figure: Figure,
    /// The most it may be; of a fence just what it must be.
    pub value: i64,
}

impl Limit {
    /// Whether a figure is as it must be.
    pub fn is_met(&self, found: i64) -> bool {
        if self.figure.is_exact() { found == self.value } else { found <= self.value }
    }
}

/// Limits of all probes, by probe and architecture.
#[derive(Clone, Debug, Default)]
pub struct Budgets {
    every: BTreeMap<Figure, [i64; ARCHITECTURES.len()]>,
    probes: BTreeMap<String, BTreeMap<Figure, [i64; ARCHITECTURES.len()]>>,
}

/// Budgets that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// It is no TOML.
    #[error("budgets: {0}")]
    Toml(#[from] toml::de::Error),
    /// A value has no meaning.
    #[error("budgets: [{table}] {key}: {reason}")]
    Value {
        /// The table.
        table: String,
        /// The key.
        key: String,
        /// What is wrong.
        reason: String,
    },
}

impl Budgets {
    /// Those that this build carries.
    pub fn checked_in() -> Result<Budgets, BudgetError> {
        Budgets::parse(&BUDGETS.iter().map(|(_, text)| *text).collect::<String>())
    }

    /// From TOML: a table `every`, and one per probe; each value one number, or one for each architecture.
    pub fn parse(text: &str) -> Result<Budgets, BudgetError> {
        let mut budgets = Budgets::default();
        for (layer, calls) in text.parse::<Table>()? {
            if layer == "every" {
                budgets.every = limits(&layer, &calls)?;
                continue;
            }
            for (call, modes) in inner(&layer, &calls)? {
                let name = format!("{layer}.{call}");
                for (mode, values) in inner(&name, modes)? {
                    let name = format!("{name}.{mode}");
                    let limits = limits(&name, values)?;
                    budgets.probes.insert(name, limits);
                }
            }
        }
        Ok(budgets)
    }

    /// The limits of a probe: those of `every`, but for what it has of its own.
    pub fn of(&self, probe: &Probe, arch: u32) -> Vec<Limit> {
        let Some(place) = ARCHITECTURES.iter().position(|known| *known == arch) else { return Vec::new() };
        let mut limits = self.every.clone();
        limits.extend(self.probes.get(&probe.name()).into_iter().flatten().map(|(f, v)| (*f, *v)));
        limits.into_iter().map(|(figure, values)| Limit { figure, value: values[place] }).collect()
    }

    /// The probes that have limits of their own.
    pub fn probes(&self) -> impl Iterator<Item = &str> {
        self.probes.keys().map(String::as_str)
    }
}

fn inner<'a>(name: &str, value: &'a Value) -> Result<&'a Table, BudgetError> {
    value.as_table().ok_or_else(|| wrong(name, "", "is no table"))
}

fn limits(name: &str, value: &Value) -> Result<BTreeMap<Figure, [i64; ARCHITECTURES.len()]>, BudgetError> {
    let limit = |(key, value): (&String, &Value)| {
        let figure = Figure::named(key).ok_or_else(|| wrong(name, key, "nothing of that name is counted"))?;
        let numbers = match value {
            Value::Integer(number) => Some([*number; ARCHITECTURES.len()]),
            Value::Array(numbers) => {
                let numbers: Option<Vec<i64>> = numbers.iter().map(Value::as_integer).collect();
                numbers.and_then(|numbers| numbers.try_into().ok())
            }
            _ => None,
        };
        let expected = format!("expected a number, or {} of them: {ARCHITECTURES:?}", ARCHITECTURES.len());
        Ok((figure, numbers.ok_or_else(|| wrong(name, key, &expected))?))
    };
    inner(name, value)?.iter().map(limit).collect()
}

fn wrong(table: &str, key: &str, reason: &str) -> BudgetError {
    BudgetError::Value { table: table.to_owned(), key: key.to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
        [every]
        division_sites = 0
        call_sites = [3, 3, 0, 0, 0]
        [queue.reap.shared]
        instructions = [210, 205, 200, 200, 190]
        fence_sys_sites = 2
        call_sites = 1
    ";

    #[test]
    fn a_probe_has_its_own_limits_and_those_of_every() {
        let budgets = Budgets::parse(TEXT).unwrap();
        let reap = Probe::of_kernel("probe_queue_reap_shared").unwrap();
        let value = |probe: &Probe, arch, figure| {
            budgets.of(probe, arch).into_iter().find(|limit| limit.figure == figure).map(|limit| limit.value)
        };
        assert_eq!(value(&reap, 90, Figure::Instructions), Some(200));
        assert_eq!(value(&reap, 120, Figure::Instructions), Some(190));
        assert_eq!(value(&reap, 75, Figure::CallSites), Some(1));
        assert_eq!(value(&reap, 90, Figure::RmwSites), None);
        let attach = Probe::of_kernel("probe_queue_attach_shared").unwrap();
        assert_eq!(value(&attach, 80, Figure::CallSites), Some(3));
        assert_eq!(budgets.probes().collect::<Vec<_>>(), ["queue.reap.shared"]);
    }

    #[test]
    fn a_fence_too_few_is_not_within_the_budget() {
        let fence = Limit { figure: Figure::FenceSysSites, value: 2 };
        assert_eq!([1, 2, 3].map(|found| fence.is_met(found)), [false, true, false]);
        let atomic = Limit { figure: Figure::RmwSites, value: 2 };
        assert_eq!([1, 2, 3].map(|found| atomic.is_met(found)), [true, true, false]);
    }

    #[test]
    fn what_has_no_meaning_is_named() {
        for (text, expected) in [
            ("[every]\nweight = 1", "[every] weight: nothing of that name is counted"),
            (
                "[queue.reap.shared]\nrmw_sites = [1, 2]",
                "[queue.reap.shared] rmw_sites: expected a number, or 5",
            ),
            ("[queue.reap]\nshared = 1", "[queue.reap.shared] : is no table"),
        ] {
            let error = Budgets::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
