//! Tier S: several SSDs as one, in every layout and by every mapping, under drawn schedules; and what becomes of replicas
//! that fail.

mod command_rules;
mod commands;
mod fixture;
mod layouts;
mod optional;
mod refused;
mod replicas;
mod rules;
