//! The driver against the soft controller: each test once in simulation and once with its threads, and the
//! controller's log of client violations must be empty at the end.

#[cfg(test)]
mod counters;
#[cfg(test)]
mod data;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod interrupts;
#[cfg(test)]
mod life;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod management;
#[cfg(test)]
mod power;
#[cfg(test)]
mod queues;
#[cfg(test)]
mod wired;
