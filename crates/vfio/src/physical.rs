//! Physical memory as a DMA space: what a device without an IOMMU sees.
//!
//! The kernel maps nothing here. Physical addresses come from `/proc/self/pagemap`, and stay true only for memory that
//! the kernel does not move: huge pages. Base pages are swapped and migrated behind a driver's back, so they are refused.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use parking_lot::Mutex;
use warpbell_hw::{
    BASE_PAGE, DmaAccess, DmaError, DmaLimits, DmaSource, DmaSpace, HUGE_PAGE, HostMemory, Iova, Window,
};

/// Where the kernel says which page of the machine a page of this process is.
pub(crate) const PAGEMAP: &str = "/proc/self/pagemap";

/// Controllers are not trusted with addresses beyond this many bits, as with an IOMMU.
const ADDRESS_BITS: u32 = 48;
/// Huge pages to look for neighbours among: 8 GiB.
const MOST_TAKEN: usize = 4096;
const HOW_TO_RESERVE: &str = "reserve huge pages: echo 64 > /proc/sys/vm/nr_hugepages, or hugepages=64 on the kernel's command line, where they lie side by side";

/// What a page of this process is, by its entry in `/proc/self/pagemap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Absent,
    /// Present, but the kernel does not tell where.
    Hidden,
    At(u64),
}

impl Page {
    fn from_entry(entry: u64) -> Page {
        const PRESENT: u64 = 1 << 63;
        const FRAME: u64 = (1 << 55) - 1;
        match entry & FRAME {
            _ if entry & PRESENT == 0 => Page::Absent,
            0 => Page::Hidden,
            frame => Page::At(frame * BASE_PAGE as u64),
        }
    }
}

/// Where physical memory cannot be used.
#[derive(Debug, thiserror::Error)]
enum PhysicalError {
    #[error("/proc/self/pagemap: {0}")]
    Read(#[from] io::Error),
    #[error("the page at {0:#x} is not in memory; it must be populated before it is mapped")]
    Absent(u64),
    #[error("/proc/self/pagemap hides physical addresses: CAP_SYS_ADMIN is missing (run as root)")]
    Hidden,
    #[error(
        "not contiguous: byte {offset:#x} lies at physical {found:#x}, not at {wanted:#x}, and without an IOMMU a \
         buffer is where its pages are; take buffers of at most 2 MiB, or {HOW_TO_RESERVE}"
    )]
    Scattered { offset: u64, found: u64, wanted: u64 },
    #[error("physical address {0:#x} is beyond {ADDRESS_BITS} bits")]
    TooHigh(u64),
}

/// The physical address of `len` bytes at `start`, if the huge pages below them follow one another.
fn physical(
    start: u64,
    len: u64,
    mut page_at: impl FnMut(u64) -> io::Result<Page>,
) -> Result<u64, PhysicalError> {
    let huge = HUGE_PAGE as u64;
    let mut first = None;
    // The first byte, then each huge page's first: within one, memory is contiguous.
    let starts = (start / huge + 1..).map(|page| page * huge);
    for address in std::iter::once(start).chain(starts).take_while(|address| *address < start + len) {
        let base = match page_at(address)? {
            Page::At(base) => base,
            Page::Absent => return Err(PhysicalError::Absent(address)),
            Page::Hidden => return Err(PhysicalError::Hidden),
        };
        let found = base + address % BASE_PAGE as u64;
        let offset = address - start;
        let wanted = *first.get_or_insert(found) + offset;
        if found != wanted {
            return Err(PhysicalError::Scattered { offset, found, wanted });
        }
    }
    match first {
        Some(first) if first + len <= 1 << ADDRESS_BITS => Ok(first),
        Some(first) => Err(PhysicalError::TooHigh(first + len)),
        None => Err(PhysicalError::Absent(start)),
    }
}

/// The first `count` huge pages that follow one another.
fn neighbours(sorted: &[u64], count: usize) -> Option<&[u64]> {
    sorted.windows(count).find(|run| run.windows(2).all(|pair| pair[0] + HUGE_PAGE as u64 == pair[1]))
}

/// A huge page from which smaller pieces are cut, each once: what is handed out is still zero.
struct Slab {
    window: Window,
    used: usize,
}

impl Slab {
    fn fresh() -> Result<Slab, DmaError> {
        Ok(Slab { window: fresh(HUGE_PAGE)?, used: 0 })
    }
}

/// The physical address space, for one function in no-IOMMU mode.
pub(crate) struct PhysicalSpace {
    pagemap: File,
    /// What is mapped, by address and length. Held, so that no memory is anyone else's while the device may write to it.
    mapped: Mutex<HashMap<(u64, u64), Vec<Window>>>,
    slab: Mutex<Option<Slab>>,
}

impl PhysicalSpace {
    pub(crate) fn new() -> io::Result<PhysicalSpace> {
        let (mapped, slab) = (Mutex::default(), Mutex::default());
        Ok(PhysicalSpace { pagemap: File::open(PAGEMAP)?, mapped, slab })
    }

    fn page_at(&self, address: u64) -> io::Result<Page> {
        let mut entry = [0; 8];
        self.pagemap.read_exact_at(&mut entry, address / BASE_PAGE as u64 * 8)?;
        Ok(Page::from_entry(u64::from_le_bytes(entry)))
    }

    fn address_of(&self, window: &Window) -> Result<u64, DmaError> {
        let physical = physical(window.as_ptr() as u64, window.len() as u64, |address| self.page_at(address));
        physical.map_err(|error| refused(format!("{} bytes in no-IOMMU mode: {error}", window.len())))
    }

    /// Huge pages that follow one another.
    fn contiguous(&self, len: usize) -> Result<Window, DmaError> {
        let at_once = fresh(len)?;
        let Err(scattered) = self.address_of(&at_once) else {
            return Ok(at_once);
        };
        drop(at_once);
        self.put_in_order(len.div_ceil(HUGE_PAGE))?;
        let in_order = fresh(len)?;
        self.address_of(&in_order).map(|_| in_order).map_err(|_| scattered)
    }

    /// The kernel hands out the huge page that came back to it last. So take all there are, and release them such
    /// that `count` neighbours come next, in rising order.
    fn put_in_order(&self, count: usize) -> Result<(), DmaError> {
        let mut taken = BTreeMap::new();
        while taken.len() < MOST_TAKEN
            && let Ok(page) = fresh(HUGE_PAGE)
        {
            taken.insert(self.address_of(&page)?, page);
        }
        let addresses: Vec<u64> = taken.keys().copied().collect();
        let Some(run) = neighbours(&addresses, count) else { return Ok(()) };
        let mut first: Vec<Window> = run.iter().filter_map(|address| taken.remove(address)).collect();
        drop(taken);
        while first.pop().is_some() {}
        Ok(())
    }

    /// A piece of the slab, or of a fresh one.
    fn piece(&self, len: usize) -> Result<Window, DmaError> {
        let mut kept = self.slab.lock();
        let slab = match kept.take().filter(|slab| slab.used + len <= HUGE_PAGE) {
            Some(slab) => slab,
            None => Slab::fresh()?,
        };
        let slab = kept.insert(slab);
        let piece = slab.window.slice(slab.used, len)?;
        slab.used += len;
        Ok(piece)
    }
}

fn refused(reason: String) -> DmaError {
    DmaError::Unsupported { reason }
}

/// Huge pages, resident.
fn fresh(len: usize) -> Result<Window, DmaError> {
    let memory = HostMemory::with_page(len, HUGE_PAGE);
    let memory = memory
        .map_err(|error| refused(format!("no-IOMMU mode needs huge pages: {error}; {HOW_TO_RESERVE}")))?;
    let window = Window::whole(memory);
    window.populate()?;
    Ok(window)
}

impl DmaSpace for PhysicalSpace {
    fn map(&self, source: DmaSource<'_>, _: DmaAccess) -> Result<Iova, DmaError> {
        let window = match source {
            DmaSource::Memory(window) => window,
            DmaSource::Remote(memory) => return Err(DmaError::only_an_engine(&**memory)),
            DmaSource::File { .. } => {
                return Err(refused("no-IOMMU mode maps memory of this process, not files".to_owned()));
            }
        };
        let (len, page_size) = (window.len() as u64, BASE_PAGE as u64);
        let offset = window.offset_in_memory() as u64;
        if !offset.is_multiple_of(page_size) || !len.is_multiple_of(page_size) {
            return Err(DmaError::Alignment { offset, len, page_size });
        }
        let page = window.memory().page_size();
        if page != HUGE_PAGE {
            return Err(refused(format!(
                "no-IOMMU mode takes huge pages only, and these {len} bytes are in pages of {page} bytes, which the \
                 kernel may move at any time; {HOW_TO_RESERVE}"
            )));
        }
        let address = self.address_of(window)?;
        self.mapped.lock().entry((address, len)).or_default().push(window.clone());
        Ok(Iova(address))
    }

    fn unmap(&self, iova: Iova, len: u64) -> Result<(), DmaError> {
        let mut mapped = self.mapped.lock();
        let windows = mapped.get_mut(&(iova.get(), len)).ok_or(DmaError::NotMapped { iova, len })?;
        windows.pop();
        if windows.is_empty() {
            mapped.remove(&(iova.get(), len));
        }
        Ok(())
    }

    fn limits(&self) -> DmaLimits {
        DmaLimits {
            ranges: vec![0..=(1 << ADDRESS_BITS) - 1],
            page_size: BASE_PAGE as u64,
            mappings: u32::MAX,
        }
    }

    fn allocate(&self, len: usize) -> Result<Window, DmaError> {
        let len = len.max(1).next_multiple_of(BASE_PAGE);
        if len <= HUGE_PAGE { self.piece(len) } else { self.contiguous(len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUGE: u64 = HUGE_PAGE as u64;

    /// Huge page n of the process is huge page `frames[n]` of the machine.
    fn layout(frames: &'static [u64]) -> impl FnMut(u64) -> io::Result<Page> {
        move |address| {
            let frame = frames.get((address / HUGE) as usize);
            let within = address % HUGE / BASE_PAGE as u64 * BASE_PAGE as u64;
            Ok(frame.map_or(Page::Absent, |frame| Page::At(frame * HUGE + within)))
        }
    }

    #[test]
    fn an_entry_says_whether_and_where_a_page_is() {
        assert_eq!(Page::from_entry(0x1234), Page::Absent, "swapped out");
        assert_eq!(Page::from_entry(1 << 63), Page::Hidden);
        assert_eq!(Page::from_entry(1 << 63 | 1 << 55 | 1 << 61 | 0x1234), Page::At(0x123_4000));
    }

    #[test]
    fn bytes_within_huge_pages_that_follow_one_another_have_one_address() {
        assert_eq!(physical(0x3010, 0x2000, layout(&[7])).unwrap(), 7 * HUGE + 0x3010);
        assert_eq!(physical(HUGE - 4096, HUGE + 8192, layout(&[4, 5, 6])).unwrap(), 5 * HUGE - 4096);
    }

    #[test]
    fn scattered_pages_are_refused_with_the_place() {
        let error = physical(4096, 3 * HUGE - 4096, layout(&[4, 5, 9])).unwrap_err().to_string();
        assert!(error.contains("byte 0x3ff000 lies at physical 0x1200000, not at 0xc00000"), "{error}");
    }

    #[test]
    fn absent_hidden_and_far_pages_are_refused() {
        assert!(matches!(physical(HUGE, 4096, layout(&[4])), Err(PhysicalError::Absent(HUGE))));
        assert!(matches!(physical(0, 4096, |_| Ok(Page::Hidden)), Err(PhysicalError::Hidden)));
        let far = physical(0, HUGE, layout(&[1 << 27]));
        assert!(matches!(far, Err(PhysicalError::TooHigh(_))), "{far:?}");
    }

    #[test]
    fn neighbours_are_found_in_what_there_is() {
        let pages = [1, 2, 4, 5, 6, 9].map(|page| page * HUGE);
        assert_eq!(neighbours(&pages, 3), Some(&pages[2..5]));
        assert_eq!(neighbours(&pages, 4), None);
        assert_eq!(neighbours(&pages, 7), None);
    }

    fn space() -> PhysicalSpace {
        PhysicalSpace::new().unwrap()
    }

    #[test]
    fn base_pages_are_refused_because_the_kernel_moves_them() {
        let error =
            space().map(DmaSource::Memory(&Window::host(4096).unwrap()), DmaAccess::READ_WRITE).unwrap_err();
        assert!(error.to_string().contains("nr_hugepages"), "{error}");
    }

    #[test]
    fn what_is_not_mapped_is_not_unmapped() {
        let error = space().unmap(Iova(0x1000), 4096).unwrap_err();
        assert!(matches!(error, DmaError::NotMapped { iova: Iova(0x1000), len: 4096 }), "{error}");
    }
}
