//! A machine without an IOMMU, whose kernel allows no-IOMMU mode.

use warpbell_hw::{Device, DmaAccess, DmaBuffer, DmaSource, Window};
use warpbell_vfio::{Backend, Bdf, IommuChoice};

use crate::backends::{data_comes_back, device, refusal, suite_holds};
use crate::fixture;

const PAGE: usize = 4096;

fn ssds() -> Option<Vec<Bdf>> {
    fixture::is("noiommu").then(|| (0..4).map(fixture::bind).collect())
}

#[test]
fn it_is_never_taken_unasked() {
    let Some(ssds) = ssds() else { return };
    let text = refusal(ssds[0], IommuChoice::Auto);
    assert!(text.contains("not type1: ") && text.contains("not iommufd: "), "{text}");
    assert!(text.contains("turn the IOMMU on"), "{text}");
    let route = device(ssds[0], Backend::NoIommu, false).route().to_string();
    assert!(route.contains("UNSAFE"), "{route}");
}

#[test]
fn data_comes_back_from_four_ssds() {
    let Some(ssds) = ssds() else { return };
    data_comes_back(&ssds, Backend::NoIommu, false);
    data_comes_back(&ssds, Backend::NoIommu, true);
}

#[test]
fn the_suite_holds() {
    let Some(ssds) = ssds() else { return };
    suite_holds(ssds[0], Backend::NoIommu);
}

#[test]
fn memory_is_contiguous_or_refused() {
    let Some(ssds) = ssds() else { return };
    let device = device(ssds[0], Backend::NoIommu, false);
    let space = device.dma();
    for window in [Window::host(PAGE).expect("memory"), device.doorbells().window()] {
        let refused = space.map(DmaSource::Memory(&window), DmaAccess::READ_WRITE);
        assert!(refused.expect_err("base pages").to_string().contains("huge pages only"));
    }
    let small: Vec<_> = (0..8).map(|_| DmaBuffer::host(space.clone(), 3 * PAGE).expect("a buffer")).collect();
    let large = DmaBuffer::host(space.clone(), 4 << 20).expect("a buffer");
    let mut all: Vec<_> = small.iter().chain([&large]).map(|b| (b.iova().0, b.len() as u64)).collect();
    all.sort_unstable();
    assert!(all.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{all:x?}");
    let too_much = DmaBuffer::host(space, 4 << 30).expect_err("more than there is").to_string();
    assert!(too_much.contains("nr_hugepages"), "{too_much}");
}
