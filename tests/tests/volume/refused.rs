//! What cannot be a volume.

use warpbell::{AttachOptions, DeviceName, OpenOptions, Sharing, Ssd, Volume, VolumeSpec};
use warpbell_hw::Nsid;
use warpbell_sim::several::Several;
use warpbell_softctl::{NamespaceConfig, SoftConfig, SoftDevice};

use crate::fixture::*;
use warpbell::test_hooks::TestSsd;

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let refused = |disks: Vec<Disk>, spec: VolumeSpec| {
        let several =
            Several::new(disks.iter().map(|disk| (disk.config(), AttachOptions::default())).collect())
                .expect("SSDs");
        let queues: Vec<_> = several.queues.iter().collect();
        Volume::new(&queues, &spec).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let disk = Disk::new(64 << 10, 512);
    let spec = VolumeSpec::default();
    let said = refused(vec![], spec.clone());
    assert!(said.contains("SSDs of a volume 0: must be 1 to 32"), "{said}");
    let said = refused(vec![disk.clone()], spec.clone().chunk_bytes(700));
    assert!(said.contains("chunk_bytes 700: must be a multiple of 512"), "{said}");
    let said = refused(vec![disk.clone()], spec.clone());
    assert!(
        said.contains("chunk_bytes 131072: SSD soft:S0: must be at most its size, 65536 bytes"),
        "{said}"
    );
    let said = refused(vec![disk.clone()], spec.distances(vec![1, 2]));
    assert!(said.contains("distances 2: must be one for each of the 1 SSDs, or none"), "{said}");

    let shared = AttachOptions::new().sharing(Sharing::Shared);
    let each = vec![(disk.config(), AttachOptions::default()), (disk.config(), shared)];
    let several = Several::new(each).expect("SSDs");
    let queues: Vec<_> = several.queues.iter().collect();
    let spec = VolumeSpec::new().chunk_bytes(4096);
    let said = Volume::new(&queues, &spec).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(said.contains("sharing Shared: SSD soft:S1: must be Exclusive"), "{said}");
}

#[test]
fn one_namespace_cannot_be_two_members_but_one_ssd_can() {
    let namespaces = vec![NamespaceConfig::memory(64 << 10, 512); 2];
    let soft = SoftDevice::stepped(SoftConfig::new().namespaces(namespaces)).expect("a controller");
    let open = OpenOptions::new().queues(Some(3));
    let ssd = Ssd::over_soft(DeviceName::Soft("size=1m".to_owned()), soft, &open).expect("an SSD");
    let attach = |nsid| {
        let nsid = Some(Nsid(nsid));
        ssd.attach(&AttachOptions::new().nsid(nsid)).expect("a queue")
    };
    let (first, again, other) = (attach(1), attach(1), attach(2));
    let spec = VolumeSpec::new().chunk_bytes(4096);
    let said = Volume::new(&[&first, &other, &again], &spec).err().map(|error| error.to_string());
    let said = said.unwrap_or_default();
    assert!(said.contains("namespace 1: must each be another namespace"), "{said}");
    let volume = Volume::new(&[&first, &other], &spec).expect("a volume");
    assert_eq!(volume.blocks(), 2 * 128);
}
