//! Tier S: cached arrays and pages over stepped controllers, on random schedules with stores held back.

mod faults;
mod pages;
mod pieces;
mod rules;
mod words;
