//! Tier S: the examples of docs/device-library.md compile and run, on exclusive and on shared queues, and each public
//! call of the library stands in one of them.

mod agents;
mod calls;
mod example;
mod requests;
mod scan;
mod volumes;
