//! Arrays of plain values in memory of kernels.

use std::marker::PhantomData;

use warpbell::{Error, KernelMemory, OpenTarget, Regions, SharedMemory};
use warpbell_kernels::abi::Mailbox;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Bytes that are copied at a time: each copy from a GPU has its price.
const CHUNK: usize = 1 << 20;

/// `len` values of `T` in memory of a target, zero at first.
#[derive(Clone, Debug)]
pub struct Array<T> {
    memory: KernelMemory,
    len: usize,
    values: PhantomData<T>,
}

impl<T: FromBytes + IntoBytes + Immutable> Array<T> {
    /// An array of zero bytes.
    pub fn new(target: &OpenTarget, len: usize) -> Result<Array<T>, Error> {
        Ok(Array { memory: target.memory(len * size_of::<T>())?, len, values: PhantomData })
    }

    /// Where kernels find it. Valid while its memory lives.
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Where kernels find value `index`.
    pub fn address_of(&self, index: usize) -> u64 {
        self.address() + (index * size_of::<T>()) as u64
    }

    /// Lets a launch have it.
    pub(crate) fn lend(&self, regions: Regions) -> Regions {
        regions.with(&self.memory)
    }

    /// How many values there are.
    pub fn count(&self) -> usize {
        self.len
    }

    /// Value `index`.
    pub fn get(&self, index: usize) -> Result<T, Error> {
        let mut value = T::new_zeroed();
        self.memory.read(index * size_of::<T>(), value.as_mut_bytes())?;
        Ok(value)
    }

    /// All values, in one copy.
    pub fn all(&self) -> Result<Vec<T>, Error> {
        let mut values: Vec<T> = (0..self.len).map(|_| T::new_zeroed()).collect();
        if !values.is_empty() {
            self.memory.read(0, values.as_mut_bytes())?;
        }
        Ok(values)
    }

    /// Sets all bytes of all values.
    pub fn fill(&self, value: u8) -> Result<(), Error> {
        self.memory.fill(0, self.len * size_of::<T>(), value)
    }

    /// Replaces values from `index` on.
    pub fn put(&self, index: usize, values: &[T]) -> Result<(), Error> {
        self.memory.write(index * size_of::<T>(), values.as_bytes())
    }

    /// Calls `each` with every value and its index.
    pub fn for_each(&self, mut each: impl FnMut(usize, &T)) -> Result<(), Error> {
        let step = (CHUNK / size_of::<T>()).max(1);
        let mut values: Vec<T> = (0..step.min(self.len)).map(|_| T::new_zeroed()).collect();
        for first in (0..self.len).step_by(step) {
            let values = &mut values[..step.min(self.len - first)];
            self.memory.read(first * size_of::<T>(), values.as_mut_bytes())?;
            values.iter().enumerate().for_each(|(index, value)| each(first + index, value));
        }
        Ok(())
    }
}

/// A mailbox for one launch.
pub fn mailbox(target: &OpenTarget) -> Result<SharedMemory, Error> {
    let memory = target.shared(size_of::<Mailbox>())?;
    reset_mailbox(&memory)?;
    Ok(memory)
}

/// Makes it as new, for the next launch.
pub fn reset_mailbox(mailbox: &SharedMemory) -> Result<(), Error> {
    Ok(mailbox.window().write(0, Mailbox::new().as_bytes())?)
}

/// The eight tables of CRC-32C, slice by 8, as kernels use them.
pub fn crc_tables(target: &OpenTarget) -> Result<Array<[u32; 256]>, Error> {
    let mut tables = [[0u32; 256]; 8];
    for byte in 0..256u32 {
        let shifted = (0..8).fold(byte, |crc, _| (crc >> 1) ^ (0x82f6_3b78 * (crc & 1)));
        tables[0][byte as usize] = shifted;
    }
    for table in 1..8 {
        for byte in 0..256 {
            let crc = tables[table - 1][byte];
            tables[table][byte] = (crc >> 8) ^ tables[0][(crc & 255) as usize];
        }
    }
    let array = Array::new(target, tables.len())?;
    array.put(0, &tables)?;
    Ok(array)
}

#[cfg(test)]
mod tests {
    use warpbell::Target;
    use warpbell_kernels::abi::ChunkResult;

    use super::*;

    #[test]
    fn values_come_back_in_order_over_many_copies() {
        let target = Target::Cpu.open().unwrap();
        let len = 3 * CHUNK / size_of::<ChunkResult>() + 1;
        let array = Array::<ChunkResult>::new(&target, len).unwrap();
        let value = ChunkResult { crc32c: 7, status: 9 };
        array.put(len - 1, &[value]).unwrap();
        let mut all = Vec::new();
        array.for_each(|index, value| all.push((index, *value))).unwrap();
        assert_eq!(all.len(), len);
        assert!(all[..len - 1].iter().enumerate().all(|(at, each)| *each == (at, ChunkResult::new())));
        assert_eq!(all[len - 1], (len - 1, value));
    }

    #[test]
    fn an_empty_array_has_an_address_and_no_values() {
        let array = Array::<ChunkResult>::new(&Target::Cpu.open().unwrap(), 0).unwrap();
        assert_ne!(array.address(), 0);
        array.for_each(|_, _| panic!("there is none")).unwrap();
    }

    #[test]
    fn tables_make_crc32c() {
        let mut tables = Vec::new();
        crc_tables(&Target::Cpu.open().unwrap()).unwrap().for_each(|_, table| tables.push(*table)).unwrap();
        let entry = |table: usize, byte: u8| tables[table][usize::from(byte)];
        let crc = b"123456789".iter().fold(u32::MAX, |crc, byte| (crc >> 8) ^ entry(0, crc as u8 ^ byte));
        assert_eq!(!crc, 0xe306_9283);
        let eight = b"12345678";
        let low = u32::MAX ^ u32::from_le_bytes(eight[..4].try_into().unwrap());
        let bytes: Vec<u8> = low.to_le_bytes().into_iter().chain(eight[4..].iter().copied()).collect();
        let crc = bytes.iter().enumerate().fold(0, |crc, (i, byte)| crc ^ entry(7 - i, *byte));
        assert_eq!(!crc, crc32c::crc32c(eight));
    }
}
