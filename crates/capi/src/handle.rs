//! Handles: numbers that C programs hold for our objects. A number is given once, and says which kind it is of.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

use crate::error::{Answer, Code, Failure};

/// Bits below the kind. With a kind above them no handle is an address that a program could read by mistake.
const SERIAL_BITS: u32 = 56;

/// What a handle can be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ssd = 0x51,
    Queues = 0x52,
    Buffer = 0x53,
    Program = 0x54,
    Run = 0x55,
    Lease = 0x56,
    IoBuffer = 0x57,
    IoQueue = 0x58,
    Volume = 0x60,
    VolumeBuffer = 0x61,
    Cache = 0x62,
    Tiles = 0x63,
    VolumeIo = 0x64,
    File = 0x65,
    FileTable = 0x66,
}

impl Kind {
    const ALL: [Kind; 15] = [
        Kind::Ssd,
        Kind::Queues,
        Kind::Buffer,
        Kind::Program,
        Kind::Run,
        Kind::Lease,
        Kind::IoBuffer,
        Kind::IoQueue,
        Kind::Volume,
        Kind::VolumeBuffer,
        Kind::Cache,
        Kind::Tiles,
        Kind::VolumeIo,
        Kind::File,
        Kind::FileTable,
    ];

    fn name(self) -> &'static str {
        match self {
            Kind::Ssd => "ssd",
            Kind::Queues => "queues",
            Kind::Buffer => "buffer",
            Kind::Program => "program",
            Kind::Run => "run",
            Kind::Lease => "lease",
            Kind::IoBuffer => "I/O buffer",
            Kind::IoQueue => "I/O queue",
            Kind::Volume => "volume",
            Kind::VolumeBuffer => "volume buffer",
            Kind::Cache => "cache",
            Kind::Tiles => "tiles",
            Kind::VolumeIo => "volume I/O",
            Kind::File => "file",
            Kind::FileTable => "file table",
        }
    }

    fn of(handle: u64) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u64 == handle >> SERIAL_BITS)
    }
}

/// The open objects of one kind.
pub(crate) struct Table<T> {
    kind: Kind,
    open: LazyLock<Mutex<Open<T>>>,
}

struct Open<T> {
    /// How many were ever made.
    made: u64,
    objects: HashMap<u64, Arc<T>>,
}

impl<T> Table<T> {
    pub(crate) const fn new(kind: Kind) -> Table<T> {
        Table { kind, open: LazyLock::new(|| Mutex::new(Open { made: 0, objects: HashMap::new() })) }
    }

    /// A handle for `object`.
    pub(crate) fn add(&self, object: T) -> u64 {
        let mut open = self.open.lock();
        open.made += 1;
        let serial = open.made;
        open.objects.insert(serial, Arc::new(object));
        (self.kind as u64) << SERIAL_BITS | serial
    }

    /// What `handle` stands for.
    pub(crate) fn get(&self, handle: u64) -> Answer<Arc<T>> {
        let open = self.open.lock();
        open.objects.get(&self.serial(handle)?).cloned().ok_or_else(|| self.gone(&open, handle))
    }

    /// Takes the object out if `may` allows it: nobody else finds it from then on.
    pub(crate) fn close(&self, handle: u64, may: impl FnOnce(&T) -> Answer<()>) -> Answer<Arc<T>> {
        let mut open = self.open.lock();
        let serial = self.serial(handle)?;
        may(open.objects.get(&serial).ok_or_else(|| self.gone(&open, handle))?)?;
        open.objects.remove(&serial).ok_or_else(|| self.gone(&open, handle))
    }

    /// Takes out all objects of which this holds.
    pub(crate) fn close_those(&self, these: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let mut open = self.open.lock();
        open.objects.extract_if(|_, object| these(object)).map(|(_, object)| object).collect()
    }

    fn serial(&self, handle: u64) -> Answer<u64> {
        let wanted = self.kind.name();
        let refused = |what: String| Err(Failure::new(Code::Handle, format!("{wanted}: {what}")));
        match Kind::of(handle) {
            Some(kind) if kind == self.kind => Ok(handle & ((1 << SERIAL_BITS) - 1)),
            _ if handle == 0 => {
                refused("NULL is no handle; was an error ignored when it was made?".to_owned())
            }
            Some(other) => refused(format!("this is a handle of another kind: {}", other.name())),
            None => refused(format!("{handle:#x} is no handle of this library")),
        }
    }

    fn gone(&self, open: &Open<T>, handle: u64) -> Failure {
        let (name, serial) = (self.kind.name(), handle & ((1 << SERIAL_BITS) - 1));
        let text = if (1..=open.made).contains(&serial) {
            format!("{name}: handle {serial} was closed before")
        } else {
            format!("{name}: {handle:#x} is no handle of this library")
        };
        Failure::new(Code::Handle, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_handle_stays_closed() {
        static NUMBERS: Table<u32> = Table::new(Kind::Buffer);
        let first = NUMBERS.add(1);
        assert_eq!(*NUMBERS.get(first).unwrap(), 1);
        assert_eq!(NUMBERS.close(first, |_| Ok(())).map(|object| *object), Ok(1));
        let second = NUMBERS.add(2);
        assert_ne!(first, second);
        assert_eq!(NUMBERS.get(first).unwrap_err().text, "buffer: handle 1 was closed before");
        assert_eq!(NUMBERS.close(first, |_| Ok(())).unwrap_err().code, Code::Handle);
    }

    #[test]
    fn what_may_not_be_closed_stays_open() {
        static NUMBERS: Table<u32> = Table::new(Kind::Run);
        let handle = NUMBERS.add(1);
        let busy = NUMBERS.close(handle, |_| Err(Failure::new(Code::Busy, "in use")));
        assert_eq!(busy.unwrap_err().code, Code::Busy);
        assert!(NUMBERS.get(handle).is_ok());
    }

    #[test]
    fn some_are_closed_together() {
        static NUMBERS: Table<u32> = Table::new(Kind::Queues);
        let handles = [1, 2, 3, 4].map(|number| NUMBERS.add(number));
        let mut even: Vec<u32> = NUMBERS.close_those(|number| number % 2 == 0).iter().map(|n| **n).collect();
        even.sort_unstable();
        assert_eq!(even, [2, 4]);
        let open = handles.map(|handle| NUMBERS.get(handle).is_ok());
        assert_eq!(open, [true, false, true, false]);
    }

    #[test]
    fn what_is_no_handle_is_named() {
        static SSDS: Table<u32> = Table::new(Kind::Ssd);
        static RUNS: Table<u32> = Table::new(Kind::Run);
        let run = RUNS.add(1);
        for (handle, text) in [
            (0, "ssd: NULL is no handle"),
            (run, "ssd: this is a handle of another kind: run"),
            (0x7ffd_0000_1000, "ssd: 0x7ffd00001000 is no handle of this library"),
            (0x51 << 56 | 9, "ssd: 0x5100000000000009 is no handle of this library"),
        ] {
            let failure = SSDS.get(handle).unwrap_err();
            assert!(failure.text.starts_with(text), "{}", failure.text);
            assert_eq!(failure.code, Code::Handle);
        }
    }
}
