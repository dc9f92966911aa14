//! Tier S: the suite of any SSD, on soft controllers.

use std::sync::Arc;

use warpbell::test_hooks::TestSsd;
use warpbell::{DeviceName, OpenOptions, Ssd};
use warpbell_driver::DoorbellBuffer;
use warpbell_softctl::Rule;
use warpbell_tests::suite::{self, ResetOrder};

fn open(config: &str, options: &OpenOptions) -> Arc<Ssd> {
    let name: DeviceName = format!("soft:{config}").parse().expect("a name");
    Arc::new(Ssd::open(&name, options).expect("opens"))
}

#[test]
fn everything_holds_on_a_soft_controller() {
    for block in [512, 4096] {
        let ssd = open(&format!("size=16m,block={block}"), &OpenOptions::default());
        suite::kernels(&ssd, 1);
        suite::both_apis(&ssd, 1);
        suite::boundaries(&ssd, 1);
        suite::all_queues(&ssd);
        suite::reset_under_load(&ssd, ResetOrder::AfterKernels);
        assert_eq!(ssd.violations(), []);
        suite::reset_under_load(&ssd, ResetOrder::UnderKernels);
        let others = ssd.violations().into_iter().filter(|found| found.rule != Rule::DoorbellRegister);
        assert_eq!(others.collect::<Vec<_>>(), [], "doorbells of queues that are gone, and nothing else");
    }
}

#[test]
fn everything_holds_with_shadow_doorbells_and_small_transfers() {
    let options = OpenOptions::new().doorbell_buffer(DoorbellBuffer::On);
    let ssd = open("size=16m,mdts=5,dbbuf=on,sgl=off", &options);
    suite::kernels(&ssd, 1);
    suite::both_apis(&ssd, 1);
    assert_eq!(ssd.violations(), []);
}
