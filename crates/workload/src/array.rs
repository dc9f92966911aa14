//! Arrays of plain values that kernels see too.

use std::marker::PhantomData;

use warpbell::hw::{MemoryError, Window};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// `len` values of `T` in host memory, zero at first.
#[derive(Clone, Debug)]
pub struct Array<T> {
    window: Window,
    len: usize,
    values: PhantomData<T>,
}

impl<T: FromBytes + IntoBytes + Immutable> Array<T> {
    /// An array of zero bytes.
    pub fn new(len: usize) -> Result<Array<T>, MemoryError> {
        let window = Window::host((len * size_of::<T>()).max(1))?;
        Ok(Array { window, len, values: PhantomData })
    }

    /// Where kernels find it. Valid while the array lives.
    pub fn address(&self) -> u64 {
        self.window.as_ptr() as u64
    }

    /// The memory.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Value `index`.
    pub fn get(&self, index: usize) -> Result<T, MemoryError> {
        let mut value = T::new_zeroed();
        self.window.read(index * size_of::<T>(), value.as_mut_bytes())?;
        Ok(value)
    }

    /// Replaces value `index`.
    pub fn put(&self, index: usize, value: &T) -> Result<(), MemoryError> {
        self.window.write(index * size_of::<T>(), value.as_bytes())
    }

    /// All values.
    pub fn iter(&self) -> impl Iterator<Item = Result<T, MemoryError>> + '_ {
        (0..self.len).map(|index| self.get(index))
    }
}

/// The eight tables of CRC-32C, slice by 8, as kernels use them.
pub fn crc_tables() -> Result<Window, MemoryError> {
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
    let bytes: Vec<u8> = tables.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
    let window = Window::host(bytes.len())?;
    window.write(0, &bytes)?;
    Ok(window)
}

#[cfg(test)]
mod tests {
    use warpbell::kernels::abi::ChunkResult;

    use super::*;

    #[test]
    fn values_come_back() {
        let array = Array::<ChunkResult>::new(3).unwrap();
        let value = ChunkResult { crc32c: 7, status: 9 };
        array.put(2, &value).unwrap();
        let all: Vec<_> = array.iter().map(Result::unwrap).collect();
        assert_eq!(all, [ChunkResult::new(), ChunkResult::new(), value]);
    }

    #[test]
    fn tables_make_crc32c() {
        let tables = crc_tables().unwrap();
        let entry = |table: usize, byte: u8| {
            let offset = (table * 256 + usize::from(byte)) * 4;
            tables.load_u32(offset, std::sync::atomic::Ordering::Relaxed)
        };
        let crc = b"123456789".iter().fold(u32::MAX, |crc, byte| (crc >> 8) ^ entry(0, crc as u8 ^ byte));
        assert_eq!(!crc, 0xe306_9283);
        let eight = b"12345678";
        let low = u32::MAX ^ u32::from_le_bytes(eight[..4].try_into().unwrap());
        let bytes: Vec<u8> = low.to_le_bytes().into_iter().chain(eight[4..].iter().copied()).collect();
        let crc = bytes.iter().enumerate().fold(0, |crc, (i, byte)| crc ^ entry(7 - i, *byte));
        assert_eq!(!crc, crc32c::crc32c(eight));
    }
}
