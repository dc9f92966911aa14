//! Tier S: the examples of the device library's pages compile and run, on exclusive and on shared queues, and each public
//! call of the library stands in one of them.

mod agents;
mod calls;
mod example;
mod requests;
mod scan;
mod volumes;
