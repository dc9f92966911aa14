//! User buffers, mapped once however often they are registered.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::{DmaAccess, DmaBuffer, DmaError, DmaSpace, Iova, Window};

/// The buffers that are registered with a DMA space. Memory that lies in a buffer which is registered already, for the
/// same access, gets no mapping of its own.
pub struct Registrations {
    space: Arc<dyn DmaSpace>,
    known: Mutex<Vec<Weak<Mapped>>>,
}

#[derive(Debug)]
struct Mapped {
    buffer: DmaBuffer,
    access: DmaAccess,
}

/// A registered buffer. Its mapping lives as long as one of those that share it.
#[derive(Clone, Debug)]
pub struct Registration {
    window: Window,
    mapped: Arc<Mapped>,
}

impl Mapped {
    /// Whether all of `window` is in this mapping.
    fn covers(&self, window: &Window) -> bool {
        let (start, own) = (window.as_ptr() as usize, self.buffer.window().as_ptr() as usize);
        own <= start && start + window.len() <= own + self.buffer.len()
    }
}

impl Registrations {
    /// No registrations yet.
    pub fn new(space: Arc<dyn DmaSpace>) -> Registrations {
        Registrations { space, known: Mutex::default() }
    }

    /// Makes `window` visible to the devices of the space, by a mapping that there is or by a new one.
    pub fn register(&self, window: Window, access: DmaAccess) -> Result<Registration, DmaError> {
        let mut known = self.known.lock();
        known.retain(|mapped| mapped.strong_count() > 0);
        let fits = |mapped: &Arc<Mapped>| mapped.access == access && mapped.covers(&window);
        let found = known.iter().filter_map(Weak::upgrade).find(fits);
        let mapped = match found {
            Some(mapped) => mapped,
            None => {
                let buffer = DmaBuffer::map(self.space.clone(), window.clone(), access)?;
                let mapped = Arc::new(Mapped { buffer, access });
                known.push(Arc::downgrade(&mapped));
                mapped
            }
        };
        Ok(Registration { window, mapped })
    }

    /// Mappings that there are.
    pub fn mappings(&self) -> usize {
        self.known.lock().iter().filter(|mapped| mapped.strong_count() > 0).count()
    }
}

impl Registration {
    /// The memory.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Where the devices of the space see its first byte.
    pub fn iova(&self) -> Iova {
        let buffer = &self.mapped.buffer;
        let offset = self.window.as_ptr() as usize - buffer.window().as_ptr() as usize;
        Iova(buffer.iova().0 + offset as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BASE_PAGE, DmaLimits, DmaSource};

    /// Maps at one megabyte after the other, and keeps what is mapped.
    #[derive(Default)]
    struct Space(Mutex<Vec<(Iova, u64)>>);

    impl DmaSpace for Space {
        fn map(&self, source: DmaSource<'_>, _: DmaAccess) -> Result<Iova, DmaError> {
            let DmaSource::Memory(window) = source else { unreachable!("only memory is registered") };
            let mut mapped = self.0.lock();
            let iova = Iova((mapped.len() as u64 + 1) << 20);
            mapped.push((iova, window.len() as u64));
            Ok(iova)
        }
        fn unmap(&self, iova: Iova, len: u64) -> Result<(), DmaError> {
            let mut mapped = self.0.lock();
            let found = mapped.iter().position(|at| *at == (iova, len));
            mapped.remove(found.ok_or(DmaError::NotMapped { iova, len })?);
            Ok(())
        }
        fn limits(&self) -> DmaLimits {
            DmaLimits { ranges: vec![0..=u64::MAX], page_size: 4096, mappings: 9 }
        }
    }

    fn fixture() -> (Arc<Space>, Registrations, Window) {
        let space = Arc::new(Space::default());
        (space.clone(), Registrations::new(space), Window::host(8 * BASE_PAGE).unwrap())
    }

    #[test]
    fn memory_registered_twice_is_mapped_once_until_both_are_gone() {
        let (space, registrations, window) = fixture();
        let first = registrations.register(window.clone(), DmaAccess::READ_WRITE).unwrap();
        let second = registrations.register(window, DmaAccess::READ_WRITE).unwrap();
        assert_eq!((first.iova(), registrations.mappings()), (second.iova(), 1));
        drop(first);
        assert_eq!(*space.0.lock(), [(Iova(1 << 20), 8 * BASE_PAGE as u64)]);
        drop(second);
        assert_eq!((space.0.lock().len(), registrations.mappings()), (0, 0));
    }

    #[test]
    fn a_part_uses_the_mapping_of_the_whole() {
        let (_, registrations, window) = fixture();
        let part = window.slice(3 * BASE_PAGE + 64, 512).unwrap();
        let whole = registrations.register(window, DmaAccess::READ_WRITE).unwrap();
        let part = registrations.register(part, DmaAccess::READ_WRITE).unwrap();
        assert_eq!(part.iova(), Iova(whole.iova().0 + 3 * BASE_PAGE as u64 + 64));
        assert_eq!(registrations.mappings(), 1);
    }

    #[test]
    fn other_memory_and_other_access_get_mappings_of_their_own() {
        let (_, registrations, window) = fixture();
        let half = |at| window.slice(at * BASE_PAGE, 4 * BASE_PAGE).unwrap();
        let register = |part, access| registrations.register(part, access).unwrap();
        let held = [
            register(half(0), DmaAccess::READ_WRITE),
            register(half(4), DmaAccess::READ_WRITE),
            register(half(2), DmaAccess::READ_WRITE),
            register(half(0), DmaAccess::READ),
        ];
        let mut iovas: Vec<Iova> = held.iter().map(Registration::iova).collect();
        iovas.dedup();
        assert_eq!((iovas.len(), registrations.mappings()), (4, 4));
    }
}
