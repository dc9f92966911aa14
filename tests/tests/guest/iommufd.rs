//! A kernel with iommufd and VFIO cdevs beside groups and type1: both ways to four SSDs, and how they keep apart.

use std::fs;
use std::os::fd::AsFd;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use warpbell_hw::{Device, DmaAccess, DmaBuffer, DmaSource, Window};
use warpbell_vfio::{Backend, Bdf, IommuChoice, PciDevice, PciOptions};

use crate::backends::{Worker, data_comes_back, device, pattern, refusal, suite_holds};
use crate::fixture;

const BACKENDS: [Backend; 2] = [Backend::Iommufd, Backend::Type1];

fn ssds() -> Option<Vec<Bdf>> {
    fixture::is("iommufd").then(|| (0..4).map(fixture::bind).collect())
}

#[test]
fn data_comes_back_from_four_ssds_in_one_space_and_in_their_own() {
    let Some(ssds) = ssds() else { return };
    for backend in BACKENDS {
        data_comes_back(&ssds, backend, false);
        data_comes_back(&ssds, backend, true);
    }
}

#[test]
fn the_suite_holds() {
    let Some(ssds) = ssds() else { return };
    suite_holds(ssds[0], Backend::Iommufd);
}

#[test]
fn type1_is_the_first_choice_and_an_iommufd_that_plays_its_container_is_not_taken_for_it() {
    let Some(ssds) = ssds() else { return };
    let open = || PciDevice::open(ssds[0], &PciOptions::new().own_dma_space(true));
    assert_eq!(open().expect("opens").route().backend, Backend::Type1);
    fs::rename("/dev/vfio/vfio", "/dev/vfio/type1").expect("renamed");
    std::os::unix::fs::symlink("/dev/iommu", "/dev/vfio/vfio").expect("linked");
    let device = open();
    fs::rename("/dev/vfio/type1", "/dev/vfio/vfio").expect("renamed back");
    let route = device.expect("opens").route().clone();
    println!("{route}");
    assert_eq!((route.backend, route.refused.len()), (Backend::Iommufd, 1));
    assert!(route.refused[0].reason.contains("maps no BARs"), "{route}");
}

#[test]
fn a_bar_is_mapped_by_type1_only() {
    let Some(ssds) = ssds() else { return };
    for backend in BACKENDS {
        let device = device(ssds[0], backend, true);
        let bar = device.doorbells().window();
        let mapped = device.dma().map(DmaSource::Memory(&bar), DmaAccess::READ_WRITE);
        match backend {
            Backend::Type1 => {
                let iova = mapped.expect("mapped");
                device.dma().unmap(iova, bar.len() as u64).expect("unmapped");
            }
            _ => {
                let text = mapped.expect_err("refused").to_string();
                assert!(text.contains("--iommu type1"), "{text}");
            }
        }
    }
}

#[test]
fn a_group_belongs_to_one_backend_at_a_time() {
    let Some(ssds) = ssds() else { return };
    let [type1, iommufd] = [Backend::Type1, Backend::Iommufd].map(IommuChoice::Only);
    let first = device(ssds[0], Backend::Type1, true);
    let text = refusal(ssds[0], iommufd);
    assert!(text.contains("this one has the group open through type1"), "{text}");
    drop(first);
    let second = device(ssds[0], Backend::Iommufd, true);
    assert!(refusal(ssds[0], iommufd).contains("has it open already"));
    assert!(refusal(ssds[0], type1).contains("/dev/vfio/"));
    assert!(refusal(ssds[0], IommuChoice::Only(Backend::NoIommu)).contains("an IOMMU translates for it"));
    drop(second);
    device(ssds[0], Backend::Type1, true);
}

#[test]
fn too_little_lockable_memory_is_explained() {
    let Some(ssds) = ssds() else { return };
    for backend in BACKENDS {
        // Kept open: iommufd pins nothing while no device is attached.
        let device = device(ssds[0], backend, true);
        let space = device.dma();
        let window = Window::host(1 << 20).expect("memory");
        let all = capabilities(None).expect("capabilities");
        let mut fewer = all;
        fewer.effective.remove(CapabilitySet::IPC_LOCK);
        let limit = getrlimit(Resource::Memlock);
        let little = Rlimit { current: Some(64 << 10), maximum: limit.maximum };
        setrlimit(Resource::Memlock, little).expect("lowered");
        set_capabilities(None, fewer).expect("dropped");
        let refused = space.map(DmaSource::Memory(&window), DmaAccess::READ_WRITE);
        set_capabilities(None, all).expect("taken back");
        setrlimit(Resource::Memlock, limit).expect("raised");
        let text = refused.expect_err("refused").to_string();
        println!("{text}");
        assert!(text.contains("64 KiB") && text.contains("ulimit -l"), "{backend}: {text}");
        let iova = space.map(DmaSource::Memory(&window), DmaAccess::READ_WRITE).expect("mapped");
        space.unmap(iova, 1 << 20).expect("unmapped");
    }
}

#[test]
fn files_are_mapped_without_a_view_of_this_process() {
    let Some(ssds) = ssds() else { return };
    for backend in BACKENDS {
        let device = device(ssds[0], backend, true);
        let space = device.dma();
        let mut worker = Worker::new(device);
        let window = Window::host(0x4000).expect("memory");
        window.write(0x1000, &pattern(9, 9)).expect("written");
        let (file, _) = window.memory().file().expect("a file");
        let source = DmaSource::File { fd: file.as_fd(), offset: 0x1000, len: 0x2000 };
        let iova = space.map(source, DmaAccess::READ).expect("mapped");
        worker.transfer(true, 5000, iova.0);
        let back = DmaBuffer::host(space.clone(), 0x2000).expect("a buffer");
        worker.transfer(false, 5000, back.iova().0);
        assert!(back.window().to_vec(0, 0x2000).expect("read") == pattern(9, 9), "{backend}");
        space.unmap(iova, 0x2000).expect("unmapped");
        worker.stop();
    }
}
