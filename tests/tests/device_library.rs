//! Bed S: the examples of docs/device-library.md compile and run, on exclusive and on shared queues.

use warpbell::kernels::abi::{BufferRef, NamespaceRef};
use warpbell::{AttachOptions, CompileOptions, DeviceName, OpenOptions, Program, Sharing, Ssd, Target};
use zerocopy::{Immutable, IntoBytes};

const PAGE: &str = include_str!("../../docs/device-library.md");
const LANES: usize = 32;

/// As in the page's frame.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct ExampleArgs {
    ns: NamespaceRef,
    data: BufferRef,
    answers: BufferRef,
}

/// What stands in the page's blocks of this kind.
fn blocks(info: &str) -> Vec<&'static str> {
    let opened = PAGE.split("```cuda").skip(1);
    opened.filter_map(|rest| rest.strip_prefix(info)?.split("```").next()).collect()
}

/// One source with a kernel for each example and mode, named `example_NUMBER_MODE`.
fn source(examples: &[&str]) -> String {
    let frame = blocks(" frame\n")[0];
    let kernel = frame.find("WARPBELL_KERNEL").expect("a kernel");
    let mut source = frame[..kernel].to_owned();
    for (number, example) in examples.iter().enumerate() {
        for mode in ["exclusive", "shared"] {
            let named = frame[kernel..]
                .replace("(example,", &format!("(example_{number}_{mode},"))
                .replace("sharing::shared", &format!("sharing::{mode}"));
            assert_ne!(named.find("    // the example\n"), None, "the frame says where an example goes");
            source += &named.replace("    // the example\n", example);
        }
    }
    source
}

#[test]
fn every_example_compiles_and_runs() {
    let examples = blocks(" body\n");
    assert!(examples.len() >= 9, "{} examples", examples.len());
    let target = Target::Cpu.open().expect("the CPU target is built in");
    let cache = tempfile::tempdir().expect("a folder");
    let compiling = CompileOptions::default().cache(cache.path());
    let program = Program::compile(&target, "device-library.cu", &source(&examples), &compiling)
        .unwrap_or_else(|error| panic!("{error}"));
    for (mode, sharing) in [("exclusive", Sharing::Exclusive), ("shared", Sharing::Shared)] {
        let name: DeviceName = "soft:size=1m".parse().expect("a device");
        let ssd = Ssd::open(&name, &OpenOptions::default()).expect("an SSD");
        let queues = ssd.attach(&AttachOptions { sharing, ..AttachOptions::default() }).expect("a queue");
        let block = 1 << queues.namespace().block_shift;
        // Memory of its own for each example: a cancelled command may still write to its.
        let mut kept = Vec::new();
        for (number, example) in examples.iter().enumerate() {
            let data = queues.buffer(LANES * 4 * block).expect("memory");
            let answers = queues.buffer(LANES * 4).expect("memory");
            let args = ExampleArgs { ns: queues.namespace(), data: data.as_ref(), answers: answers.as_ref() };
            kept.push(data);
            answers.write(0, &[0xff; LANES * 4]).expect("memory");
            let kernel = format!("example_{number}_{mode}");
            let run = program.launch(&queues, &kernel, &args).and_then(|launch| launch.start());
            run.and_then(|run| run.join()).unwrap_or_else(|error| panic!("{kernel}: {error}"));
            let mut found = [0u32; LANES];
            answers.read(0, found.as_mut_bytes()).expect("memory");
            assert_eq!(found, [0; LANES], "{mode}:\n{example}");
        }
        assert!(ssd.violations().is_empty(), "{:?}", ssd.violations());
    }
}
