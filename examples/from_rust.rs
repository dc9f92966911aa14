// UNSAFETY: it launches a kernel of its own.
#![expect(unsafe_code, reason = "launches a kernel of its own")]
//! A kernel that reads one block of an SSD, from Rust.

use warpbell::abi::{BufferRef, NamespaceRef};
use warpbell::{AttachOptions, CompileOptions, Error, OpenOptions, Program, Ssd, Target};
use zerocopy::{Immutable, IntoBytes};

const KERNEL: &str = r#"
    #include <warpbell/warpbell.cuh>
    using namespace warpbell;
    struct args_t { warpbell_namespace_ref ns; warpbell_buffer_ref data; };
    WARPBELL_KERNEL(read_block, args_t) {
        session<sharing::exclusive> ssd(this_warp(), args.ns, 0);
        const status s = read(this_warp(), ssd, extent{lba(7), 1}, dma_span(args.data));
        if (!s.ok() && port::lane() == 0) { dma_span(args.data).data<uint32_t>()[0] = s.bits; }
        ssd.detach(this_warp());
    }"#;

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Args {
    ns: NamespaceRef,
    data: BufferRef,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    std::fs::write("blocks.img", [b'w'; 16 * 512])?;
    let found = read_block()?;
    assert_eq!(found, [b'w'; 512]);
    println!("block 7 was read by a kernel: {} bytes", found.len());
    Ok(())
}

fn read_block() -> Result<[u8; 512], Error> {
    let target: Target = Target::Cpu; // or cuda:0: not run on a GPU
    let ssd = Ssd::open(&"soft:file=blocks.img".parse()?, &OpenOptions::default())?;
    let queues = ssd.attach(&AttachOptions::new().target(target))?;
    let (target, options) = (target.open()?, CompileOptions::default());
    // SAFETY: on the CPU a source's initialisers run when it is loaded. This one has none of its own.
    let program = unsafe { Program::compile(&target, "read_block.cu", KERNEL, &options) }?;
    let data = queues.buffer(512)?;
    let args = Args { ns: queues.namespace(), data: data.as_ref() };
    // SAFETY: the kernel touches what `args` names, and the launch keeps the queues and the buffer.
    let launch = unsafe { program.launch(&queues, "read_block", &args) }?;
    launch.start()?.join()?;
    let mut found = [0; 512];
    data.read(0, &mut found)?;
    Ok(found)
}
