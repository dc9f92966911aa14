//! Figures beside their budgets.

use super::budget::{Budgets, Limit};
use super::table::{CostTable, Row};

/// A call on one architecture, judged.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The whole probe.
    pub row: Row,
    /// Its limits.
    pub limits: Vec<Limit>,
}

impl Judged {
    /// The limits that are not met.
    pub fn broken(&self) -> impl Iterator<Item = &Limit> {
        self.limits.iter().filter(|limit| !limit.is_met(self.row.whole[limit.figure]))
    }
}

/// Each row of a table beside its budgets.
pub fn judge(table: &CostTable, budgets: &Budgets) -> Vec<Judged> {
    let one = |row: &Row| Judged { row: row.clone(), limits: budgets.of(&row.probe, row.arch) };
    table.rows.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::super::figures::{Figure, Figures};
    use super::super::table::Probe;
    use super::*;

    #[test]
    fn what_is_over_its_budget_is_named() {
        let row = |kernel: &str, instructions, registers| {
            let mut whole = Figures::default();
            (whole[Figure::Instructions], whole[Figure::Registers]) = (instructions, registers);
            Row { probe: Probe::of_kernel(kernel).unwrap(), arch: 90, whole }
        };
        let rows = vec![row("probe_queue_attach_shared", 40, 16), row("probe_queue_reap_shared", 250, 22)];
        let table = CostTable { compiler: String::new(), source_hash: String::new(), rows };
        let limits = |most| format!("[queue.reap.shared]\ninstructions = {most}\nregisters = 22");
        for (most, broken) in [(250, vec![]), (249, vec![Figure::Instructions])] {
            let judged = judge(&table, &Budgets::parse(&limits(most)).unwrap());
            assert_eq!(judged[1].broken().map(|limit| limit.figure).collect::<Vec<_>>(), broken);
            assert_eq!(judged[0].broken().count(), 0);
        }
    }
}
