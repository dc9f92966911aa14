//! Controller registers: BAR0 below the doorbells.

/// Volatile 32- and 64-bit access to the controller's registers.
///
/// Offsets are bytes from the start of BAR0, aligned to the access size (NVMe Base 2.0, 3.1).
/// A function that is gone reads as all ones; no access fails otherwise. Each access is one bus
/// access of that size and is never merged, repeated or reordered with another register access.
pub trait Registers: Send + Sync {
    /// Reads 32 bits.
    fn read32(&self, offset: u32) -> u32;
    /// Reads 64 bits.
    fn read64(&self, offset: u32) -> u64;
    /// Writes 32 bits.
    fn write32(&self, offset: u32, value: u32);
    /// Writes 64 bits.
    fn write64(&self, offset: u32, value: u64);
}
